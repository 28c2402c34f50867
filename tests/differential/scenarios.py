"""The lakes of the differential suite: the statements that the real implementation runs."""

from __future__ import annotations

from dataclasses import dataclass

NO_INLINING = "DATA_INLINING_ROW_LIMIT 0"
ROWS = "SELECT i AS id, 'v' || i AS v, i * 1.5 AS d FROM range({}) r(i)"


@dataclass(frozen=True)
class Scenario:
    """The statements that the real implementation runs, one commit for each."""

    statements: tuple[str, ...]
    options: str = ""
    servers: bool = True
    """Also on PostgreSQL."""
    mysql: bool = False
    """Also on MariaDB, where the real implementation itself can do little."""
    text: bool = True
    """Also on SQLite."""


def lake(
    *statements: str,
    options: str = "",
    servers: bool = True,
    mysql: bool = False,
    text: bool = True,
) -> Scenario:
    return Scenario(statements, options, servers, mysql, text)


SCALARS = """
    b BOOLEAN, i8 TINYINT, i16 SMALLINT, i32 INTEGER, i64 BIGINT, u8 UTINYINT, u16 USMALLINT, u32 UINTEGER,
    u64 UBIGINT, f32 FLOAT, f64 DOUBLE, d4 DECIMAL(4,1), d9 DECIMAL(9,2), d18 DECIMAL(18,3), d38 DECIMAL(38,10),
    dt DATE, tm TIME, ts TIMESTAMP, tss TIMESTAMP_S, tsm TIMESTAMP_MS, tsn TIMESTAMP_NS, tstz TIMESTAMPTZ,
    s VARCHAR, j JSON, bl BLOB, u UUID
"""
SCALAR_ROWS = r"""
    (true, -128, -32768, -2147483648, -9223372036854775808, 0, 0, 0, 0, -1.5, 1e300, -999.9, -1234567.89,
     -123456789012345.678, -1234567890123456789012345678.0123456789, '0001-01-01', '00:00:00',
     '1969-12-31 23:59:59.999999', '1969-12-31 23:59:59', '1969-12-31 23:59:59.999',
     '1969-12-31 23:59:59.999999999', '2024-06-01 12:00:00+02', '', '{"a": [1, null]}', '\x00\xFF'::BLOB,
     '00000000-0000-0000-0000-000000000000'),
    (false, 127, 32767, 2147483647, 9223372036854775807, 255, 65535, 4294967295, 18446744073709551615,
     'inf', 'nan', 999.9, 1234567.89, 123456789012345.678, 1234567890123456789012345678.0123456789,
     '9999-12-31', '23:59:59.999999', '2262-04-11 23:47:16', '2030-01-01 00:00:00', '2030-01-01 00:00:00.5',
     '2030-01-01 00:00:00.000000001', '1900-01-01 00:00:00+00', 'it''s "quoted", ünïcode 🦆', 'null',
     ''::BLOB, 'ffffffff-ffff-ffff-ffff-ffffffffffff'),
    (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
     NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
"""
NESTED = "id INTEGER, s STRUCT(x INTEGER, y VARCHAR), l INTEGER[], m MAP(VARCHAR, INTEGER), ls STRUCT(a INTEGER, b VARCHAR)[], sl STRUCT(l VARCHAR[], m MAP(INTEGER, VARCHAR)), mm MAP(VARCHAR, STRUCT(p DOUBLE))"
NESTED_ROWS = """
    (1, {'x': 1, 'y': 'a'}, [1, NULL, 3], MAP {'k': 1, 'j': NULL}, [{'a': 1, 'b': 'p'}, NULL], {'l': ['q', NULL], 'm': MAP {1: 'one'}}, MAP {'z': {'p': 1.5}}),
    (2, NULL, NULL, NULL, NULL, NULL, NULL),
    (3, {'x': NULL, 'y': NULL}, [], MAP {}, [], {'l': NULL, 'm': NULL}, MAP {'z': NULL}),
    (4, {'x': 4, 'y': ''}, [NULL], MAP {'': 0}, [{'a': NULL, 'b': NULL}], {'l': [], 'm': MAP {}}, MAP {})
"""
EDGES = """
    ('infinity', 'infinity', 'infinity', '24:00:00', -0.0),
    ('-infinity', '-infinity', '-infinity', '00:00:00.000001', 0.0),
    ('0044-03-15 (BC)', '290000-12-31 00:00:00', '0044-03-15 (BC) 00:00:00+00', '12:00:00', 5e-324)
"""

SCENARIOS: dict[str, Scenario] = {
    "an empty lake": lake("CREATE SCHEMA s"),
    "an empty table": lake("CREATE TABLE t(id INTEGER)", mysql=True),
    "a table with only inlined rows": lake(
        "CREATE TABLE t(id INTEGER, v VARCHAR)",
        "INSERT INTO t VALUES (1, 'a'), (2, NULL)",
        mysql=True,
    ),
    "a table with one file": lake("CREATE TABLE t AS " + ROWS.format(1000), mysql=True),
    "several files": lake(
        "CREATE TABLE t AS " + ROWS.format(100),
        "INSERT INTO t " + ROWS.format(50),
        "INSERT INTO t " + ROWS.format(25),
    ),
    "scalars inlined": lake(
        f"CREATE TABLE t({SCALARS})", f"INSERT INTO t VALUES {SCALAR_ROWS}", "DELETE FROM t WHERE b"
    ),
    "scalars in files": lake(
        f"CREATE TABLE t({SCALARS})",
        f"INSERT INTO t VALUES {SCALAR_ROWS}",
        "DELETE FROM t WHERE b",
        options=NO_INLINING,
    ),
    "scalars inlined, then flushed": lake(
        f"CREATE TABLE t({SCALARS})",
        f"INSERT INTO t VALUES {SCALAR_ROWS}",
        "UPDATE t SET i32 = 5 WHERE b",
        "CALL ducklake_flush_inlined_data('lake')",
    ),
    "infinities and other edges inlined": lake(
        "CREATE TABLE t(d DATE, ts TIMESTAMP, tz TIMESTAMPTZ, tm TIME, f DOUBLE)",
        f"INSERT INTO t VALUES {EDGES}",
    ),
    "infinities and other edges in files": lake(
        "CREATE TABLE t(d DATE, ts TIMESTAMP, tz TIMESTAMPTZ, tm TIME, f DOUBLE)",
        f"INSERT INTO t VALUES {EDGES}",
        options=NO_INLINING,
    ),
    "timestamps of every unit at infinity": lake(
        "CREATE TABLE t(ms TIMESTAMP_MS, ns TIMESTAMP_NS)",
        "INSERT INTO t VALUES ('infinity', 'infinity'), ('-infinity', '-infinity')",
        options=NO_INLINING,
    ),
    "huge integers inlined": lake(
        "CREATE TABLE t(h HUGEINT, u UHUGEINT)",
        "INSERT INTO t VALUES (-170141183460469231731687303715884105728, 340282366920938463463374607431768211455), (0, 0), (NULL, NULL)",
    ),
    "huge integers in files": lake(
        "CREATE TABLE t(h HUGEINT, u UHUGEINT)",
        "INSERT INTO t VALUES (-123456789, 987654321), (9007199254740992, 0), (NULL, NULL), (1e30::HUGEINT, 1e30::UHUGEINT)",
        options=NO_INLINING,
    ),
    "times with a zone": lake(
        "CREATE TABLE t(z TIMETZ)",
        "INSERT INTO t VALUES ('01:02:03+02'), ('23:59:59.999999-15:59'), (NULL), ('00:00:00+00')",
        "CALL ducklake_flush_inlined_data('lake')",
    ),
    "intervals": lake(
        "CREATE TABLE t(i INTERVAL)",
        "INSERT INTO t VALUES (INTERVAL '1 month 2 days 3 seconds'), (INTERVAL '14 months'), (NULL), (INTERVAL '0 days')",
        "CALL ducklake_flush_inlined_data('lake')",
    ),
    "negative intervals inlined": lake(
        "CREATE TABLE t(i INTERVAL)",
        "INSERT INTO t VALUES (INTERVAL '-14 months 5 days -03:04:05.5'), (INTERVAL '1 month -2 days 00:00:00.000001'), (INTERVAL '-1 second')",
    ),
    "nanosecond times inlined": lake(
        "CREATE TABLE t(n TIME_NS)",
        "INSERT INTO t VALUES ('01:02:03.000000004'), (NULL)",
        servers=False,
    ),
    "geometry": lake(
        "CREATE TABLE t(id INTEGER, g GEOMETRY)",
        "INSERT INTO t VALUES (1, 'POINT(1 2)'::GEOMETRY), (2, NULL), (3, 'LINESTRING(0 0, 1 1)'::GEOMETRY)",
        "ALTER TABLE t ADD COLUMN h GEOMETRY DEFAULT 'POINT(1 2)'",
    ),
    "variants in nested columns": lake(
        "CREATE TABLE t(id INTEGER, s STRUCT(my_variant INTEGER, v VARIANT), l VARIANT[], m MAP(VARCHAR, VARIANT))",
        "INSERT INTO t VALUES (1, {'my_variant': 1, 'v': 2::VARIANT}, [3::VARIANT, NULL], MAP {'k': 4::VARIANT})",
        "INSERT INTO t VALUES (2, {'my_variant': 2, 'v': NULL}, [], MAP {}), (3, NULL, NULL, NULL)",
        servers=False,
        text=False,
    ),
    "variants beside a column named like a virtual one": lake(
        "CREATE TABLE t(file_row_number INTEGER, v VARIANT)",
        "INSERT INTO t SELECT i, i::VARIANT FROM range(20) r(i)",
        options=NO_INLINING,
    ),
    "variants": lake(
        "CREATE TABLE t(id INTEGER, v VARIANT)",
        "INSERT INTO t VALUES (1, {'a': 1, 'b': 'x'}::VARIANT), (2, NULL), (3, 42::VARIANT), (4, [1, 2]::VARIANT)",
        "INSERT INTO t SELECT i, {'a': i, 'c': 'y'}::VARIANT FROM range(20) r(i)",
        "DELETE FROM t WHERE id = 3",
    ),
    "columns that become JSON": lake(
        "CREATE TABLE t(id INTEGER, i INTERVAL, z TIMETZ, g GEOMETRY, b BLOB, h HUGEINT, u UUID)",
        "INSERT INTO t SELECT i, INTERVAL (i) DAY, '12:00:00+02'::TIMETZ, 'POINT(1 2)'::GEOMETRY, 'ab'::BLOB, i, uuid() FROM range(20) r(i)",
        *(f"ALTER TABLE t ALTER {name} TYPE JSON" for name in "izgbhu"),
        "INSERT INTO t SELECT -1, '[1]', '2', NULL, '{}', '\"x\"', 'true'",
        "DELETE FROM t WHERE id % 3 = 0",
        options=NO_INLINING,
    ),
    "nested values that become JSON": lake(
        "CREATE TABLE t(id INTEGER, s STRUCT(i INTERVAL, g STRUCT(g GEOMETRY, i INTERVAL)), z TIMETZ[], m MAP(VARCHAR, GEOMETRY))",
        "INSERT INTO t SELECT i, {'i': INTERVAL (i) DAY, 'g': {'g': 'POINT(1 2)'::GEOMETRY, 'i': INTERVAL 1 YEAR}}, ['12:00:00+02'::TIMETZ, NULL], MAP {'p': 'POINT(3 4)'::GEOMETRY} FROM range(20) r(i)",
        "INSERT INTO t VALUES (-1, NULL, NULL, NULL), (-2, {'i': NULL, 'g': NULL}, [], MAP {})",
        "ALTER TABLE t ALTER s TYPE STRUCT(i JSON, g STRUCT(g JSON, i INTERVAL))",
        "ALTER TABLE t ALTER z TYPE JSON[]",
        "ALTER TABLE t ALTER m TYPE MAP(VARCHAR, JSON)",
        "DELETE FROM t WHERE id % 3 = 0",
        options=NO_INLINING,
    ),
    "columns that become variants": lake(
        "CREATE TABLE t(id INTEGER, i INTERVAL, z TIMETZ, g GEOMETRY, f FLOAT, s VARCHAR, d DATE)",
        "INSERT INTO t SELECT i, INTERVAL (i) DAY, '12:00:00+02'::TIMETZ, 'POINT(1 2)'::GEOMETRY, i / 10, 'x', '2024-01-01' FROM range(20) r(i)",
        *(f"ALTER TABLE t ALTER {name} TYPE VARIANT" for name in "izgfsd"),
        "DELETE FROM t WHERE id % 3 = 0",
        options=NO_INLINING,
    ),
    "nested inlined": lake(f"CREATE TABLE t({NESTED})", f"INSERT INTO t VALUES {NESTED_ROWS}"),
    "nested in files": lake(
        f"CREATE TABLE t({NESTED})", f"INSERT INTO t VALUES {NESTED_ROWS}", options=NO_INLINING
    ),
    "nested inlined, then flushed": lake(
        f"CREATE TABLE t({NESTED})",
        f"INSERT INTO t VALUES {NESTED_ROWS}",
        "DELETE FROM t WHERE id = 1",
        "CALL ducklake_flush_inlined_data('lake')",
    ),
    "awkward text in lists and maps inlined": lake(
        "CREATE TABLE t(l VARCHAR[], m MAP(VARCHAR, VARCHAR), ls STRUCT(x VARCHAR)[], ll INTEGER[][])",
        r"""INSERT INTO t VALUES (['a,b', 'it''s', 'NULL', NULL, '', ' sp ', '[x]', '{y}', 'q"z', 'back\slash', 'a=b'],
            MAP {'k=1': 'v,2', 'x''y': '{', 'null': NULL}, [{'x': 'p''q'}, NULL, {'x': NULL}, {'x': ''}], [[1], [], NULL, [NULL]])""",
    ),
    "deletes inlined": lake(
        "CREATE TABLE t AS " + ROWS.format(100),
        "DELETE FROM t WHERE id < 3",
        "DELETE FROM t WHERE id = 50",
    ),
    "deletes in files": lake(
        "CREATE TABLE t AS " + ROWS.format(1000),
        "DELETE FROM t WHERE id % 3 = 0",
        options=NO_INLINING,
    ),
    "repeated deletes of one file": lake(
        "CREATE TABLE t AS " + ROWS.format(1000),
        "DELETE FROM t WHERE id % 3 = 0",
        "DELETE FROM t WHERE id % 5 = 0",
        "DELETE FROM t WHERE id > 900",
        options=NO_INLINING,
    ),
    "inlined deletes and a delete file together": lake(
        "CREATE TABLE t AS " + ROWS.format(100),
        "DELETE FROM t WHERE id IN (1, 2)",
        "DELETE FROM t WHERE id BETWEEN 30 AND 79",
        "DELETE FROM t WHERE id = 80",
        "CALL ducklake_flush_inlined_data('lake')",
    ),
    "everything deleted": lake(
        "CREATE TABLE t AS " + ROWS.format(100),
        "DELETE FROM t WHERE id < 50",
        "DELETE FROM t",
        "INSERT INTO t " + ROWS.format(3),
    ),
    "truncated": lake(
        "CREATE TABLE t AS " + ROWS.format(20), "INSERT INTO t VALUES (1, 'x', 1)", "TRUNCATE t"
    ),
    "deletion vectors": lake(
        "CREATE TABLE t AS " + ROWS.format(200_000),
        "CALL ducklake_set_option('lake', 'write_deletion_vectors', true)",
        "DELETE FROM t WHERE id % 7 = 0 OR id BETWEEN 70000 AND 80000",
        options=NO_INLINING,
    ),
    "updates of files": lake(
        "CREATE TABLE t AS " + ROWS.format(200),
        "UPDATE t SET v = 'new' WHERE id % 10 = 0",
        "UPDATE t SET v = v || '!' WHERE id < 30",
        options=NO_INLINING,
    ),
    "updates inlined": lake(
        "CREATE TABLE t AS " + ROWS.format(20),
        "INSERT INTO t VALUES (100, 'x', 0), (101, 'y', 0)",
        "UPDATE t SET v = 'new' WHERE id IN (5, 100)",
        "UPDATE t SET v = 'newer' WHERE id IN (5, 100, 101)",
        "DELETE FROM t WHERE id = 100",
        "CALL ducklake_flush_inlined_data('lake')",
        "UPDATE t SET v = 'newest' WHERE id = 5",
    ),
    "merge into": lake(
        "CREATE TABLE t AS " + ROWS.format(20),
        "MERGE INTO t USING (SELECT 5 AS id UNION ALL SELECT 500) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = 'm' WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'n', 0)",
    ),
    "merged files and time travel": lake(
        "CREATE TABLE t(id BIGINT, v VARCHAR, d DECIMAL(21,1))",
        "INSERT INTO t " + ROWS.format(5),
        "INSERT INTO t " + ROWS.format(6),
        "INSERT INTO t " + ROWS.format(7),
        "CALL ducklake_merge_adjacent_files('lake')",
        "INSERT INTO t " + ROWS.format(4),
        "CALL ducklake_merge_adjacent_files('lake')",
        "DELETE FROM t WHERE id = 2",
        options=NO_INLINING,
    ),
    "merged files of updates": lake(
        "CREATE TABLE t AS " + ROWS.format(20),
        "UPDATE t SET v = 'u' WHERE id < 5",
        "INSERT INTO t " + ROWS.format(3),
        "CALL ducklake_merge_adjacent_files('lake')",
        options=NO_INLINING,
    ),
    "rewritten files": lake(
        "CREATE TABLE t AS " + ROWS.format(100),
        "DELETE FROM t WHERE id < 97",
        "CALL ducklake_rewrite_data_files('lake')",
        "DELETE FROM t WHERE id = 98",
        options=NO_INLINING,
    ),
    "flush, rewrite, merge": lake(
        "CREATE TABLE t(id INTEGER, v VARCHAR)",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
        "UPDATE t SET v = 'c' WHERE id = 1",
        "DELETE FROM t WHERE id = 2",
        "CALL ducklake_flush_inlined_data('lake')",
        "INSERT INTO t VALUES (3, 'd')",
        "CALL ducklake_flush_inlined_data('lake')",
        "CALL ducklake_rewrite_data_files('lake', delete_threshold => 0.1)",
        "CALL ducklake_merge_adjacent_files('lake')",
    ),
    "expired snapshots": lake(
        "CREATE TABLE t AS " + ROWS.format(20),
        "DELETE FROM t WHERE id < 10",
        "INSERT INTO t " + ROWS.format(15),
        "CALL ducklake_expire_snapshots('lake', versions => [1, 2])",
        "CALL ducklake_cleanup_old_files('lake', cleanup_all => true)",
    ),
    "columns added with and without defaults": lake(
        "CREATE TABLE t AS " + ROWS.format(20),
        "INSERT INTO t VALUES (100, 'x', 1)",
        "ALTER TABLE t ADD COLUMN a INTEGER",
        "ALTER TABLE t ADD COLUMN b INTEGER DEFAULT 7",
        "ALTER TABLE t ADD COLUMN c VARCHAR DEFAULT 'it''s'",
        "INSERT INTO t VALUES (101, 'y', 2, 3, 4, 'z')",
        "INSERT INTO t (id) VALUES (102)",
    ),
    "defaults of every type": lake(
        "CREATE TABLE t AS " + ROWS.format(20),
        "ALTER TABLE t ADD COLUMN c1 FLOAT DEFAULT 0.1",
        "ALTER TABLE t ADD COLUMN c2 DECIMAL(9,2) DEFAULT 1.5",
        "ALTER TABLE t ADD COLUMN c3 DATE DEFAULT '2024-01-02'",
        "ALTER TABLE t ADD COLUMN c4 TIMESTAMP DEFAULT '2024-01-02 03:04:05.5'",
        "ALTER TABLE t ADD COLUMN c5 TIMESTAMPTZ DEFAULT '2024-01-02 03:04:05+02'",
        "ALTER TABLE t ADD COLUMN c6 UUID DEFAULT '00000000-0000-0000-0000-000000000001'",
        "ALTER TABLE t ADD COLUMN c7 DOUBLE DEFAULT 'nan'",
        "ALTER TABLE t ADD COLUMN c8 INTERVAL DEFAULT '1 month'",
        "ALTER TABLE t ADD COLUMN c9 TIMETZ DEFAULT '01:02:03+02'",
        "ALTER TABLE t ADD COLUMN c10 JSON DEFAULT '{\"a\": 1}'",
        "ALTER TABLE t ADD COLUMN c11 HUGEINT DEFAULT 170141183460469231731687303715884105727",
        "ALTER TABLE t ADD COLUMN c12 VARCHAR DEFAULT ''",
        "ALTER TABLE t ADD COLUMN c13 TIMESTAMP_NS DEFAULT '2024-01-02 03:04:05.123456789'",
        r"ALTER TABLE t ADD COLUMN c14 BLOB DEFAULT 'ab\x00c'",
        "ALTER TABLE t ADD COLUMN c15 VARCHAR DEFAULT 'NULL'",
        "ALTER TABLE t ALTER COLUMN c1 TYPE DOUBLE",
        "ALTER TABLE t ALTER COLUMN c3 TYPE TIMESTAMP",
        "INSERT INTO t (id) VALUES (5)",
    ),
    "columns dropped, renamed, added again": lake(
        "CREATE TABLE t AS " + ROWS.format(20),
        "INSERT INTO t VALUES (100, 'x', 1)",
        "ALTER TABLE t DROP COLUMN v",
        "ALTER TABLE t ADD COLUMN v INTEGER DEFAULT 5",
        "INSERT INTO t VALUES (101, 2, 3)",
        "ALTER TABLE t RENAME COLUMN d TO w",
        "ALTER TABLE t RENAME COLUMN v TO d",
        "INSERT INTO t VALUES (102, 4, 5)",
        "INSERT INTO t SELECT i, i, i FROM range(20) r(i)",
    ),
    "integers promoted": lake(
        "CREATE TABLE t(a TINYINT, b SMALLINT, c INTEGER, d UTINYINT, e UINTEGER, f INTEGER, g BIGINT)",
        "INSERT INTO t VALUES (1, 2, 3, 4, 5, 6, 7), (-1, -2, -3, 0, 0, -6, -7), (NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        "INSERT INTO t SELECT i, i, i, i, i, i, i FROM range(20) r(i)",
        "ALTER TABLE t ALTER COLUMN a TYPE INTEGER",
        "ALTER TABLE t ALTER COLUMN b TYPE BIGINT",
        "ALTER TABLE t ALTER COLUMN c TYPE DOUBLE",
        "ALTER TABLE t ALTER COLUMN d TYPE SMALLINT",
        "ALTER TABLE t ALTER COLUMN e TYPE BIGINT",
        "ALTER TABLE t ALTER COLUMN f TYPE DECIMAL(18,2)",
        "ALTER TABLE t ALTER COLUMN g TYPE HUGEINT",
        "INSERT INTO t VALUES (100000, 5000000000, 1.5, 300, 5000000000, 1.25, 170141183460469231731687303715884105727)",
    ),
    "decimals and floats promoted": lake(
        "CREATE TABLE t(a DECIMAL(9,2), b DECIMAL(18,4), c FLOAT, d DECIMAL(9,3), e BIGINT)",
        "INSERT INTO t VALUES (1.25, 1.2355, 0.1, 0.125, 16777217), (-1.25, -1.2355, -0.1, -0.125, -16777217)",
        "INSERT INTO t SELECT i / 7, i / 7, i / 7, i / 7, i FROM range(30) r(i)",
        "ALTER TABLE t ALTER COLUMN a TYPE DECIMAL(18,4)",
        "ALTER TABLE t ALTER COLUMN b TYPE DECIMAL(38,2)",
        "ALTER TABLE t ALTER COLUMN c TYPE DOUBLE",
        "ALTER TABLE t ALTER COLUMN d TYPE DOUBLE",
        "ALTER TABLE t ALTER COLUMN e TYPE FLOAT",
    ),
    "dates and timestamps promoted": lake(
        "CREATE TABLE t(a DATE, b DATE, c TIMESTAMP_S, d TIMESTAMP_MS, e TIMESTAMP, f TIMESTAMP)",
        "INSERT INTO t VALUES ('2024-01-02', '2024-01-02', '2024-01-02 03:04:05', '2024-01-02 03:04:05.5', '2024-01-02 03:04:05.000001', '2024-01-02 03:04:05')",
        "INSERT INTO t SELECT '2024-01-01'::DATE + i::INT, '1960-01-01'::DATE + i::INT, '2024-01-01'::TIMESTAMP_S, '1960-01-01 00:00:00.5', '1960-01-01', '2024-01-01' FROM range(20) r(i)",
        "INSERT INTO t VALUES ('infinity', '-infinity', NULL, NULL, NULL, 'infinity')",
        "ALTER TABLE t ALTER COLUMN a TYPE TIMESTAMP",
        "ALTER TABLE t ALTER COLUMN b TYPE TIMESTAMPTZ",
        "ALTER TABLE t ALTER COLUMN c TYPE TIMESTAMP_NS",
        "ALTER TABLE t ALTER COLUMN d TYPE TIMESTAMP",
        "ALTER TABLE t ALTER COLUMN e TYPE TIMESTAMP_NS",
        "ALTER TABLE t ALTER COLUMN f TYPE TIMESTAMPTZ",
    ),
    "promoted to json": lake(
        "CREATE TABLE t(a INTEGER, b VARCHAR, c STRUCT(x INTEGER))",
        "INSERT INTO t SELECT i, '\"' || i || '\"', {'x': i} FROM range(20) r(i)",
        "ALTER TABLE t ALTER COLUMN a TYPE JSON",
        "ALTER TABLE t ALTER COLUMN b TYPE JSON",
        options=NO_INLINING,
    ),
    "struct fields added, dropped, renamed, promoted": lake(
        "CREATE TABLE t(id INTEGER, s STRUCT(x INTEGER, y VARCHAR, n STRUCT(p INTEGER)))",
        "INSERT INTO t VALUES (1, {'x': 1, 'y': 'a', 'n': {'p': 1}}), (2, NULL), (3, {'x': NULL, 'y': NULL, 'n': NULL})",
        "INSERT INTO t SELECT i, {'x': i, 'y': 'b', 'n': {'p': i}} FROM range(20) r(i)",
        "ALTER TABLE t ADD COLUMN s.z INTEGER",
        "ALTER TABLE t ADD COLUMN s.w INTEGER DEFAULT 5",
        "ALTER TABLE t RENAME s.x TO xx",
        "ALTER TABLE t DROP COLUMN s.y",
        "ALTER TABLE t ADD COLUMN s.n.q VARCHAR DEFAULT 'q'",
        "ALTER TABLE t ADD COLUMN s.y DOUBLE",
        "INSERT INTO t SELECT i, {'xx': i, 'n': {'p': i, 'q': 'w'}, 'z': 1, 'w': 2, 'y': 0.5} FROM range(20) r(i)",
        "INSERT INTO t VALUES (9, {'xx': 9, 'n': NULL, 'z': NULL, 'w': NULL, 'y': NULL})",
    ),
    "fields inside lists and maps changed": lake(
        "CREATE TABLE t(id INTEGER, l STRUCT(a INTEGER, b VARCHAR)[], m MAP(VARCHAR, STRUCT(c INTEGER)))",
        "INSERT INTO t VALUES (1, [{'a': 1, 'b': 'x'}, NULL], MAP {'k': {'c': 1}}), (2, [], MAP {}), (3, NULL, NULL)",
        "INSERT INTO t SELECT i, [{'a': i, 'b': 'y'}], MAP {'k': {'c': i}} FROM range(20) r(i)",
        "ALTER TABLE t ADD COLUMN l.element.d INTEGER DEFAULT 4",
        "ALTER TABLE t DROP COLUMN l.element.b",
        "ALTER TABLE t RENAME l.element.a TO aa",
        "ALTER TABLE t ADD COLUMN m.value.e VARCHAR",
        "INSERT INTO t SELECT i, [{'aa': i, 'd': 1}], MAP {'k': {'c': i, 'e': 'e'}} FROM range(20) r(i)",
    ),
    "tables renamed and dropped": lake(
        "CREATE TABLE t AS " + ROWS.format(20),
        "ALTER TABLE t RENAME TO u",
        "CREATE TABLE t(x INTEGER)",
        "INSERT INTO t VALUES (1)",
        "DROP TABLE u",
        "ALTER TABLE t RENAME TO u",
    ),
    "schemas and awkward names": lake(
        'CREATE SCHEMA "we ird"',
        'CREATE TABLE "we ird"."t ""q"" ünï"("c 1" INTEGER, "a.b" INTEGER, "Ünï ""x""" VARCHAR, "select" INTEGER)',
        """INSERT INTO "we ird"."t ""q"" ünï" VALUES (1, 2, 'x', 3)""",
        """INSERT INTO "we ird"."t ""q"" ünï" SELECT i, i, 'y', i FROM range(20) r(i)""",
        'CREATE TABLE "we ird".plain AS SELECT 1 AS a',
        'DROP SCHEMA "we ird" CASCADE',
    ),
    "a struct and a column whose names collide in a path": lake(
        'CREATE TABLE t(a STRUCT(b INTEGER), "a.b" INTEGER)',
        "INSERT INTO t SELECT {'b': i}, -i FROM range(20) r(i)",
    ),
    "identity partitions": lake(
        "CREATE TABLE t(id INTEGER, p VARCHAR, q INTEGER)",
        "ALTER TABLE t SET PARTITIONED BY (p, q)",
        "INSERT INTO t SELECT i, ['a b', 'c/d=e', NULL, 'ü%'][1 + i % 4], i % 2 FROM range(40) r(i)",
        "DELETE FROM t WHERE id = 7",
        "ALTER TABLE t SET PARTITIONED BY (q)",
        "INSERT INTO t SELECT i, 'x', i % 2 FROM range(40) r(i)",
        "ALTER TABLE t RESET PARTITIONED BY",
        "INSERT INTO t SELECT i, 'y', i % 2 FROM range(40) r(i)",
    ),
    "transform partitions": lake(
        "CREATE TABLE t(id INTEGER, ts TIMESTAMP, d DATE)",
        "ALTER TABLE t SET PARTITIONED BY (year(ts), month(ts), bucket(4, id))",
        "INSERT INTO t SELECT i, '2023-11-15'::TIMESTAMP + INTERVAL (i) DAY, '2024-01-01' FROM range(80) r(i)",
        "ALTER TABLE t SET PARTITIONED BY (day(d), hour(ts))",
        "INSERT INTO t SELECT i, '2023-11-15'::TIMESTAMP + INTERVAL (i) HOUR, '2024-01-01' FROM range(40) r(i)",
    ),
    "sorted tables": lake(
        "CREATE TABLE t(id INTEGER, v VARCHAR)",
        "ALTER TABLE t SET SORTED BY (v DESC NULLS FIRST, id)",
        "INSERT INTO t SELECT i, chr(65 + (i * 7 % 26)::INT) FROM range(100) r(i)",
    ),
    "several row groups with deletes": lake(
        "CALL ducklake_set_option('lake', 'parquet_row_group_size', 2048)",
        "CREATE TABLE t AS " + ROWS.format(20_000),
        "DELETE FROM t WHERE id % 1000 < 3 OR id BETWEEN 2040 AND 6200",
        options=NO_INLINING,
    ),
    "transactions of several statements": lake(
        "CREATE TABLE t(id INTEGER, v VARCHAR)",
        "BEGIN",
        "INSERT INTO t VALUES (1, 'a')",
        "INSERT INTO t SELECT i, 'b' FROM range(20) r(i)",
        "DELETE FROM t WHERE id = 5",
        "ALTER TABLE t ADD COLUMN w INTEGER DEFAULT 1",
        "COMMIT",
        "BEGIN",
        "UPDATE t SET w = 2 WHERE id < 3",
        "DELETE FROM t WHERE id = 0",
        "COMMIT",
    ),
    "inlined rows of several schema versions": lake(
        "CREATE TABLE t(a INTEGER, b VARCHAR)",
        "INSERT INTO t VALUES (1, 'x')",
        "ALTER TABLE t ADD COLUMN c INTEGER DEFAULT 3",
        "INSERT INTO t VALUES (2, 'y', 4)",
        "ALTER TABLE t DROP COLUMN b",
        "INSERT INTO t VALUES (3, 5)",
        "ALTER TABLE t RENAME COLUMN c TO b",
        "INSERT INTO t VALUES (4, 6)",
        "ALTER TABLE t ALTER COLUMN b TYPE BIGINT",
        "INSERT INTO t VALUES (5, 5000000000)",
        "UPDATE t SET b = 0 WHERE a = 1",
        "DELETE FROM t WHERE a = 2",
        "CALL ducklake_flush_inlined_data('lake')",
        "INSERT INTO t VALUES (6, 1)",
    ),
    "encrypted": lake(
        f"CREATE TABLE t({NESTED})",
        f"INSERT INTO t VALUES {NESTED_ROWS}",
        "ALTER TABLE t RENAME s.x TO xx",
        "ALTER TABLE t ADD COLUMN s.z INTEGER DEFAULT 8",
        "DELETE FROM t WHERE id = 4",
        options=f"ENCRYPTED, {NO_INLINING}",
    ),
    "encrypted scalars": lake(
        f"CREATE TABLE t({SCALARS})",
        f"INSERT INTO t VALUES {SCALAR_ROWS}",
        "ALTER TABLE t ADD COLUMN h HUGEINT",
        "ALTER TABLE t ADD COLUMN z TIMETZ",
        "ALTER TABLE t ADD COLUMN iv INTERVAL",
        "INSERT INTO t (h, z, iv) VALUES (5, '01:02:03+02', INTERVAL '1 month 2 days'), (NULL, NULL, NULL)",
        "UPDATE t SET i32 = 1 WHERE b",
        "CALL ducklake_merge_adjacent_files('lake')",
        options=f"ENCRYPTED, {NO_INLINING}",
        servers=False,
    ),
    "unicode and long text": lake(
        "CREATE TABLE t(id INTEGER, v VARCHAR)",
        "INSERT INTO t VALUES (1, repeat('é', 1000)), (2, 'a' || chr(0) || 'b'), (3, '🦆')",
        "INSERT INTO t SELECT i, repeat(chr(97 + (i % 26)::INT), 300) FROM range(20) r(i)",
    ),
    "every scalar in lists inlined": lake(
        "CREATE TABLE t(b BOOLEAN[], d DATE[], ts TIMESTAMP[], tz TIMESTAMPTZ[], f DOUBLE[], c DECIMAL(9,2)[], u UUID[], bl BLOB[], tm TIME[], iv INTERVAL[], h HUGEINT[], tt TIMETZ[])",
        r"""INSERT INTO t VALUES ([true, NULL], ['2024-01-02', 'infinity', '0044-03-15 (BC)'], ['2024-01-02 03:04:05.5', 'infinity'], ['2024-01-02 03:04:05+00'],
            ['nan', '-inf', 1e300, -0.0], [1.50, NULL], ['00000000-0000-0000-0000-000000000001'], ['\x00\xAA'::BLOB, ''::BLOB, 'a''b'::BLOB],
            ['24:00:00', '01:02:03.5'], [INTERVAL '1 month 2 days 3 seconds', INTERVAL '-1 day'], [170141183460469231731687303715884105727], ['01:02:03+02'])""",
        "INSERT INTO t (b) VALUES ([])",
    ),
    "every scalar in maps and structs of lists inlined": lake(
        "CREATE TABLE t(m MAP(DATE, TIMESTAMP), n MAP(VARCHAR, STRUCT(d DATE, s VARCHAR)), l STRUCT(d DATE, s VARCHAR, l VARCHAR[], m MAP(INTEGER, VARCHAR))[], k MAP(INTEGER, INTEGER[]))",
        r"""INSERT INTO t VALUES (MAP {'2024-01-02'::DATE: '2024-01-02 03:04:05'::TIMESTAMP}, MAP {'a': {'d': '2024-01-02'::DATE, 's': 'it''s, {x}: "y"'}, '': NULL},
            [{'d': '2024-01-02'::DATE, 's': 'a\b', 'l': ['x, y', '[', NULL], 'm': MAP {1: 'p=q', 2: NULL}}, {'d': NULL, 's': NULL, 'l': [], 'm': MAP {}}], MAP {1: [1, 2], 2: []})""",
    ),
    "everything promoted": lake(
        "CREATE TABLE t(a BOOLEAN, b UBIGINT, c DECIMAL(18,4), d SMALLINT, e TIMESTAMP_S, f INTEGER, g STRUCT(x INTEGER), h UTINYINT, i VARCHAR)",
        "INSERT INTO t VALUES (true, 18446744073709551615, 1.2345, -7, '2024-01-02 03:04:05', 5, {'x': 1}, 255, 'it')",
        "INSERT INTO t SELECT i % 2 = 0, i, i / 7, i, '1960-01-01 00:00:01', i, {'x': i}, i, 'v' || i FROM range(20) r(i)",
        "ALTER TABLE t ALTER COLUMN a TYPE INTEGER",
        "ALTER TABLE t ALTER COLUMN b TYPE HUGEINT",
        "ALTER TABLE t ALTER COLUMN c TYPE FLOAT",
        "ALTER TABLE t ALTER COLUMN d TYPE FLOAT",
        "ALTER TABLE t ALTER COLUMN e TYPE TIMESTAMP_MS",
        "ALTER TABLE t ALTER COLUMN f TYPE VARIANT",
        "ALTER TABLE t ALTER COLUMN g TYPE STRUCT(x BIGINT)",
        "ALTER TABLE t ALTER COLUMN h TYPE DECIMAL(9,3)",
        "ALTER TABLE t ALTER COLUMN i TYPE VARIANT",
        "INSERT INTO t SELECT 7, i, 0.5, 1.5, '2024-01-02 03:04:05.5', 'text'::VARIANT, {'x': 5000000000}, 1.5, i::VARIANT FROM range(12) r(i)",
        options=NO_INLINING,
    ),
    "structs with awkward field names": lake(
        """CREATE TABLE t(s STRUCT("a b" INTEGER, "c""d" VARCHAR, "e.f" INTEGER, "ünï" STRUCT("VARIANT" INTEGER)))""",
        """INSERT INTO t SELECT {'a b': i, 'c"d': 'x', 'e.f': -i, 'ünï': {'VARIANT': i}} FROM range(20) r(i)""",
        """ALTER TABLE t RENAME s."a b" TO "b a" """,
    ),
    "variants in partitions": lake(
        "CREATE TABLE t(p VARCHAR, v VARIANT)",
        "ALTER TABLE t SET PARTITIONED BY (p)",
        "INSERT INTO t SELECT 'p' || (i % 2), {'i': i}::VARIANT FROM range(20) r(i)",
        "ALTER TABLE t RENAME COLUMN p TO q",
        "DELETE FROM t WHERE q = 'p0'",
        servers=False,
    ),
    "encrypted with inlined rows, flushes and partitions": lake(
        "CREATE TABLE t(id INTEGER, p VARCHAR)",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
        "UPDATE t SET p = 'c' WHERE id = 1",
        "CALL ducklake_flush_inlined_data('lake')",
        "ALTER TABLE t SET PARTITIONED BY (p)",
        "INSERT INTO t SELECT i, 'p' || (i % 2) FROM range(20) r(i)",
        "DELETE FROM t WHERE id % 2 = 0",
        "CALL ducklake_merge_adjacent_files('lake')",
        options="ENCRYPTED",
        servers=False,
    ),
    "several files of one insert": lake(
        "CALL ducklake_set_option('lake', 'target_file_size', '100KB')",
        "CALL ducklake_set_option('lake', 'per_thread_output', true)",
        "CREATE TABLE t AS SELECT i AS id, md5(i::VARCHAR) AS h FROM range(60000) r(i)",
        "DELETE FROM t WHERE id % 500 = 0",
        options=NO_INLINING,
        servers=False,
    ),
    "deletion vectors twice and flushed deletes": lake(
        "CALL ducklake_set_option('lake', 'write_deletion_vectors', true)",
        "CREATE TABLE t AS " + ROWS.format(500),
        "DELETE FROM t WHERE id IN (1, 2)",
        "CALL ducklake_flush_inlined_data('lake')",
        "DELETE FROM t WHERE id > 400",
        "DELETE FROM t WHERE id < 100",
        servers=False,
    ),
    "other compressions and pages": lake(
        "CALL ducklake_set_option('lake', 'parquet_compression', 'zstd')",
        "CALL ducklake_set_option('lake', 'parquet_version', 2)",
        "CREATE TABLE t AS SELECT i AS id, 'v' || (i % 7) AS v, i / 3 AS d, NULL::INTEGER AS n FROM range(5000) r(i)",
        "DELETE FROM t WHERE id % 17 = 0",
        options=NO_INLINING,
        servers=False,
    ),
}


@dataclass(frozen=True)
class Case:
    """A scenario on a kind of catalog database."""

    name: str
    kind: str

    def __str__(self) -> str:
        return f"{self.name} ({self.kind})"


CASES = [
    Case(name, kind)
    for name, scenario in SCENARIOS.items()
    for kind in ("duckdb", "sqlite", "postgresql", "mysql")
    if kind == "duckdb"
    # Without inlined rows the other databases have nothing of their own to get wrong.
    or (kind == "sqlite" and scenario.text and NO_INLINING not in scenario.options)
    or (kind == "postgresql" and scenario.servers and NO_INLINING not in scenario.options)
    or (kind == "mysql" and scenario.mysql)
]

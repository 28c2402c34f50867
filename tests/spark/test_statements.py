"""`lake.sql` of statements: the same text, run by us and by the reference, leaves the same lake."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from lakeport import Lake
from lakeport.spark.sql.statements import run_statement
from tests.ducklake.writing.catalog_comparison import assert_same_catalogs
from tests.fixtures_lakes import LakeMaker, RealLake


@pytest.fixture
def pair(make_lake: LakeMaker) -> Iterator[tuple[Lake, RealLake, RealLake]]:
    """Our lake, the same lake for the reference, and another one that the reference fills."""
    ours, theirs = make_lake("sqlite"), make_lake("sqlite")
    with Lake.create(ours.uri, data_path=ours.data_path) as lake:
        yield lake, ours, theirs


def no_spark() -> NoReturn:
    raise AssertionError("the statement has no query, and needs no Spark")


def contents(real: RealLake, table: str) -> tuple[list[Any], list[Any]]:
    """Columns and rows of a table, as the reference reads them."""
    columns = [row[:4] for row in real.query(f"DESCRIBE {table}")]
    rows = real.query(f"SELECT * FROM {table}")
    real.detach()
    return columns, sorted(rows, key=repr)


DEFINITIONS = [
    "CREATE SCHEMA sales",
    "CREATE SCHEMA IF NOT EXISTS sales",
    "CREATE TABLE t (id INTEGER NOT NULL, v BIGINT DEFAULT 7, n DOUBLE DEFAULT -1.5, s VARCHAR DEFAULT 'it''s', ts TIMESTAMP DEFAULT now(), st STRUCT(a INTEGER, b VARCHAR), l DECIMAL(10, 2)[], m MAP(VARCHAR, INTEGER))",
    "CREATE TABLE flags (b BOOLEAN DEFAULT true, n INTEGER DEFAULT NULL, m INTEGER DEFAULT NULL NOT NULL)",
    "INSERT INTO t (id, s, ts) VALUES (1, 'x', '2026-01-01')",
    'CREATE TABLE sales."odd ""name" ("a.b" DATE)',
    "CREATE TABLE IF NOT EXISTS t (other INTEGER)",
    "CREATE OR REPLACE TABLE r (x INTEGER)",
    "CREATE OR REPLACE TABLE r (y VARCHAR)",
    "COMMENT ON TABLE t IS 'the ''first'' one'",
    "COMMENT ON COLUMN t.v IS 'a value'",
    "COMMENT ON TABLE sales.\"odd \"\"name\" IS NULL",
    "ALTER TABLE t ADD COLUMN z DECIMAL(10, 3) DEFAULT 5",
    "ALTER TABLE t ADD COLUMN IF NOT EXISTS z INTEGER",
    "ALTER TABLE t ADD z2 INTEGER",
    "ALTER TABLE t ADD COLUMN st.c INTEGER",
    "ALTER TABLE t RENAME COLUMN st.a TO aa",
    "ALTER TABLE t RENAME z2 TO z3",
    "ALTER TABLE t DROP COLUMN st.b",
    "ALTER TABLE t DROP COLUMN IF EXISTS nothing",
    "ALTER TABLE t DROP z3",
    "ALTER TABLE t ALTER id TYPE BIGINT",
    "ALTER TABLE t ALTER COLUMN v SET DATA TYPE HUGEINT",
    "ALTER TABLE t ALTER v SET DEFAULT 8",
    "ALTER TABLE t ALTER COLUMN n DROP DEFAULT",
    "ALTER TABLE t ALTER id DROP NOT NULL",
    "ALTER TABLE t ALTER s SET NOT NULL",
    "ALTER TABLE t SET PARTITIONED BY (year(ts), bucket(4, s), id)",
    "ALTER TABLE t SET SORTED BY (v DESC, lower(s) ASC NULLS FIRST)",
    "ALTER TABLE t RESET SORTED BY",
    "ALTER TABLE t RESET PARTITIONED BY",
    "ALTER TABLE t RENAME TO renamed",
    "CREATE VIEW v AS SELECT id, v * 2 AS double FROM renamed",
    'CREATE OR REPLACE VIEW v (a, "b c") AS SELECT id, v FROM renamed',
    "COMMENT ON VIEW v IS 'a view'",
    "ALTER VIEW v RENAME TO w",
    "DROP VIEW w",
    "DROP VIEW IF EXISTS w",
    "DROP TABLE r",
    "DROP TABLE IF EXISTS r",
    "DROP SCHEMA sales CASCADE",
    "DROP SCHEMA IF EXISTS sales",
]  # fmt: skip


def test_definitions_leave_the_catalog_of_the_reference(
    pair: tuple[Lake, RealLake, RealLake],
) -> None:
    lake, ours, theirs = pair
    for statement in DEFINITIONS:
        run_statement(lake, statement, no_spark)
        theirs.execute(statement)
    theirs.detach()

    assert_same_catalogs(ours.uri, theirs.uri)


PREPARE = [
    "CREATE SCHEMA sales",
    "CREATE TABLE sales.t (id INTEGER, v BIGINT DEFAULT 7, s VARCHAR, d DATE)",
    "CREATE TABLE source (id INTEGER, v BIGINT, s VARCHAR, gone BOOLEAN)",
    "INSERT INTO source VALUES (2, 200, 'two', false), (3, 300, 'three', true), (30, 1, 'new', false), (31, 2, 'gone', true)",
    "INSERT INTO sales.t SELECT id, id * 10, 'row ' || id, DATE '2026-01-01' FROM (VALUES (1), (2), (3), (4), (5), (6)) AS r(id)",
]  # fmt: skip

CHANGES = [
    "INSERT INTO sales.t VALUES (10, DEFAULT, 'it''s', '2026-02-01'), (11, 1 + 1, NULL, DATE '2026-02-02')",
    "INSERT INTO sales.t (s, id) VALUES ('short', 12)",
    "INSERT INTO sales.t (s, id) SELECT s, id FROM source WHERE NOT gone",
    "INSERT INTO sales.t BY NAME SELECT 'named' AS s, 13 AS id",
    "INSERT INTO sales.t WITH x AS (SELECT 14 AS id) SELECT id, 1.0, 'cast', '2026-03-01' FROM x",
    "UPDATE sales.t SET v = v + 1, s = upper(s) WHERE id % 2 = 0",
    "UPDATE sales.t AS x SET v = x.v * 2 WHERE x.id BETWEEN 3 AND 5 AND CASE WHEN x.v > 30 THEN true END",
    "DELETE FROM sales.t WHERE id IN (1, 30) OR s LIKE 'new%'",
    "DELETE FROM sales.t x WHERE x.d IS NULL AND x.id = 2",
    "MERGE INTO sales.t USING source ON t.id = source.id WHEN MATCHED THEN UPDATE SET v = source.v, s = t.s || source.s",
    "MERGE INTO sales.t AS a USING source AS b ON a.id = b.id WHEN MATCHED AND b.gone THEN DELETE",
    """MERGE INTO sales.t USING (SELECT id, v, s, CAST(NULL AS DATE) AS d FROM source WHERE id < 31) AS s USING (id)
       WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED BY TARGET THEN INSERT *""",
    "MERGE INTO sales.t USING source ON t.id = source.id AND false WHEN NOT MATCHED THEN INSERT (id, v) VALUES (source.id, DEFAULT)",
    """MERGE INTO sales.t a USING source b ON a.id = b.id
       WHEN NOT MATCHED AND b.gone THEN INSERT (id) VALUES (b.id)
       WHEN NOT MATCHED BY SOURCE AND a.id > 4 THEN UPDATE SET s = 'left', v = CASE WHEN a.v > 10 THEN a.v END""",
    "INSERT INTO sales.t (id, s, v) VALUES ((SELECT max(id) + 1 FROM sales.t), 'next', (SELECT count(*) FROM source)), (99, (SELECT s FROM source WHERE id = -1), 1)",
    "UPDATE sales.t SET v = (SELECT max(v) FROM source), s = (SELECT s FROM source WHERE id = -1) WHERE v < (SELECT 10)",
    "DELETE FROM sales.t WHERE id IN (SELECT id FROM source WHERE gone UNION SELECT NULL) AND EXISTS (SELECT 1 FROM source)",
    "DELETE FROM sales.t WHERE s IN (SELECT s FROM source WHERE id = -1) OR NOT EXISTS (SELECT 1 FROM source)",
    "UPDATE sales.t SET s = 'all' WHERE d NOT IN (SELECT DATE '2026-01-01' FROM source WHERE id = -1)",
    "UPDATE sales.t SET v = source.v + t.v, s = source.s FROM source WHERE t.id = source.id",
    "UPDATE sales.t AS x SET v = y.top FROM (SELECT max(v) AS top FROM source) AS y WHERE x.id < 4",
    "DELETE FROM sales.t USING source AS y WHERE t.id = y.id AND y.gone",
    "CREATE TABLE made AS SELECT id, CAST(v AS DOUBLE) / 3 AS third, s FROM sales.t WHERE id > 2",
    "CREATE TABLE IF NOT EXISTS made AS SELECT 1 AS x",
    "CREATE OR REPLACE TABLE made PARTITIONED BY (s) AS SELECT 1 AS id, 'a' AS s",
    "UPDATE sales.t SET s = NULL",
    "DELETE FROM sales.t WHERE false",
    "TRUNCATE sales.t",
    "TRUNCATE TABLE made",
    "DELETE FROM source",
]  # fmt: skip


def test_changes_leave_the_rows_of_the_reference(
    spark: Any, pair: tuple[Lake, RealLake, RealLake]
) -> None:
    lake, ours, theirs = pair
    for real in (theirs, ours):
        real.execute(*PREPARE)
        real.detach()

    for statement in CHANGES:
        (result,) = lake.sql(statement, spark=spark).collect()
        affected = theirs.query(statement)

        counts = (result.num_inserted_rows, result.num_updated_rows, result.num_deleted_rows)
        assert result.num_affected_rows == sum(counts), statement
        assert result.num_affected_rows == (affected[0][0] if affected else 0), statement
        assert result.snapshot_id == (lake.snapshot().id if sum(counts) else None), statement
        table = next(name for name in ("made", "source", "sales.t") if f" {name}" in statement)
        theirs.detach()
        assert contents(ours, table) == contents(theirs, table), statement


def test_a_merge_has_any_number_of_clauses(
    spark: Any, pair: tuple[Lake, RealLake, RealLake]
) -> None:
    lake, ours, _ = pair
    ours.execute(*PREPARE)
    ours.detach()

    (result,) = lake.sql(
        """
        MERGE INTO sales.t AS a USING source AS b ON a.id = b.id
        WHEN MATCHED AND b.gone THEN DELETE
        WHEN MATCHED THEN UPDATE SET a.v = b.v + CASE WHEN a.v > 10 THEN 1 ELSE 0 END, s = DEFAULT
        WHEN NOT MATCHED AND NOT b.gone THEN INSERT (id, v, s) VALUES (b.id, DEFAULT, `b`.`s`)
        WHEN NOT MATCHED BY SOURCE AND a.id > 4 THEN UPDATE SET s = 'left'
        WHEN NOT MATCHED BY SOURCE THEN DELETE
        """,
        spark=spark,
    ).collect()

    assert tuple(result)[1:] == (7, 1, 3, 3)
    assert [row[:3] for row in contents(ours, "sales.t")[1]] == [
        (2, 201, None),
        (30, 7, "new"),
        (5, 50, "left"),
        (6, 60, "left"),
    ]


def test_rows_are_replaced_as_spark_replaces_them(
    spark: Any, pair: tuple[Lake, RealLake, RealLake]
) -> None:
    lake, ours, _ = pair
    ours.execute(*PREPARE)
    ours.detach()

    replaced = lake.sql(
        "INSERT INTO sales.t REPLACE WHERE id >= 3 SELECT id, v, s, NULL FROM source", spark=spark
    )
    assert replaced.first().num_deleted_rows == 4
    assert [row[0] for row in contents(ours, "sales.t")[1]] == [1, 2, 2, 3, 30, 31]

    lake.sql("INSERT OVERWRITE TABLE sales.t VALUES (1, 2, 'only', NULL)", spark=spark)
    assert contents(ours, "sales.t")[1] == [(1, 2, "only", None)]


def test_partitions_are_written_as_spark_writes_them(
    spark: Any, pair: tuple[Lake, RealLake, RealLake]
) -> None:
    lake, ours, _ = pair
    ours.execute(
        "CREATE TABLE p (id INTEGER, k VARCHAR, d DATE)",
        "ALTER TABLE p SET PARTITIONED BY (k, month(d))",
        "INSERT INTO p VALUES (1, 'a', '2026-01-01'), (2, 'a', '2026-02-01'), (3, 'b', NULL)",
    )
    ours.detach()

    lake.sql("INSERT INTO p PARTITION (k = 'c') SELECT 4, NULL", spark=spark)
    lake.sql("INSERT INTO p PARTITION (k = NULL, d) (id) VALUES (5)", spark=spark)
    # All rows of a value, and only the partitions that have new rows.
    lake.sql("INSERT OVERWRITE p PARTITION (k = 'b') BY NAME SELECT 6 AS id", spark=spark)
    lake.sql("INSERT OVERWRITE TABLE p PARTITION (k, d) VALUES (7, 'a', '2026-02-09')", spark=spark)

    assert [(i, k, str(d)) for i, k, d in contents(ours, "p")[1]] == [
        (1, "a", "2026-01-01"),
        (4, "c", "None"),
        (5, None, "None"),
        (6, "b", "None"),
        (7, "a", "2026-02-09"),
    ]


def test_a_lake_is_listed_and_queried_in_the_words_of_spark_and_duckdb(
    spark: Any, pair: tuple[Lake, RealLake, RealLake]
) -> None:
    lake, _, _ = pair

    def rows(text: str, **options: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in lake.sql(text, spark=spark, **options).collect()]

    for statement in (
        "CREATE NAMESPACE sales",
        """CREATE TABLE sales.t (id BIGINT NOT NULL COMMENT 'the key', s STRING DEFAULT 'none', d DATE)
           PARTITIONED BY (bucket(4, id), d) SORTED BY (s DESC)""",
        "CREATE TABLE copy LIKE sales.t",
        "ALTER TABLE copy SET TBLPROPERTIES ('parquet_compression' = 'zstd')",
        "ALTER TABLE copy CHANGE COLUMN s name STRING COMMENT 'renamed'",
        "WITH x AS (SELECT 1L AS id) INSERT INTO copy BY NAME SELECT id FROM x",
        "WITH x AS (SELECT 1L AS id) UPDATE copy SET d = '2026-01-01' WHERE id IN (SELECT id FROM x)",
        "CREATE TABLE numbers AS VALUES (1, 'a'), (2, 'b')",
        "CREATE VIEW v AS SELECT id FROM copy",
        "ALTER VIEW v AS SELECT name FROM copy",
    ):  # fmt: skip
        lake.sql(statement, spark=spark)

    assert rows("SHOW SCHEMAS") == [("main",), ("sales",)]
    tables = [("main", "copy", False), ("main", "numbers", False), ("sales", "t", False)]
    assert rows("SHOW TABLES") == tables
    assert rows("SHOW TABLES IN main LIKE 'N*|x'") == tables[1:2]
    assert rows("show views") == [("main", "v", False)]
    assert rows("SHOW COLUMNS IN copy") == [("id",), ("name",), ("d",)]
    assert rows("DESCRIBE copy") == [
        ("id", "BIGINT", "false", None, "the key"),
        ("name", "VARCHAR", "true", "none", "renamed"),
        ("d", "DATE", "true", None, None),
    ]
    details = dict(row[:2] for row in rows("DESC TABLE EXTENDED copy"))
    assert details["Partitioned by"] == "bucket(4, id), d"
    assert details["Files"] == "0"
    assert rows("DESCRIBE v") == [("name", "string", "true", None, None)]
    assert rows("SHOW TABLES", version=1) == []
    assert rows("TABLE numbers") == rows("VALUES (1, 'a'), (2, 'b')")
    (inserted,) = [s.id for s in lake.snapshots() if "inlined_insert" in s.changes][:1]
    assert rows(f"SELECT id, d FROM copy AT (VERSION => {inserted}) AS c") == [(1, None)]
    assert rows("SELECT col1 FROM numbers WHERE col2 = ?", args=["b"]) == [(2,)]
    odd = "it's \\ ${x} :id ?"
    lake.sql(
        "INSERT INTO copy (id, name) VALUES (:id, :name)", spark=spark, args={"id": -2, "name": odd}
    )
    assert rows("SELECT name, :name FROM copy WHERE id = :id", args={"id": -2, "name": odd}) == [
        (odd, odd)
    ]


def test_spellings_of_spark_are_understood(
    spark: Any, pair: tuple[Lake, RealLake, RealLake]
) -> None:
    lake, ours, _ = pair
    spark.range(3).createOrReplaceTempView("session_rows")
    for statement in (
        """CREATE TABLE `my table` (id LONG COMMENT 'the key', day DATE, tags ARRAY<STRING>,
           place STRUCT<x: DOUBLE, `at time`: TIMESTAMP>, seen TIMESTAMP_LTZ)
           USING ducklake PARTITIONED BY (months(day)) COMMENT 'from spark'""",
        "INSERT INTO `my table` SELECT id, DATE'2026-01-31', array('it\\'s'), NULL, now() FROM session_rows",
        "ALTER TABLE `my table` ADD COLUMNS (a INT, b STRING COMMENT 'text')",
        "ALTER TABLE `my table` ALTER COLUMN a COMMENT 'number'",
        "ALTER TABLE `my table` DROP COLUMNS (seen, a)",
        "UPDATE `my table` SET b = concat('b', `id`) WHERE `my table`.id > 0",
    ):  # fmt: skip
        lake.sql(statement, spark=spark)
    spark.catalog.dropTempView("session_rows")

    columns, rows = contents(ours, '"my table"')
    assert [column[:2] for column in columns] == [
        ("id", "BIGINT"),
        ("day", "DATE"),
        ("tags", "VARCHAR[]"),
        ("place", 'STRUCT(x DOUBLE, "at time" TIMESTAMP)'),
        ("b", "VARCHAR"),
    ]
    assert [(row[0], row[2], row[4]) for row in rows] == [
        (0, ["it's"], None),
        (1, ["it's"], "b1"),
        (2, ["it's"], "b2"),
    ]
    table = lake.table("my table")
    assert (table.comment, table.column("id").comment) == ("from spark", "the key")
    assert table.column("b").comment == "text"
    assert table.partition_spec is not None

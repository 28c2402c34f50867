"""Catalogs on servers: MariaDB, which the real implementation can hardly write, and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from lakeport.ducklake import Lake
from lakeport.ducklake.metadata.database import Database
from lakeport.ducklake.metadata.location import parse_location

LakeMaker = Callable[..., Any]
ROWS = "SELECT i AS id, 'v' || i AS v FROM range({}) r(i)"
LIVES: dict[str, tuple[str, ...]] = {
    "files, deletes and time travel": (
        "CREATE TABLE t AS " + ROWS.format(100),
        "DELETE FROM t WHERE id % 3 = 0",
        "UPDATE t SET v = 'u' WHERE id < 20",
        "INSERT INTO t " + ROWS.format(30),
        "CALL ducklake_merge_adjacent_files('lake')",
        "DELETE FROM t WHERE id = 50",
    ),
    "schema evolution": (
        "CREATE TABLE t(id BIGINT, v VARCHAR, s STRUCT(a INTEGER))",
        "INSERT INTO t SELECT i, 'v', {'a': i} FROM range(20) r(i)",
        "ALTER TABLE t ADD COLUMN w INTEGER DEFAULT 5",
        "ALTER TABLE t RENAME COLUMN v TO x",
        "ALTER TABLE t ADD COLUMN s.b VARCHAR DEFAULT 'q'",
        "ALTER TABLE t DROP COLUMN id",
        "COMMENT ON TABLE t IS 'gone'",
        "ALTER TABLE t RENAME TO u",
    ),
    "partitions and schemas": (
        "CREATE SCHEMA other",
        "CREATE TABLE other.t(id BIGINT, p VARCHAR)",
        "ALTER TABLE other.t SET PARTITIONED BY (p, bucket(3, id))",
        "INSERT INTO other.t SELECT i, 'p' || (i % 2) FROM range(20) r(i)",
        "CREATE VIEW other.v AS SELECT 1 AS a",
    ),
    "inlined rows and deletes": (
        "CREATE TABLE t(b BOOLEAN, i TINYINT, j BIGINT, u UBIGINT, f FLOAT, d DOUBLE, c DECIMAL(9,2), dt DATE, v VARCHAR, bl BLOB, n UUID)",
        r"INSERT INTO t VALUES (true, 1, -5, 18446744073709551615, 0.1, 1e300, 1.50, '2024-01-02', 'ünï''s', '\x00\xAA'::BLOB, '00000000-0000-0000-0000-000000000001'), (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        "INSERT INTO t (j) SELECT i FROM range(20) r(i)",
        "DELETE FROM t WHERE j IN (3, 4)",
        "DELETE FROM t WHERE i = 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("life", LIVES)
def test_a_catalog_copied_to_mariadb_reads_like_its_original(
    life: str, make_lake: LakeMaker, mariadb: Callable[[], str]
) -> None:
    # MySQL has no type for nested rows, so only plain ones are inlined
    inlines = life.startswith("inlined")
    lake = make_lake("duckdb", "" if inlines else "DATA_INLINING_ROW_LIMIT 0")
    lake.execute(*LIVES[life])
    uri = mariadb()
    lake.query("SELECT 1")
    lake.connection.execute(f"ATTACH '{uri.removeprefix('ducklake:mysql:')}' AS copy (TYPE mysql)")
    try:
        for (name,) in lake.query(
            "SELECT table_name FROM duckdb_tables() WHERE database_name = 'meta'"
        ):
            lake.connection.execute(f"CREATE TABLE copy.{name} AS FROM meta.{name}")
    finally:
        lake.connection.execute("DETACH copy")
    lake.detach()
    with Lake.open(lake.uri) as original, Lake.open(uri) as copy:
        assert [s.id for s in original.snapshots()] == [s.id for s in copy.snapshots()]
        for snapshot in original.snapshots():
            names = original.tables(version=snapshot.id)
            assert copy.tables(version=snapshot.id) == names
            for schema, name in names:
                one, two = (
                    _rows(opened.table(name, schema, version=snapshot.id))
                    for opened in (original, copy)
                )
                assert one == two
        assert [v.name for v in original.views()] == [v.name for v in copy.views()]


@pytest.mark.database_server
@pytest.mark.parametrize("life", ["schema evolution", "inlined rows and deletes"])
def test_a_catalog_in_another_schema_of_postgresql(life: str, make_lake: LakeMaker) -> None:
    lake = make_lake("postgresql", "METADATA_SCHEMA 'my lake'")
    lake.meta = 'meta."my lake"'
    lake.execute(*LIVES[life])
    lake.check(metadata_schema="my lake")


@pytest.mark.database_server
def test_a_url_reaches_postgresql_too(make_lake: LakeMaker) -> None:
    lake = make_lake("postgresql")
    lake.execute("CREATE TABLE t AS " + ROWS.format(30))
    lake.detach()
    found = parse_location(lake.uri).parameters
    url = f"postgresql://{found['user']}@{found['host']}:{found['port']}/{found['dbname']}"
    with Lake.open(url) as ours:
        assert ours.table("t").scan().to_arrow().num_rows == 30


@pytest.mark.database_server
def test_a_lost_connection_is_opened_again(make_lake: LakeMaker) -> None:
    import psycopg

    lake = make_lake("postgresql")
    lake.execute("CREATE TABLE t AS " + ROWS.format(30))
    lake.detach()
    with Lake.open(lake.uri) as ours:
        ours.table("t")
        dsn = lake.uri.removeprefix("ducklake:postgres:")
        with closing(psycopg.connect(dsn, autocommit=True)) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        assert ours.table("t").scan().to_arrow().num_rows == 30


@pytest.mark.database_server
def test_postgresql_does_not_compile_the_queries_of_a_catalog(make_lake: LakeMaker) -> None:
    database = Database(parse_location(make_lake("postgresql").uri))
    try:
        assert database.read(lambda c: c.exec_driver_sql("SHOW jit").scalar()) == "off"
    finally:
        database.dispose()


def _rows(table: Any) -> list[str]:
    found = table.scan([*table.schema.names, "rowid", "snapshot_id"]).to_arrow()
    return sorted(repr(row) for row in found.to_pylist())

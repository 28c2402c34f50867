"""A lake as a catalog: names, comments, defaults, row ids, and what others change meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lakeport import Lake, LakeportError, ScanOptions, Server, connect
from lakeport.catalog import TransactionManager, VersionedCatalog
from lakeport.ducklake import LocalEngine
from lakeport.errors import DefinitionError, NotFoundError
from lakeport.lakehouse import LakeCatalog
from tests.lakehouse.conftest import Serve

MakeLake = Callable[..., Any]


def test_schemas_and_tables_are_listed_with_their_comments(
    make_lake: MakeLake, serve: Serve
) -> None:
    lake = make_lake()
    lake.execute(
        "CREATE TABLE t(id INTEGER)",
        "COMMENT ON TABLE t IS 'about t'",
        "CREATE SCHEMA sales",
        "CREATE TABLE sales.orders(id INTEGER)",
        "DROP TABLE IF EXISTS gone",
    )

    client = serve(lake).client

    assert [schema.name for schema in client.schemas()] == ["public", "sales", "lakeport"]
    assert [table.name for table in client.tables("public")] == ["t"]
    assert client.table("public.t").comment == "about t"
    assert [table.name for table in client.tables("sales")] == ["orders"]


def test_columns_have_their_comments_defaults_and_constraints(
    make_lake: MakeLake, serve: Serve
) -> None:
    lake = make_lake()
    lake.execute(
        "CREATE TABLE t(id INTEGER NOT NULL, name VARCHAR DEFAULT 'it''s')",
        "ALTER TABLE t ADD COLUMN n DECIMAL(9,2) DEFAULT 1.5",
        "ALTER TABLE t ALTER COLUMN id SET DEFAULT (1 + 1)",
        "COMMENT ON COLUMN t.name IS 'what it is called'",
    )

    columns = {column.name: column for column in serve(lake).client.table("public.t").columns}

    assert columns["id"].not_null
    assert not columns["name"].not_null
    assert columns["name"].comment == "what it is called"
    assert columns["name"].default == "'it''s'"
    assert lake.query(f"SELECT {columns['n'].default}::VARCHAR") == [("1.50",)]
    assert lake.query(f"SELECT {columns['id'].default}") == [(2,)]


def test_the_row_id_is_the_last_field_and_marked(make_lake: MakeLake, serve: Serve) -> None:
    lake = make_lake()
    lake.execute("CREATE TABLE t(id INTEGER)", 'CREATE TABLE hides("rowid" INTEGER)')

    schema = serve(lake).catalog.schema("public")

    assert schema is not None
    table, hides = schema.table("t"), schema.table("hides")
    assert table is not None
    assert hides is not None
    assert table.arrow_schema().names == ["id", "rowid"]
    assert table.arrow_schema().field("rowid").metadata == {b"is_rowid": b"1"}
    assert hides.arrow_schema() == pa.schema([("rowid", pa.int32())])


def test_main_is_published_under_a_name_that_duckdb_can_address(
    make_lake: MakeLake, serve: Serve
) -> None:
    lake = make_lake()
    lake.execute("CREATE TABLE t(id INTEGER)")

    served = serve(lake)

    assert served.catalog.main_schema == "public"
    with pytest.raises(NotFoundError, match="are in 'public'"):
        served.client.take_flight(["main", "t"]).to_arrow()


def test_main_moves_out_of_the_way_of_the_lakes_own_schemas(
    make_lake: MakeLake, serve: Serve
) -> None:
    lake = make_lake()
    lake.execute(
        "CREATE TABLE t(id INTEGER)",
        'CREATE SCHEMA "Public"',
        'CREATE TABLE "Public".other(id INTEGER)',
        "CREATE SCHEMA lakeport",
    )

    client = serve(lake).client

    names = [schema.name for schema in client.schemas()]
    assert names == ["main_schema", "Public", "lakeport", "lakeport_functions"]
    assert [table.name for table in client.tables("main_schema")] == ["t"]


def test_main_takes_the_name_it_is_given(make_lake: MakeLake, serve: Serve) -> None:
    lake = make_lake()
    lake.execute("CREATE TABLE t(id INTEGER)", "CREATE SCHEMA sales")
    lake.detach()

    assert serve(lake, main_as="warehouse").client.table("warehouse.t").name == "t"
    with pytest.raises(DefinitionError, match="another name than 'main'"):
        LakeCatalog(lake.uri, main_as="MAIN")
    with pytest.raises(DefinitionError, match="has a schema 'sales'"):
        LakeCatalog(lake.uri, main_as="Sales")


def test_names_are_found_whatever_their_case_as_duckdb_does(
    make_lake: MakeLake, serve: Serve
) -> None:
    lake = make_lake()
    lake.execute('CREATE SCHEMA "Größe"', 'CREATE TABLE "Größe"."Öl"(id INTEGER)')

    catalog = serve(lake).catalog

    schema = catalog.schema("gRößE")
    assert schema is not None
    assert schema.table("Öl") is not None
    assert schema.table("öl") is None
    assert catalog.schema("grÖsse") is None


def test_what_others_create_is_seen_without_a_restart(make_lake: MakeLake, serve: Serve) -> None:
    lake = make_lake()
    lake.execute("CREATE TABLE t(id INTEGER)")
    client = serve(lake).client
    before = client.catalog_version()
    assert [table.name for table in client.tables("public")] == ["t"]

    lake.execute("CREATE TABLE u(id INTEGER)")
    lake.detach()
    client.refresh()

    assert [table.name for table in client.tables("public")] == ["t", "u"]
    assert client.catalog_version().version > before.version
    assert not before.is_fixed


def test_rows_that_others_insert_leave_the_catalogs_version_as_it_is(
    make_lake: MakeLake, serve: Serve
) -> None:
    lake = make_lake()
    lake.execute("CREATE TABLE t(id INTEGER)", "INSERT INTO t VALUES (1)")
    client = serve(lake).client
    before = client.catalog_version()

    lake.execute("INSERT INTO t VALUES (2)")
    lake.detach()

    assert client.catalog_version() == before
    assert client.table("public.t").scan().count() == 2


def test_a_table_of_an_unknown_type_does_not_hide_the_others(
    make_lake: MakeLake, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    lake = make_lake()
    lake.execute("CREATE TABLE t(id INTEGER)", "CREATE TABLE odd(id INTEGER)")
    lake.execute(
        "UPDATE meta.ducklake_column SET column_type = 'tensor' WHERE table_id IN"
        " (SELECT table_id FROM meta.ducklake_table WHERE table_name = 'odd')"
    )
    served = serve(lake)

    with caplog.at_level(logging.WARNING, logger="lakeport.lakehouse"):
        names = [table.name for table in served.client.tables("public")]

    assert names == ["t"]
    assert "tensor" in caplog.text
    with pytest.raises(LakeportError, match="tensor"):
        served.client.take_flight(["public", "odd"]).to_arrow()


def test_a_lake_catalog_has_the_capabilities_that_the_server_asks_for(
    make_lake: MakeLake, serve: Serve
) -> None:
    lake = make_lake()
    lake.execute("CREATE TABLE t(id INTEGER)")

    catalog = serve(lake).catalog

    assert isinstance(catalog, VersionedCatalog)
    assert isinstance(catalog, TransactionManager)


def test_closing_the_catalog_closes_a_lake_that_was_given(
    make_lake: MakeLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, close = make_lake(), Lake.close
    lake.execute("CREATE TABLE t(id INTEGER)")
    ours = lake.open()
    closed: list[Lake] = []

    def closing(lake: Lake) -> None:
        closed.append(lake)
        close(lake)

    monkeypatch.setattr(Lake, "close", closing)
    with LakeCatalog(ours, name="shop", comment="a lake") as catalog:
        assert (catalog.name, catalog.comment) == ("shop", "a lake")
        assert [schema.name for schema in catalog.schemas()] == ["public", "lakeport"]
        assert closed == []

    assert closed == [ours]


def test_small_scans_and_inlined_rows_need_no_spark(make_lake: MakeLake) -> None:
    lake = make_lake()
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id FROM range(1000) r(i)",
        "CREATE TABLE inlined(id INTEGER)",
        "INSERT INTO inlined VALUES (1), (2)",
        "DELETE FROM inlined WHERE id = 1",
    )
    last = lake.snapshots()[-1]
    lake.detach()

    def no_session() -> Any:
        raise AssertionError("a session was needed")

    with (
        LakeCatalog(lake.uri, spark=no_session) as catalog,
        Server(catalog) as server,
        connect(server.location, timeout=120) as client,
    ):
        assert client.table("public.t").scan(filter="id < 10").count() == 10
        assert client.table("public.inlined").scan().to_arrow()["id"].to_pylist() == [2]
        changes = client.call_table("lakeport.table_changes", "inlined", last, last).to_arrow()
        assert changes["change_type"].to_pylist() == ["delete"]


def test_a_catalog_uses_the_engine_of_its_lake(make_lake: MakeLake) -> None:
    lake = make_lake()
    lake.execute("CREATE TABLE t AS SELECT i AS id FROM range(1000) r(i)")
    engine = LocalEngine()

    with lake.open(engine=engine) as ours:
        catalog = LakeCatalog(ours)

        assert catalog.lake.engine is engine
        schema = catalog.schema("public")
        assert schema is not None
        table = schema.table("t")
        assert table is not None
        assert sum(batch.num_rows for batch in table.scan(ScanOptions())) == 1000

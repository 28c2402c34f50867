"""Views of a lake: listed without Spark, run by Spark, refused with the reason."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lakeport import Client, ScanOptions, Server, col, connect
from lakeport.auth import AccessRequest, Operation
from lakeport.catalog import EndpointTable, Partition
from lakeport.errors import (
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
)
from lakeport.lakehouse import LakeCatalog
from lakeport.spark.sql.registration import register_as
from tests.lakehouse.conftest import Serve
from tests.wait import TIMEOUT_SECONDS

MakeLake = Callable[..., Any]


@pytest.fixture
def lake(make_lake: MakeLake) -> Any:
    lake = make_lake()
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id, 'v' || i AS v FROM range(100) r(i)",
        "DELETE FROM t WHERE id = 7",
        "CREATE SCHEMA s",
        "CREATE VIEW s.small AS SELECT id, v, id * 2 AS twice FROM main.t WHERE id < 10",
        "COMMENT ON VIEW s.small IS 'the first rows'",
        "CREATE VIEW s.counted AS SELECT count(*) AS rows, sum(id)::BIGINT AS total FROM s.small",
    )
    return lake


def test_a_view_is_a_table_that_can_be_read(lake: Any, serve: Serve) -> None:
    expected = lake.query("SELECT * FROM s.small ORDER BY id")

    view = serve(lake).client.table("s.small")
    rows = view.scan().to_arrow().sort_by("id")

    assert view.comment == "the first rows"
    assert view.rowid_type is None
    assert [tuple(row.values()) for row in rows.to_pylist()] == expected


def test_columns_and_filters_of_a_view_are_chosen_by_the_client(lake: Any, serve: Serve) -> None:
    view = serve(lake).client.table("s.small")

    assert view.scan(["twice"], filter=col("id") > 7).to_arrow().to_pydict() == {"twice": [16, 18]}
    assert view.scan().count() == 9


def test_a_view_may_read_views(lake: Any, serve: Serve) -> None:
    rows = serve(lake).client.table("s.counted").scan().to_arrow().to_pylist()

    assert [(row["rows"], row["total"]) for row in rows] == [(9, 38)]


def test_a_view_is_read_at_the_snapshot_of_its_ticket(lake: Any, serve: Serve) -> None:
    schema = serve(lake).catalog.schema("s")
    assert schema is not None
    view = schema.table("small")
    assert isinstance(view, EndpointTable)
    (endpoint,) = view.endpoints(ScanOptions())
    assert isinstance(endpoint, Partition)

    lake.execute("INSERT INTO t VALUES (1, 'new')")
    lake.detach()

    assert view.scan(ScanOptions(partition=endpoint.token)).read_all().num_rows == 9


def test_a_view_that_is_replaced_meanwhile_asks_to_run_the_query_again(
    lake: Any, serve: Serve
) -> None:
    catalog = serve(lake).catalog

    def view() -> EndpointTable:
        schema = catalog.schema("s")
        assert schema is not None
        found = schema.table("small")
        assert isinstance(found, EndpointTable)
        return found

    (endpoint,) = view().endpoints(ScanOptions())
    assert isinstance(endpoint, Partition)
    lake.execute("CREATE OR REPLACE VIEW s.small AS SELECT 1 AS id")
    lake.detach()

    with pytest.raises(UnavailableError, match="run the query again"):
        view().scan(ScanOptions(partition=endpoint.token))


@pytest.mark.parametrize("spark_view_bytes", [0, 64 << 20])
def test_a_view_without_a_translation_for_spark_is_read(
    lake: Any, serve: Serve, spark_view_bytes: int
) -> None:
    lake.execute(
        "CREATE VIEW odd AS SELECT jaro_similarity(v, 'v1') AS likeness FROM t WHERE id = 1"
    )

    view = serve(lake, spark_view_bytes=spark_view_bytes).client.table("public.odd")

    assert view.scan().to_arrow().to_pydict() == {"likeness": [1.0]}


def test_a_view_does_not_see_the_environment_of_the_server(lake: Any, serve: Serve) -> None:
    lake.execute(
        "CREATE VIEW text AS SELECT '${env:PATH}' AS v FROM t LIMIT 1",
        'CREATE VIEW alias AS SELECT id AS "${env:PATH}" FROM t WHERE id = 3',
    )
    client = serve(lake).client

    assert client.table("public.text").scan().to_arrow().to_pylist() == [{"v": "${env:PATH}"}]
    assert client.table("public.alias").scan().to_arrow().to_pylist() == [{"${env:PATH}": 3}]


def test_a_view_over_a_table_that_is_gone_does_not_hide_the_others(
    lake: Any, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    lake.execute("CREATE TABLE gone(id INTEGER)", "CREATE VIEW broken AS SELECT * FROM gone")
    lake.execute("DROP TABLE gone")
    client = serve(lake).client

    with caplog.at_level(logging.WARNING, logger="lakeport.lakehouse"):
        assert [table.name for table in client.tables("public")] == ["t"]

    assert "view main.broken is not listed" in caplog.text


def test_spark_sql_reads_the_whole_lake_where_it_is_allowed(lake: Any, serve: Serve) -> None:
    query = "SELECT t.id, s.twice FROM t JOIN s_small s ON t.id = s.id ORDER BY t.id DESC LIMIT 2"
    lake.execute("INSERT INTO t VALUES (-1, 'early')")
    client = serve(lake, spark_sql=True).client

    rows = client.call_table("lakeport.spark_sql", query).to_arrow().to_pylist()

    assert rows == [{"id": 9, "twice": 18}, {"id": 8, "twice": 16}]
    lake.execute("INSERT INTO t VALUES (-2, 'earlier')")
    lake.detach()
    counted = client.call_table("lakeport.spark_sql", "SELECT min(id) AS least FROM t").to_arrow()
    assert counted.to_pylist() == [{"least": -2}]
    with pytest.raises(
        InvalidArgumentError, match="only queries are allowed here, and DROP is not"
    ):
        client.call_table("lakeport.spark_sql", "DROP VIEW t").to_arrow()


def queried(client: Client, query: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]]
    rows = client.call_table("lakeport.spark_sql", query).to_arrow().to_pylist()
    return rows


@pytest.fixture
def clashing(make_lake: MakeLake) -> Any:
    lake = make_lake()
    lake.execute(
        "CREATE TABLE sales_events AS SELECT 1 AS id",
        "CREATE SCHEMA sales",
        "CREATE TABLE sales.events AS SELECT 1 AS id, 2 AS w",
        "CREATE VIEW pairs AS SELECT a.id, b.w FROM sales_events a JOIN sales.events b USING (id)",
        "CREATE TABLE other AS SELECT 3 AS id",
    )
    return lake


def test_a_view_reads_tables_that_would_have_one_name_in_spark(clashing: Any, serve: Serve) -> None:
    view = serve(clashing).client.table("public.pairs")

    assert view.scan().to_arrow().to_pylist() == [{"id": 1, "w": 2}]


def test_tables_that_would_have_one_name_are_missing_in_spark_sql_for_that_reason(
    clashing: Any, serve: Serve
) -> None:
    client = serve(clashing, spark_sql=True).client

    assert queried(client, "SELECT * FROM other") == [{"id": 3}]
    with pytest.raises(InvalidArgumentError, match="would both be called sales_events in Spark"):
        queried(client, "SELECT * FROM Sales_Events")
    with pytest.raises(InvalidArgumentError, match=r"`pairs` cannot be found.* which is skipped"):
        queried(client, "SELECT * FROM pairs")
    with pytest.raises(InvalidArgumentError, match="cannot be found") as unknown:
        queried(client, "SELECT * FROM nowhere")
    assert "because" not in str(unknown.value)


def test_spark_sql_registers_what_queries_name_once(
    lake: Any, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.execute('CREATE TABLE "odd `name`" AS SELECT 5 AS id', "CREATE TABLE unused(id INTEGER)")
    client = serve(lake, spark_sql=True).client
    registered: list[set[str]] = []

    def counted(lake: Any, spark: Any, names: Any, **options: Any) -> Any:
        registered.append(set(names.values()))
        return register_as(lake, spark, names, **options)

    monkeypatch.setattr("lakeport.spark.sql.register_as", counted)

    with ThreadPoolExecutor(3) as pool:
        same = list(pool.map(queried, [client] * 3, ["SELECT rows FROM s_counted"] * 3))

    assert same == [[{"rows": 9}]] * 3
    assert registered == [{"t", "s_small", "s_counted"}]
    assert queried(client, "SELECT count(*) AS n FROM T") == [{"n": 99}]
    assert len(registered) == 1
    assert queried(client, "SELECT id FROM `odd ``name```") == [{"id": 5}]
    assert registered[1:] == [{"odd `name`"}]


def test_spark_sql_suggests_the_name_that_is_meant(lake: Any, serve: Serve) -> None:
    lake.execute("CREATE TABLE customers AS SELECT 1 AS id")
    client = serve(lake, spark_sql=True, name="shop").client

    for written, meant in {
        "s.small": "s_small",
        "shop.s.counted": "s_counted",
        "public.customers": "customers",
        "main.customers": "customers",
        "custmers": "customers",
    }.items():
        with pytest.raises(InvalidArgumentError, match=rf"Did you mean {meant}\?"):
            queried(client, f"SELECT * FROM {written}")
    with pytest.raises(InvalidArgumentError, match="cannot be found") as unknown:
        queried(client, "SELECT * FROM zebra")
    assert "Did you mean" not in str(unknown.value)


@pytest.mark.parametrize("inlined_rows", [0, 10])
def test_spark_sql_hides_a_column_that_spark_cannot_hold_and_not_its_table(
    make_lake: MakeLake, serve: Serve, inlined_rows: int
) -> None:
    lake = make_lake(options=f"DATA_INLINING_ROW_LIMIT {inlined_rows}")
    lake.execute(
        "CREATE TABLE odd AS SELECT 1 AS id, 2 AS strange",
        "UPDATE meta.ducklake_column SET column_type = 'quaternion' WHERE column_name = 'strange'",
    )
    client = serve(lake, spark_sql=True).client

    assert queried(client, "SELECT * FROM odd") == [{"id": 1}]
    with pytest.raises(InvalidArgumentError, match=r"main\.odd has it, but .*'quaternion'"):
        queried(client, "SELECT strange FROM odd")


def test_spark_sql_reads_only_what_its_caller_may_read(lake: Any, spark: Any) -> None:
    lake.execute(
        "CREATE TABLE secret AS SELECT 42 AS hidden_column",
        "CREATE TABLE open AS SELECT 5 AS id",
        "CREATE VIEW on_open AS SELECT id FROM open",
    )
    lake.detach()
    asked: list[AccessRequest] = []

    def authorize(access: AccessRequest) -> bool:
        asked.append(access)
        return access.identity == "ada" or access.name not in {"t", "secret"}

    tokens = {"a": "ada", "g": "grace"}
    with (
        LakeCatalog(lake.uri, spark=spark, spark_sql=True) as catalog,
        Server(catalog, auth=tokens, authorize=authorize) as server,
        connect(server.location, token="a", timeout=TIMEOUT_SECONDS) as ada,
        connect(server.location, token="g", timeout=TIMEOUT_SECONDS) as grace,
    ):
        assert queried(ada, "SELECT * FROM secret") == [{"hidden_column": 42}]
        assert queried(ada, "SELECT rows FROM s_counted") == [{"rows": 9}]
        assert queried(grace, "SELECT id FROM on_open") == [{"id": 5}]
        # s.counted reads s.small, which reads a table that grace may not read.
        for view in ("s_small", "s_counted"):
            shown = view.replace("_", ".")
            with pytest.raises(
                PermissionDeniedError,
                match=rf"^you may not read everything that the view {shown} reads",
            ):
                queried(grace, f"SELECT * FROM {view}")
        for text in (
            "SELECT * FROM secret",
            "SELECT nothing FROM secret",
            "WITH x AS (SELECT * FROM Secret) SELECT count(*) FROM x",
            "SELECT (SELECT max(hidden_column) FROM secret)",
            "SELECT * FROM main.secret",
            "SELECT * FROM secre",
            "SELECT * FROM t",
        ):
            with pytest.raises(InvalidArgumentError, match="cannot be found") as refused:
                queried(grace, text)
            assert not re.search("hidden_column|Did you mean", str(refused.value)), text
    assert AccessRequest("grace", Operation.READ, "", "public", "secret") in asked


def test_spark_sql_reads_no_file_by_an_option_of_a_function(lake: Any, serve: Serve) -> None:
    client = serve(lake, spark_sql=True).client

    with pytest.raises(PermissionDeniedError, match="'rowValidationXSDPath'"):
        queried(client, "SELECT from_xml('<a/>', 'b INT', map('rowValidationXSDPath', '/etc/x'))")


def test_spark_sql_is_not_there_unless_it_is_allowed(lake: Any, serve: Serve) -> None:
    with pytest.raises(NotFoundError):
        serve(lake).client.call_table("lakeport.spark_sql", "SELECT 1")

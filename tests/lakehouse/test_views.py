"""Views of a lake: listed without Spark, run by Spark, refused with the reason."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from lakeport import ScanOptions, col
from lakeport.catalog import EndpointTable, Partition
from lakeport.errors import (
    InvalidInputError,
    LakeportError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from tests.lakehouse.conftest import Serve

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
        "CREATE VIEW s.counted AS SELECT count(*) AS rows, sum(id) AS total FROM s.small",
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

    assert view.scan(["twice"], where=col("id") > 7).to_arrow().to_pydict() == {"twice": [16, 18]}
    assert view.scan().count() == 9


def test_a_view_may_read_views(lake: Any, serve: Serve) -> None:
    rows = serve(lake).client.table("s.counted").scan().to_arrow().to_pylist()

    assert [(row["rows"], int(row["total"])) for row in rows] == [(9, 38)]


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


def test_a_view_that_spark_cannot_run_says_why_when_it_is_read(lake: Any, serve: Serve) -> None:
    lake.execute("CREATE VIEW odd AS SELECT jaro_similarity(v, 'v1') AS likeness FROM t")

    view = serve(lake).client.table("public.odd")

    assert view.schema.names == ["likeness"]
    with pytest.raises(UnsupportedError, match="cannot be run on Spark"):
        view.scan().to_arrow()


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
    with pytest.raises((InvalidInputError, LakeportError)):
        client.call_table("lakeport.spark_sql", "DROP VIEW t").to_arrow()


def test_spark_sql_is_not_there_unless_it_is_allowed(lake: Any, serve: Serve) -> None:
    with pytest.raises(NotFoundError):
        serve(lake).client.call_table("lakeport.spark_sql", "SELECT 1")

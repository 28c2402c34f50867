"""Which snapshot is read: of a time travel clause, of a transaction, or the newest."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from lakeport import Client, col
from lakeport.errors import InvalidArgumentError, NotFoundError, SnapshotNotFoundError
from tests.lakehouse.conftest import Serve

MakeLake = Callable[..., Any]


@pytest.fixture
def lake(make_lake: MakeLake) -> Any:
    lake = make_lake()
    lake.execute(
        "CREATE TABLE t(id INTEGER)",
        "INSERT INTO t SELECT * FROM range(20)",
        "ALTER TABLE t ADD COLUMN v VARCHAR DEFAULT 'x'",
        "INSERT INTO t VALUES (100, 'y')",
    )
    return lake


def count(client: Client) -> int:
    return client.table("public.t").scan().count()


def test_a_version_is_read_with_the_columns_that_it_had(lake: Any, serve: Serve) -> None:
    table = serve(lake).client.table("public.t")

    assert table.scan(version=2).schema.names == ["id"]
    assert table.scan(version=2).to_arrow()["id"].to_pylist() == list(range(20))
    assert table.scan(filter=col("id") == 100, version=4).to_arrow().to_pylist() == [
        {"id": 100, "v": "y"}
    ]


def test_a_timestamp_means_the_last_snapshot_before_it(lake: Any, serve: Serve) -> None:
    ((moment,),) = lake.query(
        "SELECT snapshot_time FROM ducklake_snapshots('lake') WHERE snapshot_id = 2"
    )
    table = serve(lake).client.table("public.t")

    assert table.scan(timestamp=moment).count() == 20
    assert table.scan(timestamp="2999-12-31").count() == 21
    assert table.scan(timestamp="infinity").count() == 21
    assert table.scan(timestamp=datetime.now(UTC)).count() == 21


def test_a_time_that_never_was_is_a_clear_error(lake: Any, serve: Serve) -> None:
    table = serve(lake).client.table("public.t")

    with pytest.raises(NotFoundError, match="no snapshot 99"):
        table.scan(version=99).to_arrow()
    with pytest.raises(
        NotFoundError, match=r"no table public\.t at snapshot 0: snapshot 1 created it"
    ):
        table.scan(version=0).to_arrow()
    with pytest.raises(NotFoundError, match="at or before 1999"):
        table.scan(timestamp="1999-01-01 00:00:00").to_arrow()
    with pytest.raises(InvalidArgumentError, match="'soon' is not a timestamp"):
        table.scan(timestamp="soon").to_arrow()
    with pytest.raises(InvalidArgumentError, match="not the number of a snapshot"):
        table.scan(version="-1").to_arrow()


def test_the_statements_of_a_transaction_see_one_snapshot(lake: Any, serve: Serve) -> None:
    client = serve(lake).client

    with client.transaction():
        before = count(client)
        lake.execute("INSERT INTO t VALUES (101, 'z')", "DELETE FROM t WHERE id < 10")
        lake.detach()
        within = count(client)

    assert (before, within, count(client)) == (21, 21, 12)


def test_a_transaction_sees_its_snapshot_on_every_replica(lake: Any, serve: Serve) -> None:
    here, there = serve(lake), serve(lake)
    identifier = here.catalog.begin_transaction()
    lake.execute("INSERT INTO t VALUES (101, 'z')")
    lake.detach()

    from lakeport.catalog import RequestContext, ScanOptions, request_scope

    with request_scope(RequestContext(transaction_id=identifier)):
        schema = there.catalog.schema("public")
        assert schema is not None
        table = schema.table("t")
        assert table is not None
        rows = table.scan(ScanOptions()).read_all()

    assert rows.num_rows == 21
    assert there.catalog.transaction_status(identifier) is not None


def test_a_table_that_is_altered_meanwhile_is_still_read_inside_the_transaction(
    lake: Any, serve: Serve
) -> None:
    client = serve(lake).client
    table = client.table("public.t")

    with client.transaction():
        assert table.scan().count() == 21
        lake.execute("ALTER TABLE t DROP COLUMN v")
        lake.detach()
        assert table.scan().to_arrow().schema.names == ["id", "v"]


def test_a_transaction_of_somebody_else_is_refused(lake: Any, serve: Serve) -> None:
    from lakeport.catalog import RequestContext, request_scope

    catalog = serve(lake).catalog

    assert catalog.transaction_status("mine") is None
    with (
        request_scope(RequestContext(transaction_id="mine")),
        pytest.raises(InvalidArgumentError, match="not one of this lake"),
    ):
        catalog.schemas()


def test_an_expired_snapshot_ends_its_transaction_with_a_clear_error(
    lake: Any, serve: Serve
) -> None:
    client = serve(lake).client

    with client.transaction():
        count(client)
        lake.execute(
            "INSERT INTO t VALUES (101, 'z')",
            "CALL ducklake_expire_snapshots('lake', versions => [4])",
        )
        lake.detach()
        with pytest.raises((SnapshotNotFoundError, NotFoundError), match="expired"):
            count(client)

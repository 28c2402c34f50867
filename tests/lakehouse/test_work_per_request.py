"""How much work a request on a lake does: snapshots, schemas and parts are looked up once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport import Server
from lakeport.ducklake import Snapshot
from lakeport.lakehouse import LakeCatalog, names
from lakeport.lakehouse.tickets import ScanPartToken
from tests.lakehouse.conftest import Serve

MakeLake = Callable[..., Any]


@pytest.fixture
def lake(make_lake: MakeLake) -> Any:
    lake = make_lake(options="DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id FROM range(0, 1000) r(i)",
        "INSERT INTO t SELECT i FROM range(1000, 2000) r(i)",
        "CREATE TABLE u(a INTEGER)",
    )
    lake.detach()
    return lake


def list_schemas(client: flight.FlightClient) -> None:
    body = msgpack.packb({"catalog_name": ""})
    assert len(list(client.do_action(flight.Action("list_schemas", body)))) == 1


def test_a_listing_reads_the_newest_snapshot_once(
    lake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LakeCatalog(lake.uri) as catalog, Server(catalog) as server:
        snapshots: list[Snapshot] = []
        read = catalog.lake.snapshot

        def counting(**options: Any) -> Snapshot:
            snapshots.append(read(**options))
            return snapshots[-1]

        monkeypatch.setattr(catalog.lake, "snapshot", counting)
        with flight.connect(server.location) as client:
            list_schemas(client)
            assert len(snapshots) == 1

            lake.execute("CREATE TABLE v(a INTEGER)")
            lake.detach()
            list_schemas(client)

    assert len(snapshots) == 2, "every request reads it again"
    assert snapshots[0].id < snapshots[1].id


def test_a_listing_builds_the_schema_of_each_table_once(
    lake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[list[str]] = []
    build = names.published_schema

    def counting(columns: Any, **options: Any) -> pa.Schema:
        schema = build(columns, **options)
        built.append(schema.names)
        return schema

    monkeypatch.setattr("lakeport.lakehouse.table.published_schema", counting)
    with (
        LakeCatalog(lake.uri) as catalog,
        Server(catalog) as server,
        flight.connect(server.location) as client,
    ):
        list_schemas(client)

    assert sorted(columns[0] for columns in built) == ["a", "id"]


def test_a_ticket_resolves_its_part_once(
    lake: Any, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve(lake, endpoints=2)
    info = served.flight.get_flight_info(flight.FlightDescriptor.for_path("public", "t"))
    decoded: list[ScanPartToken] = []
    decode = ScanPartToken.from_bytes

    def counting(raw: bytes) -> ScanPartToken:
        decoded.append(decode(raw))
        return decoded[-1]

    monkeypatch.setattr(ScanPartToken, "from_bytes", staticmethod(counting))
    rows = [served.flight.do_get(endpoint.ticket).read_all() for endpoint in info.endpoints]

    assert sorted(pa.concat_tables(rows)["id"].to_pylist()) == list(range(2000))
    assert [token.part for token in decoded] == [0, 1]

"""How much work a request on a lake does: snapshots, schemas and parts are looked up once."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport import Server, connect
from lakeport.ducklake import Snapshot
from lakeport.ducklake.metadata import freshness
from lakeport.ducklake.metadata.database import Database
from lakeport.errors import NotFoundError
from lakeport.lakehouse import LakeCatalog, names, resources
from lakeport.lakehouse.tickets import ScanPartToken
from tests.lakehouse.conftest import Serve

MakeLake = Callable[..., Any]
DATABASES = ("duckdb", "sqlite", "postgresql", "mysql")


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
        read = catalog.lake.newest

        def counting(**options: Any) -> Snapshot:
            snapshots.append(read(**options))
            return snapshots[-1]

        monkeypatch.setattr(catalog.lake, "newest", counting)
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

    monkeypatch.setattr("lakeport.lakehouse.resources.published_schema", counting)
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


def _count_questions(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that grows by one for each question to a catalog database."""
    questions: list[object] = []
    read = Database.read

    def counting(self: Database, work: Any, **options: Any) -> Any:
        questions.append(work)
        return read(self, work, **options)

    monkeypatch.setattr(Database, "read", counting)
    return questions


class _DuckDB:
    """The calls of DuckDB's client for statements on one table, as they were recorded."""

    def __init__(self, client: flight.FlightClient, name: str) -> None:
        self._client = client
        self._headers = [(b"airport-client-session-id", uuid.uuid4().hex.encode())]
        list_schemas(client)
        info = client.get_flight_info(flight.FlightDescriptor.for_path("public", name))
        self._descriptor = info.descriptor.serialize()
        self._columns = {"id": "BIGINT"} | {f"c{n}": "BIGINT" for n in range(1, 16)}

    def select_all(self) -> int:
        """Return the number of rows that SELECT * reads."""
        identifier = self.begin()
        self.action("catalog_version", {"catalog_name": ""})
        return self.scan(identifier)

    def begin(self) -> str:
        return str(msgpack.unpackb(self.action("create_transaction", {}))["identifier"])

    def scan(self, identifier: str) -> int:
        headers = [(b"airport-transaction-id", identifier.encode())]
        for name, type in [*self._columns.items(), *self._columns.items()]:
            request = {"flight_descriptor": self._descriptor, "column_name": name, "type": type}
            self.action("column_statistics", request, *headers)
        parameters = {"json_filters": "", "column_ids": list(range(16)), "at_unit": ""}
        request = {"descriptor": self._descriptor, "parameters": parameters}
        endpoints = msgpack.unpackb(self.action("endpoints", request, *headers))
        options = flight.FlightCallOptions(headers=[*self._headers, *headers])
        return sum(
            self._client.do_get(flight.FlightEndpoint.deserialize(raw).ticket, options)
            .read_all()
            .num_rows
            for raw in endpoints
        )

    def action(self, name: str, request: Any, *headers: tuple[bytes, bytes]) -> bytes:
        options = flight.FlightCallOptions(headers=[*self._headers, *headers])
        action = flight.Action(name, msgpack.packb(request))
        (result,) = self._client.do_action(action, options)
        return bytes(result.body.to_pybytes())


def test_a_listing_offers_statistics_of_a_table_that_has_become_large(lake: Any) -> None:
    """Statistics cost a client two requests for each column of every statement."""
    with (
        LakeCatalog(lake.uri, engine="local", statistics_rows=3000) as catalog,
        Server(catalog) as server,
    ):

        def offered() -> dict[str, bool]:
            with connect(server.location) as client:
                return {name: client.table(f"public.{name}").has_statistics for name in "tu"}

        assert offered() == {"t": False, "u": False}
        lake.execute("INSERT INTO t SELECT i FROM range(2000, 3000) r(i)")
        lake.detach()
        version = catalog.catalog_version()
        assert offered() == {"t": True, "u": False}
        assert catalog.catalog_version() == version, "a new listing needs no new version"


def test_a_table_with_more_columns_needs_more_rows_to_offer_statistics(lake: Any) -> None:
    lake.execute("CREATE TABLE wide AS SELECT i AS a, i AS b, i AS c FROM range(2000) r(i)")
    lake.execute("CREATE TABLE long AS SELECT i AS a, i AS b, i AS c FROM range(6000) r(i)")
    lake.detach()
    with (
        LakeCatalog(lake.uri, engine="local", statistics_rows=2000) as catalog,
        Server(catalog) as server,
        connect(server.location) as client,
    ):
        names = ["t", "wide", "long"]
        offered = {name: client.table(f"public.{name}").has_statistics for name in names}
    assert offered == {"t": True, "wide": False, "long": True}


def _wide_lake(make_lake: MakeLake, kind: str) -> Any:
    lake = make_lake(kind, options="DATA_INLINING_ROW_LIMIT 0")
    columns = ", ".join(f"i + {n} AS c{n}" for n in range(1, 16))
    lake.execute(f"CREATE TABLE t AS SELECT i AS id, {columns} FROM range(100) r(i)")
    lake.detach()
    return lake


@pytest.mark.parametrize("kind", DATABASES)
def test_a_repeated_statement_asks_the_catalog_database_at_most_once(
    kind: str, make_lake: MakeLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database server is asked for its newest snapshot; an unchanged file is not read at all."""
    monkeypatch.setattr(freshness, "QUIET_SECONDS", 0.05)
    monkeypatch.setattr(resources, "PLAN_SECONDS", 600.0)
    monkeypatch.setattr(resources, "STATEMENT_SECONDS", 600.0)
    with (
        LakeCatalog(_wide_lake(make_lake, kind).uri, engine="local") as catalog,
        Server(catalog) as server,
        flight.connect(server.location) as client,
    ):
        duckdb = _DuckDB(client, "t")
        duckdb.select_all()
        questions = _count_questions(monkeypatch)
        time.sleep(0.1)

        assert [duckdb.select_all() for _ in range(3)] == [100, 100, 100]
        assert len(questions) <= (3 if kind in ("postgresql", "mysql") else 1)


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgresql"])
def test_a_statement_after_a_commit_reads_each_fact_once(
    kind: str, make_lake: MakeLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freshness, "QUIET_SECONDS", 0.0)
    # However slow the machine is, the statement counts as one.
    monkeypatch.setattr(resources, "PLAN_SECONDS", 600.0)
    monkeypatch.setattr(resources, "STATEMENT_SECONDS", 600.0)
    lake = _wide_lake(make_lake, kind)
    with (
        LakeCatalog(lake.uri, engine="local") as catalog,
        Server(catalog) as server,
        flight.connect(server.location) as client,
    ):
        duckdb = _DuckDB(client, "t")
        duckdb.select_all()
        lake.execute("INSERT INTO t FROM t")
        lake.detach()
        questions = _count_questions(monkeypatch)

        assert duckdb.select_all() == 200
        # The newest snapshot, the table, its statistics, and the plan of the scan.
        assert len(questions) <= 4


# Not MySQL: DuckDB's mysql_scanner 1.5.5 cannot run the UPDATE of a second insert.
@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgresql"])
def test_a_statement_sees_every_commit_that_was_made_before_it(
    kind: str, make_lake: MakeLake
) -> None:
    lake = _wide_lake(make_lake, kind)
    with (
        LakeCatalog(lake.uri, engine="local") as catalog,
        Server(catalog) as server,
        flight.connect(server.location) as client,
    ):
        duckdb = _DuckDB(client, "t")
        for number in range(1, 6):
            assert duckdb.select_all() == 100 + number - 1
            lake.execute("INSERT INTO t SELECT * REPLACE (1000 AS id) FROM t LIMIT 1")
            lake.detach()

            assert duckdb.select_all() == 100 + number


def test_statistics_of_a_transaction_cover_every_snapshot_that_it_can_read(
    make_lake: MakeLake,
) -> None:
    lake = _wide_lake(make_lake, "sqlite")
    with (
        LakeCatalog(lake.uri, engine="local") as catalog,
        Server(catalog) as server,
        connect(server.location) as client,
    ):
        table = client.table("public.t")
        with client.transaction():
            assert table.scan().count() == 100
            lake.execute("INSERT INTO t SELECT * REPLACE (1000 AS id) FROM t LIMIT 1")
            later = lake.snapshots()[-1]
            lake.detach()
            with pytest.raises(NotFoundError, match=f"no snapshot {later} in this transaction"):
                table.scan(version=later).to_arrow()
            assert table.scan(timestamp="2999-12-31").count() == 100
        assert table.scan(version=later).count() == 101

"""Replays a recorded theme against a server, as the client would: each reply is read and compared.

Two ways to address objects are replayed: with the descriptors of the recording, which a person
could have written, and with those that our own listing publishes, which a client echoes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import msgpack
import pyarrow as pa
from pyarrow import flight

from tests.transcripts import comparison, exchanges, reply_checks
from tests.transcripts.catalog import recorded_listing, recorded_rows
from tests.transcripts.client_state import Descriptors, Knowledge, Path, texts
from tests.transcripts.duckdb_side import DuckDBSide, attached_as
from tests.transcripts.failures import ExpectedToFail, gets_of, same_failure
from tests.transcripts.recording import Rpc, Statement
from tests.transcripts.replay_client import CallFailedError, OpenExchange, ReplayClient
from tests.transcripts.reply_checks import Listing, require

__all__ = ["Descriptors", "Replay"]

_ROWID_ID = 2**64 - 1
_DDL_TABLE_ACTIONS = {
    "create_table",
    "add_column",
    "remove_column",
    "rename_column",
    "rename_table",
    "change_column_type",
    "set_default",
    "set_not_null",
    "drop_not_null",
    "add_field",
    "remove_field",
    "rename_field",
}


@dataclass(repr=False)
class ScanReplay:
    """A scan as it was asked for, and what came back."""

    catalog: str
    path: Path
    bound: pa.Schema
    column_ids: Sequence[int]
    has_filter: bool
    rows: pa.Table
    recorded: comparison.RecordedRows

    @property
    def columns(self) -> list[str]:
        """The names of the columns that the client reads."""
        visible = [f.name for f in self.bound if not _is_rowid(f)]
        rowid = [f.name for f in self.bound if _is_rowid(f)]
        names = [rowid[0] if n == _ROWID_ID else visible[n] for n in self.column_ids]
        return list(dict.fromkeys(names))


class Replay:
    """A client that plays a theme statement by statement."""

    def __init__(
        self,
        wire: ReplayClient,
        descriptors: Descriptors = Descriptors.RECORDED,
        *,
        default_catalog: str = "db1",
        first_version: int = 0,
    ) -> None:
        self.wire = wire
        self.duckdb = DuckDBSide()
        self.failures: list[CallFailedError] = []
        """The error replies of the statement that was run last."""
        self._known = Knowledge(descriptors, default_catalog, first_version)
        self._aliases: dict[str, str] = {}
        self._scans: list[ScanReplay] = []
        self._counts: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wire.close()
        self.duckdb.close()

    def run(self, statement: Statement, *, compare: bool = True) -> None:
        """Send the requests of a statement and check every reply.

        A request that failed when it was recorded must fail now, and the other way round. Without
        `compare` replies only have to be acceptable: the recording server misbehaved.
        """
        self._follow_session(statement)
        self._scans, self._counts, self.failures = [], [], []
        opened: list[OpenExchange] = []
        for rpc in statement.rpcs:
            with self._expected_to_fail(rpc, statement, compare):
                if rpc.method == "DoExchange":
                    opened.append(self._open_exchange(rpc))
                else:
                    self._send(rpc, statement, compare)
        # Rows flow once the scans that feed them are read, as in the client's pipelines.
        for exchange in opened:
            with self._expected_to_fail(exchange.rpc, statement, compare, at_end=True):
                self._finish_exchange(exchange, compare)
        if compare:
            same_failure(self.failures, statement.outcome)
            self._check_outcome(statement)

    # -- one request ------------------------------------------------------------------------

    def _send(self, rpc: Rpc, statement: Statement, compare: bool) -> None:
        match rpc.method, rpc.action:
            case (("HTTP GET" | "DoGet"), _):
                # Contents come inline here, and a DoGet is read with its endpoints.
                return
            case "GetFlightInfo", _:
                self._get_flight_info(rpc)
            case "ListFlights", _:
                self._list_flights(rpc)
            case _, "endpoints":
                self._endpoints(rpc, statement, compare)
            case _, "column_statistics":
                self._column_statistics(rpc, compare)
            case _, action if action in _DDL_TABLE_ACTIONS:
                self._change_table(rpc)
            case _, action:
                handlers: dict[str, Callable[[Rpc], object]] = {
                    "create_transaction": self._create_transaction,
                    "catalog_version": self._catalog_version,
                    "list_schemas": self._list_schemas,
                    "flight_info": self._flight_info,
                    "table_function_flight_info": self._table_function_flight_info,
                    "create_schema": self._create_schema,
                }
                handlers.get(action, self._results)(rpc)

    def _create_transaction(self, rpc: Rpc) -> None:
        ours = reply_checks.check_transaction(self._result(rpc))
        if not rpc.results:
            return
        recorded = reply_checks.check_transaction(rpc.results[0])
        require((ours is None) == (recorded is None), "create_transaction: support differs")
        if recorded is not None:
            self._known.transactions[recorded] = ours

    def _catalog_version(self, rpc: Rpc) -> None:
        _, is_fixed = reply_checks.check_catalog_version(self._result(rpc))
        if rpc.results:
            _, recorded = reply_checks.check_catalog_version(rpc.results[0])
            require(is_fixed == recorded, "catalog_version: is_fixed differs")

    def _list_schemas(self, rpc: Rpc) -> None:
        catalog = _field(rpc, "catalog_name")
        ours = reply_checks.check_list_schemas(self._result(rpc), catalog)
        recorded = _recorded_listing(rpc, catalog)
        comparison.same_listing(ours, recorded)
        self._known.learn_listing(catalog, ours, recorded)
        for alias, attached in self._aliases.items():
            if attached == catalog:
                self.duckdb.define(alias, ours)

    def _list_flights(self, rpc: Rpc) -> None:
        catalog = rpc.header("airport-list-flights-filter-catalog")
        schema = rpc.header("airport-list-flights-filter-schema")
        infos = self.wire.list_flights(rpc.criteria, self._known.headers(rpc))
        if not schema:
            require(infos, "ListFlights lists nothing")
            return
        ours = reply_checks.flight_entries(infos, schema, catalog)
        recorded = reply_checks.flight_entries(
            (flight.FlightInfo.deserialize(info) for info in rpc.reply), schema, catalog
        )
        comparison.same_entries(ours, recorded)

    def _get_flight_info(self, rpc: Rpc) -> None:
        descriptor = flight.FlightDescriptor.deserialize(rpc.descriptor)
        info = self.wire.flight_info(descriptor, self._known.headers(rpc))
        reply_checks.check_flight_info(info, rpc.descriptor)
        recorded = flight.FlightInfo.deserialize(rpc.reply[0]) if rpc.reply else None
        if recorded is not None:
            comparison.has_columns(info.schema, recorded.schema)
        self._known.bound[rpc.descriptor, b"", b"", b""] = info.schema

    def _flight_info(self, rpc: Rpc) -> None:
        request = self._known.request(rpc)
        schema, _ = self._known.path(rpc)
        info = reply_checks.check_flight_info(
            self._result(rpc), request[b"descriptor"], as_table=(self._known.catalog(rpc), schema)
        )
        if rpc.results:
            recorded = flight.FlightInfo.deserialize(rpc.results[0])
            comparison.same_columns(info.schema, recorded.schema)
        key = (request[b"descriptor"], request[b"at_unit"], request[b"at_value"], b"")
        self._known.bound[key] = info.schema

    def _table_function_flight_info(self, rpc: Rpc) -> None:
        request = self._known.request(rpc)
        info = reply_checks.check_flight_info(self._result(rpc), request[b"descriptor"])
        if rpc.results:
            recorded = flight.FlightInfo.deserialize(rpc.results[0])
            comparison.same_columns(info.schema, comparison.without_dictionaries(recorded.schema))
        key = (request[b"descriptor"], b"", b"", request[b"parameters"])
        self._known.bound[key] = info.schema

    def _endpoints(self, rpc: Rpc, statement: Statement, compare: bool) -> None:
        endpoints = reply_checks.check_endpoints(self._result(rpc))
        if rpc.results and compare:
            comparison.same_endpoints(endpoints, reply_checks.check_endpoints(rpc.results[0]))
        bound = self._known.bound_schema(rpc)
        gets = gets_of(rpc, statement)
        headers = self._known.headers(gets[0] if gets else rpc)
        streams = [
            self.wire.get(endpoint.ticket, headers)
            for endpoint in endpoints
            if not endpoint.locations[0].uri.startswith(b"data:")
        ]
        tables = [reply_checks.check_stream(stream, bound) for stream in streams]
        parameters = texts(self._known.request(rpc)[b"parameters"])
        scan = ScanReplay(
            catalog=self._known.catalog(rpc),
            path=self._known.path(rpc),
            bound=bound,
            column_ids=parameters["column_ids"],
            has_filter=comparison.has_filter(parameters["json_filters"]),
            rows=pa.concat_tables([_no_rows(bound), *tables]),
            recorded=comparison.RecordedRows.of(gets),
        )
        self._scans.append(scan)
        if gets and compare:
            comparison.same_scan(
                scan.rows, scan.recorded, scan.columns, json_filters=parameters["json_filters"]
            )

    def _column_statistics(self, rpc: Rpc, compare: bool) -> None:
        entry = self._known.table(self._known.catalog(rpc), self._known.path(rpc))
        assert entry is not None
        column = _field(rpc, "column_name")
        type = entry.schema.field(column).type
        ours = reply_checks.check_statistics(self._result(rpc), type)
        rows = recorded_rows().get((entry.schema_name, entry.name))
        if rows is not None:
            comparison.true_statistics(ours, rows.column(column))
        if compare and rpc.results:
            with pa.ipc.open_stream(rpc.results[0]) as stream:
                comparison.same_statistics(ours, stream.read_next_batch().to_pylist()[0])

    # -- definitions ------------------------------------------------------------------------

    def _create_schema(self, rpc: Rpc) -> None:
        catalog, name = _field(rpc, "catalog_name"), _field(rpc, "schema")
        reply = msgpack.unpackb(self._result(rpc), strict_map_key=True)
        entries = reply_checks.check_contents(reply, name, catalog, {})
        require(not entries, f"create_schema: {name} is not empty")
        for alias, attached in self._aliases.items():
            if attached == catalog:
                self.duckdb.create_schema(alias, name)

    def _change_table(self, rpc: Rpc) -> None:
        request = texts(self._known.request(rpc))
        catalog = str(request.get("catalog_name", request.get("catalog")))
        schema = str(request.get("schema_name", request.get("schema")))
        info = flight.FlightInfo.deserialize(self._result(rpc))
        (entry,) = reply_checks.flight_entries([info], schema, catalog)
        recorded = replace(entry, descriptor=flight.FlightDescriptor.for_path(schema, entry.name))
        if rpc.results:
            recorded_info = flight.FlightInfo.deserialize(rpc.results[0])
            (recorded,) = reply_checks.flight_entries([recorded_info], schema, catalog)
            comparison.same_entries([entry], [recorded], any_layout=True)
        self._known.learn(catalog, entry, recorded)
        for alias, attached in self._aliases.items():
            if attached == catalog:
                self.duckdb.define_table(alias, entry)

    # -- exchanges --------------------------------------------------------------------------

    def _open_exchange(self, rpc: Rpc) -> OpenExchange:
        recorded = flight.FlightDescriptor.deserialize(rpc.descriptor)
        descriptor = self._known.address(self._known.catalog(rpc), recorded)
        return self.wire.exchange(rpc, descriptor, self._known.headers(rpc))

    def _finish_exchange(self, exchange: OpenExchange, compare: bool) -> None:
        answers = exchange.finish()
        rpc = exchange.rpc
        operation = rpc.header("airport-operation")
        if operation == "scalar_function":
            declared = self._known.scalar_function(rpc)
            exchanges.same_scalar_answers(answers, rpc, declared, values=compare)
        elif operation == "table_function_in_out":
            exchanges.same_in_out_answers(answers, rpc, values=compare)
        else:
            returning = rpc.header("return-chunks") == "1"
            changed = exchanges.same_changes(answers, rpc, operation, returning=returning)
            self._counts.append(changed)

    # -- what the user sees -----------------------------------------------------------------

    def _check_outcome(self, statement: Statement) -> None:
        outcome = statement.outcome
        if outcome.error or any(rpc.error for rpc in statement.rpcs):
            return
        if self._counts and outcome.columns[:1] == (("Count", "BIGINT"),):
            require(self._counts == [outcome.rows[0][0]], f"{statement.sql}: {self._counts} rows")
            return
        if not self._is_comparable(statement):
            return
        with_rowid = "rowid" in statement.sql.replace("rowid_", "").replace("_rowid", "")
        for scan in self._scans:
            for alias in self._aliases_of(scan.catalog):
                self.duckdb.fill((alias, *scan.path), scan.rows, with_rowid=with_rowid)
        self.duckdb.check(statement)

    def _is_comparable(self, statement: Statement) -> bool:
        """Whether running the statement over the received rows must give the recorded ones."""
        paths = [(scan.catalog, scan.path) for scan in self._scans]
        scanned_once = len(set(paths)) == len(paths)
        on_client = any(_has_data_uris(rpc) for rpc in statement.rpcs if rpc.action == "endpoints")
        known = all(self._known.table(*path) is not None for path in paths)
        return bool(self._scans) and scanned_once and known and not on_client and not self._counts

    def _aliases_of(self, catalog: str) -> list[str]:
        return [alias for alias, attached in self._aliases.items() if attached == catalog]

    def _follow_session(self, statement: Statement) -> None:
        if statement.outcome.error:
            return
        attached = attached_as(statement.sql)
        if attached is not None:
            self._aliases[attached[1]] = attached[0]
            self.duckdb.attach(attached[1])
        elif statement.sql.startswith("DETACH "):
            del self._aliases[statement.sql.split()[1]]
            self.duckdb.detach(statement.sql.split()[1])
        elif statement.sql.startswith(("USE ", "PREPARE ")) and "utils" not in statement.sql:
            self.duckdb.prepare(statement)

    # -- requests ---------------------------------------------------------------------------

    def _results(self, rpc: Rpc) -> list[bytes]:
        return self.wire.action(rpc.action, self._known.body(rpc), self._known.headers(rpc))

    def _result(self, rpc: Rpc) -> bytes:
        return reply_checks.check_one_result(self._results(rpc), rpc.action)

    def _expected_to_fail(
        self, rpc: Rpc, statement: Statement, compare: bool, *, at_end: bool = False
    ) -> ExpectedToFail:
        return ExpectedToFail(rpc, statement, self.failures, strict=compare, at_end=at_end)


def _recorded_listing(rpc: Rpc, catalog: str) -> Listing:
    """The recorded reply; contents that came in another way, or not at all, are those of `db1`."""
    full = recorded_listing("db1")
    if not rpc.results:
        return full
    recorded = reply_checks.check_list_schemas(rpc.results[0], catalog)
    if any(schema.entries for schema in recorded.schemas):
        return recorded
    by_name = {schema.name: schema for schema in full.schemas}
    return replace(
        recorded,
        schemas=tuple(
            replace(schema, entries=by_name[schema.name].entries) for schema in recorded.schemas
        ),
    )


def _has_data_uris(rpc: Rpc) -> bool:
    parts = msgpack.unpackb(rpc.results[0]) if rpc.results else []
    endpoints = [flight.FlightEndpoint.deserialize(part) for part in parts]
    return any(e.locations and e.locations[0].uri.startswith(b"data:") for e in endpoints)


def _field(rpc: Rpc, name: str) -> str:
    value: bytes = msgpack.unpackb(rpc.body, raw=True)[name.encode()]
    return value.decode()


def _no_rows(schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches([], schema)


def _is_rowid(field: pa.Field) -> bool:
    return bool((field.metadata or {}).get(b"is_rowid"))

"""A client that sends what DuckDB's airport client sends for a statement, call by call.

That client cannot be installed everywhere, so its recorded calls are the model: one connection for
the whole process; for each statement `create_transaction`, `catalog_version`, two rounds of
`column_statistics` over the columns that the statement uses, `endpoints`, and one DoGet for each
endpoint, several at once. DuckDB runs the statement while the batches arrive, and keeps none.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import msgpack
import pyarrow as pa
from pyarrow import flight

from lakeport.filters import parse_sql_filter
from lakeport.filters.json import to_json
from lakeport.types import Column

__all__ = ["Statement", "StatementClient", "statement_client"]

_CATALOG: Final = "lake"
_SCHEMA: Final = "public"
_ROWID: Final = 2**64 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A statement over one table, and what DuckDB requests for it."""

    name: str
    sql: str
    """With `{table}` for the name of the table."""
    columns: tuple[str, ...] | None = None
    """The columns that it reads; None for all, an empty tuple for those of `count(*)`."""
    filter: str = ""
    """The predicate that DuckDB pushes down, in SQL."""
    limit: int | None = None
    """After so many rows the client cancels its scan."""


class StatementClient:
    """A DuckDB process that has attached a server and listed one table."""

    def __init__(self, client: flight.FlightClient, location: str, table: str) -> None:
        self._client = client
        self._location = location
        self._session = str(uuid.uuid4())
        self._duckdb = duckdb.connect()
        self._thread_count = 0
        self._info = self._listed(table)
        # DuckDB names types in `column_statistics`.
        bound = self._duckdb.from_arrow(self._info.schema.empty_table())
        self._types = dict(zip(bound.columns, map(str, bound.types), strict=True))
        self._rowid = [f.name for f in self._info.schema if (f.metadata or {}).get(b"is_rowid")]
        self.calls = 0
        """How many calls were sent."""

    def run(self, statement: Statement) -> list[tuple[Any, ...]]:
        """Send the calls of a statement and return its rows."""
        identifier = self._transaction()
        self._action("catalog_version", {"catalog_name": _CATALOG})
        headers = [
            (b"airport-trace-id", str(uuid.uuid4()).encode()),
            (b"airport-transaction-id", identifier.encode()),
        ]
        columns = self._columns(statement)
        descriptor = self._info.descriptor.serialize()
        if columns and _produces_statistics(self._info.schema):
            for name in (*columns, *columns):
                request = {"flight_descriptor": descriptor, "column_name": name}
                request["type"] = self._types[name]
                self._action("column_statistics", request, headers)
        path = "/".join(part.decode() for part in self._info.descriptor.path)
        headers.append((b"airport-flight-path", path.encode()))
        parameters = {
            "json_filters": self._json_filter(statement, columns),
            "column_ids": self._column_ids(columns),
            "table_function_parameters": "",
            "table_function_input_schema": "",
            "at_unit": "",
            "at_value": "",
        }
        reply = self._action(
            "endpoints", {"descriptor": descriptor, "parameters": parameters}, headers
        )
        endpoints = [flight.FlightEndpoint.deserialize(raw) for raw in msgpack.unpackb(reply)]
        # Columns that were not requested have no values, and may have no type.
        wanted = list(columns) or self._info.schema.names[-1:]
        return self._execute(statement, wanted, self._open(endpoints, headers))

    def close(self) -> None:
        """Release DuckDB."""
        self._duckdb.close()

    def _execute(
        self, statement: Statement, columns: Sequence[str], streams: list[flight.FlightStreamReader]
    ) -> list[tuple[Any, ...]]:
        """Run a statement over streams; DuckDB ends them when it has enough rows."""
        names = [f"part_{number}" for number in range(len(streams))]
        self._use_threads(len(streams))
        for name, stream in zip(names, streams, strict=True):
            self._duckdb.register(name, _capsule(stream, columns))
        parts = " UNION ALL ".join(f"FROM {name}" for name in names)
        try:
            query = statement.sql.format(table=f"({parts})")
            rows: list[tuple[Any, ...]] = self._duckdb.execute(query).fetchall()
        finally:
            for name, stream in zip(names, streams, strict=True):
                stream.cancel()
                self._duckdb.unregister(name)
        return rows

    def _use_threads(self, count: int) -> None:
        """Let DuckDB use one thread for each endpoint, as a scan of the airport client does."""
        if count != self._thread_count:
            self._duckdb.execute(f"SET threads = {count}")
            self._thread_count = count

    def _columns(self, statement: Statement) -> tuple[str, ...]:
        if statement.columns is not None:
            return statement.columns
        return tuple(name for name in self._info.schema.names if name not in self._rowid)

    def _column_ids(self, columns: Sequence[str]) -> list[int]:
        if not columns:
            return [_ROWID if self._rowid else 0]
        visible = [name for name in self._info.schema.names if name not in self._rowid]
        return [visible.index(name) for name in columns]

    def _json_filter(self, statement: Statement, columns: Sequence[str]) -> str:
        if not statement.filter:
            # The names are those of the columns that are read; `count(*)` has none.
            document = {"filters": [], "column_binding_names_by_index": list(columns)}
            return json.dumps(document, separators=(",", ":"))
        typed = [
            Column(id=number, name=name, type=_LAKE_TYPES[self._types[name]])
            for number, name in enumerate(columns)
            if self._types[name] in _LAKE_TYPES
        ]
        return to_json(parse_sql_filter(statement.filter, typed))

    def _open(
        self, endpoints: Sequence[flight.FlightEndpoint], headers: list[tuple[bytes, bytes]]
    ) -> list[flight.FlightStreamReader]:
        self.calls += len(endpoints)
        options = self._options(headers)
        return [self._client.do_get(endpoint.ticket, options) for endpoint in endpoints]

    def _transaction(self) -> str:
        reply = self._action("create_transaction", {"catalog_name": _CATALOG})
        return str(msgpack.unpackb(reply)["identifier"])

    def _listed(self, table: str) -> flight.FlightInfo:
        self.calls = 0
        root = _unpack(self._action("list_schemas", {"catalog_name": _CATALOG}))
        (schema,) = (schema for schema in root["schemas"] if schema["name"] == _SCHEMA)
        for raw in _unpack(schema["contents"]["serialized"]):
            info = flight.FlightInfo.deserialize(raw)
            if msgpack.unpackb(info.app_metadata)["name"] == table:
                return info
        raise LookupError(f"the server lists no table {table}")

    def _action(
        self, name: str, request: dict[str, Any], headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> bytes:
        self.calls += 1
        options = self._options([(b"airport-action-name", name.encode()), *headers])
        results = self._client.do_action(flight.Action(name, msgpack.packb(request)), options)
        (reply,) = [result.body.to_pybytes() for result in results]
        return bytes(reply)

    def _options(self, headers: Sequence[tuple[bytes, bytes]]) -> flight.FlightCallOptions:
        usual = [
            (b"airport-user-agent", b"airport/20250723"),
            (b"authority", self._location.encode()),
            (b"airport-client-session-id", self._session.encode()),
            (b"airport-catalog", _CATALOG.encode()),
        ]
        return flight.FlightCallOptions(headers=[*usual, *headers])


@contextmanager
def statement_client(location: str, table: str) -> Iterator[StatementClient]:
    """Attach a server and list a table."""
    with flight.connect(location) as connection:
        client = StatementClient(connection, location, table)
        try:
            yield client
        finally:
            client.close()


# The types of the columns that the filters of the benchmarks use.
_LAKE_TYPES: Final = {"BIGINT": "int64", "INTEGER": "int32", "DOUBLE": "float64", "DATE": "date"}


def _produces_statistics(schema: pa.Schema) -> bool:
    return bool((schema.metadata or {}).get(b"can_produce_statistics"))


def _capsule(stream: flight.FlightStreamReader, columns: Sequence[str]) -> object:
    """Return some columns of a stream in the form that DuckDB reads without a scanner of Arrow."""
    kept = pa.schema([stream.schema.field(name) for name in columns])
    batches = (chunk.data.select(columns) for chunk in stream)
    return pa.RecordBatchReader.from_batches(kept, batches).__arrow_c_stream__()


def _unpack(container: bytes) -> Any:
    length, data = msgpack.unpackb(container)
    return msgpack.unpackb(pa.decompress(data, length, "zstd", asbytes=True))

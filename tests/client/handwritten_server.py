"""An Airport server written by hand from the protocol, which keeps every call that it sees.

It shares no code with Lakeport, checks what clients send as strictly as the protocol allows, and
any of its replies can be replaced to see what a client makes of it.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgpack
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import flight

REUSE = "arrow-flight-reuse-connection://?"
ROWID_COLUMN = 2**64 - 1
NO_CONTENTS: dict[str, Any] = {"sha256": "", "url": None, "serialized": None}


@dataclass(frozen=True)
class Seen:
    """A call that the server saw."""

    method: str
    name: str
    headers: Mapping[str, list[str]]
    body: bytes = b""

    @property
    def request(self) -> dict[str, Any]:
        """The msgpack map of the body, with text keys."""
        return decoded(msgpack.unpackb(self.body, raw=True))

    def header(self, name: str) -> str | None:
        values = self.headers.get(name)
        return values[0] if values else None


@dataclass
class HandTable:
    """Rows with a stable rowid."""

    schema: pa.Schema
    """Without the rowid."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    """Each with its `rowid`."""
    comment: str | None = None

    @property
    def full_schema(self) -> pa.Schema:
        rowid = pa.field("rowid", pa.int64(), metadata={"is_rowid": "1"})
        return pa.schema([*self.schema, rowid], metadata=self.schema.metadata)


Reply = bytes | list[bytes] | Exception | Callable[[dict[str, Any]], Any]


class _Headers(flight.ServerMiddleware):  # type: ignore[misc]
    def __init__(self, headers: Mapping[str, list[str]]) -> None:
        self.headers = headers


class _HeaderFactory(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    def start_call(self, info: Any, headers: Mapping[str, list[str]]) -> _Headers:
        return _Headers(dict(headers))


class HandwrittenServer(flight.FlightServerBase):  # type: ignore[misc]
    """One catalog with the schema `w`; `replies` replaces the reply to an action."""

    def __init__(self, catalog: str = "db") -> None:
        super().__init__("grpc://127.0.0.1:0", middleware={"headers": _HeaderFactory()})
        self.catalog = catalog
        self.tables: dict[str, HandTable] = {}
        self.functions: list[flight.FlightInfo] = []
        self.replies: dict[str, Reply] = {}
        self.seen: list[Seen] = []
        self.committed: list[str] = []
        self.exchange: Callable[[Any, Any], None] | None = None
        self.stream: Callable[[], Any] | None = None
        self.is_fixed = False
        self.outcomes: list[str] = []
        self.exchange_over = threading.Event()
        self._next_rowid = 100
        self._lock = threading.Lock()

    @property
    def location(self) -> str:
        return f"grpc://127.0.0.1:{self.port}"

    def actions_seen(self) -> list[str]:
        return [each.name for each in self.seen if each.method == "DoAction"]

    def calls_seen(self) -> list[str]:
        return [each.name or each.method for each in self.seen]

    def last(self, name: str) -> Seen:
        return next(s for s in reversed(self.seen) if name in (s.name, s.method))

    def table_info(self, name: str) -> flight.FlightInfo:
        table = self.tables[name]
        metadata = {"type": "table", "schema": "w", "catalog": self.catalog, "name": name}
        metadata["comment"] = table.comment or ""
        return flight_info(table.full_schema, ["w", name], metadata)

    def contents(self) -> bytes:
        infos = [self.table_info(name) for name in self.tables] + self.functions
        return container(msgpack.packb([info.serialize() for info in infos]))

    def list_schemas(self) -> bytes:
        blob = self.contents()
        digest = hashlib.sha256(blob).hexdigest()
        return catalog_root(
            [{"name": "w", "contents": {"sha256": digest, "url": None, "serialized": blob}}],
            is_fixed=self.is_fixed,
        )

    # The verbs

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        return [("commit_transaction", ""), ("rollback_transaction", "")]

    def do_action(self, context: Any, action: Any) -> list[bytes]:
        body = action.body.to_pybytes()
        self._record(context, "DoAction", action.type, body)
        reply = self.replies.get(action.type)
        request = decoded(msgpack.unpackb(body, raw=True)) if body[:1] >= b"\x80" else {}
        if callable(reply):
            reply = reply(request)
        if isinstance(reply, Exception):
            raise reply
        if reply is None:
            reply = self._answer(action.type, request)
        return reply if isinstance(reply, list) else [reply]

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        self._record(context, "GetFlightInfo", "", descriptor.serialize())
        reply = self.replies["GetFlightInfo"]
        assert callable(reply)
        return reply({"descriptor": descriptor})

    def list_flights(self, context: Any, criteria: bytes) -> Iterator[Any]:
        self._record(context, "ListFlights", "", criteria)
        yield from (self.table_info(name) for name in self.tables)
        yield from self.functions

    def do_get(self, context: Any, ticket: Any) -> Any:
        self._record(context, "DoGet", "", ticket.ticket)
        if self.stream is not None:
            return self.stream()
        table = self.tables[ticket.ticket.decode()]
        return flight.RecordBatchStream(pa.Table.from_pylist(table.rows, table.full_schema))

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        headers = self._record(context, "DoExchange", "", descriptor.serialize()).headers
        try:
            if self.exchange is not None:
                self.exchange(reader, writer)
            else:
                self._change(headers, descriptor, reader, writer)
            self.outcomes.append("ended")
        except Exception:
            self.outcomes.append("failed")
            raise
        finally:
            self.exchange_over.set()

    # The replies

    def _answer(self, name: str, request: dict[str, Any]) -> Any:
        answer = getattr(self, f"_on_{name}", None)
        if answer is None:
            raise NotImplementedError(f"there is no action {name}")
        return answer(request)

    def _on_list_schemas(self, request: dict[str, Any]) -> bytes:
        assert request == {"catalog_name": self.catalog.encode()}
        return self.list_schemas()

    def _on_catalog_version(self, request: dict[str, Any]) -> bytes:
        return packed({"catalog_version": 7, "is_fixed": self.is_fixed})

    def _on_create_transaction(self, request: dict[str, Any]) -> bytes:
        count = self.actions_seen().count("create_transaction")
        return packed({"identifier": f"tx{count}"})

    def _on_commit_transaction(self, request: dict[str, Any]) -> bytes:
        self.committed.append(request["transaction_id"].decode())
        return b"committed"

    def _on_rollback_transaction(self, request: dict[str, Any]) -> list[bytes]:
        return []

    def _on_endpoints(self, request: dict[str, Any]) -> bytes:
        descriptor = flight.FlightDescriptor.deserialize(request["descriptor"])
        return endpoints(flight.FlightEndpoint(descriptor.path[-1], [REUSE]))

    def _on_flight_info(self, request: dict[str, Any]) -> bytes:
        descriptor = flight.FlightDescriptor.deserialize(request["descriptor"])
        return bytes(self.table_info(descriptor.path[-1].decode()).serialize())

    def _on_create_schema(self, request: dict[str, Any]) -> bytes:
        return packed({**NO_CONTENTS, "serialized": container(msgpack.packb([]))})

    def _on_drop_schema(self, request: dict[str, Any]) -> list[bytes]:
        return []

    def _on_create_table(self, request: dict[str, Any]) -> bytes:
        schema = pa.ipc.read_schema(pa.py_buffer(request["arrow_schema"]))
        name = request["table_name"].decode()
        self.tables.setdefault(name, HandTable(schema))
        return bytes(self.table_info(name).serialize())

    def _on_drop_table(self, request: dict[str, Any]) -> list[bytes]:
        del self.tables[request["name"].decode()]
        return []

    def _on_rename_table(self, request: dict[str, Any]) -> bytes:
        new_name = request["new_table_name"].decode()
        self.tables[new_name] = self.tables.pop(request["name"].decode())
        return bytes(self.table_info(new_name).serialize())

    def _on_add_column(self, request: dict[str, Any]) -> bytes:
        table = self.tables[request["name"].decode()]
        column = pa.ipc.read_schema(pa.py_buffer(request["column_schema"]))
        table.schema = pa.schema([*table.schema, *column])
        return self._same(request)

    def _same(self, request: dict[str, Any]) -> bytes:
        return bytes(self.table_info(request["name"].decode()).serialize())

    _on_remove_column = _on_rename_column = _on_change_column_type = _on_set_default = _same
    _on_set_not_null = _on_drop_not_null = _on_add_field = _on_remove_field = _same
    _on_rename_field = _same

    # Changes of rows

    def _change(self, headers: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        operation, returns = headers["airport-operation"][0], headers["return-chunks"][0] == "1"
        table = self.tables[descriptor.path[-1].decode()]
        received = reader.schema
        assert all(each.nullable and not each.metadata for each in received)
        reply = received if operation == "update" else table.schema
        writer.begin(reply if returns else pa.schema([]))
        changed = 0
        while True:
            try:
                chunk = reader.read_chunk()
            except StopIteration:
                break
            assert chunk.data is not None
            assert 0 < chunk.data.num_rows <= 2048
            rows = getattr(self, f"_{operation}")(table, chunk.data)
            changed += len(rows)
            if returns:
                writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=reply))
        writer.write_metadata(msgpack.packb({"total_changed": changed}))

    def _insert(self, table: HandTable, batch: pa.RecordBatch) -> list[dict[str, Any]]:
        assert batch.schema.names == table.schema.names
        added: list[dict[str, Any]] = batch.to_pylist()
        with self._lock:
            for row in added:
                row["rowid"] = self._next_rowid
                self._next_rowid += 1
            table.rows.extend(added)
        return added

    def _update(self, table: HandTable, batch: pa.RecordBatch) -> list[dict[str, Any]]:
        assert batch.schema.names[-1] == "rowid"
        changes = {row["rowid"]: row for row in batch.to_pylist()}
        for row in table.rows:
            row.update(changes.get(row["rowid"], {}))
        return list(changes.values())

    def _delete(self, table: HandTable, batch: pa.RecordBatch) -> list[dict[str, Any]]:
        assert batch.schema.names == ["rowid"]
        gone = set(pc.unique(batch.column(0)).to_pylist())
        deleted = [row for row in table.rows if row["rowid"] in gone]
        table.rows = [row for row in table.rows if row["rowid"] not in gone]
        return deleted

    def _record(self, context: Any, method: str, name: str, body: bytes) -> Seen:
        call = Seen(method, name, context.get_middleware("headers").headers, body)
        with self._lock:
            self.seen.append(call)
        return call


def decoded(fields: dict[bytes, Any]) -> dict[str, Any]:
    return {key.decode(): value for key, value in fields.items()}


def packed(value: Any) -> bytes:
    return bytes(msgpack.packb(value))


def container(raw: bytes) -> bytes:
    return packed([len(raw), pa.compress(raw, codec="zstd", asbytes=True)])


def catalog_root(
    schemas: list[dict[str, Any]],
    *,
    is_fixed: bool = True,
    contents: dict[str, Any] | None = None,
) -> bytes:
    root = {
        "contents": contents or NO_CONTENTS,
        "schemas": [{"description": "", "tags": {}, **schema} for schema in schemas],
        "version_info": {"catalog_version": 1, "is_fixed": is_fixed},
    }
    return container(packed(root))


def flight_info(
    schema: pa.Schema, path: list[str], metadata: dict[str, Any] | None
) -> flight.FlightInfo:
    return flight.FlightInfo(
        schema,
        flight.FlightDescriptor.for_path(*path),
        [],
        -1,
        -1,
        False,
        b"" if metadata is None else packed(metadata),
    )


def endpoints(*each: flight.FlightEndpoint) -> bytes:
    return packed([endpoint.serialize() for endpoint in each])

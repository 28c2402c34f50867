"""A raw Flight client that speaks the client's side of the protocol, byte by byte.

It knows the wire as documented, and nothing of the server's own code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import msgpack
import pyarrow as pa
from pyarrow import flight

from lakeport.airport import Server
from tests.wait import TIMEOUT_SECONDS

__all__ = [
    "CHUNK_CONTINUES",
    "CHUNK_FINISHED",
    "ROWID_COLUMN",
    "Exchanged",
    "RawFlightClient",
    "Serving",
    "extra_info",
    "ipc",
    "one_row",
    "open_container",
    "opening",
    "path",
    "schema_items",
    "started",
]

Serving = Callable[..., "RawFlightClient"]
"""The fixture `start_server`: starts a server for a catalog and returns a client of it."""

ROWID_COLUMN = 2**64 - 1
CHUNK_CONTINUES = b"chunk_continues"
CHUNK_FINISHED = b"chunk_finished"


@contextmanager
def started() -> Iterator[Serving]:
    """A function that starts servers; all of them are stopped at the end of the block."""
    with ExitStack() as stack:

        def start(
            catalogs: Any, *, headers: dict[str, str] | None = None, **options: Any
        ) -> RawFlightClient:
            server = stack.enter_context(Server(catalogs, **options))
            client = stack.enter_context(flight.FlightClient(server.location))
            return RawFlightClient(server, client, headers or {})

        yield start


def path(*parts: str) -> flight.FlightDescriptor:
    return flight.FlightDescriptor.for_path(*parts)


def open_container(blob: bytes) -> Any:
    """The msgpack value inside a compressed container."""
    length, data = msgpack.unpackb(blob, raw=False)
    raw = pa.decompress(data, decompressed_size=length, codec="zstd", asbytes=True)
    return msgpack.unpackb(raw, raw=False)


def schema_items(contents: Mapping[str, Any]) -> list[flight.FlightInfo]:
    """The FlightInfos of one schema of a listing, after checking its digest as the client does."""
    blob = contents["serialized"]
    assert hashlib.sha256(blob).hexdigest() == contents["sha256"]
    return [flight.FlightInfo.deserialize(info) for info in open_container(blob)]


def extra_info(error: BaseException) -> Any:
    """The typed detail of an error, as the client decodes it; None without one."""
    detail = getattr(error, "extra_info", b"")
    return msgpack.unpackb(detail) if detail else None


@dataclass(frozen=True)
class Exchanged:
    """What came back from an exchange."""

    schema: pa.Schema
    replies: list[pa.RecordBatch]
    total_changed: int | None

    @property
    def rows(self) -> list[dict[str, Any]]:
        return pa.Table.from_batches(self.replies, self.schema).to_pylist()  # type: ignore[no-any-return]


class RawFlightClient:
    """One connection to a server, with headers that go out on every call."""

    def __init__(
        self, server: Any, client: flight.FlightClient, headers: Mapping[str, str]
    ) -> None:
        self.server = server
        self.client = client
        self.headers = dict(headers)

    def with_headers(self, **headers: str) -> RawFlightClient:
        """The same connection with more headers; underscores stand for dashes."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return RawFlightClient(self.server, self.client, {**self.headers, **named})

    def options(self, **headers: str) -> flight.FlightCallOptions:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        merged = {**self.headers, **named}
        return flight.FlightCallOptions(
            timeout=TIMEOUT_SECONDS,
            headers=[(k.encode(), v.encode()) for k, v in merged.items()],
        )

    def action(self, name: str, body: bytes = b"") -> list[bytes]:
        results = self.client.do_action(flight.Action(name, body), self.options())
        return [result.body.to_pybytes() for result in results]

    def call(self, action: str, /, **fields: Any) -> bytes:
        """The one result of an action with a msgpack body."""
        (result,) = self.action(action, msgpack.packb(fields))
        return result

    def list_schemas(self, catalog: str = "") -> Any:
        return open_container(self.call("list_schemas", catalog_name=catalog))

    def items(self, schema: str, catalog: str = "") -> dict[str, flight.FlightInfo]:
        """The contents of a schema by name, from the listing; overloads get `#2`, `#3`."""
        (entry,) = [s for s in self.list_schemas(catalog)["schemas"] if s["name"] == schema]
        found: dict[str, flight.FlightInfo] = {}
        for info in schema_items(entry["contents"]):
            name = msgpack.unpackb(info.app_metadata)["name"]
            count = sum(known.partition("#")[0] == name for known in found)
            found[f"{name}#{count + 1}" if count else name] = info
        return found

    def endpoints(
        self,
        descriptor: flight.FlightDescriptor,
        *,
        column_ids: Sequence[int] = (),
        filters: str = "",
        at: tuple[str, str] = ("", ""),
        arguments: bytes = b"",
    ) -> list[flight.FlightEndpoint]:
        """What DuckDB asks at the start of every scan."""
        reply = self.call(
            "endpoints",
            descriptor=descriptor.serialize(),
            parameters={
                "json_filters": filters,
                "column_ids": list(column_ids),
                "table_function_parameters": arguments,
                "table_function_input_schema": "",
                "at_unit": at[0],
                "at_value": at[1],
            },
        )
        return [flight.FlightEndpoint.deserialize(part) for part in msgpack.unpackb(reply)]

    def get(self, ticket: flight.Ticket | bytes) -> flight.FlightStreamReader:
        wrapped = ticket if isinstance(ticket, flight.Ticket) else flight.Ticket(ticket)
        return self.client.do_get(wrapped, self.options())

    def read(self, ticket: flight.Ticket | bytes) -> pa.Table:
        return self.get(ticket).read_all()

    def scan(self, descriptor: flight.FlightDescriptor, **parameters: Any) -> pa.Table:
        """All endpoints of a scan, one after the other."""
        found = self.endpoints(descriptor, **parameters)
        return pa.concat_tables([self.read(endpoint.ticket) for endpoint in found])

    def info(self, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        return self.client.get_flight_info(descriptor, self.options())

    @contextmanager
    def open_exchange(
        self, descriptor: flight.FlightDescriptor, operation: str, **headers: str
    ) -> Iterator[tuple[Any, Any]]:
        """Writer and reader of an exchange; the schema is up to the caller."""
        options = self.options(airport_operation=operation, **headers)
        writer, reader = self.client.do_exchange(descriptor, options)
        with writer:
            yield writer, reader

    def change(
        self,
        operation: str,
        descriptor: flight.FlightDescriptor,
        rows: pa.Table | Iterable[pa.RecordBatch],
        *,
        schema: pa.Schema | None = None,
        returning: bool = False,
    ) -> Exchanged:
        """A whole INSERT, UPDATE or DELETE, in the client's own order of messages."""
        batches = rows.to_batches() if isinstance(rows, pa.Table) else list(rows)
        columns = schema or (rows.schema if isinstance(rows, pa.Table) else batches[0].schema)
        flag = "1" if returning else "0"
        with self.open_exchange(descriptor, operation, return_chunks=flag) as (writer, reader):
            writer.begin(columns)
            reply_schema = reader.schema
            replies = []
            for batch in batches:
                writer.write_batch(batch)
                if returning:
                    chunk = reader.read_chunk()
                    assert chunk.data is not None
                    replies.append(chunk.data)
            writer.done_writing()
            last = reader.read_chunk()
            assert last.data is None
            total = msgpack.unpackb(last.app_metadata.to_pybytes())["total_changed"]
            return Exchanged(reply_schema, replies, total)

    def scalar(
        self, descriptor: flight.FlightDescriptor, batches: Sequence[pa.RecordBatch]
    ) -> tuple[pa.Schema, list[pa.RecordBatch]]:
        """A whole call of a scalar function."""
        with self.open_exchange(descriptor, "scalar_function", return_chunks="1") as (
            writer,
            reader,
        ):
            writer.begin(batches[0].schema)
            schema = reader.schema
            replies = []
            for batch in batches:
                writer.write_batch(batch)
                chunk = reader.read_chunk()
                assert chunk.app_metadata is None
                replies.append(chunk.data)
            writer.done_writing()
            assert list(reader) == []
            return schema, replies


def one_row(**values: Any) -> bytes:
    """Arguments as the client sends them: an IPC stream of one row."""
    arrays = [v if isinstance(v, pa.Array) else pa.array([v]) for v in values.values()]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(values))
    if not values:
        batch = pa.RecordBatch.from_struct_array(pa.array([{}], pa.struct([])))
    return ipc(batch)


def ipc(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def opening(arguments: bytes, *, filters: str = "") -> bytes:
    """The metadata with which the client begins an in-out call."""
    packed: bytes = msgpack.packb(
        {
            "json_filters": filters,
            "column_ids": [],
            "parameters": arguments,
            "at_unit": "",
            "at_value": "",
        }
    )
    return packed

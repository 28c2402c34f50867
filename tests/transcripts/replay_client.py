"""A raw Flight client that sends recorded requests and keeps what comes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import flight

from tests.transcripts.recording import Message, Rpc
from tests.transcripts.reply_checks import Stream, require
from tests.wait import TIMEOUT_SECONDS

__all__ = ["Answers", "CallFailedError", "Chunk", "OpenExchange", "ReplayClient"]

# The transport adds these by itself.
_OWN_HEADERS = {"user-agent", "authority", "host"}

_FINISHED = b"chunk_finished"

Headers = Mapping[str, Sequence[str]]
R = TypeVar("R")


class CallFailedError(Exception):
    """An error reply: what the client is told."""

    def __init__(self, method: str, error: Exception) -> None:
        super().__init__(str(error))
        self.method = method
        self.kind = type(error)
        self.message = str(error).partition("gRPC client debug context")[0].rstrip()
        self.detail: bytes = getattr(error, "extra_info", b"") or b""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A message of an exchange: rows, metadata, or both."""

    batch: pa.RecordBatch | None
    metadata: bytes | None


@dataclass
class Answers:
    """What a server sent during an exchange."""

    schema: pa.Schema
    per_batch: list[list[Chunk]] = field(default_factory=list)
    """The messages after each batch of the client."""
    at_end: list[Chunk] = field(default_factory=list)
    """The messages after the client was done."""


class ReplayClient:
    """Sends requests to one server."""

    def __init__(self, location: str) -> None:
        self._client = flight.FlightClient(location)

    def close(self) -> None:
        """Hang up."""
        self._client.close()

    def action(self, name: str, body: bytes, headers: Headers) -> list[bytes]:
        """The results of an action."""
        return _guarded(
            "DoAction",
            lambda: [
                result.body.to_pybytes()
                for result in self._client.do_action(flight.Action(name, body), _options(headers))
            ],
        )

    def flight_info(
        self, descriptor: flight.FlightDescriptor, headers: Headers
    ) -> flight.FlightInfo:
        """What GetFlightInfo tells."""
        return _guarded(
            "GetFlightInfo", lambda: self._client.get_flight_info(descriptor, _options(headers))
        )

    def list_flights(self, criteria: bytes, headers: Headers) -> list[flight.FlightInfo]:
        """What ListFlights lists."""
        return _guarded(
            "ListFlights", lambda: list(self._client.list_flights(criteria, _options(headers)))
        )

    def get(self, ticket: flight.Ticket, headers: Headers) -> Stream:
        """All messages of a DoGet."""

        def read() -> Stream:
            reader = self._client.do_get(ticket, _options(headers))
            schema, chunks = reader.schema, list(_chunks(reader))
            require(
                all(chunk.batch is not None for chunk in chunks),
                "DoGet sent a message without rows: the client takes it for the end",
            )
            return Stream(
                schema,
                tuple(chunk.batch for chunk in chunks),
                tuple(chunk.metadata for chunk in chunks),
            )

        return _guarded("DoGet", read)

    def exchange(
        self, rpc: Rpc, descriptor: flight.FlightDescriptor, headers: Headers
    ) -> OpenExchange:
        """Open an exchange as far as its schemas."""
        return _guarded("DoExchange", lambda: OpenExchange(self._client, rpc, descriptor, headers))


class OpenExchange:
    """A recorded exchange: opened when it arrived, finished when its rows are due."""

    def __init__(
        self,
        client: flight.FlightClient,
        rpc: Rpc,
        descriptor: flight.FlightDescriptor,
        headers: Headers,
    ) -> None:
        self.rpc = rpc
        sent = [message for message in rpc.messages if message.from_client]
        self._batches = [message for message in sent if message.batch is not None]
        self._writer, self._reader = client.do_exchange(descriptor, _options(headers))
        self._schema: pa.Schema | None = None
        for message in sent:
            if message.metadata is not None:
                self._writer.write_metadata(pa.py_buffer(message.metadata))
            elif message.schema is not None:
                self._begin(message.schema)

    def finish(self) -> Answers:
        """Send the rows, reading what the client reads after each batch, and half-close."""
        return _guarded("DoExchange", self._finish)

    def _begin(self, schema: pa.Schema) -> None:
        self._writer.begin(schema)
        # The client sends no row before the server has said what it will answer.
        self._schema = self._reader.schema

    def _finish(self) -> Answers:
        if self._schema is None:
            self._begin(pa.schema([]))
        answers = Answers(self._schema)
        for message in self._batches:
            self._writer.write_batch(message.batch)
            answers.per_batch.append(self._replies(message))
        self._writer.done_writing()
        answers.at_end.extend(_chunks(self._reader))
        self._writer.close()
        return answers

    def _replies(self, message: Message) -> list[Chunk]:
        if self.rpc.header("return-chunks") == "0":
            return []
        replies = [_next(self._reader)]
        if self.rpc.header("airport-operation") == "table_function_in_out":
            while replies[-1].metadata != _FINISHED:
                replies.append(_next(self._reader))
        return replies


def _guarded(method: str, call: Callable[[], R]) -> R:
    try:
        return call()
    except (pa.ArrowException, flight.FlightError) as error:
        raise CallFailedError(method, error) from None


def _options(headers: Headers) -> flight.FlightCallOptions:
    pairs = [
        (name.encode(), value.encode())
        for name, values in headers.items()
        if name not in _OWN_HEADERS
        for value in values
    ]
    return flight.FlightCallOptions(headers=pairs, timeout=TIMEOUT_SECONDS)


def _next(reader: Any) -> Chunk:
    try:
        chunk = reader.read_chunk()
    except StopIteration:
        raise AssertionError("the server ended the exchange while the client waits") from None
    return Chunk(chunk.data, chunk.app_metadata.to_pybytes() if chunk.app_metadata else None)


def _chunks(reader: Any) -> list[Chunk]:
    chunks: list[Chunk] = []
    while True:
        try:
            chunk = reader.read_chunk()
        except StopIteration:
            return chunks
        metadata = chunk.app_metadata.to_pybytes() if chunk.app_metadata is not None else None
        chunks.append(Chunk(chunk.data, metadata))

"""One DoExchange from the client's end: announce columns, send batches, read answers."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import pyarrow as pa
from pyarrow import flight

from lakeport.airport.client.connection import Connection, Headers
from lakeport.airport.client.replies import decoding_reply
from lakeport.airport.protocol.errors import translating_errors
from lakeport.errors import InternalError, LakeportError

__all__ = ["Exchange", "Message"]

_MAX_TRAILING = 1000


@dataclass(frozen=True, slots=True)
class Message:
    """What the server sent: rows, metadata, or both."""

    rows: pa.RecordBatch | None
    metadata: bytes | None


class Exchange:
    """An open exchange. Leaving its block normally ends it; an exception cancels it.

    A cancelled exchange, unlike an ended one, tells the server that the statement failed.
    """

    def __init__(
        self,
        connection: Connection,
        descriptor: flight.FlightDescriptor,
        operation: str,
        headers: Headers,
        *,
        returns_rows: bool,
    ) -> None:
        self._operation = operation
        self._writer, self._reader = connection.do_exchange(
            descriptor,
            [
                *headers,
                ("airport-operation", operation),
                ("return-chunks", "1" if returns_rows else "0"),
            ],
        )
        self._has_ended = False

    def send_metadata(self, metadata: bytes) -> None:
        """Send a message without rows; possible before the columns are announced."""
        with translating_errors(self._operation):
            self._writer.write_metadata(metadata)

    def begin(self, schema: pa.Schema) -> pa.Schema:
        """Announce the columns to be sent, and wait for those of the answers."""
        with translating_errors(self._operation):
            self._writer.begin(schema)
            return self._reader.schema

    def send(self, batch: pa.RecordBatch) -> None:
        """Send rows."""
        with translating_errors(self._operation):
            self._writer.write_batch(batch)

    def finish(self) -> None:
        """Say that there are no more rows."""
        with translating_errors(self._operation):
            self._writer.done_writing()

    def receive(self) -> Message | None:
        """The next message; None at the end."""
        try:
            with translating_errors(self._operation):
                chunk = self._reader.read_chunk()
        except StopIteration:
            self._has_ended = True
            return None
        if chunk.data is not None:
            with decoding_reply(f"answer to {self._operation}"):
                chunk.data.validate()
        metadata = None if chunk.app_metadata is None else chunk.app_metadata.to_pybytes()
        return Message(chunk.data, metadata)

    def receive_rows(self) -> Message:
        """The next message, which must have rows."""
        message = self.receive()
        if message is None:
            raise InternalError(f"the server ended the {self._operation} too early")
        if message.rows is None:
            raise InternalError(f"the server answered the {self._operation} without rows")
        return message

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self._drain()
        if not self._has_ended:
            with suppress(pa.ArrowException):
                self._reader.cancel()
        # What the server says now changes nothing: the statement is over.
        with suppress(pa.ArrowException, OSError):
            self._writer.close()

    def _drain(self) -> None:
        """Wait for the server's handler to return."""
        with suppress(LakeportError):
            self.finish()
            for _ in range(_MAX_TRAILING):
                if self.receive() is None:
                    return

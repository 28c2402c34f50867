"""The client's side of a DoExchange: send the schema and batches, read replies."""

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
    """A message of the server: rows, metadata, or both."""

    rows: pa.RecordBatch | None
    metadata: bytes | None


class Exchange:
    """An open exchange. The end of its `with` block ends it; an exception cancels it.

    The server treats a cancelled exchange as a failed statement.
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
        """Send a message without rows. Allowed before `send_schema`."""
        with translating_errors(self._operation):
            self._writer.write_metadata(metadata)

    def send_schema(self, schema: pa.Schema) -> pa.Schema:
        """Send the schema of the rows, and return the schema of the replies."""
        with translating_errors(self._operation):
            self._writer.begin(schema)
            return self._reader.schema

    def send(self, batch: pa.RecordBatch) -> None:
        """Send rows."""
        with translating_errors(self._operation):
            self._writer.write_batch(batch)

    def finish(self) -> None:
        """Send the end of the rows."""
        with translating_errors(self._operation):
            self._writer.done_writing()

    def receive(self) -> Message | None:
        """Return the next message; None at the end."""
        try:
            with translating_errors(self._operation):
                chunk = self._reader.read_chunk()
        except StopIteration:
            self._has_ended = True
            return None
        if chunk.data is not None:
            with decoding_reply(f"reply to {self._operation}"):
                chunk.data.validate()
        metadata = None if chunk.app_metadata is None else chunk.app_metadata.to_pybytes()
        return Message(chunk.data, metadata)

    def receive_rows(self) -> Message:
        """Return the next message; raise InternalError if it has no rows."""
        message = self.receive()
        if message is None:
            raise InternalError(f"the server ended the {self._operation} too early")
        if message.rows is None:
            raise InternalError(f"the server replied to the {self._operation} without rows")
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
        # The statement has ended, so errors of the server no longer matter.
        with suppress(pa.ArrowException, OSError):
            self._writer.close()

    def _drain(self) -> None:
        """Wait for the server's handler to return."""
        with suppress(LakeportError):
            self.finish()
            for _ in range(_MAX_TRAILING):
                if self.receive() is None:
                    return

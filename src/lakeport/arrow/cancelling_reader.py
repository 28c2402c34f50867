"""An Arrow reader that cancels its scan when it is closed.

pyarrow 26: `RecordBatchReader.from_batches` does not close its source, and a reader of a C stream
changes the types of errors. This reader does neither, and is still a `RecordBatchReader`: C++ code
reads the same batches through an IPC stream.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Generator
from typing import Any

import pyarrow as pa

from lakeport.errors import InvalidArgumentError

__all__ = ["CancellingReader"]


class CancellingReader(pa.RecordBatchStreamReader):  # type: ignore[misc]
    """The batches of a scan. Closing it, leaving its `with` block or dropping it ends the scan."""

    def __init__(
        self, schema: pa.Schema, batches: Generator[pa.RecordBatch], stop: Callable[[], None]
    ) -> None:
        source = _IpcSource(schema)
        super().__init__(source)
        # Set after `super().__init__`, which would otherwise consume the first batch.
        source.batches = batches
        self._batches = batches
        self._stop = stop
        self._closed = False

    def read_next_batch(self) -> pa.RecordBatch:
        """Return the next batch; raise StopIteration at the end."""
        if self._closed:
            raise InvalidArgumentError("the reader is closed")
        return next(self._batches)

    def __next__(self) -> pa.RecordBatch:
        return self.read_next_batch()

    def read_next_batch_with_custom_metadata(self) -> tuple[pa.RecordBatch, None]:
        """Return the next batch; batches of scans have no metadata."""
        return self.read_next_batch(), None

    def read_all(self) -> pa.Table:
        """Read the rest of the scan as a table."""
        return pa.Table.from_batches(list(self), self.schema)

    def close(self) -> None:
        """End the scan, from any thread; batches that were not read are dropped."""
        self._closed = True
        self._stop()

    def cast(self, target_schema: pa.Schema) -> pa.RecordBatchReader:
        """Return a reader that casts each batch when it is read."""
        return self._plain().cast(target_schema)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._plain().__arrow_c_stream__(requested_schema)

    def _export_to_c(self, out_ptr: int) -> None:
        self._plain()._export_to_c(out_ptr)  # noqa: SLF001

    def _plain(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.schema, self._batches)


class _IpcSource(io.RawIOBase):
    """The batches as the bytes of an IPC stream, made as they are read."""

    batches: Generator[pa.RecordBatch]

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._buffer = io.BytesIO(schema.serialize())
        # Made with the first batch, because most readers are read by Python, without their bytes.
        self._writer: pa.RecordBatchStreamWriter | None = None

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        found = self._buffer.read(size)
        if found or size == 0:
            return found
        # A reader of IPC streams never reads beyond a message.
        self._write_next()
        return self._buffer.read(size)

    def _write_next(self) -> None:
        # The writer repeats the schema before the first batch; the reader has read it already.
        start = self._buffer.tell() if self._writer is None else 0
        self._buffer.seek(0)
        self._buffer.truncate()
        if self._writer is None:
            self._writer = pa.ipc.new_stream(self._buffer, self._schema)
        batch = next(self.batches, None)
        if batch is None:
            self._writer.close()
        else:
            self._writer.write_batch(batch)
        self._buffer.seek(start)

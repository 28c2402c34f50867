"""Batches that wait on disk, in files that have no name: a few, however many batches there are."""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakeport.errors import CancelledError

__all__ = ["SpoolFiles", "Spooled"]

# Its space is free when the last batch in it is read: the smaller, the sooner.
FILE_BYTES: Final = 256 * 1024 * 1024


class SpoolFiles:
    """Where any number of tasks write batches. A file is gone when all of its batches are."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._file: _File | None = None
        self._is_closed = False

    def write(self, batch: pa.RecordBatch) -> Spooled:
        """Keep a batch on disk."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        data = sink.getvalue()
        with self._lock:
            if self._is_closed:
                raise CancelledError("the scan was cancelled")
            if self._file is None or self._file.size >= FILE_BYTES:
                self._file = _File()
            file = self._file
        return Spooled(file, file.append(data), data.size)

    def close(self) -> None:
        """Nothing more is written."""
        with self._lock:
            self._is_closed = True
            self._file = None


@dataclass(frozen=True, slots=True)
class Spooled:
    """A batch on disk: its place there is free when nobody holds this any more."""

    _file: _File
    _offset: int
    _length: int

    def read(self) -> pa.RecordBatch:
        """The batch."""
        data = self._file.read(self._offset, self._length)
        return pa.ipc.open_stream(pa.py_buffer(data)).read_next_batch()


class _File:
    """A file that is closed when nobody uses it: another thread may be writing to it."""

    def __init__(self) -> None:
        self.size = 0
        self._lock = threading.Lock()
        self._file = tempfile.TemporaryFile(prefix="lakeport-", buffering=0)  # noqa: SIM115
        weakref.finalize(self, self._file.close).atexit = False

    def append(self, data: pa.Buffer) -> int:
        """Write at the end; where that was."""
        with self._lock:
            offset = self._file.seek(0, os.SEEK_END)
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]
            self.size = offset + data.size
            return offset

    def read(self, offset: int, length: int) -> bytes:
        with self._lock:
            self._file.seek(offset)
            return self._file.read(length)

"""Memory that the driver shares with the Spark tasks of its machine.

A batch that is sent by Flight is copied four times, into newly allocated memory. In a shared buffer
it is copied once, into memory that is reused. Tasks on other machines, of other users or on other
systems than Linux cannot open a buffer, and use Flight.
"""

from __future__ import annotations

import mmap
import os
import secrets
import threading
import weakref
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

__all__ = ["BUFFER_BYTES", "SharedBuffer", "SharedBufferPool", "close_buffers", "write_batch"]

BUFFER_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, eq=False)
class SharedBuffer:
    """A block of memory without a file; freed when the last process closes it."""

    name: str
    """The path by which a task of this machine opens it, and a label that the path must have."""
    memory: mmap.mmap


class SharedBufferPool:
    """The shared buffers of a driver: created on demand, at most `limit`, and reused."""

    def __init__(self, limit: int) -> None:
        self._limit = limit if hasattr(os, "memfd_create") else 0
        self._lock = threading.Lock()
        self._count = 0  # guarded by the lock
        self._is_closed = False
        # Used by single, atomic operations only: the garbage collector also releases buffers.
        self._free: deque[SharedBuffer] = deque()

    def acquire(self) -> SharedBuffer | None:
        """Return a buffer for one batch, or None when all are in use."""
        with suppress(IndexError):
            return self._free.pop()
        with self._lock:
            if self._count >= self._limit:
                return None
            self._count += 1
        try:
            return _create()
        except OSError:
            # The system is short of memory: create no more buffers.
            self._limit = 0
            return None

    def release(self, buffer: SharedBuffer) -> None:
        """Make a buffer available again; no task may be writing to it."""
        if not self._is_closed:
            self._free.append(buffer)

    def retire(self, buffer: SharedBuffer) -> None:  # noqa: ARG002
        """Never reuse a buffer that a lost task may still be writing to."""
        with self._lock:
            self._count -= 1

    def read_batch(self, buffer: SharedBuffer, length: int) -> pa.RecordBatch:
        """Return the batch in a buffer; the buffer is released when the batch is freed."""
        view = np.frombuffer(buffer.memory, np.uint8, length)
        weakref.finalize(view, self.release, buffer).atexit = False
        return pa.ipc.open_stream(pa.py_buffer(view)).read_next_batch()

    def close(self) -> None:
        """Free the memory of unused buffers now, and of others when their batches are freed."""
        self._limit, self._is_closed = 0, True
        self._free.clear()


def write_batch(name: str, batch: pa.RecordBatch) -> int | None:
    """Write a batch into a buffer of the driver; return its length, or None if it does not fit.

    Raises:
        OSError: The buffer cannot be opened in this process.
    """
    sink = pa.FixedSizeBufferWriter(pa.py_buffer(_open(name)))
    try:
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
    except (OSError, pa.ArrowInvalid):
        return None
    length: int = sink.tell()
    return length


def close_buffers() -> None:
    """Close the driver's buffers in this process; they are opened again when needed."""
    _open.cache_clear()


def _create() -> SharedBuffer:
    label = f"lakeport-{secrets.token_hex(16)}"
    descriptor = os.memfd_create(label)
    try:
        # Reserved now: if memory were missing later, the process that writes would be killed.
        os.posix_fallocate(descriptor, 0, BUFFER_BYTES)
        memory = mmap.mmap(descriptor, BUFFER_BYTES, prot=mmap.PROT_READ)
    except OSError:
        os.close(descriptor)
        raise
    weakref.finalize(memory, os.close, descriptor).atexit = False
    return SharedBuffer(f"/proc/{os.getpid()}/fd/{descriptor} {label}", memory)


@lru_cache(maxsize=64)
def _open(name: str) -> mmap.mmap:
    path, label = name.split(" ")
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        # Another machine or container may have a process with that number and such a file.
        if label not in Path(f"/proc/self/fd/{descriptor}").readlink().name:
            raise FileNotFoundError(f"{path} is not {label}")
        return mmap.mmap(descriptor, BUFFER_BYTES)
    finally:
        os.close(descriptor)

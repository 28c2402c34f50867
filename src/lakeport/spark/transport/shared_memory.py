"""Memory that the driver shares with the Spark tasks of its machine.

A batch that travels by Flight is copied four times, into memory that the operating system has to
hand out anew. In a segment it is copied once, into memory that is used again and again. Tasks on
other machines, of other users or on other systems than Linux cannot open one, and use Flight.
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

__all__ = ["SEGMENT_BYTES", "SharedBuffer", "SharedBufferPool", "close_buffers", "write_batch"]

SEGMENT_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, eq=False)
class SharedBuffer:
    """A piece of memory without a file: it is gone with the last process that uses it."""

    name: str
    """How a task of this machine finds it."""
    memory: mmap.mmap


class SharedBufferPool:
    """The segments of a driver: made when they are needed, at most `limit`, used again."""

    def __init__(self, limit: int) -> None:
        self._limit = limit if hasattr(os, "memfd_create") else 0
        self._lock = threading.Lock()
        self._count = 0  # guarded by the lock
        self._is_closed = False
        # Only single operations, which are atomic: the garbage collector gives segments back.
        self._free: deque[SharedBuffer] = deque()

    def take(self) -> SharedBuffer | None:
        """A segment for one batch; None when all are in use."""
        with suppress(IndexError):
            return self._free.pop()
        with self._lock:
            if self._count >= self._limit:
                return None
            self._count += 1
        try:
            return _create()
        except OSError:
            # The system is short of memory: what there is will do.
            self._limit = 0
            return None

    def give_back(self, segment: SharedBuffer) -> None:
        """A segment that nobody writes to, to be used again."""
        if not self._is_closed:
            self._free.append(segment)

    def discard(self, segment: SharedBuffer) -> None:  # noqa: ARG002
        """A segment that a lost task may still write to: nobody may use it again."""
        with self._lock:
            self._count -= 1

    def batch(self, segment: SharedBuffer, length: int) -> pa.RecordBatch:
        """The batch in a segment, which is given back when nobody holds any part of the batch."""
        view = np.frombuffer(segment.memory, np.uint8, length)
        weakref.finalize(view, self.give_back, segment).atexit = False
        return pa.ipc.open_stream(pa.py_buffer(view)).read_next_batch()

    def close(self) -> None:
        """Free the memory: at once where no batch is, else when nobody holds the batch."""
        self._limit, self._is_closed = 0, True
        self._free.clear()


def write_batch(name: str, batch: pa.RecordBatch) -> int | None:
    """Write a batch into a segment of the driver; its length, or None if it does not fit.

    Raises:
        OSError: The segment cannot be reached from here.
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
    """Close the driver's segments in this process; those that it lends again are opened again."""
    _open.cache_clear()


def _create() -> SharedBuffer:
    label = f"lakeport-{secrets.token_hex(16)}"
    descriptor = os.memfd_create(label)
    try:
        # Reserved at once: memory that is missing later would kill who writes to it.
        os.posix_fallocate(descriptor, 0, SEGMENT_BYTES)
        memory = mmap.mmap(descriptor, SEGMENT_BYTES, prot=mmap.PROT_READ)
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
        # Another machine or container may have a process of that number, with such a file.
        if label not in Path(f"/proc/self/fd/{descriptor}").readlink().name:
            raise FileNotFoundError(f"{path} is not {label}")
        return mmap.mmap(descriptor, SEGMENT_BYTES)
    finally:
        os.close(descriptor)

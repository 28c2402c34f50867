"""Small tasks that are read one after another by one thread, with their batches joined.

A file of a few rows takes a fraction of a millisecond to read. Passing its batch on to another
thread, and through a server to a client, takes as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import pyarrow as pa

__all__ = ["bundled"]

ReadBatches: TypeAlias = Callable[[], Iterable[pa.RecordBatch]]

# A task is small if it reads less; a bundle has no more tasks.
_SMALL_BYTES: Final = 256 * 1024
_MAX_TASKS: Final = 64
# So that all threads have work until the end.
_BUNDLES_PER_THREAD: Final = 8

# Larger batches are not joined, and joined ones are not larger.
_SMALL_ROWS: Final = 8192
_MAX_ROWS: Final = 65_536
_MAX_BYTES: Final = 1024 * 1024


def bundled(
    tasks: Sequence[tuple[ReadBatches, int]], schema: pa.Schema, threads: int
) -> list[ReadBatches]:
    """Return functions that read the batches of all tasks, in their order.

    Args:
        tasks: Functions that read the batches of a task, each with the bytes that it reads.
        schema: The schema of the batches.
        threads: How many of the returned functions are called at a time.
    """
    size = min(_MAX_TASKS, len(tasks) // (_BUNDLES_PER_THREAD * max(threads, 1)))
    if size < 2 or not len(schema):
        return [read for read, _ in tasks]
    bundles: list[ReadBatches] = []
    small: list[ReadBatches] = []
    for read, bytes_to_read in tasks:
        if bytes_to_read < _SMALL_BYTES:
            small.append(read)
            if len(small) < size:
                continue
        if small:
            bundles.append(_reading(small))
            small = []
        if bytes_to_read >= _SMALL_BYTES:
            bundles.append(read)
    return [*bundles, _reading(small)] if small else bundles


def _reading(reads: list[ReadBatches]) -> ReadBatches:
    return reads[0] if len(reads) == 1 else lambda: _joined(reads)


def _joined(reads: Sequence[ReadBatches]) -> Iterator[pa.RecordBatch]:
    """Yield the batches of several tasks; small ones that follow each other as one."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for read in reads:
        for batch in read():
            # Of whole buffers: `nbytes` takes as long as reading a column of a small file.
            held = batch.get_total_buffer_size()
            is_small = batch.num_rows < _SMALL_ROWS and held < _MAX_BYTES
            if waiting and not (is_small and rows < _MAX_ROWS and size < _MAX_BYTES):
                yield _concatenated(waiting)
                waiting, rows, size = [], 0, 0
            if not is_small:
                yield batch
                continue
            waiting.append(batch)
            rows += batch.num_rows
            size += held
    if waiting:
        yield _concatenated(waiting)


def _concatenated(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)

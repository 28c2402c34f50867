"""Small results of tasks, carried from executors in the batches of a stream.

Executors import this module. Results travel as MessagePack, not as pickles: this process runs no
code that comes from a worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgpack
import pyarrow as pa

__all__ = ["RESULTS", "ResultTask", "results_of"]

RESULTS: Final = pa.schema([("result", pa.binary())])


class _RunTask(Protocol):
    @property
    def estimated_bytes(self) -> int: ...

    def run(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class ResultTask:
    """Runs a task, and reads its result as a batch of one row."""

    task: _RunTask

    @property
    def estimated_bytes(self) -> int:
        """About how many bytes the task handles."""
        return self.task.estimated_bytes

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the result."""
        yield pa.record_batch([[msgpack.packb(self.task.run())]], schema=RESULTS)


def results_of(batch: pa.RecordBatch) -> Iterator[Any]:
    """Yield the results in a batch."""
    for packed in batch.column(0).to_pylist():
        yield msgpack.unpackb(packed, strict_map_key=False)

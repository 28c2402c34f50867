"""Scan tasks for the tests of the pipeline. Spark's workers import this module by its name."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

SCHEMA = pa.schema([("task", pa.int64()), ("row", pa.int64())])


@dataclass(frozen=True)
class Rows:
    """A task of so many batches of so many rows, each row numbered."""

    task: int
    batches: int = 3
    rows: int = 10

    def read(self) -> Iterator[pa.RecordBatch]:
        for number in range(self.batches):
            start = number * self.rows
            yield pa.RecordBatch.from_pydict(
                {
                    "task": pa.repeat(pa.scalar(self.task, pa.int64()), self.rows),
                    "row": pa.array(range(start, start + self.rows), pa.int64()),
                },
                schema=SCHEMA,
            )


@dataclass(frozen=True)
class FailsAtFirst:
    """Like `Rows`, but its first attempts end in the middle: by an error or a dead worker."""

    task: int
    folder: str
    failures: int
    kill: bool = False

    def read(self) -> Iterator[pa.RecordBatch]:
        attempt = self._attempt()
        for number, batch in enumerate(Rows(self.task).read()):
            if attempt < self.failures and number == 2:
                if self.kill:
                    os.kill(os.getpid(), signal.SIGKILL)
                raise OSError("the disk is away")
            yield batch

    def _attempt(self) -> int:
        attempts = sorted(Path(self.folder).glob(f"{self.task}-*"))
        Path(self.folder, f"{self.task}-{len(attempts)}").touch()
        return len(attempts)


@dataclass(frozen=True)
class Breaks:
    """A task that never succeeds."""

    def read(self) -> Iterator[pa.RecordBatch]:
        yield from Rows(0).read()
        raise ValueError("row 17 is not a number")

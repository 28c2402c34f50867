"""Scan tasks for the tests of the pipeline. Spark's workers import this module by its name."""

from __future__ import annotations

import os
import signal
import threading
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
                    "row": pa.arange(start, start + self.rows),
                },
                schema=SCHEMA,
            )


@dataclass(frozen=True)
class SmallRows(Rows):
    """Like `Rows`, of a size that is known to be small."""

    estimated_bytes: int = 1000


@dataclass(frozen=True)
class RecordedRows(Rows):
    """Like `Rows`; each time it is read, it leaves a file in a folder."""

    folder: str = ""

    def read(self) -> Iterator[pa.RecordBatch]:
        _begin(self.folder, self.task)
        yield from super().read()


@dataclass(frozen=True)
class HangsAtFirst(Rows):
    """Like `Rows`, but when it is read for the first time it never comes to its rows."""

    folder: str = ""

    def read(self) -> Iterator[pa.RecordBatch]:
        if _begin(self.folder, self.task) == 0:
            threading.Event().wait()
        yield from super().read()


def _begin(folder: str, task: int) -> int:
    """Leave a file for a task that is read; gives how many times it was read before."""
    before = len(list(Path(folder).glob(f"{task}-*")))
    Path(folder, f"{task}-{before}").touch()
    return before


@dataclass(frozen=True)
class FailsAtFirst:
    """Like `Rows`, but its first attempts end in the middle: by an error or by a dead process."""

    task: int
    folder: str
    failures: int
    victim: str = ""
    """Who is killed: the `worker` or the `executor`; nobody without it."""
    rows: int = 10

    def read(self) -> Iterator[pa.RecordBatch]:
        attempt = self._attempt()
        for number, batch in enumerate(Rows(self.task, rows=self.rows).read()):
            if attempt < self.failures and number == 2:
                self._fail()
            yield batch

    def _attempt(self) -> int:
        attempts = sorted(Path(self.folder).glob(f"{self.task}-*"))
        Path(self.folder, f"{self.task}-{len(attempts)}").touch()
        return len(attempts)

    def _fail(self) -> None:
        if self.victim == "executor":
            os.kill(_parent(os.getppid()), signal.SIGKILL)
        if self.victim == "worker":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError("the disk is away")


def _parent(process: int) -> int:
    """The parent of a process: of Spark's daemon of Python workers, that is the executor."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[1])


@dataclass(frozen=True)
class Breaks:
    """A task that never succeeds."""

    def read(self) -> Iterator[pa.RecordBatch]:
        yield from Rows(0).read()
        raise ValueError("row 17 is not a number")


@dataclass(frozen=True)
class Silent:
    """A task that never ends, and never has a row."""

    def read(self) -> Iterator[pa.RecordBatch]:
        threading.Event().wait()
        return iter(())


@dataclass(frozen=True)
class Endless:
    """A task that has always more rows."""

    def read(self) -> Iterator[pa.RecordBatch]:
        (batch,) = Rows(0, batches=1, rows=50_000).read()
        while True:
            yield batch

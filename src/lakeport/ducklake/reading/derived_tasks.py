"""Tasks that are made of scan tasks: they count rows, read keys, and add the types of changes.

Spark workers import this module, so it imports neither planning nor a catalog database.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from lakeport.ducklake.reading.tasks import InlinedTask, ScanContext, ScanTask

__all__ = ["KEYS", "ChangeTask", "CountTask", "KeyTask", "Keys", "count_tasks", "with_columns"]

Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Keys: TypeAlias = dict[int, Numbers]
"""The row ids of each snapshot, ascending."""

KEYS: Final = pa.schema([("task", pa.int64()), ("rowid", pa.int64()), ("snapshot_id", pa.int64())])
"""The columns that a `KeyTask` reads."""


@dataclass(frozen=True, slots=True)
class _DerivedTask:
    task: ScanTask

    @property
    def estimated_bytes(self) -> int:
        """About how many bytes are handled, at most."""
        return self.task.estimated_bytes

    @property
    def bytes_to_read(self) -> int:
        """How many of them are read from storage, at most."""
        return self.task.bytes_to_read

    @property
    def is_remote(self) -> bool:
        """Whether the bytes come from an object store."""
        return self.task.is_remote


@dataclass(frozen=True, slots=True)
class CountTask(_DerivedTask):
    """Counts the rows of a task where they are read."""

    def run(self) -> int:
        """Return the number of rows."""
        return sum(batch.num_rows for batch in self.task.read())


def count_tasks(tasks: Sequence[ScanTask]) -> list[CountTask]:
    """Return tasks that count rows; they read only the columns of the filter."""
    narrow: dict[int, ScanContext] = {}
    counts = []
    for task in tasks:
        if not isinstance(task, InlinedTask):
            # The tasks of a plan share one context, and the new ones do, too.
            key = id(task.context)
            if key not in narrow:
                narrow[key] = task.context.narrowed(task.context.filter.columns)
            task = replace(task, context=narrow[key])  # noqa: PLW2901
        counts.append(CountTask(task))
    return counts


@dataclass(frozen=True, slots=True)
class KeyTask(_DerivedTask):
    """Reads the row ids and snapshots of a task's rows, and nothing else of a file."""

    number: int

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the keys, with the number of the task."""
        for batch in with_columns(self.task, ("rowid", "snapshot_id")).read():
            number = pa.array(np.full(batch.num_rows, self.number))
            yield pa.RecordBatch.from_arrays([number, *batch.columns[-2:]], schema=KEYS)


@dataclass(frozen=True, slots=True)
class ChangeTask(_DerivedTask):
    """Reads the rows of a task, each with the type of its change."""

    updates: Keys
    types: tuple[str, str]
    """The type of rows that are not part of an update, then of those that are."""
    schema: pa.Schema

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the columns of the feed."""
        types = pa.array(self.types)
        for batch in self.task.read():
            *columns, rowids, snapshots = batch.columns
            updated = _contains(self.updates, snapshots.to_numpy(), rowids.to_numpy())
            change_types = types.take(pa.array(updated.astype(np.int8)))
            yield pa.RecordBatch.from_arrays(
                [snapshots, rowids, change_types, *columns], schema=self.schema
            )


def with_columns(task: ScanTask, names: Collection[str]) -> ScanTask:
    """Return a task that reads only some columns; one that carries its rows stays as it is."""
    if isinstance(task, InlinedTask):
        return task
    return replace(task, context=task.context.narrowed(names))


def _contains(keys: Keys, snapshots: Numbers, rowids: Numbers) -> np.ndarray[Any, Any]:
    """Return which of these rows are among the keys."""
    found = np.zeros(len(rowids), np.bool_)
    for snapshot in np.unique(snapshots) if keys else ():
        of_snapshot = keys.get(int(snapshot))
        if of_snapshot is not None:
            rows = np.flatnonzero(snapshots == snapshot)
            positions = np.searchsorted(of_snapshot, rowids[rows]).clip(max=len(of_snapshot) - 1)
            found[rows] = of_snapshot[positions] == rowids[rows]
    return found

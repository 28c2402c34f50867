"""Where a stream of a table is, and how far its next batch goes.

An offset is the id of the last snapshot that has been read. A new stream first reads the rows that
the table has, in the order of the snapshots that inserted them; then what later snapshots change.
Files that are merged or rewritten in between change nothing: a row keeps its snapshot.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from lakeport.ducklake import Lake, LakeTable, Snapshot, parse_user_timestamp
from lakeport.ducklake.reading import FileTask, ScanTask
from lakeport.ducklake.writing.rows import parse_changes
from lakeport.errors import InvalidInputError, SnapshotNotFoundError, UnsupportedError
from lakeport.spark.source.stream_options import StreamReadOptions

__all__ = ["Limits", "StreamOffset", "StreamPosition"]

_INSERTS = frozenset({"inserted_into_table", "inlined_insert"})
_DELETES = frozenset({"deleted_from_table", "inlined_delete"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """Everything up to a snapshot has been read."""

    table: int
    """The id of the table."""
    snapshot: int
    initial: int | None = None
    """The rows of this snapshot are being read; `snapshot` is the one that inserted the last."""

    def to_json(self) -> dict[str, Any]:
        """Return the offset as Spark stores it."""
        found = {"table": self.table, "snapshot": self.snapshot}
        return found if self.initial is None else {**found, "initial": self.initial}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return an offset that Spark has stored."""
        try:
            initial = value.get("initial")
            return cls(
                table=int(value["table"]),
                snapshot=int(value["snapshot"]),
                initial=None if initial is None else int(initial),
            )
        except (KeyError, TypeError, ValueError):
            raise InvalidInputError(
                f"{dict(value)} is not an offset of a stream of a lake: the checkpoint belongs to "
                "another source"
            ) from None

    @property
    def base(self) -> int:
        """The snapshot after which the changes of later snapshots begin."""
        return self.snapshot if self.initial is None else self.initial


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a batch reads at most; one snapshot at least."""

    files: int | None = None
    rows: int | None = None
    bytes: int | None = None
    min_rows: int | None = None

    @property
    def is_none(self) -> bool:
        """Whether everything is read."""
        return self == Limits()


@dataclass(slots=True)
class _Amount:
    files: int = 0
    rows: int = 0
    bytes: int = 0

    def plus(self, other: _Amount) -> _Amount:
        return _Amount(self.files + other.files, self.rows + other.rows, self.bytes + other.bytes)

    def exceeds(self, limits: Limits) -> bool:
        pairs = (
            (self.files, limits.files),
            (self.rows, limits.rows),
            (self.bytes, limits.bytes),
        )
        return any(limit is not None and amount > limit for amount, limit in pairs)


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """A table of an open lake that is read as a stream."""

    lake: Lake
    table: LakeTable
    options: StreamReadOptions

    def first(self) -> StreamOffset:
        """Return the offset of a new stream."""
        newest = self.lake.newest().id
        start, moment = self.options.starting_version, self.options.starting_timestamp
        if start is None and moment is None:
            return StreamOffset(table=self.table.id, snapshot=-1, initial=newest)
        if moment is not None:
            start = self._version_at(moment)
        if start == "latest":
            start = newest + 1
        known = [snapshot.id for snapshot in self.lake.snapshots()]
        if not isinstance(start, int) or start > newest + 1:
            raise SnapshotNotFoundError(
                f"the stream cannot start at snapshot {start}: the newest one is {newest}"
            )
        if start < min(known):
            raise SnapshotNotFoundError(
                f"the stream cannot start at snapshot {start}, which has been expired: the oldest "
                f"one is {min(known)}"
            )
        return StreamOffset(table=self.table.id, snapshot=start - 1)

    def _version_at(self, moment: str) -> int:
        """Return the first snapshot at or after a time; the next one if there is none yet."""
        wanted = parse_user_timestamp(moment)
        snapshots = self.lake.snapshots()
        later = [snapshot.id for snapshot in snapshots if snapshot.time >= wanted]
        return min(later) if later else snapshots[-1].id + 1

    def next(self, start: StreamOffset, limits: Limits, *, last: int | None) -> StreamOffset:
        """Return the end of the next batch; the start if there is nothing new.

        With `last`, snapshots after it are left for later.
        """
        self._check_table(start)
        newest = self.lake.newest().id
        last = newest if last is None else min(last, newest)
        if start.initial is not None:
            return self._next_initial(start, limits)
        changed = self._changed(start.snapshot, last)
        if not changed:
            return start
        return replace(start, snapshot=self._admitted(start, changed[-1], limits))

    def _next_initial(self, start: StreamOffset, limits: Limits) -> StreamOffset:
        amounts = {} if limits.is_none else _amounts(self.initial_tasks(start), start.snapshot)
        end = _choose(amounts, limits, start.base)
        if end == start.base:
            return StreamOffset(table=start.table, snapshot=end)
        return replace(start, snapshot=end)

    def _admitted(self, start: StreamOffset, last: int, limits: Limits) -> int:
        if limits.is_none:
            return last
        insertions, deletions = self.change_tasks(start.snapshot + 1, last)
        tasks = [*insertions, *deletions] if self.options.change_feed else insertions
        amounts = _amounts(tasks, start.snapshot)
        if sum(amount.rows for amount in amounts.values()) < (limits.min_rows or 0):
            return start.snapshot
        return _choose(amounts, limits, last)

    def initial_tasks(self, start: StreamOffset) -> list[ScanTask]:
        """Return the tasks of the rows that the table had when the stream began."""
        table = self.initial_table(start)
        names = [column.name for column in table.columns]
        tasks = table.scan([*names, "rowid", "snapshot_id"]).plan.tasks
        return [task for task in tasks if _newest_insert(task) > start.snapshot]

    def initial_table(self, start: StreamOffset) -> LakeTable:
        """Return the table at the snapshot whose rows are read first."""
        try:
            return self.lake.table_by_id(start.table, start.base)
        except SnapshotNotFoundError:
            raise self._expired(start.base) from None

    def change_tasks(self, first: int, last: int) -> tuple[list[ScanTask], list[ScanTask]]:
        """Return the tasks of the rows that snapshots have inserted and deleted."""
        feed = self.lake.table_by_id(self.table.id, last).changes(first, last)
        return list(feed.insertions.plan.tasks), list(feed.deletions.plan.tasks)

    def skipped(self, first: int, last: int) -> tuple[int, ...]:
        """Return the snapshots that delete rows; an error unless the stream skips them."""
        found = tuple(
            snapshot.id
            for snapshot in self._snapshots(first - 1, last)
            if self._keywords(snapshot) & _DELETES
        )
        if found and not self.options.skip_changes and not self.options.change_feed:
            raise UnsupportedError(
                f"snapshot {found[0]} deletes or updates rows of {self.table.schema_name}."
                f"{self.table.name}, and the stream reads appended rows: set the option "
                "'skipChangeCommits' to skip such snapshots, or 'readChangeFeed' to read them"
            )
        return () if self.options.change_feed else found

    def _changed(self, start: int, last: int) -> list[int]:
        """Return the snapshots that change rows of the table."""
        wanted = _INSERTS | _DELETES
        return [
            snapshot.id
            for snapshot in self._snapshots(start, last)
            if self._keywords(snapshot) & wanted
        ]

    def _snapshots(self, start: int, last: int) -> list[Snapshot]:
        """Return the snapshots after one; raise an error if one of them has been expired."""
        if last <= start:
            return []
        found = [s for s in self.lake.snapshots() if start < s.id <= last]
        if len(found) < last - start:
            known = {snapshot.id for snapshot in found}
            raise self._expired(next(id for id in range(start + 1, last + 1) if id not in known))
        return found

    def _keywords(self, snapshot: Snapshot) -> set[str]:
        return {
            change.keyword
            for change in parse_changes(snapshot.changes)
            if change.id == self.table.id
        }

    def _expired(self, snapshot: int) -> SnapshotNotFoundError:
        return SnapshotNotFoundError(
            f"the stream of {self.table.schema_name}.{self.table.name} has not read snapshot "
            f"{snapshot}, which has been expired: start a new stream with another checkpoint, and "
            "expire snapshots later"
        )

    def _check_table(self, start: StreamOffset) -> None:
        if start.table != self.table.id:
            raise InvalidInputError(
                f"{self.table.schema_name}.{self.table.name} is another table than the one that "
                "the stream has read: start a new stream with another checkpoint"
            )


def _newest_insert(task: ScanTask) -> int:
    """Return the last snapshot that may have inserted a row of a task."""
    if not isinstance(task, FileTask):
        return task.context.snapshot
    return max(task.file.begin_snapshot, task.file.partial_max or 0)


def _amounts(tasks: Iterable[ScanTask], start: int) -> dict[int, _Amount]:
    """Return how much each snapshot after the start has added.

    Deletes count as rows, the inlined rows of a snapshot as a file.
    """
    found: dict[int, _Amount] = defaultdict(_Amount)
    for task in tasks:
        for snapshot, amount in _amounts_of(task, start):
            if snapshot > start:
                found[snapshot] = found[snapshot].plus(amount)
    return found


def _amounts_of(task: ScanTask, start: int) -> Iterator[tuple[int, _Amount]]:
    if isinstance(task, FileTask):
        # Of a merged file, the rows that have been read are counted again.
        snapshot = max(task.file.begin_snapshot, start + 1)
        yield snapshot, _Amount(1, task.estimated_rows, task.estimated_bytes)
        return
    file = getattr(task, "file", None)
    if file is not None:
        for delete in file.deletes:
            yield delete.begin_snapshot, _Amount(1, delete.delete_count or 0, 0)
        return
    for batch in task.read():
        ids, counts = np.unique(batch.columns[-1].to_numpy(), return_counts=True)
        size = batch.nbytes // max(batch.num_rows, 1)
        for snapshot, count in zip(ids.tolist(), counts.tolist(), strict=True):
            yield snapshot, _Amount(1, count, count * size)


def _choose(amounts: Mapping[int, _Amount], limits: Limits, last: int) -> int:
    """Return the last snapshot of the next batch: the first one, and more within the limits."""
    total, end = _Amount(), None
    for snapshot in sorted(amounts):
        total = total.plus(amounts[snapshot])
        if end is not None and total.exceeds(limits):
            return end
        end = snapshot
    return last

"""Merge small files and rewrite files with deletes, in groups that commit on their own.

A group that loses a race with a delete is compacted again, without the others. Files that were
written for it are deleted. Files of a process that was killed are orphans: see `remove_orphans`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from lakeport._wording import counted
from lakeport.ducklake.engine import Engine
from lakeport.ducklake.lake import Lake
from lakeport.ducklake.maintenance.compaction.candidates import (
    Group,
    TableFiles,
    merge_groups,
    moved_column,
    read_files,
    rewrite_groups,
    sorts_variants,
)
from lakeport.ducklake.maintenance.compaction.clustering import RowOrder
from lakeport.ducklake.maintenance.compaction.runner import run_groups
from lakeport.ducklake.maintenance.compaction.task import CompactionTask, written_files
from lakeport.ducklake.maintenance.results import (
    Cancel,
    MaintenanceResult,
    Progress,
    ProgressCallback,
)
from lakeport.ducklake.planning.plan import FilterLike
from lakeport.ducklake.writing import (
    ChangeSet,
    CommitInfo,
    CompactedFile,
    Compaction,
    StaleFilesError,
    TableChange,
    WrittenFile,
)
from lakeport.ducklake.writing.changes.target import sort_order, table_target
from lakeport.ducklake.writing.commit import commit
from lakeport.ducklake.writing.files import FileTarget
from lakeport.errors import CancelledError, LakeportError, UnknownOutcomeError
from lakeport.types import Column, fold_name

__all__ = ["DEFAULT_THRESHOLD", "MAX_BYTES_IN_FLIGHT", "CompactionOptions", "compact"]

_log = logging.getLogger("lakeport.ducklake.maintenance")

DEFAULT_THRESHOLD: Final = 0.95
"""The share of deleted rows from which files are rewritten, as in the reference."""

MAX_BYTES_IN_FLIGHT: Final = 4 << 30
# Groups that are finished wait this long for others, so that many small ones share a commit.
_COMMIT_SECONDS: Final = 10.0
_ATTEMPTS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOptions:
    """What is compacted, and how."""

    where: FilterLike = None
    target_bytes: int | None = None
    """By default the option `target_file_size` of the table."""
    max_file_bytes: int | None = None
    min_file_bytes: int = 0
    threshold: float | None = None
    """By default the option `rewrite_delete_threshold` of the table."""
    order: RowOrder | None = None
    """By default the sort order of the table."""
    max_bytes_in_flight: int = MAX_BYTES_IN_FLIGHT
    dry_run: bool = False
    min_files: int = 2
    """Do nothing if fewer files would be replaced."""
    progress: ProgressCallback = lambda _: None
    is_cancelled: Cancel = lambda: False


def compact(
    lake: Lake,
    name: str,
    schema: str,
    kind: Literal["merge_adjacent", "rewrite_delete"],
    options: CompactionOptions,
    engine: Engine | None = None,
) -> MaintenanceResult:
    """Compact the files of a table; return what was done."""
    work = _Compaction(lake, name, schema, kind, options, engine or lake.engine)
    return work.run()


class _Compaction:
    """The compaction of one table, until no group is left."""

    def __init__(
        self,
        lake: Lake,
        name: str,
        schema: str,
        kind: Literal["merge_adjacent", "rewrite_delete"],
        options: CompactionOptions,
        engine: Engine,
    ) -> None:
        self._lake = lake
        self._place = name, schema
        self._kind = kind
        self._options = options
        self._engine = engine
        self._is_merge = kind == "merge_adjacent"
        self._result = MaintenanceResult(
            operation="merge" if self._is_merge else "rewrite",
            table=f"{schema}.{name}",
            dry_run=options.dry_run,
        )
        self._groups = self._done = self._bytes = self._bytes_done = 0

    def run(self) -> MaintenanceResult:
        state = read_files(self._lake, *self._place)
        groups = self._plan(state, state.matching(self._options.where))
        if sum(len(group.files) for group in groups) < self._options.min_files:
            return self._result
        if state.obstacle is not None:
            return replace(self._result, skipped=(state.obstacle,))
        if self._options.dry_run:
            return self._estimate(groups)
        self._groups, self._bytes = len(groups), sum(group.bytes for group in groups)
        self._report()
        for _ in range(_ATTEMPTS):
            stale = self._run(state, groups)
            if not stale:
                break
            self._result = replace(self._result, redone=self._result.redone + len(stale))
            again = frozenset(file.id for group in stale for file in group.files)
            state = read_files(self._lake, *self._place)
            groups = self._plan(state, again & {file.id for file in state.files})
        return self._result

    def _plan(self, state: TableFiles, only: frozenset[int]) -> list[Group]:
        options = self._options
        target = options.target_bytes or self._target(state).options.target_file_bytes
        if self._is_merge:
            return merge_groups(
                state,
                target_bytes=target,
                max_file_bytes=options.max_file_bytes,
                min_file_bytes=options.min_file_bytes,
                only=only,
            )
        threshold = options.threshold
        if threshold is None:
            definition = state.definition
            scope = {"schema_id": definition.schema.id, "table_id": definition.id}
            text = state.options.get("rewrite_delete_threshold", **scope)
            threshold = DEFAULT_THRESHOLD if text is None else float(text)
        # Rows that are ordered anew are ordered within a group: the larger it is, the better.
        size = target if options.order is None else max(target, options.max_bytes_in_flight)
        return rewrite_groups(state, threshold=threshold, target_bytes=size, only=only)

    def _estimate(self, groups: Sequence[Group]) -> MaintenanceResult:
        kept = sum(
            group.bytes * (group.rows - group.deleted) // max(group.rows, 1) for group in groups
        )
        return replace(
            self._result,
            files_replaced=sum(len(group.files) for group in groups),
            files_written=sum(1 for group in groups if group.rows > group.deleted),
            bytes_replaced=sum(group.bytes for group in groups),
            bytes_written=kept,
            rows=sum(group.rows - group.deleted for group in groups),
            deletes=sum(group.deleted for group in groups),
        )

    def _run(self, state: TableFiles, groups: Sequence[Group]) -> list[Group]:
        """Compact groups and commit them; return those whose files others have changed."""
        tasks = [self._task(state, number, group) for number, group in enumerate(groups)]
        finished: list[tuple[Group, dict[str, Any]]] = []
        stale: list[Group] = []
        last = time.monotonic()
        results = run_groups(
            self._engine,
            tasks,
            max_bytes=self._options.max_bytes_in_flight,
            is_cancelled=self._options.is_cancelled,
        )
        try:
            for result in results:
                finished.append((groups[result["number"]], result))
                if time.monotonic() - last > _COMMIT_SECONDS:
                    stale += self._commit(state, finished)
                    finished, last = [], time.monotonic()
                if self._options.is_cancelled():
                    raise CancelledError(f"the {self._result.operation} was cancelled")
        finally:
            # Also after an error or a cancellation: what is finished is kept.
            stale += self._commit(state, finished)
        return stale

    def _task(self, state: TableFiles, number: int, group: Group) -> CompactionTask:
        columns = tuple(moved_column(column) for column in group.columns)
        order = self._options.order
        if order is None and (keys := sort_order(state.definition)):
            order = RowOrder(keys=keys)
        if self._is_merge and order is not None:
            columns = _current_names(columns, state.definition.tree)
            if not _can_sort(order, columns, state.definition.tree):
                order = None
        if order is not None and sorts_variants(order.keys, columns):
            order = None
        target = replace(self._target(state), columns=columns, sort_order=())
        if self._is_merge:
            size = self._options.target_bytes or target.options.target_file_bytes
            # The files of a group become one file, whose size may differ from their sum.
            settings = replace(target.options, target_file_bytes=2 * size)
            target = replace(target, partition_spec=None, options=settings)
        elif self._options.target_bytes is not None:
            settings = replace(target.options, target_file_bytes=self._options.target_bytes)
            target = replace(target, options=settings)
        return CompactionTask(
            number=number,
            reads=state.tasks(group.files, columns),
            target=target,
            folder=_folder(state, group) if self._is_merge else "",
            keeps_snapshots=self._is_merge,
            is_contiguous=self._is_merge and group.is_contiguous,
            order=order,
        )

    def _target(self, state: TableFiles) -> FileTarget:
        return table_target(
            state.definition,
            state.options,
            directory=state.table.path,
            storage=self._lake.storage,
        )

    def _commit(
        self, state: TableFiles, finished: Sequence[tuple[Group, dict[str, Any]]]
    ) -> list[Group]:
        """Commit finished groups as one snapshot, without those that others have changed."""
        stale: list[Group] = []
        left = list(finished)
        while left:
            files = [self._compacted(group, result) for group, result in left]
            changes = ChangeSet(
                base=state.base,
                tables=(
                    TableChange(
                        before=state.definition,
                        after=state.definition,
                        compaction=Compaction(
                            kind=self._kind,
                            files=tuple(file for of_group in files for file in of_group),
                            sources=tuple(
                                state.read_file(file) for group, _ in left for file in group.files
                            ),
                        ),
                    ),
                ),
                info=CommitInfo(message=self._message([group for group, _ in left])),
            )
            try:
                done = commit(self._lake.write_database, self._lake.catalog, changes)
            except StaleFilesError as error:
                lost = [pair for pair in left if any(f.id in error.files for f in pair[0].files)]
                left = [pair for pair in left if pair not in lost]
                for group, result in lost:
                    stale.append(group)
                    self._delete(state, written_files(result))
                continue
            except UnknownOutcomeError:
                raise  # the files may be part of the lake
            except BaseException:
                for _, result in left:
                    self._delete(state, written_files(result))
                raise
            self._record(done.snapshot, left, files)
            break
        return stale

    def _compacted(self, group: Group, result: dict[str, Any]) -> list[CompactedFile]:
        """Return the new files of a group, each with the range of its snapshots and row ids."""
        if not self._is_merge:
            return [CompactedFile(file=file) for file in written_files(result)]
        first = group.files[0]
        start = None if result["has_row_ids"] else first.row_id_start
        found = []
        for file in written_files(result):
            own = replace(
                file, partition_id=first.partition_id, partition_values=first.partition_values
            )
            found.append(
                CompactedFile(
                    file=own,
                    begin_snapshot=group.begin_snapshot,
                    partial_max=group.last_snapshot,
                    row_id_start=start,
                )
            )
            start = None if start is None else start + file.record_count
        return found

    def _message(self, groups: Sequence[Group]) -> str:
        count = counted(sum(len(group.files) for group in groups), "file")
        return f"{self._result.operation} {count} of {self._result.table}"

    def _record(
        self,
        snapshot: int,
        finished: Sequence[tuple[Group, dict[str, Any]]],
        files: Sequence[Sequence[CompactedFile]],
    ) -> None:
        groups = [group for group, _ in finished]
        new = [file.file for of_group in files for file in of_group]
        result = self._result
        self._result = replace(
            result,
            files_replaced=result.files_replaced + sum(len(group.files) for group in groups),
            files_written=result.files_written + len(new),
            bytes_replaced=result.bytes_replaced + sum(group.bytes for group in groups),
            bytes_written=result.bytes_written + sum(file.file_size_bytes for file in new),
            rows=result.rows + sum(file.record_count for file in new),
            deletes=result.deletes + sum(group.deleted for group in groups),
            commits=(*result.commits, snapshot),
        )
        self._done += len(groups)
        self._bytes_done += sum(group.bytes for group in groups)
        self._report()

    def _report(self) -> None:
        self._options.progress(
            Progress(
                operation=self._result.operation,
                table=self._result.table,
                done=self._done,
                groups=self._groups,
                bytes_done=self._bytes_done,
                bytes=self._bytes,
            )
        )

    def _delete(self, state: TableFiles, files: Sequence[WrittenFile]) -> None:
        for file in files:
            try:
                self._lake.storage.delete(state.table.path + file.path)
            except (OSError, LakeportError):
                _log.warning("the file %s of a failed compaction could not be deleted", file.path)


def _folder(state: TableFiles, group: Group) -> str:
    """Return the folder of the first file below the table's directory, as the reference does."""
    path, root = group.files[0].path, state.table.path
    if not path.startswith(root):
        return ""
    folder, separator, _ = path[len(root) :].rpartition("/")
    return folder + separator


def _current_names(columns: tuple[Column, ...], current: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return columns under their names of now, which the sort order uses; files have only ids."""
    names = {column.id: column.name for column in current}
    renamed = tuple(replace(c, name=names.get(c.id, c.name)) for c in columns)
    different = {fold_name(column.name) for column in renamed}
    return renamed if len(different) == len(renamed) else columns


def _can_sort(order: RowOrder, columns: tuple[Column, ...], current: tuple[Column, ...]) -> bool:
    """Return whether files with these columns have all that an order needs."""
    present = {column.name for column in columns}
    if {column.name for column in current} <= present:
        return True
    keys = {key.expression.strip('"') for key in order.keys}
    return keys | set(order.columns) <= present

"""The source of a merge on its engine: computed once, kept there, and released."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

import pyarrow as pa

from lakeport.ducklake.writing.changes.expressions import SqlExpression
from lakeport.ducklake.writing.changes.key_ranges import equal_keys
from lakeport.ducklake.writing.changes.target import file_target
from lakeport.ducklake.writing.tasks import (
    ChangeGroup,
    FindCandidates,
    JoinTask,
    Progress,
    SourceFitter,
    SourceTask,
    StagedRows,
    TaskReport,
    WriteTask,
    staged_rows,
)

if TYPE_CHECKING:
    from lakeport.ducklake.engine import DataFrameEngine
    from lakeport.ducklake.writing.changes.table_rows import TableRows
    from lakeport.ducklake.writing.files import FileTarget

__all__ = ["MergeEngine", "Stage", "StagedFrame", "stage_frame"]


class Stage(Protocol):
    """Rows of a DataFrame that an engine keeps, as bytes of Arrow."""

    reports: list[TaskReport]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in this process."""

    def merge(
        self,
        find: FindCandidates,
        reads: Sequence[ChangeGroup],
        join: JoinTask,
        write: WriteTask | None,
        sent: Sequence[ChangeGroup],
        *,
        title: str,
    ) -> list[TaskReport]:
        """Join the rows with those of a table, and write what they become."""

    def release(self) -> None:
        """Release the rows."""


class MergeEngine(Protocol):
    """An engine that keeps the source of a merge and joins it with a table."""

    small_change_bytes: int
    """Changes that read less than this run in this process."""
    small_source_bytes: int
    """Sources of merges that are smaller than this are collected in this process."""

    @property
    def parallelism(self) -> int:
        """How many tasks run at once."""

    def stage(
        self,
        frame: Any,
        task: SourceTask,
        *,
        target: FileTarget,
        title: str,
        progress: Progress | None,
    ) -> Stage:
        """Compute the rows of a DataFrame once and keep them."""


@dataclass(frozen=True, slots=True)
class StagedFrame:
    """The source of a merge on its engine, with what is known about its keys."""

    engine: MergeEngine
    task: SourceTask
    found: StagedRows
    table_keys: tuple[str, ...]
    """The columns of the table that are equal to the keys of the source, in their order."""
    stage: Stage

    @property
    def is_small(self) -> bool:
        """Whether this process should collect the rows."""
        return self.found.bytes < self.engine.small_source_bytes

    def reader(self) -> pa.RecordBatchReader:
        """Return the rows in this process, without their numbers."""
        schema = self.task.fitter.schema
        few = self.found.few
        batches = iter(few.to_batches()) if few is not None else self.stage.batches()
        own = (batch.select(schema.names) for batch in batches)
        return pa.RecordBatchReader.from_batches(schema, own)


@contextmanager
def stage_frame(
    rows: TableRows, frame: Any, on: SqlExpression, engine: DataFrameEngine
) -> Iterator[StagedFrame | None]:
    """Have a DataFrame computed and kept by its engine, for the time of the block.

    None is for a condition without columns that must be equal, by which rows could be divided.
    """
    writer = rows.writer
    fitter = SourceFitter(engine.frame_schema(frame), writer.columns)
    keys = equal_keys(on, writer.columns, fitter.schema)
    if not keys:
        yield None
        return
    task = SourceTask(
        fitter=fitter, keys=tuple(source for _, source in keys), number="_lakeport_source"
    )
    own = cast("MergeEngine", engine)
    definition = writer.definition
    stage = own.stage(
        frame,
        task,
        target=file_target(writer),
        title=f"merge into {definition.schema.name}.{definition.name}: read the source",
        progress=writer.transaction.progress,
    )
    try:
        table_keys = tuple(target for target, _ in keys)
        yield StagedFrame(own, task, staged_rows(stage.reports, task), table_keys, stage)
    finally:
        stage.release()

"""A view as a task of an engine: DuckDB runs it where the task is read, over planned scans.

Spark workers run these tasks, so this module imports neither SQLAlchemy nor PySpark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakeport.ducklake.engine import LocalEngine, ReadTask
from lakeport.ducklake.model import View
from lakeport.ducklake.reading.row_filter import row_filter
from lakeport.ducklake.reading.tasks import FileTask, ScanContext, ScanTask
from lakeport.ducklake.views.database import shared_database
from lakeport.filters import Filter, bind
from lakeport.types import Column, arrow_schema

__all__ = ["PlannedTable", "ViewTask"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTable:
    """A table that a view reads, and the tasks that read all of its columns."""

    schema: str
    name: str
    columns: tuple[Column, ...]
    tasks: tuple[ScanTask, ...] = field(repr=False)

    def read(self, columns: Sequence[str], filter: Filter) -> pa.RecordBatchReader:
        """Read some columns of the rows that pass a filter."""
        all_columns = arrow_schema(self.columns)
        tasks = [_narrowed(task, columns, filter) for task in self.tasks]
        return LocalEngine().stream(tasks, pa.schema([all_columns.field(n) for n in columns]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewTask:
    """The rows of the last of `reads`, a view; the others are what it reads."""

    reads: tuple[PlannedTable | View, ...]
    schema: pa.Schema
    filter: Filter = field(default_factory=Filter.always)
    """Rows that cannot pass it are left out where DuckDB can evaluate it."""
    failure: str | None = None
    """The message of an error of the SQL, instead of DuckDB's, which may contain values."""

    @property
    def estimated_bytes(self) -> int:
        """The bytes of the files that the tables of the view have."""
        tables = (read for read in self.reads if isinstance(read, PlannedTable))
        return sum(task.estimated_bytes for table in tables for task in table.tasks)

    @property
    def bytes_to_read(self) -> int:
        """The bytes of the files; at least one, because a view is not at hand without work."""
        return max(self.estimated_bytes, 1)

    def read(self) -> Iterator[pa.RecordBatch]:
        """Run the view and yield its rows."""
        with shared_database().stream(
            self.reads,
            lambda table: table.read,
            schema=self.schema,
            filter=self.filter,
            failure=self.failure,
        ) as rows:
            yield from rows


def _narrowed(task: ScanTask, columns: Sequence[str], filter: Filter) -> ReadTask:
    """Return a task that reads fewer columns and rows."""
    if isinstance(task, FileTask):
        return replace(task, context=_narrowed_context(task.context, columns, filter))
    return _Selection(task, tuple(columns), filter)


def _narrowed_context(context: ScanContext, names: Sequence[str], filter: Filter) -> ScanContext:
    """Return a context with fewer columns, from one that has all columns and no filter."""
    bound = bind(filter, context.schema, zoned_nanoseconds=True)
    by_name = {
        field.name: column for field, column in zip(context.schema, context.columns, strict=True)
    }
    read = list(dict.fromkeys([*names, *sorted(bound.columns)]))
    return replace(
        context,
        schema=pa.schema([context.schema.field(name) for name in names]),
        columns=tuple(by_name[name] for name in names),
        filter=bound,
        read_columns=tuple(by_name[name] for name in read),
        read_schema=pa.schema([context.schema.field(name) for name in read]),
    )


@dataclass(frozen=True, slots=True)
class _Selection:
    """Some columns of the rows of a task that pass a filter; for rows that a task contains."""

    task: ScanTask
    columns: tuple[str, ...]
    filter: Filter

    @property
    def estimated_bytes(self) -> int:
        return self.task.estimated_bytes

    @property
    def bytes_to_read(self) -> int:
        return self.task.bytes_to_read

    def read(self) -> Iterator[pa.RecordBatch]:
        bound = bind(self.filter, self.task.schema, zoned_nanoseconds=True)
        passing = row_filter(bound, self.task.schema, exact=True)
        for batch in self.task.read():
            yield passing(batch).select(list(self.columns))

"""Plan scans: choose the files and inlined rows to read, and divide them into tasks.

A plan is pinned to one snapshot. Plans and tasks are small, immutable and picklable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

import pyarrow as pa
import sqlalchemy as sa

from lakeport._tracing import annotate, span
from lakeport._wording import counted
from lakeport.ducklake.metadata.queries import CatalogReader
from lakeport.ducklake.metadata.statements import FileQuery
from lakeport.ducklake.model import DataFile, Snapshot, TableState
from lakeport.ducklake.planning.files import FileColumns
from lakeport.ducklake.planning.inlined_rows import InlinedRows, read_inlined
from lakeport.ducklake.planning.pruning import PruningRules, pruning_rules
from lakeport.ducklake.planning.pushdown import PushedFilter, pushed_filter
from lakeport.ducklake.reading.data_files import VIRTUAL_COLUMNS
from lakeport.ducklake.reading.row_filter import RowFilter, row_filter
from lakeport.ducklake.reading.tasks import (
    FileTask,
    InlinedTask,
    ScanContext,
    ScanTask,
    column_key,
)
from lakeport.ducklake.storage.filesystems import Storage
from lakeport.errors import (
    InvalidArgumentError,
    InvalidInputError,
    NotFoundError,
    SnapshotNotFoundError,
)
from lakeport.filters import Expression, Filter, Term, bind, parse_sql_filter
from lakeport.types import Column, arrow_field, arrow_schema, fold_name

__all__ = ["FilterLike", "Planner", "PruningCounts", "ScanPlan", "inlined_table", "inlined_tasks"]

_NAMES_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PruningCounts:
    """How many files and inlined rows a plan skips, by reason."""

    files: int = 0
    by_partition: int = 0
    by_statistics: int = 0
    inlined_rows: int = 0
    inlined_by_filter: int = 0

    @property
    def files_read(self) -> int:
        """The number of files that are read."""
        return self.files - self.by_partition - self.by_statistics


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ScanPlan:
    """Everything that must be read for one query, at one snapshot."""

    table: str
    snapshot: Snapshot
    schema: pa.Schema
    columns: tuple[Column | str, ...]
    """The table's columns and virtual columns of `schema`, in its order."""
    filter: Filter
    tasks: tuple[ScanTask, ...]
    pruning: PruningCounts

    @property
    def estimated_rows(self) -> int:
        """An upper bound of the rows, before the filter."""
        return sum(task.estimated_rows for task in self.tasks)

    @property
    def estimated_bytes(self) -> int:
        """The bytes of the files and inlined rows that are read."""
        return sum(task.estimated_bytes for task in self.tasks)

    def __repr__(self) -> str:
        return self.explain()

    def explain(self) -> str:
        """Return a description of the rows that are read and skipped, for display."""
        by = self.pruning
        inlined_read = by.inlined_rows - by.inlined_by_filter
        pruned = f"{by.by_partition} pruned by partition values, {by.by_statistics} by statistics"
        rows, size = counted(self.estimated_rows, "row"), counted(self.estimated_bytes, "byte")
        lines = [
            f"scan of {self.table} at snapshot {self.snapshot.id}",
            f"  columns: {_some(self.schema.names)}",
            f"  files: {by.files_read} of {by.files} read ({pruned})",
            f"  inlined rows: {inlined_read} of {by.inlined_rows} read",
            f"  tasks: {len(self.tasks)}, at most {rows}, {size}",
        ]
        return "\n".join(lines)


def _some(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    if len(names) <= _NAMES_SHOWN:
        return ", ".join(names)
    shown = ", ".join(names[:_NAMES_SHOWN])
    return f"{shown} and {len(names) - _NAMES_SHOWN} more"


FilterLike = Filter | Expression | Term | str | None

INLINED_TASK_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans scans of one table at one snapshot."""

    catalog: CatalogReader
    storage: Storage
    snapshot: Snapshot
    state: TableState

    @span("plan")
    def scan(
        self,
        columns: Sequence[str] | None,
        filter: FilterLike,
        *,
        task_bytes: int,
        exact: bool,
    ) -> ScanPlan:
        """Plan a scan of the files and inlined rows that may match, in one transaction."""
        if task_bytes <= 0:
            raise InvalidArgumentError("task_bytes must be positive")
        bound = self._filter(filter)
        context = self.context(columns, bound, exact=exact)
        passing = row_filter(bound, context.read_schema, exact=exact)
        rules, pushed = self._rules(bound)
        try:
            files, inlined = self._read(context, rules, pushed)
        except InvalidInputError:
            if not pushed.exclusions:
                raise
            # A text of the catalog that this database cannot compare.
            pushed = PushedFilter()
            files, inlined = self._read(context, rules, pushed)
        if pushed.decides_statistics:
            rules = rules.without_statistics()
        keys = self._partition_keys if rules.partition != "TRUE" else 0
        with span("prune"):
            by_partition, by_statistics = rules.keep(
                files.with_statistics(rules.statistics_columns, keys)
            )
            chosen = files.take(by_partition & by_statistics)
            annotate(files=files.files, files_read=len(chosen))
        deletes = chosen.deleted_positions()
        tasks: list[ScanTask] = []
        can_divide = not context.has_variants
        for file in self.data_files(chosen):
            deleted = deletes.get(file.id, b"")
            tasks += self._file_tasks(context, file, deleted, task_bytes, can_divide=can_divide)
        inlined_rows = sum(len(part.row_ids) for part in inlined)
        tables = [_matching(inlined_table(context, part), passing) for part in inlined]
        for part, table in zip(inlined, tables, strict=True):
            tasks += inlined_tasks(context, table, part.name)
        excluded = files.excluded_by_partition + int((~by_partition).sum())
        annotate(table=self.state.name, snapshot=self.snapshot.id, tasks=len(tasks))
        return ScanPlan(
            table=f"{self.state.schema}.{self.state.name}",
            snapshot=self.snapshot,
            schema=context.schema,
            columns=context.columns,
            filter=bound,
            tasks=tuple(tasks),
            pruning=PruningCounts(
                files=files.files,
                by_partition=excluded,
                by_statistics=files.files - excluded - len(chosen),
                inlined_rows=inlined_rows,
                inlined_by_filter=inlined_rows - sum(table.num_rows for table in tables),
            ),
        )

    def data_files(self, files: FileColumns) -> list[DataFile]:
        """Return the files as objects; raise an error if a path leads out of a confined lake."""
        found = files.data_file_objects(self.state)
        self.storage.check(file.path for file in found)
        self.storage.check(delete.path for file in found for delete in file.deletes)
        return found

    def excluded_files(self, filter: FilterLike) -> frozenset[int]:
        """Return the ids of the files in which no row passes a filter.

        Files that the catalog no longer has are not among them: a plan may still read them.
        """
        bound = self._filter(filter)
        state = self.state
        rules = pruning_rules(
            bound, state.columns, state.partition_specs, state.columns_with_older_types
        )
        if rules.decides_nothing:
            return frozenset()
        files = self.catalog.database.read(
            lambda connection: self.files(connection, rules.statistics_columns)
        )
        keys = self._partition_keys if rules.partition != "TRUE" else 0
        masks = rules.keep(files.with_statistics(rules.statistics_columns, keys))
        return frozenset(files.take(~(masks[0] & masks[1])).ids)

    def files_without_nan(self, columns: Sequence[int]) -> dict[int, frozenset[int]]:
        """Return which of some columns have no NaN, by the ids of files."""
        read = self.catalog.database.read
        return read(lambda connection: self.files(connection, columns)).without_nan()

    def column(self, name: str) -> Column:
        """Return a column by its name, ignoring case."""
        for column in self.state.columns:
            if fold_name(column.name) == fold_name(name):
                return column
        raise NotFoundError(
            f"the table {self.state.schema}.{self.state.name} has no column {name!r}"
        )

    def context(
        self, names: Sequence[str] | None, filter: Filter, *, exact: bool = True
    ) -> ScanContext:
        """Return the context of a plan: the columns of the result, and those of the filter."""
        selected = (
            [self._resolve(name) for name in names]
            if names is not None
            else list(self.state.columns)
        )
        extra = [self._resolve(name) for name in sorted(filter.columns)]
        read = tuple({column_key(column): column for column in (*selected, *extra)}.values())
        return ScanContext(
            snapshot=self.snapshot.id,
            schema=pa.schema([_field(column) for column in selected]),
            columns=tuple(selected),
            filter=filter,
            exact=exact,
            storage=self.storage,
            read_columns=read,
            read_schema=pa.schema([_field(column) for column in read]),
            lives=self.state.lives,
        )

    def _rules(self, filter: Filter) -> tuple[PruningRules, PushedFilter]:
        """Return what leaves files out: rules of Lakeport, and conditions for the database."""
        state = self.state
        of_table = (state.columns, state.partition_specs, state.columns_with_older_types)
        kind = self.catalog.database.kind
        return pruning_rules(filter, *of_table), pushed_filter(kind, filter, *of_table)

    def _read(
        self, context: ScanContext, rules: PruningRules, pushed: PushedFilter
    ) -> tuple[FileColumns, list[InlinedRows]]:
        columns = set() if pushed.decides_statistics else set(rules.statistics_columns)
        # Readers need to know which files have NaN, which the bounds of row groups do not show.
        columns |= {column.id for column in context.read_columns if _is_compared(column, context)}

        def work(connection: sa.Connection) -> tuple[FileColumns, list[InlinedRows]]:
            files = self.files(connection, sorted(columns), pushed=pushed)
            return files, self.inlined(connection, files, context)

        return self.catalog.database.read(work)

    def files(
        self,
        connection: sa.Connection,
        statistics_columns: Sequence[int] = (),
        *,
        pushed: PushedFilter | None = None,
        from_snapshot: int | None = None,
    ) -> FileColumns:
        """Return the catalog's rows about the table's files.

        `statistics_columns` adds the statistics of some columns. With `from_snapshot`, the files
        are all those in which rows were inserted or deleted from there on.
        """
        pushed = pushed or PushedFilter()
        wanted = FileQuery(
            statistics_columns=tuple(statistics_columns),
            is_partitioned=self._partition_keys > 0,
            inlined_delete_table=self.state.inlined_delete_table,
            changed=from_snapshot is not None,
            exclusions=pushed.exclusions,
        )
        result = self.catalog.files(
            connection,
            self.state.id,
            self.snapshot.id,
            wanted,
            from_snapshot=from_snapshot,
            parameters=pushed.parameters,
        )
        files = FileColumns.of(result, wanted)
        if not files.has_snapshot:
            raise SnapshotNotFoundError(f"snapshot {self.snapshot.id} has been expired")
        return files

    @property
    def _partition_keys(self) -> int:
        return max((len(spec.fields) for spec in self.state.partition_specs.values()), default=0)

    def inlined(
        self,
        connection: sa.Connection,
        files: FileColumns,
        context: ScanContext,
        *,
        from_snapshot: int | None = None,
    ) -> list[InlinedRows]:
        """Return the inlined rows, in the columns of the context."""
        present = files.inlined_tables
        tables = [table for table in self.state.inlined_tables if table.name in present]
        stored = [column for column in context.read_columns if isinstance(column, Column)]
        return read_inlined(
            self.catalog,
            connection,
            tables,
            stored,
            self.snapshot.id,
            from_snapshot=from_snapshot,
        )

    def _file_tasks(
        self,
        context: ScanContext,
        file: DataFile,
        deleted: bytes,
        task_bytes: int,
        *,
        can_divide: bool,
    ) -> list[ScanTask]:
        """Return a task for each `task_bytes` of a file, for the row groups that begin there."""
        rows, size = file.record_count or 0, file.file_size_bytes or 0
        pieces = max(1, min(-(-size // task_bytes), rows))
        if file.encryption_key is not None or not can_divide:
            pieces = 1  # DuckDB reads these files, and does not report where row groups begin
        step = -(-rows // pieces)
        name_mapping = self.state.name_mapping_of(file)
        return [
            FileTask(
                context=context,
                estimated_rows=min(step, max(rows - i * step, 0)),
                estimated_bytes=size // pieces,
                file=file,
                start=i * step,
                end=None if i == pieces - 1 else (i + 1) * step,
                name_mapping=name_mapping,
                inlined_deletes=deleted,
            )
            for i in range(pieces)
        ]

    def _filter(self, filter: FilterLike) -> Filter:
        """Return a filter whose columns and constants have the types of the table."""
        if filter is None:
            return Filter.always()
        if isinstance(filter, str):
            filter = parse_sql_filter(filter, self.state.columns)
        if isinstance(filter, Term):
            filter = filter.expression
        parsed = filter if isinstance(filter, Filter) else Filter.of(filter)
        for name in parsed.columns:
            self._resolve(name)
        return bind(parsed, arrow_schema(self.state.columns), zoned_nanoseconds=True)

    def _resolve(self, name: str) -> Column | str:
        """Return a column of the table, or else a virtual column."""
        try:
            return self.column(name)
        except NotFoundError:
            if name.lower() in VIRTUAL_COLUMNS:
                return name.lower()
            raise


def _is_compared(column: Column | str, context: ScanContext) -> TypeGuard[Column]:
    """Return whether the filter has a column of floating-point numbers."""
    if isinstance(column, str) or column.type not in ("float32", "float64"):
        return False
    return column.name in context.filter.columns


def _field(column: Column | str) -> pa.Field:
    if isinstance(column, str):
        return pa.field(column, VIRTUAL_COLUMNS[column])
    return arrow_field(column)


def inlined_table(
    context: ScanContext, part: InlinedRows, snapshots: pa.Array | None = None
) -> pa.Table:
    """Return inlined rows in the columns of a plan; `snapshots` replaces their begin snapshots."""
    stored = iter(part.columns)
    virtual = {
        "rowid": part.row_ids,
        "file_row_number": part.row_ids,
        "snapshot_id": part.begin_snapshots if snapshots is None else snapshots,
        "filename": pa.array([part.name] * len(part.row_ids), pa.string()),
    }
    arrays = [virtual[c] if isinstance(c, str) else next(stored) for c in context.read_columns]
    if not arrays:
        return pa.table({"row": part.row_ids}).select([])
    return pa.Table.from_arrays(arrays, schema=context.read_schema)


def inlined_tasks(context: ScanContext, table: pa.Table, name: str = "") -> list[ScanTask]:
    """Return tasks that contain inlined rows."""
    tasks: list[ScanTask] = []
    for start in range(0, table.num_rows, INLINED_TASK_ROWS):
        # A slice of a table without columns does not have the right number of rows.
        count = min(INLINED_TASK_ROWS, table.num_rows - start)
        piece = table.slice(start, count)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, piece.schema) as writer:
            writer.write_table(piece)
        data = sink.getvalue().to_pybytes()
        tasks.append(
            InlinedTask(
                context=context,
                estimated_rows=count,
                estimated_bytes=len(data),
                data=data,
                rows=count,
                table=name,
            )
        )
    return tasks


def _matching(table: pa.Table, passing: RowFilter) -> pa.Table:
    """Return the inlined rows that pass the filter."""
    if not table.num_columns:
        return table
    return pa.Table.from_batches([passing(batch) for batch in table.to_batches()], table.schema)

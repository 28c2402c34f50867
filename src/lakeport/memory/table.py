"""A table of a memory catalog, as clients see it. It has an id; its state is in the store."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pyarrow as pa

from lakeport.catalog import (
    AddColumnOptions,
    AddFieldOptions,
    ChangeColumnTypeOptions,
    ColumnStats,
    DMLOptions,
    DMLResult,
    DropNotNullOptions,
    Partition,
    RemoveColumnOptions,
    RemoveFieldOptions,
    RenameColumnOptions,
    RenameFieldOptions,
    ScanOptions,
    SetDefaultOptions,
    SetNotNullOptions,
    TableSize,
    TimePoint,
    TimeUnit,
    check_name,
    note_snapshot,
    project_schema,
    unsupported_type_reason,
)
from lakeport.errors import InvalidArgumentError, NotFoundError
from lakeport.memory.alter import (
    add_column,
    add_field,
    change_column_type,
    has_field,
    remove_column,
    remove_field,
    rename_column,
    rename_field,
    set_default,
    set_nullable,
)
from lakeport.memory.changes import Change, RowChange
from lakeport.memory.scans import Part, parse_partition, partitions, scan, size
from lakeport.memory.state import CatalogState, TableState, TableVersion
from lakeport.memory.store import Store
from lakeport.memory.writes import prepare_delete, prepare_insert, prepare_update

__all__ = ["MemoryTable", "version_at", "version_numbered"]

_Prepare = Callable[[TableState, pa.RecordBatchReader, DMLOptions, int], tuple[RowChange, int]]


class MemoryTable:
    """A table whose rows are in memory. Every version can be read; it can be written and altered.

    The object stays valid when the table is renamed, and may be used from any thread. Its content
    depends on the transaction of the current request.
    """

    def __init__(self, store: Store, table: TableState) -> None:
        self._store = store
        self._id = table.id
        self._last_name = table.name

    @property
    def id(self) -> int:
        """A number that does not change when the table is renamed."""
        return self._id

    @property
    def name(self) -> str:
        """The name as written when the table was created or renamed."""
        table = self._store.visible_state().table(self._id)
        return self._last_name if table is None else table.name

    @property
    def comment(self) -> str:
        """The description of the table."""
        table = self._store.visible_state().table(self._id)
        return "" if table is None else table.comment

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the columns, and the rowid last."""
        return project_schema(self._state().current.definition.published(), columns)

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        """Read one version of the table. Later writes do not change the result."""
        version, part = self._resolve(options)
        _note(version)
        return scan(version, options, part)

    def open_scan(self, options: ScanOptions) -> tuple[TableSize, pa.RecordBatchReader]:
        """Return the size and the rows of one version, also while others write."""
        version, part = self._resolve(options)
        _note(version)
        return size(version, part), scan(version, options, part)

    def endpoints(self, options: ScanOptions) -> Sequence[Partition]:
        """Return the parts of one version. They can be read as long as the version is kept."""
        version, _ = self._resolve(options)
        _note(version)
        return partitions(version)

    def size(self, options: ScanOptions) -> TableSize:
        """Return the number of rows and an estimate of their bytes."""
        version, part = self._resolve(options)
        return size(version, part)

    def schema_at(self, time_point: TimePoint) -> pa.Schema:
        """Return the columns of the table at a time point."""
        return version_at(self._history(), time_point).definition.published()

    def versions(self) -> Sequence[TableVersion]:
        """Return the committed versions that can be read, oldest first."""
        return self._history().versions

    def column_statistics(self, column: str, duckdb_type: str) -> ColumnStats:  # noqa: ARG002
        """Return bounds that hold for every version and transaction that a client may read."""
        table = self._state()
        index = table.current.definition.index(column)
        if index is not None:
            column = table.current.definition.columns.field(index).name
        stats = table.bounds.column(column)
        if stats is None and index is None:
            raise NotFoundError(f"table {table} has no column {column!r}")
        # A table without rows has no bounds yet.
        return stats if stats is not None and (stats.has_null or stats.has_not_null) else _UNKNOWN

    def insert(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        """Add rows, all or none. Columns that are not sent are null."""
        return self._write(prepare_insert, rows, options)

    def update_rows(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        """Set values in the rows of these row ids. The last value of a repeated id is used."""
        return self._write(prepare_update, rows, options)

    def delete_rows(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        """Delete the rows of these row ids; ids without a row are ignored."""
        return self._write(prepare_delete, rows, options)

    def add_column(self, column_schema: pa.Schema, options: AddColumnOptions) -> None:
        """Add a column of nulls."""
        field = _one_field(column_schema)

        def change(table: TableState) -> TableState:
            exists = table.current.definition.index(field.name) is not None
            if exists and options.if_column_not_exists:
                return table
            return add_column(table, field)

        self._alter(change, missing_ok=options.ignore_not_found)

    def remove_column(self, name: str, options: RemoveColumnOptions) -> None:
        """Remove a column; with `cascade` also the constraints that use it."""

        def change(table: TableState) -> TableState:
            if options.if_column_exists and table.current.definition.index(name) is None:
                return table
            return remove_column(table, name, cascade=options.cascade)

        self._alter(change, missing_ok=options.ignore_not_found)

    def rename_column(self, old_name: str, new_name: str, options: RenameColumnOptions) -> None:
        """Rename a column."""
        check_name(new_name, "column")
        self._alter(
            lambda table: rename_column(table, old_name, new_name),
            missing_ok=options.ignore_not_found,
        )

    def change_column_type(
        self, column_schema: pa.Schema, expression: str, options: ChangeColumnTypeOptions
    ) -> None:
        """Convert a column with an SQL expression, such as `CAST(c AS VARCHAR)`."""
        field = _one_field(column_schema)
        self._alter(
            lambda table: change_column_type(table, field, expression),
            missing_ok=options.ignore_not_found,
        )

    def set_not_null(self, column: str, options: SetNotNullOptions) -> None:
        """Reject nulls from now on; ConstraintError if the column has nulls."""
        self._alter(
            lambda table: set_nullable(table, column, nullable=False),
            missing_ok=options.ignore_not_found,
        )

    def drop_not_null(self, column: str, options: DropNotNullOptions) -> None:
        """Accept nulls from now on."""
        self._alter(
            lambda table: set_nullable(table, column, nullable=True),
            missing_ok=options.ignore_not_found,
        )

    def set_default(self, column: str, expression: str, options: SetDefaultOptions) -> None:
        """Set the SQL expression that clients evaluate for a column that an INSERT leaves out."""
        self._alter(
            lambda table: set_default(table, column, expression),
            missing_ok=options.ignore_not_found,
        )

    def add_field(
        self, path: Sequence[str], column_schema: pa.Schema, options: AddFieldOptions
    ) -> None:
        """Add a field of nulls to the struct at `path`."""
        field = _one_field(column_schema)

        def change(table: TableState) -> TableState:
            if options.if_field_not_exists and has_field(table, [*path, field.name]):
                return table
            return add_field(table, path, field)

        self._alter(change, missing_ok=options.ignore_not_found)

    def rename_field(self, path: Sequence[str], new_name: str, options: RenameFieldOptions) -> None:
        """Rename a field of a struct."""
        check_name(new_name, "field")
        self._alter(
            lambda table: rename_field(table, path, new_name),
            missing_ok=options.ignore_not_found,
        )

    def remove_field(self, path: Sequence[str], options: RemoveFieldOptions) -> None:
        """Remove a field of a struct."""

        def change(table: TableState) -> TableState:
            if options.if_field_exists and not has_field(table, path):
                return table
            return remove_field(table, path)

        self._alter(change, missing_ok=options.ignore_not_found)

    def _state(self) -> TableState:
        table = self._store.visible_state().table(self._id)
        if table is None:
            raise self._dropped()
        return table

    def _history(self) -> TableState:
        # The history is that of all commits, so AT does not depend on the transaction.
        table = self._store.committed_state.table(self._id)
        return self._state() if table is None else table

    def _resolve(self, options: ScanOptions) -> tuple[TableVersion, Part | None]:
        if options.partition:
            table = self._history()
            number, part = parse_partition(options.partition, str(table))
            # A transaction may have pinned a version that is no longer kept.
            pinned = self._store.visible_state().table(self._id)
            if pinned is not None and pinned.current.version == number:
                return pinned.current, part
            return version_numbered(table, number), part
        if options.time_point is not None:
            return version_at(self._history(), options.time_point), None
        return self._state().current, None

    def _write(
        self, prepare: _Prepare, rows: pa.RecordBatchReader, options: DMLOptions
    ) -> DMLResult:
        change, count = prepare(self._state(), rows, options, self._store.next_number())
        if count:
            self._store.write(change.as_change())
        return DMLResult(affected_rows=count)

    def _alter(self, change: Callable[[TableState], TableState], *, missing_ok: bool) -> None:
        if missing_ok and self._store.visible_state().table(self._id) is None:
            return

        def apply(state: CatalogState) -> CatalogState:
            table = state.table(self._id)
            if table is None:
                raise self._dropped()
            changed = change(table)
            return state if changed is table else state.with_table(changed).altered()

        self._store.write(Change(apply, alters=frozenset({self._id})))

    def _dropped(self) -> NotFoundError:
        return NotFoundError(f"table {self._last_name!r} was dropped")


_UNKNOWN = ColumnStats()


def _one_field(schema: pa.Schema) -> pa.Field:
    if len(schema) != 1:
        raise InvalidArgumentError(f"expected one column, not {len(schema)}")
    field = schema.field(0)
    check_name(field.name, "column")
    reason = unsupported_type_reason(field.type)
    if reason:
        raise InvalidArgumentError(f"column {field.name!r}: {reason}")
    return field


def _note(version: TableVersion) -> None:
    if version.version is not None:
        note_snapshot(version.version)


def version_at(table: TableState, time_point: TimePoint) -> TableVersion:
    """Return the version that was current at a time point."""
    if time_point.unit is TimeUnit.TIMESTAMP:
        return _version_on(table, _parse_timestamp(time_point.value))
    try:
        number = int(time_point.value)
    except ValueError:
        raise InvalidArgumentError(
            f"{time_point.value[:80]!r} is not the number of a version"
        ) from None
    return version_numbered(table, number)


def version_numbered(table: TableState, number: int) -> TableVersion:
    """Return the version of that number."""
    versions = table.versions
    oldest = _number(versions[0]) if versions else 1
    if not oldest <= number < oldest + len(versions):
        raise NotFoundError(f"table {table} has no version {number}: {_kept_versions(table)}")
    return versions[number - oldest]


def _version_on(table: TableState, time: datetime) -> TableVersion:
    position = bisect_right(table.versions, time, key=_committed)
    if position == 0:
        raise NotFoundError(
            f"table {table} has no version of {time.isoformat()}: {_kept_versions(table)}"
        )
    return table.versions[position - 1]


def _kept_versions(table: TableState) -> str:
    versions = table.versions
    if not versions:
        return "it is not committed yet"
    return (
        f"there are versions {_number(versions[0])} to {_number(versions[-1])}, from "
        f"{_committed(versions[0]).isoformat()} to {_committed(versions[-1]).isoformat()}"
    )


def _parse_timestamp(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidArgumentError(
            f"{text[:80]!r} is not a timestamp; write it like 2024-01-31 or 2024-01-31 12:30:00+00"
        ) from None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


def _number(version: TableVersion) -> int:
    return version.version or 0


def _committed(version: TableVersion) -> datetime:
    return version.committed or datetime.min.replace(tzinfo=UTC)

"""INSERT, UPDATE, DELETE and ALTER TABLE of a lake's table, as a server calls them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.catalog import (
    AddColumnOptions,
    AddFieldOptions,
    ChangeColumnTypeOptions,
    DMLOptions,
    DMLResult,
    DropNotNullOptions,
    RemoveColumnOptions,
    RemoveFieldOptions,
    RenameColumnOptions,
    RenameFieldOptions,
    SetDefaultOptions,
    SetNotNullOptions,
    find_rowid_column,
)
from lakeport.ducklake.writing import TableWriter
from lakeport.errors import UnsupportedError
from lakeport.lakehouse.writing.returning import SeenRowIds, UpdatedRows, deleted_rows
from lakeport.lakehouse.writing.types import type_of
from lakeport.types import duckdb_identifier, fold_name

if TYPE_CHECKING:
    from lakeport.ducklake.metadata import TableSummary
    from lakeport.lakehouse.resources import LakeResources
    from lakeport.lakehouse.writing.transactions import LakeWrites

__all__ = ["TableWrites"]


class TableWrites:
    """What a table of a lake accepts besides being read; `LakeCatalogTable` has the rest."""

    _access: LakeResources
    _summary: TableSummary

    def insert(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        """Write rows as they arrive; they are visible when the statement is committed."""
        count = 0

        def received() -> Iterator[pa.RecordBatch]:
            nonlocal count
            for batch in rows:
                count += batch.num_rows
                options.emit(batch)
                yield batch

        with self._writes.statement() as transaction:
            writer = transaction.table(*self._name_in_lake)
            writer.append(pa.RecordBatchReader.from_batches(rows.schema, received()))
        return DMLResult(count)

    def update_rows(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        """Set columns in the rows of these row ids. The last value of a repeated id is used."""
        return self.update_rows_through(lambda _: rows, rows.schema, options)

    def update_rows_through(
        self,
        changes: Callable[[TableWriter], pa.RecordBatchReader],
        schema: pa.Schema,
        options: DMLOptions,
    ) -> DMLResult:
        """Set columns; `changes` returns the rows for the writer that they are written by."""
        row_id = schema.names[_rowid(schema)]
        with self._writes.statement() as transaction:
            writer = transaction.table(*self._name_in_lake)
            rows = changes(writer)
            if not options.returning:
                return DMLResult(writer.update_row_ids(rows, row_id))
            emitted = UpdatedRows(writer, rows, row_id, options.emit)
            count = writer.update_row_ids(emitted.reader(), row_id)
            emitted.check(count)
        return DMLResult(count)

    def delete_rows(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        """Delete the rows of these row ids; ids without a row are ignored."""
        position = _rowid(rows.schema)
        seen = SeenRowIds()
        self._writes.begin()
        for batch in rows:
            new = seen.new(batch.column(position).to_numpy())
            if options.returning:
                # The scan of the statement may need the transaction between two batches.
                with self._writes.statement() as transaction:
                    writer = transaction.table(*self._name_in_lake)
                    options.emit(deleted_rows(writer, new))
        row_ids = seen.all()
        if not len(row_ids):
            return DMLResult(0)
        with self._writes.statement() as transaction:
            writer = transaction.table(*self._name_in_lake)
            return DMLResult(writer.delete_row_ids(row_ids))

    def add_column(self, column_schema: pa.Schema, options: AddColumnOptions) -> None:
        """Add a column of nulls at the end."""
        field = column_schema.field(0)

        def change(writer: TableWriter) -> None:
            if not (options.if_column_not_exists and _has(writer, [field.name])):
                writer.add_column(field.name, type_of(field), nullable=field.nullable)

        self._alter(change)

    def remove_column(self, name: str, options: RemoveColumnOptions) -> None:
        """Drop a column; older snapshots keep it."""

        def change(writer: TableWriter) -> None:
            if not (options.if_column_exists and not _has(writer, [name])):
                writer.drop_column(name)

        self._alter(change)

    def rename_column(
        self,
        old_name: str,
        new_name: str,
        options: RenameColumnOptions,  # noqa: ARG002
    ) -> None:
        """Rename a column."""
        self._alter(lambda writer: writer.rename_column(old_name, new_name))

    def change_column_type(
        self,
        column_schema: pa.Schema,
        expression: str,
        options: ChangeColumnTypeOptions,  # noqa: ARG002
    ) -> None:
        """Change a column to a type that holds every value of the old one."""
        field = column_schema.field(0)
        if expression and not _is_cast(expression, field.name):
            raise UnsupportedError(
                f"the type of column {field.name!r} cannot be changed with USING: a lake keeps its "
                "rows as they are written; add a column and update it instead"
            )
        self._alter(lambda writer: writer.alter_column(field.name, type_of(field)))

    def set_not_null(self, column: str, options: SetNotNullOptions) -> None:  # noqa: ARG002
        """Reject nulls from now on; raise ConstraintError if the column has nulls."""
        self._alter(lambda writer: writer.set_nullable(column, nullable=False))

    def drop_not_null(self, column: str, options: DropNotNullOptions) -> None:  # noqa: ARG002
        """Accept nulls from now on."""
        self._alter(lambda writer: writer.set_nullable(column, nullable=True))

    def set_default(self, column: str, expression: str, options: SetDefaultOptions) -> None:  # noqa: ARG002
        """Set the default of new rows: a literal, or an SQL expression."""
        self._alter(lambda writer: writer.set_default_sql(column, expression))

    def add_field(
        self, path: Sequence[str], column_schema: pa.Schema, options: AddFieldOptions
    ) -> None:
        """Add a field of nulls to the struct at `path`."""
        field = column_schema.field(0)
        whole = [*path, field.name]

        def change(writer: TableWriter) -> None:
            if not (options.if_field_not_exists and _has(writer, whole)):
                writer.add_column(whole, type_of(field))

        self._alter(change)

    def rename_field(
        self,
        path: Sequence[str],
        new_name: str,
        options: RenameFieldOptions,  # noqa: ARG002
    ) -> None:
        """Rename a field of a struct."""
        self._alter(lambda writer: writer.rename_column(path, new_name))

    def remove_field(self, path: Sequence[str], options: RemoveFieldOptions) -> None:
        """Drop a field of a struct."""

        def change(writer: TableWriter) -> None:
            if not (options.if_field_exists and not _has(writer, path)):
                writer.drop_column(path)

        self._alter(change)

    def _alter(self, change: Callable[[TableWriter], None]) -> None:
        with self._writes.statement() as transaction:
            change(transaction.table(*self._name_in_lake))

    @property
    def _writes(self) -> LakeWrites:
        return self._access.writes

    @property
    def _name_in_lake(self) -> tuple[str, str]:
        return self._summary.name, self._summary.schema


def _rowid(schema: pa.Schema) -> int:
    position = find_rowid_column(schema)
    if position is None:
        raise UnsupportedError("the rows have no row id")
    return position


def _has(writer: TableWriter, path: Sequence[str]) -> bool:
    columns = writer.columns
    for name in path:
        found = next((c for c in columns if fold_name(c.name) == fold_name(name)), None)
        if found is None:
            return False
        columns = found.children
    return True


def _is_cast(expression: str, column: str) -> bool:
    """Return whether an expression only casts the column, as DuckDB sends it without USING."""
    shown = "|".join(re.escape(name) for name in {column, duckdb_identifier(column)})
    pattern = rf'\s*CAST\(\s*(?:{shown}|"{re.escape(column)}")\s+AS\s+.*\)\s*'
    return re.fullmatch(pattern, expression, re.IGNORECASE | re.DOTALL) is not None

"""A small mutable catalog: everything that DML and DDL need, and nothing else.

Every DDL call is kept with its options, so that tests see what a catalog is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lakeport.catalog import (
    CatalogVersion,
    CreateSchemaOptions,
    CreateTableOptions,
    DMLOptions,
    DMLResult,
    DropSchemaOptions,
    DropTableOptions,
    OnConflict,
    RenameTableOptions,
    ScanOptions,
    project_schema,
    rowid_field,
    without_rowid,
)
from lakeport.errors import AlreadyExistsError, ConstraintError, NotFoundError, SchemaNotEmptyError

__all__ = ["ByIdTable", "MutableCatalog", "MutableSchema", "MutableTable"]

Row = dict[str, Any]


class _Rows:
    """Rows by rowid. A row whose `name` is `forbidden` breaks a constraint."""

    comment = ""

    def __init__(self, name: str, columns: pa.Schema, rows: Sequence[Row] = ()) -> None:
        self.name = name
        self.columns = columns
        self.rows: dict[int, Row] = dict(enumerate(rows))
        self.batches_seen: list[pa.RecordBatch] = []

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        return project_schema(self.columns.append(rowid_field()), columns)

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        rows = [{**row, "rowid": rowid} for rowid, row in self.rows.items()]
        return pa.Table.from_pylist(rows, self.arrow_schema()).to_reader()

    def insert(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        new: list[Row] = []
        for batch in rows:
            self.batches_seen.append(batch)
            for row in batch.to_pylist():
                if row.get("name") == "forbidden":
                    raise ConstraintError("the name 'forbidden' is not allowed")
                new.append(row)
            options.emit(batch)
        start = max(self.rows, default=-1) + 1
        self.rows.update(enumerate(new, start))
        return DMLResult(len(new))


class MutableTable(_Rows):
    """A table that takes batches with the rowid inside, and whose columns can change."""

    def __init__(
        self,
        name: str,
        columns: pa.Schema,
        rows: Sequence[Row] = (),
        *,
        calls: list[tuple[Any, ...]] | None = None,
    ) -> None:
        super().__init__(name, columns, rows)
        self.calls = calls if calls is not None else []

    def update_rows(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        changes: dict[int, Row] = {}
        for batch in rows:
            self.batches_seen.append(batch)
            for row in batch.to_pylist():
                if row.get("name") == "forbidden":
                    raise ConstraintError("the name 'forbidden' is not allowed")
                changes[row.pop("rowid")] = row
            new = [{**self.rows[i], **changes[i]} for i in batch.column("rowid").to_pylist()]
            options.emit(pa.RecordBatch.from_pylist(new, schema=self.columns))
        for rowid, row in changes.items():
            self.rows[rowid].update(row)
        return DMLResult(len(changes))

    def delete_rows(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        doomed: dict[int, None] = {}
        for batch in rows:
            self.batches_seen.append(batch)
            fresh = {i: None for i in batch.column("rowid").to_pylist() if i not in doomed}
            options.emit(
                pa.RecordBatch.from_pylist([self.rows[i] for i in fresh], schema=self.columns)
            )
            doomed.update(fresh)
        for rowid in doomed:
            del self.rows[rowid]
        return DMLResult(len(doomed))

    def add_column(self, column_schema: pa.Schema, options: Any) -> None:
        self.calls.append(("add_column", column_schema, options))
        field = column_schema.field(0)
        if field.name in self.columns.names:
            if options.if_column_not_exists:
                return
            raise AlreadyExistsError(f"there is a column {field.name!r} already")
        self.columns = self.columns.append(field)

    def remove_column(self, name: str, options: Any) -> None:
        self.calls.append(("remove_column", name, options))
        position = self.columns.get_field_index(name)
        if position >= 0:
            self.columns = self.columns.remove(position)
        elif not options.if_column_exists:
            raise NotFoundError(f"there is no column {name!r}")

    def rename_column(self, old_name: str, new_name: str, options: Any) -> None:
        self.calls.append(("rename_column", old_name, new_name, options))
        position = self.columns.get_field_index(old_name)
        self.columns = self.columns.set(position, self.columns.field(position).with_name(new_name))

    def change_column_type(self, column_schema: pa.Schema, expression: str, options: Any) -> None:
        self.calls.append(("change_column_type", column_schema, expression, options))
        field = column_schema.field(0)
        self.columns = self.columns.set(self.columns.get_field_index(field.name), field)

    def set_not_null(self, column: str, options: Any) -> None:
        self.calls.append(("set_not_null", column, options))

    def drop_not_null(self, column: str, options: Any) -> None:
        self.calls.append(("drop_not_null", column, options))

    def set_default(self, column: str, expression: str, options: Any) -> None:
        self.calls.append(("set_default", column, expression, options))

    def add_field(self, path: Sequence[str], column_schema: pa.Schema, options: Any) -> None:
        self.calls.append(("add_field", list(path), column_schema, options))

    def rename_field(self, path: Sequence[str], new_name: str, options: Any) -> None:
        self.calls.append(("rename_field", list(path), new_name, options))

    def remove_field(self, path: Sequence[str], options: Any) -> None:
        self.calls.append(("remove_field", list(path), options))


class ByIdTable(_Rows):
    """A table that takes row ids beside the rows."""

    def update(self, row_ids: pa.Array, rows: pa.RecordBatch, options: DMLOptions) -> DMLResult:
        ids = row_ids.to_pylist()
        for rowid, row in zip(ids, rows.to_pylist(), strict=True):
            self.rows[rowid].update(row)
        options.emit(pa.RecordBatch.from_pylist([self.rows[i] for i in ids], schema=self.columns))
        return DMLResult(len(ids))

    def delete(self, row_ids: pa.Array, options: DMLOptions) -> DMLResult:
        ids = list(dict.fromkeys(row_ids.to_pylist()))
        gone = [self.rows.pop(rowid) for rowid in ids]
        options.emit(pa.RecordBatch.from_pylist(gone, schema=self.columns))
        return DMLResult(len(ids))


class MutableSchema:
    """A schema whose tables come and go."""

    def __init__(self, name: str, calls: list[tuple[Any, ...]], comment: str = "") -> None:
        self.name = name
        self.comment = comment
        self.calls = calls
        self._tables: dict[str, Any] = {}

    def tables(self) -> Sequence[Any]:
        return list(self._tables.values())

    def table(self, name: str) -> Any:
        return self._tables.get(name)

    def scalar_functions(self) -> Sequence[Any]:
        return ()

    def table_functions(self) -> Sequence[Any]:
        return ()

    def table_functions_in_out(self) -> Sequence[Any]:
        return ()

    def put(self, table: Any) -> Any:
        self._tables[table.name] = table
        return table

    def create_table(self, name: str, schema: pa.Schema, options: CreateTableOptions) -> Any:
        self.calls.append(("create_table", name, schema, options))
        if name in self._tables and options.on_conflict is OnConflict.IGNORE:
            return self._tables[name]
        if name in self._tables and options.on_conflict is OnConflict.ERROR:
            raise AlreadyExistsError(f"there is a table {name!r} already")
        table = MutableTable(name, without_rowid(schema), calls=self.calls)
        table.comment = options.comment
        return self.put(table)

    def drop_table(self, name: str, options: DropTableOptions) -> None:
        self.calls.append(("drop_table", name, options))
        if self._tables.pop(name, None) is None and not options.ignore_not_found:
            raise NotFoundError(f"there is no table {name!r}")

    def rename_table(self, old_name: str, new_name: str, options: RenameTableOptions) -> None:
        self.calls.append(("rename_table", old_name, new_name, options))
        table = self._tables.pop(old_name, None)
        if table is None:
            if options.ignore_not_found:
                return
            raise NotFoundError(f"there is no table {old_name!r}")
        table.name = new_name
        self.put(table)


class MutableCatalog:
    """A catalog whose schemas come and go; its version counts the calls."""

    name = ""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._schemas: dict[str, MutableSchema] = {}

    def with_table(self, table: Any, schema: str = "s") -> Any:
        """Put a table into a schema, which is made where it is missing."""
        found = self._schemas.setdefault(schema, MutableSchema(schema, self.calls))
        return found.put(table)

    def schemas(self) -> Sequence[MutableSchema]:
        return list(self._schemas.values())

    def schema(self, name: str) -> MutableSchema | None:
        return self._schemas.get(name)

    def catalog_version(self) -> CatalogVersion:
        return CatalogVersion(len(self.calls))

    def create_schema(self, name: str, options: CreateSchemaOptions) -> MutableSchema:
        self.calls.append(("create_schema", name, options))
        if name in self._schemas and not options.if_not_exists:
            raise AlreadyExistsError(f"there is a schema {name!r} already")
        return self._schemas.setdefault(name, MutableSchema(name, self.calls, options.comment))

    def drop_schema(self, name: str, options: DropSchemaOptions) -> None:
        self.calls.append(("drop_schema", name, options))
        schema = self._schemas.get(name)
        if schema is None:
            if options.ignore_not_found:
                return
            raise NotFoundError(f"there is no schema {name!r}")
        if schema.tables() and options.cascade is False:
            raise SchemaNotEmptyError(f"schema {name!r} still has tables")
        del self._schemas[name]

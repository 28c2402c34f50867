"""`CatalogWriter`: one open write transaction, which reads the catalog and runs statements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from itertools import groupby
from typing import Any, Final, TypeVar

import sqlalchemy as sa

from lakeport.ducklake.metadata.database import Database
from lakeport.ducklake.metadata.rows import (
    CatalogRow,
    column_types,
    from_values,
    table_name,
    to_values,
)
from lakeport.ducklake.writing.database.dialects import TIME_COLUMNS, Dialect
from lakeport.ducklake.writing.database.statements import (
    CreateInlinedDeleteTable,
    CreateInlinedTable,
    Delete,
    DeleteDeadInlinedRows,
    DeleteInlinedDeletes,
    DeleteInlinedRows,
    DropTable,
    EndInlinedRows,
    EndRows,
    Insert,
    InsertInlinedDeletes,
    InsertInlinedRows,
    Statement,
    Update,
)
from lakeport.ducklake.writing.inlining import create_inlined_table, encode_rows, system_columns

__all__ = ["CatalogWriter"]

R = TypeVar("R", bound=CatalogRow)

# SQLite accepts 32766 parameters in a statement, PostgreSQL 65535.
MAX_PARAMETERS: Final = 16_000
# They read the columns of a table before they change it.
_ASKING: Final = (EndInlinedRows, DeleteInlinedRows, DeleteDeadInlinedRows)


class CatalogWriter:
    """An open transaction on the catalog database; `now` is the server's time."""

    def __init__(
        self,
        connection: sa.Connection,
        transaction: sa.Transaction,
        database: Database,
        dialect: Dialect,
        now: datetime,
    ) -> None:
        self.connection: Final = connection
        self.database: Final = database
        self.dialect: Final = dialect
        self.now: Final = now
        self._transaction = transaction

    def commit(self) -> None:
        """Commit the transaction."""
        self._transaction.commit()

    def rollback(self) -> None:
        """Roll the transaction back."""
        self._transaction.rollback()

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """Send a statement."""
        bound = tuple(self.dialect.parameter(value) for value in parameters)
        return self.connection.exec_driver_sql(sql, bound or None)

    def select(
        self, row: type[R], columns: Sequence[str], keys: Iterable[Sequence[Any]]
    ) -> list[R]:
        """Return the rows of a catalog table that have one of the keys."""
        names = ", ".join(self._selected(name) for name in column_types(row))
        found = []
        for condition, values in self._conditions(columns, list(keys)):
            sql = f"SELECT {names} FROM {self._table(row)} WHERE {condition}"
            found += [from_values(row, value) for value in self.execute(sql, values).all()]
        return found

    def table_exists(self, name: str) -> bool:
        """Return whether the catalog database has a table."""
        mark = self.dialect.placeholder
        if self.database.kind == "sqlite":
            sql, values = f"SELECT count(*) FROM sqlite_master WHERE name = {mark}", [name]
        else:
            sql = (
                "SELECT count(*) FROM information_schema.tables "
                f"WHERE table_name = {mark} AND table_schema = {mark}"
            )
            values = [name, self.database.schema or ""]
        return bool(self.execute(sql, values).scalar())

    def count(self, table: str, column: str | None = None) -> int:
        """Return the number of rows of a table, or of the values in a column."""
        what = "*" if column is None else self.dialect.identifier(column)
        # Without parameters, a driver reads `%%` in a name as it is.
        sql = f"SELECT count({what}) FROM {self._named(table)} WHERE 1 = {self.dialect.placeholder}"
        return int(self.execute(sql, [1]).scalar() or 0)

    def run_all(self, statements: Sequence[Statement]) -> None:
        """Run the statements of a commit."""
        for has_answers, group in groupby(statements, lambda each: isinstance(each, _ASKING)):
            with nullcontext() if has_answers else self._without_waiting():
                for statement in group:
                    self.run(statement)

    def _without_waiting(self) -> AbstractContextManager[Any]:
        """Send the statements of a block to PostgreSQL together; other databases run each."""
        if self.database.kind != "postgresql":
            return nullcontext()
        import psycopg

        if not psycopg.capabilities.has_pipeline():
            return nullcontext()
        raw: Any = self.connection.connection.dbapi_connection
        pipeline: AbstractContextManager[Any] = raw.pipeline()
        return pipeline

    def run(self, statement: Statement) -> None:
        """Run one statement of a commit."""
        match statement:
            case Insert(rows):
                self.insert(rows)
            case EndRows(table, columns, keys, snapshot):
                for condition, values in self._conditions(columns, keys):
                    self.execute(
                        f"UPDATE {self._table(table)} SET end_snapshot = {snapshot:d} "
                        f"WHERE end_snapshot IS NULL AND {condition}",
                        values,
                    )
            case Delete(table, columns, keys):
                for condition, values in self._conditions(columns, keys):
                    self.execute(f"DELETE FROM {self._table(table)} WHERE {condition}", values)
            case Update(table, assigned, where):
                mark = self.dialect.placeholder
                sets = ", ".join(f"{self.dialect.identifier(n)} = {mark}" for n in assigned)
                conditions = " AND ".join(f"{self.dialect.identifier(n)} = {mark}" for n in where)
                self.execute(
                    f"UPDATE {self._table(table)} SET {sets} WHERE {conditions}",
                    [*assigned.values(), *where.values()],
                )
            case _:
                self._run_inlined(statement)

    def _run_inlined(self, statement: Statement) -> None:
        """Run a statement about the tables for inlined rows and deletes."""
        match statement:
            case CreateInlinedTable():
                self._create_inlined_table(statement)
            case InsertInlinedRows():
                self._insert_inlined_rows(statement)
            case EndInlinedRows():
                self._end_inlined_rows(statement)
            case CreateInlinedDeleteTable(table_id):
                name = self._named(f"ducklake_inlined_delete_{table_id}")
                self.execute(
                    f"CREATE TABLE IF NOT EXISTS {name} "
                    "(file_id BIGINT, row_id BIGINT, begin_snapshot BIGINT)"
                )
            case InsertInlinedDeletes(table_id, file_id, positions, snapshot):
                deletes = [(file_id, position, snapshot) for position in positions.to_pylist()]
                name = f"ducklake_inlined_delete_{table_id}"
                self.insert_values(name, ("file_id", "row_id", "begin_snapshot"), deletes)
            case DeleteInlinedRows(table, snapshot):
                _, begin, _ = self.inlined_system_columns(table)
                self.execute(f"DELETE FROM {self._named(table)} WHERE {begin} <= {snapshot:d}")
            case DeleteInlinedDeletes(table_id, data_files, snapshot):
                name = self._named(f"ducklake_inlined_delete_{table_id}")
                for condition, values in self._conditions(["file_id"], [(f,) for f in data_files]):
                    self.execute(
                        f"DELETE FROM {name} WHERE begin_snapshot <= {snapshot:d} AND {condition}",
                        values,
                    )
            case DeleteDeadInlinedRows(table):
                _, begin, end = self.inlined_system_columns(table)
                snapshots = self._named("ducklake_snapshot")
                self.execute(
                    f"DELETE FROM {self._named(table)} WHERE {end} IS NOT NULL AND NOT EXISTS "
                    f"(SELECT 1 FROM {snapshots} WHERE snapshot_id >= {begin} "
                    f"AND snapshot_id < {end})"
                )
            case DropTable(name):
                self.execute(f"DROP TABLE IF EXISTS {self._named(name)}")

    def insert(self, rows: Sequence[CatalogRow]) -> None:
        """Insert rows, which may be of several tables."""
        by_table: dict[type[CatalogRow], list[tuple[Any, ...]]] = defaultdict(list)
        for row in rows:
            by_table[type(row)].append(self._values(row))
        for table, values in by_table.items():
            self.insert_values(table_name(table), tuple(column_types(table)), values)

    def insert_values(
        self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        """Insert rows of values; the statement names the columns."""
        names = ", ".join(self.dialect.identifier(name) for name in columns)
        row_marks = f"({', '.join([self.dialect.placeholder] * len(columns))})"
        for chunk in _chunks(rows, max(1, MAX_PARAMETERS // len(columns))):
            marks = ", ".join([row_marks] * len(chunk))
            self.execute(
                f"INSERT INTO {self._named(table)} ({names}) VALUES {marks}",
                [value for row in chunk for value in row],
            )

    def _values(self, row: CatalogRow) -> tuple[Any, ...]:
        values = to_values(row)
        if self.database.kind != "mysql":
            return values
        names = column_types(type(row))
        # MariaDB accepts no time zone in a DATETIME, which is in UTC.
        return tuple(
            value.removesuffix("+00") if name in TIME_COLUMNS and value else value
            for name, value in zip(names, values, strict=True)
        )

    def _create_inlined_table(self, statement: CreateInlinedTable) -> None:
        sql = create_inlined_table(
            self.database.kind,
            statement.name,
            statement.columns,
            schema=self.database.schema,
            has_prefix=statement.has_prefix,
        )
        self.execute(self.dialect.literally(sql))

    def _insert_inlined_rows(self, statement: InsertInlinedRows) -> None:
        encoded = encode_rows(self.database.kind, statement.rows, statement.columns)
        target = f"INSERT INTO {self._named(statement.table)}"
        # Its own columns are the first three of the table, whatever their names are.
        if encoded.arrow is not None:
            rows = encoded.arrow.append_column("row_id", statement.row_ids)
            values = ", ".join(["row_id", f"{statement.snapshot:d}", "NULL", *encoded.expressions])
            raw: Any = self.connection.connection.dbapi_connection
            raw.register("lakeport_rows", rows)
            try:
                raw.execute(f"{target} SELECT {values} FROM lakeport_rows")
            finally:
                raw.unregister("lakeport_rows")
            return
        marks = f"({', '.join([self.dialect.placeholder] * (3 + len(statement.columns)))})"
        numbered = [
            (row_id, statement.snapshot, None, *row)
            for row_id, row in zip(statement.row_ids.to_pylist(), encoded.parameters, strict=True)
        ]
        for chunk in _chunks(numbered, max(1, MAX_PARAMETERS // (3 + len(statement.columns)))):
            self.execute(
                f"{target} VALUES {', '.join([marks] * len(chunk))}",
                [value for row in chunk for value in row],
            )

    def _end_inlined_rows(self, statement: EndInlinedRows) -> None:
        row_id, begin, end = self.inlined_system_columns(statement.table)
        ids = [(id,) for id in statement.row_ids.to_pylist()]
        for condition, values in self._conditions([row_id], ids):
            self.execute(
                f"UPDATE {self._named(statement.table)} SET {end} = {statement.snapshot:d} "
                f"WHERE {end} IS NULL AND {begin} <> {statement.snapshot:d} AND {condition}",
                values,
            )

    def inlined_system_columns(self, table: str) -> tuple[str, str, str]:
        """Return the names of the first columns of a table for inlined rows, by its format."""
        result = self.execute(f"SELECT * FROM {self._named(table)} WHERE 1 = 0")
        return system_columns(has_prefix="_ducklake_row_id" in list(result.keys()))

    def _conditions(
        self, columns: Sequence[str], keys: Sequence[Sequence[Any]]
    ) -> Iterator[tuple[str, list[Any]]]:
        """Return the conditions for rows with one of the keys, in pieces of a bounded size."""
        mark, names = self.dialect.placeholder, [self.dialect.identifier(c) for c in columns]
        for chunk in _chunks(list(keys), max(1, MAX_PARAMETERS // len(columns))):
            if len(columns) == 1:
                condition = f"{names[0]} IN ({', '.join([mark] * len(chunk))})"
            else:
                one = " AND ".join(f"{name} = {mark}" for name in names)
                condition = "(" + " OR ".join([f"({one})"] * len(chunk)) + ")"
            yield condition, [value for key in chunk for value in key]

    def _selected(self, name: str) -> str:
        """Return a column as text, a number or a truth value, whatever type the database has."""
        quoted = self.dialect.identifier(name)
        if self.database.kind in ("duckdb", "postgresql") and (
            name.endswith("_uuid") or name in TIME_COLUMNS
        ):
            return f"CAST({quoted} AS VARCHAR)"
        return quoted

    def _table(self, row: type[CatalogRow]) -> str:
        return self._named(table_name(row))

    def _named(self, name: str) -> str:
        return self.dialect.table(self.database.schema, name)


T = TypeVar("T")


def _chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]

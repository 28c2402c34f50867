"""The columns of views, bound by DuckDB: in memory, over the lake's tables without rows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from lakeport.arrow import arrow_query, sandbox
from lakeport.ducklake.model import View
from lakeport.ducklake.views.references import CATALOG, used_macros
from lakeport.errors import UnsupportedError, first_line
from lakeport.types import (
    Column,
    column_from_duckdb,
    duckdb_identifier,
    duckdb_type,
    fold_name,
)

__all__ = ["ViewSchemas"]


class ViewSchemas:
    """The tables and views of a lake in a DuckDB database, without rows."""

    def __init__(self) -> None:
        name = duckdb_identifier(CATALOG)
        self._database: Any = sandbox(
            lambda database: database.execute(
                f"SET arrow_lossless_conversion = true; ATTACH ':memory:' AS {name}; "
                f"USE {name}.main"
            )
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._database.close()

    def add_table(self, schema: str, name: str, columns: Sequence[Column]) -> None:
        """Add a table that views may read; a table that DuckDB refuses is left out."""
        import duckdb

        fields = ", ".join(
            f"{duckdb_identifier(column.name)} {duckdb_type(column)}" for column in columns
        )
        with suppress(duckdb.Error):
            self._add_schema(schema)
            self._database.execute(f"CREATE TABLE {_path(schema, name)} ({fields})")

    def add_view(self, view: View) -> None:
        """Add a view that other views may read."""
        aliases = ", ".join(duckdb_identifier(alias) for alias in view.column_aliases)
        path = _path(view.schema, view.name)
        self._add_schema(view.schema)
        for macro in used_macros(view):
            self._add_schema(macro.schema)
            self._bind(macro.create(CATALOG))
        self._bind(f"CREATE VIEW {path} {aliases and f'({aliases})'} AS {view.select(CATALOG)}")

    def arrow_schema(self, view: View) -> pa.Schema:
        """Return the columns of a view that was added, in the Arrow types that DuckDB returns."""
        schema = self._bind(f"FROM {_path(view.schema, view.name)} LIMIT 0").schema
        comments = self._comments(view, schema.names)
        return pa.schema(
            [
                field.with_metadata({**(field.metadata or {}), "comment": comment})
                if comment
                else field
                for field, comment in zip(schema, comments, strict=True)
            ]
        )

    def columns(self, view: View) -> tuple[Column, ...]:
        """Return the columns of a view that was added, in the types of a lake.

        Raises:
            UnsupportedError: A column has a type that lakes do not have.
        """
        import duckdb

        try:
            shown = self._database.sql(f"FROM {_path(view.schema, view.name)}")
        except duckdb.Error as error:
            raise _refused(error) from None
        columns = [
            column_from_duckdb(name, type)
            for name, type in zip(shown.columns, shown.types, strict=True)
        ]
        comments = self._comments(view, shown.columns)
        return tuple(
            replace(column, comment=comment)
            for column, comment in zip(columns, comments, strict=True)
        )

    def _comments(self, view: View, names: Sequence[str]) -> list[str | None]:
        """Return the comments, which the lake stores by the column names of the SELECT."""
        if not view.column_comments:
            return [None] * len(names)
        comments = {fold_name(name): text for name, text in view.column_comments.items()}
        selected = self._database.sql(view.select(CATALOG)).columns
        return [comments.get(fold_name(name)) for name in selected]

    def _bind(self, sql: str) -> pa.Table:
        import duckdb

        try:
            return arrow_query(self._database, sql).to_arrow_table()
        except duckdb.Error as error:
            raise _refused(error) from None

    def _add_schema(self, schema: str) -> None:
        path = f"{duckdb_identifier(CATALOG)}.{duckdb_identifier(schema)}"
        self._database.execute(f"CREATE SCHEMA IF NOT EXISTS {path}")


def _refused(error: Exception) -> UnsupportedError:
    reason = first_line(error).replace(f"{CATALOG}.", "")
    return UnsupportedError(f"DuckDB refuses the view: {reason}")


def _path(schema: str, name: str) -> str:
    return ".".join(map(duckdb_identifier, (CATALOG, schema, name)))

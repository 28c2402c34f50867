"""The columns of views, bound by DuckDB: in memory, over the lake's tables without rows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self

from lakeport.ducklake import View
from lakeport.errors import UnsupportedError, first_line
from lakeport.spark.sql.views.syntax import CATALOG
from lakeport.types import Column, duckdb_type, fold_name, normalize

__all__ = ["ViewSchemas"]

# A view's SQL is untrusted: it must reach neither files, nor the network, nor variables.
_LOCKED: Final = """
    SET python_enable_replacements = false;
    SET autoinstall_known_extensions = false;
    SET autoload_known_extensions = false;
    SET enable_external_access = false;
    SET lock_configuration = true
"""


class ViewSchemas:
    """The tables and views of a lake in a DuckDB database, without rows."""

    def __init__(self) -> None:
        import duckdb

        self._database: Any = duckdb.connect(config={"threads": 1})
        self._database.execute(f"ATTACH ':memory:' AS {_quote(CATALOG)}")
        self._database.execute(f"USE {_quote(CATALOG)}.main")
        self._database.execute(_LOCKED)

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

        fields = ", ".join(f"{_quote(column.name)} {duckdb_type(column)}" for column in columns)
        with suppress(duckdb.Error):
            self._add_schema(schema)
            self._database.execute(f"CREATE TABLE {_path(schema, name)} ({fields})")

    def add_view(self, view: View) -> tuple[Column, ...]:
        """Add a view that other views may read; return its columns as DuckDB binds them."""
        import duckdb

        aliases = ", ".join(_quote(alias) for alias in view.column_aliases)
        path = _path(view.schema, view.name)
        try:
            self._add_schema(view.schema)
            self._database.execute(
                f"CREATE VIEW {path} {aliases and f'({aliases})'} AS {view.select(CATALOG)}"
            )
            shown = self._database.sql(f"FROM {path}")
            columns = [
                _column(name, type) for name, type in zip(shown.columns, shown.types, strict=True)
            ]
            return tuple(self._commented(view, columns))
        except duckdb.Error as error:
            reason = first_line(error).replace(f"{CATALOG}.", "")
            raise UnsupportedError(f"DuckDB refuses the view: {reason}") from None

    def _commented(self, view: View, columns: list[Column]) -> list[Column]:
        """Add the comments, which the lake stores by the column names of the SELECT."""
        if not view.column_comments:
            return columns
        comments = {fold_name(name): text for name, text in view.column_comments.items()}
        names = self._database.sql(view.select(CATALOG)).columns
        return [
            replace(column, comment=comments.get(fold_name(name)))
            for column, name in zip(columns, names, strict=True)
        ]

    def _add_schema(self, schema: str) -> None:
        path = f"{_quote(CATALOG)}.{_quote(schema)}"
        self._database.execute(f"CREATE SCHEMA IF NOT EXISTS {path}")


def _column(name: str, type: Any) -> Column:
    """Return a column of DuckDB with the type names of the lake format."""
    if type.id in ("struct", "map"):
        children = tuple(_column(child, inner) for child, inner in type.children)
        return Column(id=0, name=name, type=type.id, children=children)
    if type.id == "list":
        element = _column("element", type.children[0][1])
        return Column(id=0, name=name, type="list", children=(element,))
    return Column(id=0, name=name, type=normalize(str(type)))


def _path(schema: str, name: str) -> str:
    return f"{_quote(CATALOG)}.{_quote(schema)}.{_quote(name)}"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

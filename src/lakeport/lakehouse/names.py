"""The published names of a lake's schemas, and the table that a text names.

DuckDB's client cannot address a schema called `main`, the default schema of every lake.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import pyarrow as pa

from lakeport.catalog import check_name, rowid_field
from lakeport.ducklake.metadata import LakeContents, TableSummary
from lakeport.errors import DefinitionError, InvalidArgumentError
from lakeport.types import Column, arrow_field, duckdb_type, fold_name

__all__ = [
    "MAIN",
    "ROWID",
    "PublishedNames",
    "check_main_as",
    "default_sql",
    "find_table",
    "has_rowid",
    "parse_table_name",
    "published_schema",
]

MAIN = "main"

_PART = r'"(?:[^"]|"")+"|[^".]+'
_QUALIFIED = re.compile(rf"\s*({_PART})\s*(?:\.\s*({_PART})\s*)?")


def check_main_as(name: str | None) -> None:
    """Refuse a published name of the schema `main` that clients could not address."""
    if name is not None and fold_name(check_name(name, "schema")) == MAIN:
        raise DefinitionError("main_as must be another name than 'main'")


@dataclass(frozen=True, slots=True)
class PublishedNames:
    """The published names of the schema `main` and of the schema of functions."""

    main: str
    """The published name of the lake's schema `main`."""
    functions: str
    """The schema of the functions and tables about the lake itself."""

    @classmethod
    def choose(cls, schemas: Iterable[str], main_as: str | None) -> PublishedNames:
        """Choose names that no schema of the lake has."""
        taken = {fold_name(name) for name in schemas}
        preferred = "public" if main_as is None else main_as
        main = _first_free([preferred, "main_schema"], taken)
        functions = _first_free(["lakeport", "lakeport_functions"], taken | {fold_name(main)})
        return cls(main, functions)

    def published(self, schema: str) -> str:
        """Return the published name of a schema of the lake."""
        return self.main if fold_name(schema) == MAIN else schema

    def in_lake(self, schema: str) -> str:
        """Return the schema of the lake that has a published name."""
        return MAIN if fold_name(schema) == fold_name(self.main) else schema


def parse_table_name(names: PublishedNames, text: str) -> tuple[str, str]:
    """Return the schema and table of the lake that `t`, `schema.t` or `"schema"."t"` name.

    `t` alone is in `main`. The schema may be written as in the lake or as published.
    """
    match = _QUALIFIED.fullmatch(text)
    if match is None:
        raise InvalidArgumentError(f"{text[:80]!r} is not the name of a table")
    first, second = (None if part is None else _unquoted(part) for part in match.groups())
    return (MAIN, first or "") if second is None else (names.in_lake(first or ""), second)


def find_table(contents: LakeContents, schema: str, name: str) -> TableSummary | None:
    """Return the table of a name, ignoring case; None if the lake has none."""
    key = (fold_name(schema), fold_name(name))
    for table in contents.tables:
        if (fold_name(table.schema), fold_name(table.name)) == key:
            return table
    return None


def _first_free(candidates: list[str], taken: set[str]) -> str:
    return next(name for name in _numbered(candidates) if fold_name(name) not in taken)


def _numbered(candidates: list[str]) -> Iterator[str]:
    yield from candidates
    for number in count(2):
        yield f"{candidates[-1]}_{number}"


def _unquoted(part: str) -> str:
    part = part.strip()
    return part[1:-1].replace('""', '"') if part.startswith('"') else part


ROWID = "rowid"
_ROWID_FIELD = rowid_field(ROWID)


def published_schema(columns: Sequence[Column], *, with_rowid: bool) -> pa.Schema:
    """Return the columns with comments and defaults, with the row id last if requested."""
    fields = [_field(column) for column in columns]
    if with_rowid and has_rowid(columns):
        fields.append(_ROWID_FIELD)
    return pa.schema(fields)


def has_rowid(columns: Sequence[Column]) -> bool:
    """Return whether clients can read row ids; a column named `rowid` hides them."""
    return ROWID not in [fold_name(column.name) for column in columns]


def default_sql(column: Column) -> str | None:
    """Return the SQL expression for the column in an INSERT that omits it; None for NULL."""
    if column.default is None or column.default_is_expression:
        return column.default
    text = "'" + column.default.replace("'", "''") + "'"
    return text if column.type == "varchar" else f"CAST({text} AS {duckdb_type(column)})"


def _field(column: Column) -> pa.Field:
    field = arrow_field(column)
    if column.default is None and not column.comment:
        return field
    metadata: dict[bytes | str, bytes | str] = dict(field.metadata or {})
    if column.comment:
        metadata["comment"] = column.comment
    default = default_sql(column)
    if default is not None:
        metadata["default"] = default
    return field.with_metadata(metadata or None)

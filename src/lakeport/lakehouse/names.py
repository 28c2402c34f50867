"""Under which names the schemas of a lake are published, and which table a text means.

DuckDB's client cannot address a schema called `main`, which is where every lake keeps its tables.
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
    """The names that a lake catalog gives to what would otherwise clash."""

    main: str
    """The published name of the lake's schema `main`."""
    functions: str
    """The schema of the functions and tables about the lake itself."""

    @classmethod
    def choose(cls, schemas: Iterable[str], main_as: str | None) -> PublishedNames:
        """Names that no schema of the lake has."""
        taken = {fold_name(name) for name in schemas}
        wanted = [main_as] if main_as is not None else ["public"]
        main = _first_free([*wanted, "main_schema"], taken)
        functions = _first_free(["lakeport", "lakeport_functions"], taken | {fold_name(main)})
        return cls(main, functions)

    def published(self, schema: str) -> str:
        """The name under which a schema of the lake is published."""
        return self.main if fold_name(schema) == MAIN else schema

    def in_lake(self, schema: str) -> str:
        """The schema of the lake that is published under a name."""
        return MAIN if fold_name(schema) == fold_name(self.main) else schema


def parse_table_name(names: PublishedNames, text: str) -> tuple[str, str]:
    """Return the schema and the table that `t`, `schema.t` or `"schema"."t"` mean in the lake.

    `t` alone is in `main`. The schema may be written as in the lake or as published.
    """
    match = _QUALIFIED.fullmatch(text)
    if match is None:
        raise InvalidArgumentError(f"{text[:80]!r} is not the name of a table")
    first, second = (None if part is None else _unquoted(part) for part in match.groups())
    return (MAIN, first or "") if second is None else (names.in_lake(first or ""), second)


def find_table(contents: LakeContents, schema: str, name: str) -> TableSummary | None:
    """Return the table of a name in the lake, whatever the case of its letters, or None."""
    wanted = (fold_name(schema), fold_name(name))
    for table in contents.tables:
        if (fold_name(table.schema), fold_name(table.name)) == wanted:
            return table
    return None


def _first_free(wanted: list[str], taken: set[str]) -> str:
    return next(name for name in _spellings(wanted) if fold_name(name) not in taken)


def _spellings(wanted: list[str]) -> Iterator[str]:
    yield from wanted
    for number in count(2):
        yield f"{wanted[-1]}_{number}"


def _unquoted(part: str) -> str:
    part = part.strip()
    return part[1:-1].replace('""', '"') if part.startswith('"') else part


ROWID = "rowid"


def published_schema(columns: Sequence[Column], *, with_rowid: bool) -> pa.Schema:
    """The columns with their comments and defaults, and the row id last where it is wanted."""
    fields = [_field(column) for column in columns]
    if with_rowid and has_rowid(columns):
        fields.append(rowid_field(ROWID))
    return pa.schema(fields)


def has_rowid(columns: Sequence[Column]) -> bool:
    """Whether row ids can be asked for: not where a column of the table hides them."""
    return all(fold_name(column.name) != ROWID for column in columns)


def default_sql(column: Column) -> str | None:
    """What an insert that omits the column writes, as an SQL expression."""
    if column.default is None or column.default_is_expression:
        return column.default
    text = "'" + column.default.replace("'", "''") + "'"
    return text if column.type == "varchar" else f"CAST({text} AS {duckdb_type(column)})"


def _field(column: Column) -> pa.Field:
    field = arrow_field(column)
    metadata: dict[bytes | str, bytes | str] = dict(field.metadata or {})
    if column.comment:
        metadata["comment"] = column.comment
    default = default_sql(column)
    if default is not None:
        metadata["default"] = default
    return field.with_metadata(metadata or None)

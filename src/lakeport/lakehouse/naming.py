"""Under which names the schemas of a lake are published, and which table a text means.

DuckDB's client cannot address a schema called `main`, which is where every lake keeps its tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count

from lakeport.catalog import check_name
from lakeport.ducklake import Contents, TableSummary
from lakeport.ducklake.text import ascii_lower
from lakeport.errors import DefinitionError, InvalidArgumentError

__all__ = ["MAIN", "Names", "check_main_as", "find_table", "parse_table_name"]

MAIN = "main"

_PART = r'"(?:[^"]|"")+"|[^".]+'
_QUALIFIED = re.compile(rf"\s*({_PART})\s*(?:\.\s*({_PART})\s*)?")


def check_main_as(name: str | None) -> None:
    """Refuse a published name of the schema `main` that clients could not address."""
    if name is not None and ascii_lower(check_name(name, "schema")) == MAIN:
        raise DefinitionError("main_as must be another name than 'main'")


@dataclass(frozen=True, slots=True)
class Names:
    """The names that a lake catalog gives to what would otherwise clash."""

    main: str
    """The published name of the lake's schema `main`."""
    functions: str
    """The schema of the functions and tables about the lake itself."""

    @classmethod
    def choose(cls, schemas: Iterable[str], main_as: str | None) -> Names:
        """Names that no schema of the lake has."""
        taken = {ascii_lower(name) for name in schemas}
        wanted = [main_as] if main_as is not None else ["public"]
        main = _first_free([*wanted, "main_schema"], taken)
        functions = _first_free(["lakeport", "lakeport_functions"], taken | {ascii_lower(main)})
        return cls(main, functions)

    def published(self, schema: str) -> str:
        """The name under which a schema of the lake is published."""
        return self.main if ascii_lower(schema) == MAIN else schema

    def in_lake(self, schema: str) -> str:
        """The schema of the lake that is published under a name."""
        return MAIN if ascii_lower(schema) == ascii_lower(self.main) else schema


def parse_table_name(names: Names, text: str) -> tuple[str, str]:
    """Return the schema and the table that `t`, `schema.t` or `"schema"."t"` mean in the lake.

    `t` alone is in `main`. The schema may be written as in the lake or as published.
    """
    match = _QUALIFIED.fullmatch(text)
    if match is None:
        raise InvalidArgumentError(f"{text[:80]!r} is not the name of a table")
    first, second = (None if part is None else _unquoted(part) for part in match.groups())
    return (MAIN, first or "") if second is None else (names.in_lake(first or ""), second)


def find_table(contents: Contents, schema: str, name: str) -> TableSummary | None:
    """Return the table of a name in the lake, whatever the case of its letters, or None."""
    wanted = (ascii_lower(schema), ascii_lower(name))
    for table in contents.tables:
        if (ascii_lower(table.schema), ascii_lower(table.name)) == wanted:
            return table
    return None


def _first_free(wanted: list[str], taken: set[str]) -> str:
    return next(name for name in _spellings(wanted) if ascii_lower(name) not in taken)


def _spellings(wanted: list[str]) -> Iterator[str]:
    yield from wanted
    for number in count(2):
        yield f"{wanted[-1]}_{number}"


def _unquoted(part: str) -> str:
    part = part.strip()
    return part[1:-1].replace('""', '"') if part.startswith('"') else part

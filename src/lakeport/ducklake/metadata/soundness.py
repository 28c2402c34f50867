"""Find the objects of a catalog that can be listed: a bad row must not hide the rest of the lake.

A schema, table or view whose row is not valid is left out, with the reason. Reading it by name
raises `CorruptLakeError` with the same reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from lakeport.ducklake.metadata.queries import QueryResult
from lakeport.ducklake.metadata.rows import SchemaRow, TableRow, ViewRow
from lakeport.types import fold_name

__all__ = ["Omission", "Sound", "id_problem", "name_problem", "sound_names"]

Kind = Literal["schema", "table", "view"]
_SHOWN = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Omission:
    """A schema, table or view that is left out of the listings of a lake."""

    kind: Kind
    id: int | None
    schema: str | None
    """The name of its schema; None if it is a schema, or if its schema is left out."""
    name: str | None
    reason: str

    @property
    def shown_name(self) -> str:
        """The name for display, or the id of an object without a name."""
        name = f"with id {self.id}" if self.name is None else self.name[:_SHOWN]
        return name if self.schema is None else f"{self.schema[:_SHOWN]}.{name}"

    def __str__(self) -> str:
        return f"{self.kind} {self.shown_name} is left out: {self.reason}"


@dataclass(frozen=True, slots=True)
class Sound:
    """The rows of a lookup that can be listed, and the objects that are left out."""

    rows: QueryResult
    omitted: tuple[Omission, ...]


@dataclass(frozen=True, slots=True)
class _Member:
    """A table or view of a schema."""

    kind: Literal["table", "view"]
    id: int
    name: str
    row: TableRow | ViewRow


def sound_names(rows: QueryResult, tables_with_columns: Collection[int]) -> Sound:
    """Leave out schemas, tables and views without valid names and ids.

    `tables_with_columns` are the ids of the tables that have columns. A rename that raced a drop
    leaves a row of a table without columns in the catalog. Such a table does not exist, and does
    not conflict with another table of its name.
    """
    omitted: list[Omission] = []
    schemas = _schemas(rows[SchemaRow], omitted)
    schema_names = {row.schema_id: row.schema_name for row in schemas}
    members = [
        *(
            _Member("table", row.table_id, row.table_name, row)
            for row in rows[TableRow]
            if row.table_id in tables_with_columns
        ),
        *(_Member("view", row.view_id, row.view_name, row) for row in rows[ViewRow]),
    ]
    by_name: dict[tuple[int, str], list[_Member]] = defaultdict(list)
    for member in members:
        schema = schema_names.get(member.row.schema_id)
        if schema is None:
            continue
        problem = id_problem(member.id) or name_problem(member.name) or _view_problem(member.row)
        if problem:
            omitted.append(_omission(member.kind, member.id, schema, member.name, problem))
        else:
            by_name[member.row.schema_id, fold_name(member.name)].append(member)
    valid: list[_Member] = []
    for (schema_id, _), alike in by_name.items():
        if len(alike) == 1:
            valid += alike
            continue
        ids = " and ".join(f"the {member.kind} with id {member.id}" for member in alike)
        problem, schema = f"{ids} have the same name", schema_names[schema_id]
        omitted += [
            _omission(member.kind, member.id, schema, member.name, problem) for member in alike
        ]
    listed = rows.replace(
        {
            SchemaRow: schemas,
            TableRow: [member.row for member in valid if member.kind == "table"],
            ViewRow: [member.row for member in valid if member.kind == "view"],
        }
    )
    return Sound(listed, tuple(omitted))


def name_problem(name: object) -> str | None:
    """Return why a value cannot be the name of an object, or None."""
    if name is None:
        return "its name is NULL"
    if not isinstance(name, str):
        return f"its name is not text but {type(name).__name__}"
    return None if name else "its name is empty"


def id_problem(id: object) -> str | None:
    """Return why a value cannot be the id of an object, or None."""
    if isinstance(id, int) and id >= 0:
        return None
    return "its id is NULL" if id is None else f"its id is {str(id)[:_SHOWN]}"


def _schemas(rows: Iterable[SchemaRow], omitted: list[Omission]) -> list[SchemaRow]:
    """Return the schemas that can be listed; of two with the same name, the older one."""
    schemas: dict[str, SchemaRow] = {}
    for row in sorted(rows, key=lambda row: _null_last(row.schema_id)):
        problem = id_problem(row.schema_id) or name_problem(row.schema_name)
        if problem is None:
            older = schemas.setdefault(fold_name(row.schema_name), row)
            if older is row:
                continue
            problem = f"the schema with id {older.schema_id} has the same name"
        problem += "; its tables and views are left out with it"
        omitted.append(_omission("schema", row.schema_id, None, row.schema_name, problem))
    return list(schemas.values())


def _null_last(id: int | None) -> tuple[bool, int]:
    return id is None, id or 0


def _view_problem(row: TableRow | ViewRow) -> str | None:
    if isinstance(row, TableRow):
        return None
    if not _is_text(row.sql):
        return "it has no SQL text"
    if row.column_aliases is not None and row.column_aliases.count('"') % 2:
        return "the names of its columns cannot be read"
    return None


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _omission(kind: Kind, id: object, schema: str | None, name: object, reason: str) -> Omission:
    return Omission(
        kind=kind,
        id=id if isinstance(id, int) else None,
        schema=schema,
        name=name if isinstance(name, str) and name else None,
        reason=reason,
    )

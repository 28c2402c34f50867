"""Which objects of a catalog can be listed: one bad row must not hide the rest of the lake.

A schema, table or view whose row cannot be understood is left out, with the reason. Reading it by
name raises `CorruptLakeError` with the same reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lakeport.ducklake.metadata.queries import Row
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
        """The name for people, or the id of what has no name."""
        name = f"with id {self.id}" if self.name is None else self.name[:_SHOWN]
        return name if self.schema is None else f"{self.schema[:_SHOWN]}.{name}"

    def __str__(self) -> str:
        return f"{self.kind} {self.shown_name} is left out: {self.reason}"


@dataclass(frozen=True, slots=True)
class Sound:
    """The rows of a lookup that can be listed, and what was left out."""

    rows: dict[str, list[Row]]
    omitted: tuple[Omission, ...]


def sound_names(rows: Mapping[str, list[Row]], living: Collection[int]) -> Sound:
    """Leave out schemas, tables and views without usable names and ids.

    `living` are the ids of the tables that have columns. A rename that raced a drop leaves a table
    without columns behind: it is not a table, and no second table of its name.
    """
    omitted: list[Omission] = []
    schemas = _schemas(rows["schema"], omitted)
    names = {row["schema_id"]: row["schema_name"] for row in schemas}
    tables = [row for row in rows["table"] if row["table_id"] in living]
    members = [
        *(("table", row["table_id"], row["table_name"], row) for row in tables),
        *(("view", row["view_id"], row["view_name"], row) for row in rows["view"]),
    ]
    kept: dict[str, list[Row]] = {"table": [], "view": []}
    by_name: dict[tuple[int, str], list[tuple[Any, ...]]] = defaultdict(list)
    for kind, id, name, row in members:
        if row["schema_id"] not in names:
            continue
        problem = id_problem(id) or name_problem(name) or _view_problem(kind, row)
        if problem:
            omitted.append(_omission(kind, id, names[row["schema_id"]], name, problem))
        else:
            by_name[row["schema_id"], fold_name(name)].append((kind, id, name, row))
    for (schema_id, _), alike in by_name.items():
        if len(alike) == 1:
            kept[alike[0][0]].append(alike[0][-1])
            continue
        ids = " and ".join(f"the {kind} with id {id}" for kind, id, *_ in alike)
        problem = f"{ids} have the same name"
        omitted += [
            _omission(kind, id, names[schema_id], name, problem) for kind, id, name, _ in alike
        ]
    return Sound({**rows, "schema": schemas, **kept}, tuple(omitted))


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


def _schemas(rows: Iterable[Row], omitted: list[Omission]) -> list[Row]:
    """The schemas that can be listed; of two with one name, the older one."""
    kept: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: (row["schema_id"] is None, row["schema_id"] or 0)):
        id, name = row["schema_id"], row["schema_name"]
        problem = id_problem(id) or name_problem(name)
        if problem is None:
            older = kept.setdefault(fold_name(name), row)
            if older is row:
                continue
            problem = f"the schema with id {older['schema_id']} has the same name"
        problem += "; its tables and views are left out with it"
        omitted.append(_omission("schema", id, None, name, problem))
    return list(kept.values())


def _view_problem(kind: str, row: Row) -> str | None:
    if kind != "view":
        return None
    if not isinstance(row["sql"], str):
        return "it has no SQL text"
    aliases = row["column_aliases"]
    if isinstance(aliases, str) and aliases.count('"') % 2:
        return "the names of its columns cannot be read"
    return None


def _omission(kind: Any, id: object, schema: str | None, name: object, reason: str) -> Omission:
    return Omission(
        kind=kind,
        id=id if isinstance(id, int) else None,
        schema=schema,
        name=name if isinstance(name, str) and name else None,
        reason=reason,
    )

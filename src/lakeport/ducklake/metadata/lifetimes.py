"""Lifetimes: the snapshots at which a schema, table or view of a lake had a name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from lakeport.ducklake.metadata.queries import QueryResult
from lakeport.ducklake.metadata.rows import SchemaRow, TableRow, ViewRow
from lakeport.ducklake.metadata.soundness import name_problem
from lakeport.types import fold_name

__all__ = ["Lifetime", "lifetimes_of", "why_missing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """A name of an object, and the snapshots at which the object has that name."""

    kind: Literal["schema", "table", "view"]
    id: int
    schema: str
    name: str
    """Empty for a schema."""
    begin: int
    """The first snapshot with this name."""
    end: int | None
    """The first snapshot without it; None while the object has this name."""


def lifetimes_of(rows: QueryResult) -> list[Lifetime]:
    """Return the lifetimes in the rows of one lookup; rows without a name have none."""
    named = [row for row in rows[SchemaRow] if name_problem(row.schema_name) is None]
    schemas = {row.schema_id: row.schema_name for row in named}
    names: list[tuple[Literal["table", "view"], int, str, TableRow | ViewRow]] = [
        *(("table", row.table_id, row.table_name, row) for row in rows[TableRow]),
        *(("view", row.view_id, row.view_name, row) for row in rows[ViewRow]),
    ]
    return [
        *(
            Lifetime(
                kind="schema",
                id=row.schema_id,
                schema=row.schema_name,
                name="",
                begin=row.begin_snapshot,
                end=row.end_snapshot,
            )
            for row in named
        ),
        *(
            Lifetime(
                kind=kind,
                id=id,
                schema=schemas[member.schema_id],
                name=name,
                begin=member.begin_snapshot,
                end=member.end_snapshot,
            )
            for kind, id, name, member in names
            if member.schema_id in schemas and name_problem(name) is None
        ),
    ]


def why_missing(lifetimes: Iterable[Lifetime], schema: str, name: str, snapshot: int) -> str | None:
    """Return why a snapshot has no table or view of a name; None if no snapshot ever had one."""
    namesakes = [
        lifetime
        for lifetime in lifetimes
        if lifetime.name
        and fold_name(lifetime.schema) == fold_name(schema)
        and fold_name(lifetime.name) == fold_name(name)
    ]
    begins = [lifetime.begin for lifetime in namesakes if lifetime.begin > snapshot]
    ends = [
        lifetime.end
        for lifetime in namesakes
        if lifetime.end is not None and lifetime.end <= snapshot
    ]
    reasons = []
    if ends:
        reasons.append(f"snapshot {max(ends)} dropped or renamed it")
    if begins:
        reasons.append(f"snapshot {min(begins)} created it{' again' if ends else ''}")
    return " and ".join(reasons) or None

"""From which snapshot to which a schema, table or view of a lake had a name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from lakeport.ducklake.metadata.queries import Row
from lakeport.types import fold_name

__all__ = ["Lifetime", "lifetimes_of", "why_missing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """A name of an object, and the snapshots that know it by that name."""

    kind: Literal["schema", "table", "view"]
    id: int
    schema: str
    name: str
    """Empty for a schema."""
    begin: int
    """The first snapshot with this name."""
    end: int | None
    """The first snapshot without it; None while it stands."""


def lifetimes_of(rows: Mapping[str, list[Row]]) -> list[Lifetime]:
    """Return the lifetimes in the rows of one lookup."""
    schemas = {row["schema_id"]: row["schema_name"] for row in rows["schema"]}
    found = [
        Lifetime(
            kind="schema",
            id=row["schema_id"],
            schema=row["schema_name"],
            name="",
            begin=row["begin_snapshot"],
            end=row["end_snapshot"],
        )
        for row in rows["schema"]
    ]
    kinds: tuple[Literal["table", "view"], ...] = ("table", "view")
    for kind in kinds:
        found += [
            Lifetime(
                kind=kind,
                id=row[f"{kind}_id"],
                schema=schemas[row["schema_id"]],
                name=row[f"{kind}_name"],
                begin=row["begin_snapshot"],
                end=row["end_snapshot"],
            )
            for row in rows[kind]
            if row["schema_id"] in schemas
        ]
    return found


def why_missing(lifetimes: Iterable[Lifetime], schema: str, name: str, snapshot: int) -> str | None:
    """Return why a snapshot has no table or view of a name; None if no snapshot ever had one."""
    known = [
        lifetime
        for lifetime in lifetimes
        if lifetime.name
        and fold_name(lifetime.schema) == fold_name(schema)
        and fold_name(lifetime.name) == fold_name(name)
    ]
    begins = [lifetime.begin for lifetime in known if lifetime.begin > snapshot]
    ends = [
        lifetime.end for lifetime in known if lifetime.end is not None and lifetime.end <= snapshot
    ]
    reasons = []
    if ends:
        reasons.append(f"snapshot {max(ends)} dropped or renamed it")
    if begins:
        reasons.append(f"snapshot {min(begins)} created it{' again' if ends else ''}")
    return " and ".join(reasons) or None

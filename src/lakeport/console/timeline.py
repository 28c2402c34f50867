"""The history of a lake: its snapshots, and the names that objects had at each of them.

Every function takes a client of the server and blocks. Pages call them in threads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakeport.airport.client import Client
from lakeport.console.facts import FUNCTIONS, changed_sizes

__all__ = ["ObjectNames", "SnapshotFacts", "object_names", "snapshots"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFacts:
    """A snapshot in the history of a lake."""

    id: int
    time: datetime
    author: str
    message: str
    changes: tuple[tuple[str, tuple[str, ...]], ...]
    """What it changed: a kind such as `tables_created`, and names of objects."""
    rows_added: int = 0
    rows_removed: int = 0
    files_added: int = 0
    files_removed: int = 0


class ObjectNames:
    """The names of schemas, tables and views at each snapshot, as far as the caller may see them.

    Args:
        rows: Those of the table `names`.
        published: The prefixes of names in the lake, with those that clients see.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]], published: Mapping[str, str]) -> None:
        self._published = published
        self._rows: dict[int, list[tuple[int, int | None, str]]] = defaultdict(list)
        self._kinds: dict[int, str] = {}
        self._ids: dict[tuple[str, int], int] = {}
        for row in sorted(rows, key=lambda row: row["begin_snapshot"]):
            schema, name = row["schema_name"], row["object_name"]
            shown = schema if name is None else f"{schema}.{name}"
            life = row["begin_snapshot"], row["end_snapshot"], shown
            self._rows[row["id"]].append(life)
            self._kinds[row["id"]] = row["kind"]
            self._ids[shown, row["begin_snapshot"]] = row["id"]

    def changes(self, row: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the changes of a row of `snapshots` with names, as far as there are some.

        DuckLake gives names of created objects and ids of others. A new name counts as created.
        """
        snapshot = row["snapshot_id"]
        for kind, changed in row["changes"]:
            names = [self._shown(each, snapshot) for each in changed]
            if kind not in ("tables_created", "views_created"):
                yield kind, tuple(names)
                continue
            renamed = {name: before for name in names if (before := self._before(name, snapshot))}
            created = tuple(name for name in names if name not in renamed)
            if created:
                yield kind, created
            if renamed:
                changes = tuple(f"{before} → {name}" for name, before in renamed.items())
                yield kind.replace("created", "renamed"), changes

    def differences(self, first: int, last: int) -> list[tuple[str, list[str]]]:
        """Return what was created, dropped and renamed between two snapshots."""
        found: dict[str, list[str]] = defaultdict(list)
        for id, kind in self._kinds.items():
            then, now = self._at(id, first), self._at(id, last)
            if then is None and now is not None:
                found[f"{kind}s created"].append(now)
            elif then is not None and now is None:
                found[f"{kind}s dropped"].append(then)
            elif then is not None and now is not None and then != now:
                found[f"{kind}s renamed"].append(f"{then} → {now}")
        return sorted(found.items())

    def _shown(self, argument: str, snapshot: int) -> str:
        if argument.isdecimal() and int(argument) in self._rows:
            id = int(argument)
            # One that was dropped has the name that it had before.
            return self._at(id, snapshot) or self._at(id, snapshot - 1) or self._rows[id][-1][2]
        for prefix, shown in self._published.items():
            if argument.startswith(prefix):
                return shown + argument.removeprefix(prefix)
        return argument

    def _before(self, name: str, snapshot: int) -> str | None:
        """Return the other name that an object had before a snapshot that gave it this one."""
        id = self._ids.get((name, snapshot))
        before = None if id is None else self._at(id, snapshot - 1)
        return None if before == name else before

    def _at(self, id: int, snapshot: int) -> str | None:
        for begin, end, name in self._rows[id]:
            if begin <= snapshot and (end is None or snapshot < end):
                return name
        return None


def object_names(client: Client) -> ObjectNames:
    """Return the names of all objects that the caller may see, dropped ones too."""
    rows = client.table(f"{FUNCTIONS}.names").scan().to_arrow().to_pylist()
    schemas = client.table(f"{FUNCTIONS}.schemas").scan(["schema_name", "name_in_lake"])
    published = {
        f"{row['name_in_lake']}.": f"{row['schema_name']}."
        for row in schemas.to_arrow().to_pylist()
        if row["name_in_lake"] != row["schema_name"]
    }
    return ObjectNames(rows, published)


def snapshots(client: Client, names: ObjectNames) -> list[SnapshotFacts]:
    """Return the history of a lake, oldest first."""
    rows = client.table(f"{FUNCTIONS}.snapshots").scan().to_arrow().to_pylist()
    grown = {row["snapshot_id"]: row for row in changed_sizes(client).to_pylist()}
    return [_snapshot(row, names, grown.get(row["snapshot_id"], {})) for row in rows]


def _snapshot(
    row: Mapping[str, Any], names: ObjectNames, grown: Mapping[str, int]
) -> SnapshotFacts:
    return SnapshotFacts(
        id=row["snapshot_id"],
        time=row["snapshot_time"],
        author=row["author"] or "",
        message=row["commit_message"] or "",
        changes=tuple(names.changes(row)),
        rows_added=grown.get("rows_added", 0),
        rows_removed=grown.get("rows_removed", 0),
        files_added=grown.get("files_added", 0),
        files_removed=grown.get("files_removed", 0),
    )

"""The history of a lake as tables: snapshots with their changes, and the names that objects had.

A caller gets changes and names of objects that it may list.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection
from functools import cache
from typing import Final

import pyarrow as pa

from lakeport.ducklake import Lake, Snapshot
from lakeport.ducklake.metadata import Lifetime
from lakeport.lakehouse.permissions import Permissions

__all__ = ["NAMES_SCHEMA", "SNAPSHOTS_SCHEMA", "names_in_history", "snapshots"]

_KINDS: Final = {
    "created_schema": "schemas_created",
    "created_table": "tables_created",
    "created_view": "views_created",
    "created_scalar_macro": "scalar_macros_created",
    "created_table_macro": "table_macros_created",
    "dropped_schema": "schemas_dropped",
    "dropped_table": "tables_dropped",
    "dropped_view": "views_dropped",
    "dropped_scalar_macro": "scalar_macros_dropped",
    "dropped_table_macro": "table_macros_dropped",
    "inserted_into_table": "tables_inserted_into",
    "deleted_from_table": "tables_deleted_from",
    "altered_table": "tables_altered",
    "altered_view": "views_altered",
    "inline_flush": "flushed_inlined",
    "compacted_table": "merge_adjacent",
}

_QUOTED = r'"(?:[^"]|"")*"'
_CHANGE = re.compile(rf"(\w+):((?:{_QUOTED})(?:\.{_QUOTED})?|[^,]*)(?:,|$)")
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")

SNAPSHOTS_SCHEMA: Final = pa.schema(
    [
        ("snapshot_id", pa.int64()),
        ("snapshot_time", pa.timestamp("us", "UTC")),
        ("schema_version", pa.int64()),
        ("changes", pa.map_(pa.string(), pa.list_(pa.string()))),
        ("author", pa.string()),
        ("commit_message", pa.string()),
        ("commit_extra_info", pa.string()),
    ]
)

NAMES_SCHEMA: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("id", pa.int64()),
        ("schema_name", pa.string()),
        ("object_name", pa.string()),
        ("begin_snapshot", pa.int64()),
        ("end_snapshot", pa.int64()),
    ]
)


def snapshots(
    lake: Lake, permissions: Permissions, columns: Collection[str] | None = None
) -> pa.Table:
    """Return all snapshots, oldest first, with the changes to objects that the caller may list.

    The changes are empty if they are not among the columns to read.
    """
    shown = _visible_changes(lake, permissions)
    with_changes = columns is None or "changes" in columns
    return _table(
        SNAPSHOTS_SCHEMA,
        [
            (
                snapshot.id,
                snapshot.time,
                snapshot.schema_version,
                _changes_by_kind(snapshot.changes, shown) if with_changes else [],
                *_said(snapshot, shown, permissions),
            )
            for snapshot in lake.snapshots()
        ],
    )


def names_in_history(lake: Lake, permissions: Permissions) -> pa.Table:
    """Return the names that schemas, tables and views have and had, dropped ones too."""
    lifetimes = lake.lifetimes()
    shown = _visible_ids(lifetimes, permissions)
    published = permissions.names.published
    return _table(
        NAMES_SCHEMA,
        [
            (
                lifetime.kind,
                lifetime.id,
                published(lifetime.schema),
                lifetime.name or None,
                lifetime.begin,
                lifetime.end,
            )
            for lifetime in lifetimes
            if shown is None or lifetime.id in shown
        ],
    )


def _table(schema: pa.Schema, rows: list[tuple[object, ...]]) -> pa.Table:
    arrays = [
        pa.array([row[index] for row in rows], field.type) for index, field in enumerate(schema)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _said(
    snapshot: Snapshot, is_shown: Callable[[str], bool], permissions: Permissions
) -> tuple[str | None, str | None, str | None]:
    """Return what the author of a snapshot wrote, if the caller may see all that it changed."""
    arguments = [argument for _, argument in _CHANGE.findall(snapshot.changes)]
    if permissions.have_policies and not all(map(is_shown, arguments)):
        return None, None, None
    return snapshot.author, snapshot.commit_message, snapshot.commit_extra_info


def _changes_by_kind(text: str, is_shown: Callable[[str], bool]) -> list[tuple[str, list[str]]]:
    """Return the changes in a text such as `created_table:"main"."t"`: names and ids by kind.

    `is_shown` takes the argument of a change, as it is written in the lake.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for keyword, argument in _CHANGE.findall(text):
        if is_shown(argument):
            found[_KINDS.get(keyword, keyword)].append(_shown(argument))
    return list(found.items())


def _visible_changes(lake: Lake, permissions: Permissions) -> Callable[[str], bool]:
    """Return a function that decides whether the caller may see the argument of a change."""
    shown = None if permissions.are_all_given else _visible_ids(lake.lifetimes(), permissions)
    if shown is None:
        return lambda _: True

    def is_shown(argument: str) -> bool:
        parts = _names(argument)
        if not parts:
            return argument.isdecimal() and int(argument) in shown
        return _sees(permissions, parts[0], parts[1] if len(parts) > 1 else "")

    return cache(is_shown)


def _visible_ids(lifetimes: list[Lifetime], permissions: Permissions) -> set[int] | None:
    """Return the ids of objects of which the caller may list every name; None if it may list all.

    An object without a name is not among them, because the authorizer cannot decide about it.
    """
    if permissions.are_all_given:
        return None
    named = {lifetime.id for lifetime in lifetimes}
    return named - {
        lifetime.id
        for lifetime in lifetimes
        if not _sees(permissions, lifetime.schema, lifetime.name)
    }


def _sees(permissions: Permissions, schema: str, name: str) -> bool:
    return permissions.sees_name(schema, name) if name else permissions.sees_schema(schema)


def _names(argument: str) -> list[str]:
    """Return the quoted names in an argument; an id has none."""
    return [part[1:-1].replace('""', '"') for part in re.findall(_QUOTED, argument)]


def _shown(argument: str) -> str:
    """Return a name with quotes only where they are needed."""
    names = _names(argument)
    if len(names) < 2:
        return names[0] if names else argument
    return ".".join(
        name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"' for name in names
    )

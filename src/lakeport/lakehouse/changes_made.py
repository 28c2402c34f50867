"""What a commit says that it did: the lake's text as the map that DuckLake's functions show."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from typing import Final

from lakeport.ducklake import Lake
from lakeport.lakehouse.permissions import Permissions

__all__ = ["changes_by_kind", "visible_changes"]

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


def changes_by_kind(
    text: str, is_shown: Callable[[str], bool] = lambda _: True
) -> list[tuple[str, list[str]]]:
    """`created_table:"main"."t",inserted_into_table:1` as kinds with names and ids.

    `is_shown` decides by the argument of a change, as it is written in the lake.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for keyword, argument in _CHANGE.findall(text):
        if is_shown(argument):
            found[_KINDS.get(keyword, keyword)].append(_shown(argument))
    return list(found.items())


def visible_changes(lake: Lake, permissions: Permissions) -> Callable[[str], bool]:
    """Return whether the argument of a change names what the caller may see.

    An id means what the object was ever called; one of which the lake no longer has a name is not
    shown, since no authorizer can be asked about it.
    """
    if permissions.are_all_given:
        return lambda _: True
    called: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for lifetime in lake.lifetimes():
        called[str(lifetime.id)].add((lifetime.schema, lifetime.name))

    def sees(schema: str, name: str) -> bool:
        return permissions.sees_name(schema, name) if name else permissions.sees_schema(schema)

    def is_shown(argument: str) -> bool:
        parts = _names(argument)
        if not parts:
            return argument in called and all(sees(*names) for names in called[argument])
        return sees(parts[0], parts[1] if len(parts) > 1 else "")

    return cache(is_shown)


def _names(argument: str) -> list[str]:
    """The quoted names in an argument; none in an id."""
    return [part[1:-1].replace('""', '"') for part in re.findall(_QUOTED, argument)]


def _shown(argument: str) -> str:
    """A name as people write it: quoted only where that is needed."""
    names = _names(argument)
    if len(names) < 2:
        return names[0] if names else argument
    return ".".join(
        name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"' for name in names
    )

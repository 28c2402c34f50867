"""What a commit says that it did: the lake's text as the map that DuckLake's functions show."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Final

__all__ = ["changes_by_kind"]

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


def changes_by_kind(text: str) -> list[tuple[str, list[str]]]:
    """`created_table:"main"."t",inserted_into_table:1` as kinds with names and ids."""
    found: dict[str, list[str]] = defaultdict(list)
    for keyword, argument in _CHANGE.findall(text):
        found[_KINDS.get(keyword, keyword)].append(_shown(argument))
    return list(found.items())


def _shown(argument: str) -> str:
    """A name as people write it: quoted only where that is needed."""
    names = [part[1:-1].replace('""', '"') for part in re.findall(_QUOTED, argument)]
    if len(names) < 2:
        return names[0] if names else argument
    return ".".join(
        name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"' for name in names
    )

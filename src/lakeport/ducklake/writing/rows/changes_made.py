"""The text of `changes_made`: written by our commits, parsed from the commits of all writers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lakeport.errors import CorruptLakeError
from lakeport.types import fold_name

__all__ = ["Change", "format_changes", "parse_changes"]

ORDER: Final = (
    "dropped_schema",
    "dropped_table",
    "dropped_view",
    "created_schema",
    "created_table",
    "created_view",
    "created_scalar_macro",
    "created_table_macro",
    "dropped_scalar_macro",
    "dropped_table_macro",
    "inserted_into_table",
    "deleted_from_table",
    "altered_table",
    "altered_view",
    "inlined_insert",
    "inlined_delete",
    "inline_flush",
    "merge_adjacent",
    "rewrite_delete",
)
# Other spellings of older writers.
_ALIASES: Final = {"flushed_inlined": "inline_flush", "compacted_table": "merge_adjacent"}
_CHANGE: Final = re.compile(
    r'([a-z_]+):(?:(\d+)|"((?:[^"]|"")*)"(?:\."((?:[^"]|"")*)")?)(?:,|$)', re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Change:
    """One change: a keyword, and the id of an object or its schema and name."""

    keyword: str
    id: int | None = None
    schema: str | None = None
    name: str | None = None

    def __str__(self) -> str:
        if self.id is not None:
            return f"{self.keyword}:{self.id}"
        names = [name for name in (self.schema, self.name) if name is not None]
        return f"{self.keyword}:" + ".".join('"' + name.replace('"', '""') + '"' for name in names)

    @property
    def folded(self) -> tuple[str, str | None]:
        """The schema and the name without their case, in which names do not differ."""
        return fold_name(self.schema or ""), None if self.name is None else fold_name(self.name)


def format_changes(changes: Iterable[Change]) -> str:
    """Return the text of changes, in the order of the reference."""
    kept = {str(change): change for change in changes}
    # Tables and views that are created share one place in the order.
    ranks = {keyword: rank for rank, keyword in enumerate(ORDER)} | {
        "created_view": ORDER.index("created_table")
    }
    return ",".join(sorted(kept, key=lambda text: ranks[kept[text].keyword]))


def parse_changes(text: str | None) -> tuple[Change, ...]:
    """Parse the changes of a snapshot; raise CorruptLakeError if they cannot be understood."""
    changes = []
    position = 0
    while text and position < len(text):
        match = _CHANGE.match(text, position)
        if match is None:
            raise CorruptLakeError(f"the changes {text[:200]!r} of a snapshot are not understood")
        keyword, id, first, second = match.groups()
        keyword = _ALIASES.get(keyword, keyword)
        if id is not None:
            changes.append(Change(keyword, int(id)))
        else:
            first = first.replace('""', '"')
            second = None if second is None else second.replace('""', '"')
            changes.append(Change(keyword, None, first, second))
        position = match.end()
    return tuple(changes)

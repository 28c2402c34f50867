"""The memory of the processes below this one: the Java process of Spark, and its Python workers."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["CHILD_KINDS", "child_memory"]

CHILD_KINDS: Final = ("java", "python", "other")
"""The kinds of processes below a server."""

_PROC: Final = Path("/proc")


def child_memory() -> dict[str, int]:
    """Return the resident bytes of all processes below this one, by their kind.

    Memory that processes share is counted for each of them. Without `/proc` there is none.
    """
    found = dict.fromkeys(CHILD_KINDS, 0)
    page = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
    for name, pages in _descendants(os.getpid()):
        kind = next((kind for kind in CHILD_KINDS[:2] if name.startswith(kind)), "other")
        found[kind] += pages * page
    return found


def _descendants(root: int) -> Iterator[tuple[str, int]]:
    """Yield name and resident pages of the processes below one."""
    children: dict[int, list[tuple[int, str, int]]] = defaultdict(list)
    with suppress(OSError):
        for entry in _PROC.iterdir():
            if entry.name.isdigit():
                # A process may end in between.
                with suppress(OSError, ValueError, IndexError):
                    parent, name, pages = _status((entry / "stat").read_text())
                    children[parent].append((int(entry.name), name, pages))
    waiting = [root]
    while waiting:
        for pid, name, pages in children.pop(waiting.pop(), ()):
            waiting.append(pid)
            yield name, pages


def _status(text: str) -> tuple[int, str, int]:
    """Return parent, name and resident pages, from the text of a file `stat`; see proc(5)."""
    # The name is in parentheses, and may have spaces and parentheses itself.
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    return int(fields[1]), name, int(fields[21])

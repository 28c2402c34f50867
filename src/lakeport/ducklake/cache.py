"""What the catalog said about a snapshot, remembered: a snapshot never changes.

Whether the snapshot still exists, and which files it has now, is asked anew by every scan:
compaction moves rows between files, and expiry removes snapshots.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from lakeport.errors import InvalidArgumentError

__all__ = ["SnapshotCache"]

T = TypeVar("T")


class SnapshotCache:
    """Table descriptions by snapshot id; the least recently used ones are forgotten first.

    One cache may serve several threads, and belongs to one lake.
    """

    def __init__(self, max_entries: int = 1000) -> None:
        if max_entries < 1:
            raise InvalidArgumentError("a cache needs room for at least one entry")
        self._max_entries = max_entries
        self._entries: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def remembered(self, key: Hashable, look_up: Callable[[], T]) -> T:
        """The entry of a key, looked up the first time."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                found: T = self._entries[key]
                return found
        value = look_up()
        with self._lock:
            self._entries[key] = value
            while len(self._entries) > self._max_entries:
                self._entries.popitem(last=False)
        return value

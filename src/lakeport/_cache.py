"""Caches that forget what was not used for longest.

What the catalog said about a snapshot may be remembered: a snapshot never changes. Whether it still
exists, and which files it has now, is asked anew by every scan: compaction moves rows between
files, and expiry removes snapshots.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from lakeport.errors import InvalidArgumentError

__all__ = ["SnapshotCache", "WeighedCache"]

T = TypeVar("T")


class WeighedCache:
    """Keeps entries up to a total weight. One cache may serve several threads."""

    def __init__(self, max_weight: int, weigh: Callable[[Any], int]) -> None:
        self._max_weight = max_weight
        self._weigh = weigh
        self._weight = 0
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
        weight = self._weigh(value)
        if weight > self._max_weight:
            return value
        with self._lock:
            if key not in self._entries:
                self._weight += weight
                self._entries[key] = value
            while self._weight > self._max_weight:
                _, forgotten = self._entries.popitem(last=False)
                self._weight -= self._weigh(forgotten)
        return value


class SnapshotCache(WeighedCache):
    """Table descriptions by snapshot id; belongs to one lake."""

    def __init__(self, max_entries: int = 1000) -> None:
        if max_entries < 1:
            raise InvalidArgumentError("a cache needs room for at least one entry")
        super().__init__(max_entries, lambda _: 1)

"""Least-recently-used caches.

Facts about a snapshot may be cached, because a snapshot never changes. Whether a snapshot still
exists, and which data files it has now, must be read from the catalog for every scan: compaction
moves rows between files, and expiry removes snapshots.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, Final, TypeVar

from lakeport.errors import InvalidArgumentError

__all__ = ["CacheCounts", "LruCache", "cache_counts", "cached_by_identity"]

S = TypeVar("S")
T = TypeVar("T")

_MAX_OBJECTS: Final = 128


class CacheCounts:
    """How often the caches of a name had an entry in this process. Safe for threads."""

    def __init__(self) -> None:
        self.hits = 0
        self.misses = 0
        self._lock = threading.Lock()

    def count(self, *, is_hit: bool) -> None:
        """Count a lookup."""
        with self._lock:
            if is_hit:
                self.hits += 1
            else:
                self.misses += 1


_counts: Final[dict[str, CacheCounts]] = {}


def cache_counts() -> dict[str, CacheCounts]:
    """Return the counts of all named caches of this process."""
    return dict(_counts)


class LruCache:
    """Keeps the entries that were used last, up to a total weight. May be used by many threads.

    Without `weigh` each entry weighs 1, so that `max_weight` is the number of entries. The lookups
    of caches with a `name` are counted; several may have the same one.
    """

    def __init__(
        self,
        max_weight: int = 1000,
        *,
        weigh: Callable[[Any], int] | None = None,
        name: str | None = None,
    ) -> None:
        if max_weight < 1:
            raise InvalidArgumentError(
                f"a cache needs a max_weight of at least 1, not {max_weight}"
            )
        self._max_weight = max_weight
        self._weigh = weigh
        self._counts = None if name is None else _counts.setdefault(name, CacheCounts())
        self._weight = 0
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> Any:
        """Return the entry of a key, or None."""
        with self._lock:
            entry = self._find(key)
            return None if entry is None else entry[0]

    def put(self, key: Hashable, value: Any) -> None:
        """Set the entry of a key, unless it alone is heavier than the whole cache may be."""
        weight = 1 if self._weigh is None else self._weigh(value)
        with self._lock:
            _, old_weight = self._entries.pop(key, (None, 0))
            self._weight -= old_weight
            if weight > self._max_weight:
                return
            self._entries[key] = (value, weight)
            self._weight += weight
            while self._weight > self._max_weight:
                _, (_, oldest_weight) = self._entries.popitem(last=False)
                self._weight -= oldest_weight

    def get_or_load(self, key: Hashable, load: Callable[[], T]) -> T:
        """Return the entry of a key. If there is none, load it and keep it."""
        with self._lock:
            entry = self._find(key)
            if entry is not None:
                cached: T = entry[0]
                return cached
        value = load()
        self.put(key, value)
        return value

    def _find(self, key: Hashable) -> tuple[Any, int] | None:
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        if self._counts is not None:
            self._counts.count(is_hit=entry is not None)
        return entry


def cached_by_identity(compute: Callable[[S], T]) -> Callable[[S], T]:
    """Cache what a function returns for the objects that it was called with last.

    For objects that are shared and never change, and whose hash takes longer than a lookup.
    """
    known = LruCache(_MAX_OBJECTS)

    @wraps(compute)
    def cached(subject: S) -> T:
        # The entry refers to the object, so no other object can have its id.
        entry: tuple[S, T] = known.get_or_load(id(subject), lambda: (subject, compute(subject)))
        return entry[1]

    return cached

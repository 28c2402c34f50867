"""The least-recently-used cache."""

from __future__ import annotations

from lakeport._cache import LruCache


def test_the_entry_that_was_used_least_recently_is_dropped_first() -> None:
    cache = LruCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1

    cache.put("c", 3)

    assert [cache.get(key) for key in "abc"] == [1, None, 3]


def test_an_entry_that_is_set_again_counts_once() -> None:
    cache = LruCache(10, weigh=len)
    cache.put("a", "four")
    cache.put("a", "fives")
    cache.put("b", "fives")
    assert (cache.get("a"), cache.get("b")) == ("fives", "fives")

    cache.put("a", "heavier than the whole cache")

    assert cache.get("a") is None
    assert cache.get_or_load("b", lambda: "loaded") == "fives"
    assert cache.get_or_load("c", lambda: "loaded") == "loaded"

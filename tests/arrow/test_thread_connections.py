"""The DuckDB connections of threads: their own while they run, and reused after their end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from lakeport.arrow.duckdb_connection import (
    give_back_cursor,
    take_cursor,
    thread_connection,
    thread_sandbox,
)
from tests.wait import TIMEOUT_SECONDS


@pytest.mark.parametrize("open", [thread_connection, thread_sandbox])
def test_a_thread_reuses_the_connection_of_one_that_has_ended(open: Callable[[], Any]) -> None:
    (first,) = _in_threads(1, open)

    # More threads than connections are kept: one of them has the first, whatever else is free.
    assert any(found is first for found in _in_threads(17, open))


def test_threads_that_run_together_have_their_own_connections() -> None:
    found = _in_threads(3, thread_connection)

    assert len({id(connection) for connection in found}) == 3


def test_a_cursor_that_is_in_use_is_not_given_to_another_thread() -> None:
    (taken,) = _in_threads(1, take_cursor)

    assert all(other is not taken for other in _in_threads(3, take_cursor))

    def give_back() -> Any:
        give_back_cursor(taken)
        return take_cursor()

    assert _in_threads(1, give_back)[0] is taken


def _in_threads(count: int, work: Callable[[], Any]) -> list[Any]:
    """The results of threads that all run until the last has its result."""
    together, found = threading.Barrier(count), list[Any]()

    def run() -> None:
        found.append(work())
        together.wait(TIMEOUT_SECONDS)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_SECONDS)
    return found

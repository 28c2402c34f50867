"""Turns of the threads that decode files: who is next, and for whom there is room."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pytest

from lakeport._sharing import ONE_CORE
from lakeport.catalog import RequestContext, request_scope
from lakeport.ducklake import LocalEngine
from lakeport.ducklake.turns import ScanTurns, Turns
from tests.wait import TIMEOUT_SECONDS, wait_until

LARGE = 1 << 30


def _are_waiting(turns: Turns, number: int) -> bool:
    return len(turns._waiting) == number


def _order(*had: int) -> list[int]:
    """Return the order in which threads get the only turn, by the turns that their scans had."""
    turns = Turns(1)
    assert turns.take(ScanTurns(), lambda: False)
    order: list[int] = []

    def wait(had: int) -> None:
        assert turns.take(ScanTurns(had=had), lambda: False)
        order.append(had)
        turns.give_back()

    threads = [threading.Thread(target=wait, args=(each,)) for each in had]
    for number, thread in enumerate(threads, start=1):
        thread.start()
        assert wait_until(partial(_are_waiting, turns, number))
    turns.give_back()
    for thread in threads:
        thread.join()
    return order


def test_a_scan_that_has_read_little_goes_before_others() -> None:
    assert _order(70, 50, 1) == [1, 50, 70]


def test_a_scan_that_waits_longest_is_not_forgotten() -> None:
    order = _order(1000, 1, 2, 3, 4, 5)

    assert order.index(1000) == 3


def test_a_scan_that_has_ended_takes_no_turn() -> None:
    turns = Turns(1)
    assert turns.take(ScanTurns(), lambda: False)

    assert not turns.take(ScanTurns(), lambda: True)
    turns.give_back()
    assert turns.take(ScanTurns(), lambda: False)


def test_large_scans_leave_a_turn_free_while_another_caller_has_small_ones() -> None:
    now = 0.0
    turns = Turns(2, clock=lambda: now)
    large = [ScanTurns(LARGE, "ada") for _ in range(2)]
    assert turns.take(ScanTurns(1000, "bob"), lambda: False)
    turns.give_back()

    assert turns.take(large[0], lambda: False)
    assert not turns.take(large[1], lambda: True)
    # It is there for the next small scan, of any caller.
    assert turns.take(ScanTurns(1000, "ada"), lambda: False)
    turns.give_back()
    now = 2.0
    assert turns.take(large[1], lambda: False)


def test_a_caller_leaves_no_room_for_its_own_small_scans() -> None:
    turns = Turns(2)
    assert turns.take(ScanTurns(1000, "ada"), lambda: False)
    turns.give_back()

    assert turns.take(ScanTurns(LARGE, "ada"), lambda: False)
    assert turns.take(ScanTurns(LARGE, "ada"), lambda: False)


def test_a_large_scan_that_waits_goes_on_when_the_others_have_ended() -> None:
    now = 0.0
    turns = Turns(2, clock=lambda: now)
    assert turns.take(ScanTurns(1000, "bob"), lambda: False)
    turns.give_back()
    assert turns.take(ScanTurns(LARGE, "ada"), lambda: False)
    waiting = threading.Thread(
        target=turns.take, args=(ScanTurns(LARGE, "ada"), lambda: False), daemon=True
    )
    waiting.start()
    assert wait_until(partial(_are_waiting, turns, 1))

    now = 2.0
    waiting.join(TIMEOUT_SECONDS)

    assert not waiting.is_alive()


def test_a_scan_is_for_the_caller_of_its_request() -> None:
    with request_scope(RequestContext(identity="ada")):
        assert ScanTurns().caller == "ada"
    assert not ScanTurns().caller


@dataclass
class Watched:
    """A task that reads one batch, and records whether it should leave cores to others."""

    bytes_to_read: int
    estimated_bytes: int = 0
    left_cores: list[bool] = field(default_factory=list)

    def read(self) -> Iterator[pa.RecordBatch]:
        self.left_cores.append(ONE_CORE.get())
        yield pa.record_batch({"x": [1]})


def test_a_large_scan_uses_one_core_while_another_caller_has_small_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lakeport.ducklake.engine.LOCAL_TURNS", Turns(2))

    def read(caller: str, size: int) -> list[bool]:
        tasks = [Watched(size) for _ in range(4)]
        with request_scope(RequestContext(identity=caller)):
            LocalEngine(2).stream(tasks, pa.schema([("x", pa.int64())])).read_all()
        return [each for task in tasks for each in task.left_cores]

    assert read("ada", LARGE) == [False] * 4
    assert read("bob", 1000) == [False] * 4
    assert read("bob", LARGE) == [False] * 4
    assert read("ada", LARGE) == [True] * 4
    assert not ONE_CORE.get()

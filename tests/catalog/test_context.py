"""The request that a catalog method is answering, safe under threads."""

from __future__ import annotations

import contextvars
import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakeport.catalog import Operation, RequestContext, current_request, request_scope


def test_outside_of_a_request_there_is_an_empty_one() -> None:
    assert current_request() == RequestContext()
    assert current_request().identity == ""
    assert current_request().transaction_id is None


def test_a_request_is_seen_inside_its_scope_only() -> None:
    request = RequestContext("ada", "lake", "t1", "s1", "trace", peer="ipv4:1")

    with request_scope(request) as inside:
        assert inside is request
        assert current_request() is request

    assert current_request() == RequestContext()


def test_scopes_nest_and_are_left_on_errors() -> None:
    outer, inner = RequestContext("outer"), RequestContext("inner")

    with request_scope(outer):
        with pytest.raises(ZeroDivisionError), request_scope(inner):
            _ = 1 // 0
        assert current_request() is outer


def test_every_thread_has_its_own_request() -> None:
    count = 16
    barrier = threading.Barrier(count)

    def answer(number: int) -> str:
        with request_scope(RequestContext(str(number))):
            barrier.wait()
            return current_request().identity

    with ThreadPoolExecutor(count) as pool:
        assert list(pool.map(answer, range(count))) == [str(n) for n in range(count)]


def test_a_thread_sees_the_request_when_it_is_handed_the_context() -> None:
    seen: list[str] = []

    def look() -> None:
        seen.append(current_request().identity)

    with request_scope(RequestContext("ada")):
        bare = threading.Thread(target=look)
        handed = threading.Thread(target=contextvars.copy_context().run, args=(look,))
        for thread in (bare, handed):
            thread.start()
            thread.join()

    assert seen == ["", "ada"]


def test_a_request_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        RequestContext().identity = "root"  # type: ignore[misc]


def test_everything_but_administration_is_allowed_outside_of_a_request() -> None:
    assert not current_request().may(Operation.ADMIN)
    for operation in set(Operation) - {Operation.ADMIN}:
        assert current_request().may(operation)
        assert current_request().may(operation, "s")
        assert current_request().may(operation, "s", "t")

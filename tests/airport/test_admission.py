"""Limits of callers: who waits, who is refused, and who is next."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from contextvars import Context, copy_context
from typing import Any

import pyarrow as pa
import pytest

from lakeport import Identity, connect
from lakeport.airport.server.admission import Admission
from lakeport.auth import CallerLimits, LimitRules, Who
from lakeport.catalog import CatalogBuilder, RequestContext, set_request
from lakeport.errors import CancelledError, DefinitionError, ResourceExhaustedError
from lakeport.memory import MemoryCatalog
from tests.airport.flight_client import started
from tests.wait import TIMEOUT_SECONDS

ADA, BOB = Identity("ada"), Identity("bob")


def rules(together: CallerLimits | None = None, **each: Any) -> LimitRules:
    return LimitRules(((Who(everyone=True), CallerLimits(**each)),), together or CallerLimits())


def never() -> bool:
    return False


class Scans:
    """Scans that are begun in threads, in the order of their beginning."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self.started: list[str] = []
        self._releases: list[Callable[[], None]] = []

    def begin(self, caller: Identity, name: str) -> None:
        def run() -> None:
            _, release = self._admission.begin_scan(caller, never)
            self._releases.append(release)
            self.started.append(name)

        waiting = _waiting(self._admission)
        threading.Thread(target=run, daemon=True).start()
        _until(lambda: name in self.started or _waiting(self._admission) > waiting)

    def end_oldest(self) -> None:
        count = len(self.started)
        release = self._releases.pop(0)
        before = _waiting(self._admission)
        release()
        if before:
            _until(lambda: len(self.started) > count)


def _waiting(admission: Admission) -> int:
    return sum(map(len, list(admission._waiting.values())))


def _until(condition: Callable[[], bool]) -> None:
    done = threading.Event()
    for _ in range(int(TIMEOUT_SECONDS * 100)):
        if condition():
            return
        done.wait(0.01)
    raise AssertionError("the scans did not come so far")


def test_callers_take_turns_when_scans_wait() -> None:
    scans = Scans(Admission(rules(CallerLimits(scans=1))))

    for number in range(4):
        scans.begin(ADA, f"ada {number}")
    scans.begin(BOB, "bob 0")
    scans.begin(BOB, "bob 1")
    for _ in range(5):
        scans.end_oldest()

    assert scans.started == ["ada 0", "ada 1", "bob 0", "ada 2", "bob 1", "ada 3"]


def test_a_caller_with_many_scans_leaves_room_for_others() -> None:
    scans = Scans(Admission(rules(scans=2)))

    for number in range(5):
        scans.begin(ADA, f"ada {number}")
    scans.begin(BOB, "bob 0")

    assert scans.started == ["ada 0", "ada 1", "bob 0"]


def test_a_scan_is_refused_when_too_many_wait() -> None:
    admission = Admission(rules(scans=1, queued_scans=1))
    scans = Scans(admission)
    scans.begin(ADA, "ada 0")
    scans.begin(ADA, "ada 1")

    with pytest.raises(ResourceExhaustedError, match=r"1 waiting scan \(yours\).*again when one"):
        admission.begin_scan(ADA, never)
    _, release = admission.begin_scan(BOB, never)
    release()
    release()
    scans.end_oldest()
    assert scans.started == ["ada 0", "ada 1"]


def test_a_client_that_disconnects_leaves_the_queue() -> None:
    admission = Admission(rules(scans=1, queued_scans=1))
    _, release = admission.begin_scan(ADA, never)

    with pytest.raises(CancelledError):
        admission.begin_scan(ADA, lambda: True)

    assert _waiting(admission) == 0
    release()
    admission.begin_scan(ADA, never)


def test_calls_a_second_are_counted_for_each_caller() -> None:
    now = [0.0]
    admission = Admission(rules(calls_per_second=5), clock=lambda: now[0])

    for _ in range(10):
        admission.check_call(ADA)
    with pytest.raises(ResourceExhaustedError, match=r"5 calls a second.*again in 0\.2 sec"):
        admission.check_call(ADA)
    admission.check_call(BOB)
    now[0] = 0.2
    admission.check_call(ADA)
    with pytest.raises(ResourceExhaustedError):
        admission.check_call(ADA)


def test_the_first_rule_that_fits_a_caller_holds() -> None:
    found = LimitRules(
        (
            (Who(users=frozenset({"ada"})), CallerLimits(scans=9)),
            (Who(everyone=True), CallerLimits(scans=1)),
        )
    )

    assert found.of(ADA).scans == 9
    assert found.of(BOB).scans == 1
    with pytest.raises(DefinitionError, match="scans must be positive"):
        CallerLimits(scans=0)


@pytest.fixture
def serving() -> Iterator[Callable[..., Any]]:
    """Serve 10 000 rows in batches of 1000 with limits; return a client of them."""
    with started() as start, ExitStack() as stack:

        def serve(**limits: Any) -> Any:
            batch = pa.record_batch({"x": list(range(1000))})

            def rows() -> pa.RecordBatchReader:
                return pa.RecordBatchReader.from_batches(batch.schema, [batch] * 10)

            catalog = CatalogBuilder().schema("s").table("t", rows, schema=batch.schema).build()
            served = {"c": catalog, "m": MemoryCatalog("m")}
            wire = start(served, caller_limits=rules(**limits))
            return lambda name: stack.enter_context(connect(wire.server.location, catalog=name))

        yield serve


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        (
            {"rows_per_scan": 5000},
            "the limit of 5000 rows for a scan is reached; try again with a filter",
        ),
        (
            {"bytes_per_scan": 20_000},
            "the limit of 20000 bytes for a scan is reached; try again with a filter",
        ),
        (
            {"scan_seconds": 1e-9},
            "seconds for a scan is reached; try again .* when the server is less busy",
        ),
    ],
)
def test_a_scan_that_exceeds_its_budget_ends_with_the_limit(
    serving: Callable[..., Any], limits: dict[str, Any], sentence: str
) -> None:
    client = serving(**limits)("c")

    with pytest.raises(ResourceExhaustedError, match=sentence):
        client.table("s.t").scan().to_arrow()


def test_a_scan_within_its_limits_is_complete_and_frees_its_place(
    serving: Callable[..., Any],
) -> None:
    client = serving(scans=1, queued_scans=0, rows_per_scan=10_000)("c")

    for _ in range(3):
        assert client.table("s.t").scan().to_arrow().num_rows == 10_000


def test_open_connections_are_limited(serving: Callable[..., Any]) -> None:
    open_client = serving(connections=2)
    first, second = open_client("c"), open_client("c")
    # The client opens its connection with the first call, and pyarrow one for each client.
    assert first.table("s.t").scan().to_arrow().num_rows == 10_000
    assert second.table("s.t").scan().to_arrow().num_rows == 10_000

    third = open_client("c")
    with pytest.raises(ResourceExhaustedError, match=r"2 connections \(yours\).*one is closed"):
        third.table("s.t")
    assert first.table("s.t").scan().to_arrow().num_rows == 10_000
    second.close()
    _until(lambda: _is_answered(third))


def _is_answered(client: Any) -> bool:
    try:
        return bool(client.table("s.t").scan().to_arrow().num_rows)
    except ResourceExhaustedError:
        return False


def test_connections_of_all_callers_are_limited_together(serving: Callable[..., Any]) -> None:
    open_client = serving(together=CallerLimits(connections=1))
    first = open_client("c")
    assert first.schemas()

    with pytest.raises(ResourceExhaustedError, match=r"1 connection \(of all callers\)"):
        open_client("c").schemas()
    assert first.schemas()


def test_open_transactions_are_limited(serving: Callable[..., Any]) -> None:
    open_client = serving(transactions=1)
    first, second = open_client("m"), open_client("m")

    with (
        first.transaction(explicit=True),
        pytest.raises(ResourceExhaustedError, match=r"1 open transaction .*again when one"),
        second.transaction(explicit=True),
    ):
        pass


def test_a_waiting_scan_reports_its_place_in_the_queue() -> None:
    admission = Admission(rules(scans=1))
    _, release = admission.begin_scan(ADA, never)
    requests = [RequestContext(), RequestContext()]
    threads = []
    for number, request in enumerate(requests):
        context = copy_context()
        context.run(set_request, request)

        def wait(context: Context = context) -> None:
            context.run(admission.begin_scan, ADA, never)[1]()

        threads.append(threading.Thread(target=wait, daemon=True))
        threads[-1].start()
        _until(lambda number=number: _waiting(admission) > number)  # type: ignore[misc]

    def progress(request: RequestContext) -> str:
        report = request.notes.progress
        return "" if report is None else report()

    _until(lambda: all(request.notes.progress is not None for request in requests))
    assert [progress(request) for request in requests] == [
        "waits for its turn behind 0 scans",
        "waits for its turn behind 1 scan",
    ]
    release()
    for thread in threads:
        thread.join(TIMEOUT_SECONDS)
    assert [progress(request) for request in requests] == ["", ""]

"""The calls of a server, running and recent, as a catalog can list and cancel them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakeport import Server, connect
from lakeport.catalog import (
    Activity,
    CallRecord,
    ScanOptions,
    ScanTable,
    StaticCatalog,
    StaticSchema,
    current_request,
)
from lakeport.errors import CancelledError
from tests.wait import TIMEOUT_SECONDS, wait_until

COLUMNS = pa.schema([("x", pa.int64())])


class Endless:
    """A table whose scans send rows until they are cancelled, and the activity of its server."""

    def __init__(self) -> None:
        self.activity: Activity | None = None
        self.sent = threading.Event()

    def scan(self, options: ScanOptions) -> Iterator[pa.RecordBatch]:
        self.activity = current_request().activity
        batch = pa.record_batch({"x": list(range(10_000))}, schema=COLUMNS)
        while True:
            yield batch
            self.sent.set()


@pytest.fixture
def endless() -> Endless:
    return Endless()


@pytest.fixture
def server(endless: Endless) -> Iterator[Server]:
    tables = [
        ScanTable("endless", COLUMNS, endless.scan),
        ScanTable("short", COLUMNS, lambda _: pa.table({"x": [1, 2, 3]}, schema=COLUMNS)),
    ]
    catalog = StaticCatalog([StaticSchema("s", tables=tables)])
    with Server(catalog) as running:
        yield running


def calls(endless: Endless) -> list[CallRecord]:
    assert endless.activity is not None
    return [call for call in endless.activity.calls() if call.verb == "DoGet"]


def test_a_running_scan_is_listed_with_its_table_columns_and_progress(
    server: Server, endless: Endless
) -> None:
    with connect(server.location, timeout=TIMEOUT_SECONDS) as client:
        reader = client.table("s.endless").scan(["x"], "x > 41").to_reader()
        next(iter(reader))
        assert endless.sent.wait(TIMEOUT_SECONDS)
        assert wait_until(lambda: calls(endless)[0].rows_sent > 0)
        (call,) = calls(endless)
        del reader  # ends the scan

    assert call.is_running
    assert (call.table, call.columns, call.filter) == ("s.endless", "x", '("x" > ?)')
    assert call.seconds > 0
    assert wait_until(lambda: not calls(endless)[0].is_running)
    assert calls(endless)[0].state == "CANCELLED"


def test_a_cancelled_scan_ends_with_the_reason(server: Server, endless: Endless) -> None:
    with connect(server.location, timeout=TIMEOUT_SECONDS) as client:
        reader = client.table("s.endless").scan().to_reader()
        next(iter(reader))
        assert endless.sent.wait(TIMEOUT_SECONDS)
        assert endless.activity is not None

        assert endless.activity.cancel(calls(endless)[0].id, "the query was cancelled by ada")

        with pytest.raises(CancelledError, match="cancelled by ada"):
            for _ in reader:
                pass
    assert wait_until(lambda: calls(endless)[0].state == "CANCELLED")
    assert "cancelled by ada" in calls(endless)[0].error


def test_a_call_that_has_ended_cannot_be_cancelled(server: Server, endless: Endless) -> None:
    with connect(server.location, timeout=TIMEOUT_SECONDS) as client:
        reader = client.table("s.endless").scan().to_reader()
        next(iter(reader))
        del reader  # ends the scan
        client.table("s.short").scan().to_arrow()
        assert endless.activity is not None
        ended = [call for call in calls(endless) if call.table == "s.short"]
        assert wait_until(lambda: all(not call.is_running for call in calls(endless)))

        assert not endless.activity.cancel(ended[0].id, "too late")
        assert not endless.activity.cancel("no such id", "unknown")


def test_recent_calls_are_bounded_and_newest_first(server: Server, endless: Endless) -> None:
    with connect(server.location, timeout=TIMEOUT_SECONDS) as client:
        reader = client.table("s.endless").scan().to_reader()
        next(iter(reader))
        del reader  # ends the scan
        for _ in range(3):
            client.table("s.short").scan().to_arrow()
        assert wait_until(
            lambda: (
                [call.table for call in calls(endless) if not call.is_running][:3]
                == ["s.short"] * 3
            )
        )
    started = [call.started for call in calls(endless)]
    assert started == sorted(started, reverse=True)

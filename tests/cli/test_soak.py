"""Many clients at once on a server of its own, and a replica of it; then SIGTERM in the middle.

`LAKEPORT_SOAK_SECONDS=120 pytest tests/cli/test_soak.py` is the long run.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import flight

import lakeport
from lakeport import Client, col
from lakeport.errors import LakeportError
from tests.cli.processes import Serving, serving
from tests.fixtures_lakes import LakeMaker
from tests.wait import TIMEOUT_SECONDS

SECONDS = float(os.environ.get("LAKEPORT_SOAK_SECONDS", "8"))
CLIENTS = 50
ROWS = 400_000
DELETED = 20_000
MIB = 1024 * 1024

Answer = tuple[int, int]
"""How many rows there are, and the sum of their ids."""
Question = Callable[[Client], Answer]


def numbers(first: int, last: int) -> Answer:
    """What is expected of the ids from the first to the last, without the last."""
    return last - first, sum(range(first, last))


def answer(rows: pa.RecordBatchReader) -> Answer:
    count = total = 0
    for batch in rows:
        count += batch.num_rows
        total += pc.sum(batch["id"]).as_py() or 0
    return count, total


def whole(client: Client) -> Answer:
    return answer(client.table("public.t").scan().to_reader())


def before_the_delete(client: Client) -> Answer:
    return answer(client.table("public.t").scan(["id"], version=2).to_reader())


def between(first: int, last: int) -> Question:
    where = (col("id") >= first) & (col("id") < last)
    return lambda client: answer(client.table("public.t").scan(["id"], filter=where).to_reader())


QUESTIONS: list[tuple[Question, Answer]] = [
    (whole, numbers(DELETED, ROWS)),
    (before_the_delete, numbers(0, ROWS // 2)),
    (between(10_000, 30_000), numbers(DELETED, 30_000)),
    (between(250_000, 250_010), numbers(250_000, 250_010)),
    (between(-5, 5), (0, 0)),
]


@dataclass
class Crowd:
    """Clients that ask until they are told to stop, and what became of their questions."""

    location: str
    stop: threading.Event = field(default_factory=threading.Event)
    ending: threading.Event = field(default_factory=threading.Event)
    """Set before the server is told to end; from then on errors are allowed."""
    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[Any] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, seed: int) -> None:
        choose = random.Random(seed)
        with lakeport.connect(self.location, timeout=TIMEOUT_SECONDS) as client:
            while not self.stop.is_set():
                question, expected = choose.choice(QUESTIONS)
                self._ask(client, question, expected)

    def _ask(self, client: Client, question: Question, expected: Answer) -> None:
        asked_before_the_end = not self.ending.is_set()
        try:
            given = question(client)
        except LakeportError as error:
            self._note("refused")
            if asked_before_the_end and not self.ending.is_set():
                self.wrong.append(error)
            return
        self._note("answered in time" if not self.ending.is_set() else "answered while draining")
        if given != expected:
            self.wrong.append((given, expected))

    def _note(self, outcome: str) -> None:
        with self.lock:
            self.outcomes[outcome] += 1


def resident(server: Serving) -> int:
    return psutil.Process(server.process.pid).memory_info().rss


@pytest.fixture
def lake(make_lake: LakeMaker) -> str:
    """Two snapshots of inserted rows, and one with deletes."""
    made = make_lake(options="DATA_INLINING_ROW_LIMIT 0")
    half = ROWS // 2
    made.execute(
        "CREATE TABLE t (id BIGINT, v VARCHAR)",
        f"INSERT INTO t SELECT i, 'v' || i FROM range({half}) r(i)",
        f"INSERT INTO t SELECT i, 'v' || i FROM range({half}, {ROWS}) r(i)",
        f"DELETE FROM t WHERE id < {DELETED}",
    )
    made.detach()
    return str(made.uri)


@pytest.mark.timeout(600 + 2 * SECONDS)
def test_many_clients_get_the_right_rows_and_sigterm_truncates_nothing(lake: str) -> None:
    # On a busy machine fifty scans may take longer than anybody waits for the end of a process.
    options = ["--master", "local[2]", "--drain", "20", "--log-level", "error"]
    with serving(lake, "--master", "local[1]") as replica:
        with serving(lake, *options) as server:
            with lakeport.connect(server.location) as client:
                for question, expected in QUESTIONS:
                    assert question(client) == expected
            tickets = tickets_of(server)
            crowd = Crowd(server.location)
            threads = [threading.Thread(target=crowd.run, args=(n,)) for n in range(CLIENTS)]
            for thread in threads:
                thread.start()
            try:
                memory = watch(server, SECONDS)
                crowd.ending.set()
                server.send(signal.SIGTERM)
                assert server.wait() == 0
            finally:
                crowd.stop.set()
                for thread in threads:
                    thread.join(TIMEOUT_SECONDS)
        rows = answers_to(tickets, replica)

    assert crowd.wrong == []
    assert crowd.outcomes["answered in time"] > 0
    assert crowd.outcomes["refused"] > 0
    # Of each of so many streams there is little in the server at any time.
    assert max(memory) < 2048 * MIB, [rss // MIB for rss in memory]
    # Another process answers the tickets of a server that is gone.
    assert len(tickets) == 2
    assert sorted(rows["id"].to_pylist()) == list(range(DELETED, ROWS))


def tickets_of(server: Serving) -> list[flight.Ticket]:
    with flight.connect(server.location) as client:
        info = client.get_flight_info(flight.FlightDescriptor.for_path("public", "t"))
        return [endpoint.ticket for endpoint in info.endpoints]


def answers_to(tickets: list[flight.Ticket], server: Serving) -> pa.Table:
    with flight.connect(server.location) as client:
        return pa.concat_tables([client.do_get(ticket).read_all() for ticket in tickets])


def watch(server: Serving, seconds: float) -> list[int]:
    """The memory of the server while the clients ask."""
    end, found = time.monotonic() + seconds, []
    while time.monotonic() < end:
        found.append(resident(server))
        threading.Event().wait(0.5)
    return found

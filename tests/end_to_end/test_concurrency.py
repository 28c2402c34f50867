"""Many clients on one table: the counts add up, no statement is half applied, nothing deadlocks.

`LAKEPORT_SOAK_SECONDS=60 pytest tests/end_to_end/test_concurrency.py` is the long run.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakeport
from lakeport.errors import UnavailableError
from lakeport.filters import col

CLIENTS = 16
SECONDS = float(os.environ.get("LAKEPORT_SOAK_SECONDS", "8"))
# Every statement touches rows in lots of this size, so that half a statement shows as a broken lot.
LOT = 7
SCHEMA = pa.schema([("client", pa.int64()), ("lot", pa.int64()), ("value", pa.int64())])


@dataclass
class Ledger:
    """What one client knows it has stored: the value of each of its lots."""

    lots: dict[int, int] = field(default_factory=dict)
    statements: int = 0
    conflicts: int = 0


@pytest.fixture
def location() -> Iterator[str]:
    with lakeport.Server(lakeport.MemoryCatalog(keep_versions=10)) as server:
        with lakeport.connect(server.location) as client:
            client.create_schema("s")
            client.create_table("s", "t", SCHEMA)
        yield server.location


@pytest.mark.timeout(600 + 4 * SECONDS)
def test_sixteen_clients_write_and_the_counts_add_up(location: str) -> None:
    stop = threading.Event()
    with ThreadPoolExecutor(CLIENTS + 1) as pool:
        watcher = pool.submit(watch, location, stop)
        deadline = time.monotonic() + SECONDS
        writers = [pool.submit(write, location, number, deadline) for number in range(CLIENTS)]
        ledgers = [writer.result() for writer in writers]
        stop.set()
        assert watcher.result() > 0

    with lakeport.connect(location) as client:
        rows = client.table("s.t").scan().to_arrow()
    expected = {(n, lot): value for n, led in enumerate(ledgers) for lot, value in led.lots.items()}
    assert rows.num_rows == LOT * len(expected)
    stored = rows.group_by(["client", "lot"]).aggregate(
        [("value", "min"), ("value", "max"), ("value", "count")]
    )
    for row in stored.to_pylist():
        assert row["value_count"] == LOT
        assert row["value_min"] == row["value_max"] == expected[row["client"], row["lot"]]
    assert all(ledger.statements > 0 for ledger in ledgers)


def write(location: str, number: int, deadline: float) -> Ledger:
    """Insert, update and delete lots of one's own until the deadline."""
    chance = random.Random(number)
    ledger = Ledger()
    with lakeport.connect(location) as client:
        table = client.table("s.t")
        while time.monotonic() < deadline:
            kind = chance.choice(["insert", "insert", "update", "delete"])
            try:
                if kind == "insert" or not ledger.lots:
                    lot = ledger.statements
                    rows = {"client": [number] * LOT, "lot": [lot] * LOT, "value": [0] * LOT}
                    assert table.insert(pa.table(rows, schema=SCHEMA)).affected_rows == LOT
                    ledger.lots[lot] = 0
                else:
                    lot = chance.choice(list(ledger.lots))
                    mine = table.scan(
                        columns=["rowid"], filter=(col("client") == number) & (col("lot") == lot)
                    ).to_arrow()
                    assert mine.num_rows == LOT
                    if kind == "update":
                        value = ledger.statements
                        changed = pa.table({"value": [value] * LOT, "rowid": mine["rowid"]})
                        assert table.update(changed).affected_rows == LOT
                        ledger.lots[lot] = value
                    else:
                        assert table.delete(mine["rowid"]).affected_rows == LOT
                        del ledger.lots[lot]
            except UnavailableError:
                ledger.conflicts += 1
            ledger.statements += 1
    return ledger


def watch(location: str, stop: threading.Event) -> int:
    """Scan all the while: every scan sees whole lots only."""
    scans = 0
    with lakeport.connect(location) as client:
        while not stop.is_set():
            rows = client.table("s.t").scan().to_arrow()
            lots = rows.group_by(["client", "lot"]).aggregate(
                [("value", "count"), ("value", "min"), ("value", "max")]
            )
            assert pc.all(pc.equal(lots["value_count"], LOT)).as_py() is not False
            assert pc.all(pc.equal(lots["value_min"], lots["value_max"])).as_py() is not False
            scans += 1
    return scans

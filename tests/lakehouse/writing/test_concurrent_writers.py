"""Several clients and the reference write to one lake; clients and servers vanish in the middle.

`LAKEPORT_SOAK_SECONDS=120` makes 16 clients of 50 INSERTs and UPDATEs, and 100 killed servers.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

from lakeport import Lake, connect
from lakeport.errors import LakeportError, UnavailableError
from tests.fixtures_lakes import LakeMaker, RealLake
from tests.lakehouse.writing.conftest import Write
from tests.wait import TIMEOUT_SECONDS

IS_LONG = "LAKEPORT_SOAK_SECONDS" in os.environ
CLIENTS, STATEMENTS, OTHERS = (16, 50, 50) if IS_LONG else (4, 4, 4)
KILLS = 100 if IS_LONG else 3
REFERENCE = """
import sys
import duckdb
from tests.fixtures_lakes import connect

connection = connect()
connection.execute(f"ATTACH '{sys.argv[1]}' AS other")
for number in range(int(sys.argv[2])):
    while True:
        try:
            connection.execute(f"INSERT INTO other.c VALUES ({1000 + number}, 0)")
            break
        except duckdb.Error as error:
            if "lock" not in str(error) and "conflict" not in str(error).lower():
                raise
"""
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


def test_clients_beside_a_reference_writer_lose_no_update(write: Write) -> None:
    here = write("CREATE TABLE c (id BIGINT, n BIGINT)", "INSERT INTO c VALUES (0, 0)")
    conflicts: list[str] = []

    def work(number: int) -> None:
        with connect(here.server.location, timeout=TIMEOUT_SECONDS) as client:
            table = client.table("public.c")
            for statement in range(STATEMENTS):
                table.insert([{"id": 1 + number * STATEMENTS + statement, "n": 0}])
                for attempt in count():
                    # Clients that all try again at once conflict again, all but one of them.
                    time.sleep(random.uniform(0, 0.1) * min(attempt, 2 * CLIENTS))
                    try:
                        with client.transaction():
                            row = table.scan(["rowid", "n"], "id = 0").to_arrow()
                            table.update(
                                pa.table({"rowid": row["rowid"], "n": [row["n"][0].as_py() + 1]})
                            )
                        break
                    except UnavailableError as error:
                        conflicts.append(str(error))

    # Not in this process: two libraries of SQLite in one process do not see each other's locks.
    other = [sys.executable, "-c", REFERENCE, here.ours.uri, str(OTHERS)]
    with subprocess.Popen(other) as process, ThreadPoolExecutor(CLIENTS) as executor:
        for future in [executor.submit(work, number) for number in range(CLIENTS)]:
            future.result()
        assert process.wait() == 0

    rows = here.ours.query("SELECT id, n FROM c")
    assert len(rows) == 1 + CLIENTS * STATEMENTS + OTHERS
    assert dict(rows)[0] == CLIENTS * STATEMENTS
    assert all("again" in conflict for conflict in conflicts), conflicts[:3]


def test_a_client_that_fails_in_the_middle_leaves_nothing(write: Write) -> None:
    here = write("CREATE TABLE t (id BIGINT, text VARCHAR)")
    before = here.catalog.lake.snapshot().id

    def rows() -> Iterator[pa.RecordBatch]:
        for number in range(4):
            yield _batch(number)
        raise ZeroDivisionError

    with pytest.raises((ZeroDivisionError, LakeportError)):
        here.client.table("public.t").insert(pa.RecordBatchReader.from_batches(SCHEMA, rows()))

    assert here.client.table("public.t").scan().count() == 0
    assert here.catalog.lake.snapshot().id == before
    assert list(Path(here.ours.data_path).rglob("*.parquet")) == []


SERVER = """
import sys
from lakeport import Server
from lakeport.lakehouse import LakeCatalog

catalog = LakeCatalog(sys.argv[1], writable=True, engine="local")
with Server(catalog) as server:
    print(server.location, flush=True)
    sys.stdin.read()
"""


def test_a_server_killed_in_the_middle_of_inserts_leaves_whole_statements(
    make_lake: LakeMaker,
) -> None:
    lake = make_lake("sqlite")
    lake.execute("CREATE TABLE t (id BIGINT, text VARCHAR)")
    lake.detach()
    batches = 6

    # Killed after so many batches were sent; every third time while the commit may run.
    outcomes = [
        _insert_and_kill(lake, batches, (1, 5, batches)[number % 3]) for number in range(KILLS)
    ]

    with Lake.open(lake.uri) as opened:
        rows = opened.table("t").scan().count()
    assert rows % (batches * 2000) == 0
    # A statement whose end was not confirmed may have been committed.
    assert sum(outcomes) <= rows <= sum(outcomes) + (KILLS // 3) * batches * 2000
    lake.check()


def _insert_and_kill(lake: RealLake, batches: int, kill_after: int) -> int:
    """Insert into a server that is killed; return the number of rows that it has confirmed."""
    server = [sys.executable, "-c", SERVER, lake.uri]
    with subprocess.Popen(
        server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None

        def rows() -> Iterator[pa.RecordBatch]:
            for number in range(batches):
                if number == kill_after:
                    process.kill()
                yield _batch(number)
            if kill_after == batches:
                threading.Timer(0.05, process.kill).start()

        try:
            with connect(process.stdout.readline().strip(), timeout=TIMEOUT_SECONDS) as client:
                reader = pa.RecordBatchReader.from_batches(SCHEMA, rows())
                with suppress(LakeportError):
                    return client.table("public.t").insert(reader).affected_rows
            return 0
        finally:
            process.kill()


def _batch(number: int) -> pa.RecordBatch:
    ids = pa.array(range(number * 2000, number * 2000 + 2000), pa.int64())
    return pa.RecordBatch.from_arrays([ids, pa.array(["x" * 50] * 2000)], schema=SCHEMA)

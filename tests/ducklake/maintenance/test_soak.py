"""Maintenance beside writers and readers, ours and the reference's, for a while: a serial result."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial

import duckdb

from lakeport.ducklake import Lake
from lakeport.errors import ConflictError
from tests.fixtures_lakes import LakeMaker, connect

SECONDS = float(os.environ.get("LAKEPORT_SOAK_SECONDS", "10"))


def test_maintenance_beside_writers_and_readers_is_serial(make_lake: LakeMaker) -> None:
    lake = make_lake("postgresql")
    lake.execute("CREATE TABLE t (id BIGINT, name VARCHAR)")
    lake.execute("INSERT INTO t SELECT i, 'kept' FROM range(100) r(i)")
    lake.detach()
    end = time.monotonic() + SECONDS
    errors: list[BaseException] = []
    live: dict[int, set[int]] = {}
    counts = {"conflicts": 0, "commits": 0, "operations": 0, "reads": 0}

    def guarded(work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                errors.append(error)

        return run

    def write(number: int, run: Callable[[str, str], None]) -> None:
        own = live[number] = set()
        turn = 0
        while time.monotonic() < end:
            first = 1_000_000 * number + 100 * turn
            size = 5 if turn % 2 else 40
            turn += 1
            for kind, sql, ids in (
                ("insert", f"SELECT i, 'w' FROM range({first}, {first + size}) r(i)", range(size)),
                ("delete", f"id BETWEEN {first} AND {first + size // 3}", range(size // 3 + 1)),
            ):
                try:
                    run(kind, sql)
                except (duckdb.Error, ConflictError) as error:
                    is_conflict = isinstance(error, ConflictError) or "onflict" in str(error)
                    if not is_conflict and "concurrent" not in str(error):
                        raise
                    counts["conflicts"] += 1
                    break
                changed = {first + i for i in ids}
                own |= changed if kind == "insert" else set()
                own -= changed if kind == "delete" else set()
                counts["commits"] += 1

    def our_writer(number: int) -> Callable[[], None]:
        def work() -> None:
            with Lake.open(lake.uri, engine="local") as own, closing(duckdb.connect()) as maker:

                def run(kind: str, sql: str) -> None:
                    if kind == "insert":
                        own.table("t").append(
                            maker.sql(
                                sql.replace("i, 'w'", "i AS id, 'w' AS name")
                            ).to_arrow_table()
                        )
                    else:
                        own.table("t").delete(sql)

                write(number, run)

        return work

    def their_writer(number: int) -> Callable[[], None]:
        def work() -> None:
            with closing(connect()) as own:
                own.execute(f"ATTACH '{lake.uri}' AS lake (DATA_PATH '{lake.data_path}')")

                def run(kind: str, sql: str) -> None:
                    statement = (
                        "INSERT INTO lake.t " if kind == "insert" else "DELETE FROM lake.t WHERE "
                    )
                    own.execute(statement + sql)

                write(number, run)

        return work

    def maintain() -> None:
        with Lake.open(lake.uri, engine="local") as own:
            while time.monotonic() < end:
                table = own.table("t")
                operations: list[Callable[[], object]] = [
                    table.flush,
                    table.merge_files,
                    partial(table.rewrite_files, threshold=0.1),
                    partial(own.expire, retain_last=20),
                ]
                for operation in operations:
                    try:
                        operation()
                    except ConflictError:
                        counts["conflicts"] += 1
                    counts["operations"] += 1

    def read() -> None:
        with Lake.open(lake.uri, engine="local") as own:
            while time.monotonic() < end:
                found = own.table("t").scan(["id"]).to_arrow()["id"].to_pylist()
                assert len(found) == len(set(found))
                assert set(range(100)) <= set(found)
                counts["reads"] += 1

    works = [our_writer(1), our_writer(2), their_writer(3), their_writer(4), maintain, read, read]
    threads = [threading.Thread(target=guarded(work)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    assert min(counts["commits"], counts["operations"], counts["reads"]) > 0
    rows = [row[0] for row in lake.query("SELECT id FROM t")]
    assert len(rows) == len(set(rows))
    assert set(rows) == set(range(100)).union(*live.values())
    lake.check(snapshots=lake.snapshots()[-2:])

"""Maintenance beside writers and readers, ours and the reference's, for a while: a serial result.

Eight writers and eight readers if `LAKEPORT_SOAK_SECONDS` is at least a minute, else three each.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import count, takewhile

import duckdb

from lakeport.ducklake import Lake
from lakeport.errors import ConflictError
from tests.fixtures_lakes import LakeMaker, connect

SECONDS = float(os.environ.get("LAKEPORT_SOAK_SECONDS", "10"))
OURS, THEIRS = (4, 4) if SECONDS >= 60 else (2, 1)


def test_maintenance_beside_writers_and_readers_is_serial(make_lake: LakeMaker) -> None:
    lake = make_lake("postgresql")
    lake.execute("CREATE TABLE t (id BIGINT, name VARCHAR)")
    lake.execute("INSERT INTO t SELECT i, 'kept' FROM range(100) r(i)")
    lake.detach()
    end = time.monotonic() + SECONDS
    errors: list[BaseException] = []
    live: dict[int, set[int]] = {}
    counts = {"conflicts": 0, "commits": 0, "operations": 0, "reads": 0}

    def turns() -> Iterator[int]:
        """At least one turn, however long a slow machine takes to begin."""
        yield 0
        yield from takewhile(lambda _: time.monotonic() < end, count(1))

    def guarded(work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                errors.append(error)

        return run

    def write(number: int, run: Callable[[str, str], None], *, deletes: bool = True) -> None:
        own = live[number] = set()
        for turn in turns():
            first = 1_000_000 * number + 100 * turn
            size = 5 if turn % 2 else 40
            for kind, sql, ids in (
                ("insert", f"SELECT i, 'w' FROM range({first}, {first + size}) r(i)", range(size)),
                ("delete", f"id BETWEEN {first} AND {first + size // 3}", range(size // 3 + 1)),
            )[: 1 + deletes]:
                try:
                    run(kind, sql)
                except (duckdb.Error, ConflictError) as error:
                    # The reference gives up after ten attempts, with the text of the last one.
                    reasons = ("onflict", "concurrent", "ducklake_snapshot_pkey")
                    if not isinstance(error, ConflictError) and not any(
                        reason in str(error) for reason in reasons
                    ):
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

    def their_writer(number: int, *, deletes: bool) -> Callable[[], None]:
        def work() -> None:
            with closing(connect()) as own:
                own.execute(f"ATTACH '{lake.uri}' AS lake (DATA_PATH '{lake.data_path}')")

                def run(kind: str, sql: str) -> None:
                    statement = (
                        "INSERT INTO lake.t " if kind == "insert" else "DELETE FROM lake.t WHERE "
                    )
                    own.execute(statement + sql)

                write(number, run, deletes=deletes)

        return work

    def maintain() -> None:
        with Lake.open(lake.uri, engine="local") as own:
            for _ in turns():
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
            for _ in turns():
                compare(own.table("t").scan(["id"]).to_arrow()["id"].to_pylist())

    def their_read() -> None:
        with closing(connect()) as own:
            own.execute(f"ATTACH '{lake.uri}' AS lake (DATA_PATH '{lake.data_path}')")
            for _ in turns():
                compare([row[0] for row in own.execute("SELECT id FROM lake.t").fetchall()])

    def compare(found: list[int]) -> None:
        assert len(found) == len(set(found))
        assert set(range(100)) <= set(found)
        counts["reads"] += 1

    works = [
        *(our_writer(1 + n) for n in range(OURS)),
        # Two deletes of the reference in one file, which had deletes before, would lose each other.
        *(their_writer(1 + OURS + n, deletes=n == 0) for n in range(THEIRS)),
        maintain,
        *[read] * OURS,
        *[their_read] * THEIRS,
    ]
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

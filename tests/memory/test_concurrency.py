"""Many threads at once: the counts add up and no statement is ever half visible."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextlib import suppress

import pyarrow as pa
import pytest

from lakeport.catalog import AddColumnOptions, DropTableOptions, RemoveColumnOptions, ScanOptions
from lakeport.errors import ConstraintError, NotFoundError, UnavailableError
from lakeport.memory import MemoryTable
from tests.memory.fixtures_catalog import Workbench, delete, ids, insert, read, rowids, update

GROUP = 7
"""The rows that every statement writes at once."""


def run(*workers: Callable[[], None]) -> None:
    """Run all workers at the same time; an error of any of them fails the test."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(workers))

    def guarded(worker: Callable[[], None]) -> None:
        try:
            start.wait()
            worker()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_inserts_updates_and_deletes_of_many_threads_add_up(memory_catalog: Workbench) -> None:
    columns = pa.schema([("id", pa.int64()), ("value", pa.int64())])
    table = memory_catalog.create(columns, unique_constraints=(("id",),))
    kept: list[int] = []
    done = threading.Event()
    writers_left = [8]
    lock = threading.Lock()

    def writer(number: int) -> Callable[[], None]:
        def work() -> None:
            choose = random.Random(number)
            own: list[int] = []
            for turn in range(25):
                group = number * 1000 + turn
                first = group * GROUP
                insert(table, [{"id": first + i, "value": group} for i in range(GROUP)])
                own.append(group)
                if choose.random() < 0.3:
                    gone = own.pop(choose.randrange(len(own)))
                    where = rowids(table)
                    assert delete(table, *(where[gone * GROUP + i] for i in range(GROUP))) == GROUP
                elif choose.random() < 0.5:
                    changed = choose.choice(own)
                    where = rowids(table)
                    members = [where[changed * GROUP + i] for i in range(GROUP)]
                    assert update(table, members, value=[-turn] * GROUP) == GROUP
            with lock:
                kept.extend(own)
                writers_left[0] -= 1
                if not writers_left[0]:
                    done.set()

        return work

    def reader() -> None:
        while not done.is_set():
            groups: dict[int, list[int]] = {}
            for row in read(table):
                groups.setdefault(row["id"] // GROUP, []).append(row["value"])
            for values in groups.values():
                assert len(values) == GROUP
                assert len(set(values)) == 1

    run(*(writer(number) for number in range(8)), reader, reader)
    assert ids(table) == sorted(group * GROUP + i for group in kept for i in range(GROUP))
    numbers = [version.version for version in table.versions()]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(set(rowids(table).values())) == len(kept) * GROUP


def test_transactions_that_move_money_lose_none(memory_catalog: Workbench) -> None:
    columns = pa.schema([("id", pa.int64()), ("balance", pa.int64())])
    table = memory_catalog.create(columns)
    insert(table, [{"id": i, "balance": 100} for i in range(10)])
    where = rowids(table)
    outcomes: list[bool] = []

    def balances() -> dict[int, int]:
        return {row["id"]: row["balance"] for row in read(table)}

    def mover(number: int) -> Callable[[], None]:
        def work() -> None:
            choose = random.Random(number)
            for _ in range(20):
                giver, taker = choose.sample(range(10), 2)
                transaction = memory_catalog.catalog.begin_transaction()
                with memory_catalog.within(transaction):
                    known = balances()
                    assert sum(known.values()) == 1000
                    update(table, [where[giver]], balance=[known[giver] - 1])
                    update(table, [where[taker]], balance=[known[taker] + 1])
                    assert sum(balances().values()) == 1000
                try:
                    memory_catalog.catalog.commit_transaction(transaction)
                    outcomes.append(True)
                except UnavailableError:
                    outcomes.append(False)
                assert sum(balances().values()) == 1000

        return work

    run(*(mover(number) for number in range(6)))
    assert any(outcomes)
    # One version for the table, one for its rows, and one for each transaction that got through.
    assert len(table.versions()) == 2 + outcomes.count(True)
    assert sum(balances().values()) == 1000


def test_ddl_and_rows_of_many_threads_get_along(memory_catalog: Workbench) -> None:
    shared = memory_catalog.people(100)

    def creator(number: int) -> Callable[[], None]:
        return lambda: create_and_drop(memory_catalog, f"t{number}_")

    run(
        *(creator(number) for number in range(4)),
        lambda: alter(shared),
        lambda: write_in_spite_of_conflicts(shared),
        lambda: read_everything(memory_catalog, shared),
    )
    assert len(ids(shared)) == 110
    assert len(memory_catalog.schema.tables()) == 1 + 4 * 5


def test_expressions_of_many_threads_do_not_mix(memory_catalog: Workbench) -> None:
    tables = [
        memory_catalog.create(name=f"t{limit}", check_constraints=(f"id % 8 = {limit}",))
        for limit in range(8)
    ]

    def writer(limit: int) -> Callable[[], None]:
        def work() -> None:
            for number in range(10):
                insert(tables[limit], [{"id": 8 * number + limit}])
                with pytest.raises(ConstraintError):
                    insert(tables[limit], [{"id": 8 * number + limit + 1}])

        return work

    run(*(writer(limit) for limit in range(8)))
    assert [len(ids(table)) for table in tables] == [10] * 8


def create_and_drop(memory_catalog: Workbench, prefix: str) -> None:
    """Create ten tables, and drop every other one of them."""
    columns = pa.schema([("id", pa.int64())])
    for turn in range(10):
        table = memory_catalog.create(columns, name=f"{prefix}{turn}")
        insert(table, [{"id": turn}])
        assert ids(table) == [turn]
        if turn % 2:
            memory_catalog.schema.drop_table(f"{prefix}{turn}", DropTableOptions())


def alter(table: MemoryTable) -> None:
    for _ in range(10):
        table.add_column(pa.schema([("extra", pa.int32())]), AddColumnOptions())
        table.remove_column("extra", RemoveColumnOptions())


def write_in_spite_of_conflicts(table: MemoryTable) -> None:
    written = 0
    while written < 10:
        try:
            insert(table, pa.table({"id": [1000 + written]}))
            written += 1
        except UnavailableError:
            continue


def read_everything(memory_catalog: Workbench, shared: MemoryTable) -> None:
    for _ in range(50):
        rows = shared.scan(ScanOptions()).read_all()
        assert rows.schema.names[-1] == "rowid"
        assert rows.num_rows >= 100
        for table in memory_catalog.schema.tables():
            with suppress(NotFoundError):
                assert len(read(table)) <= 110

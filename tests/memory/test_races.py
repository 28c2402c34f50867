"""What happens when others change the state in the very moment of a change."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakeport.catalog import RequestContext, TransactionState, request_scope
from lakeport.errors import InvalidInputError
from lakeport.memory.changes import Change
from lakeport.memory.state import CatalogState, SchemaState
from lakeport.memory.store import Store
from tests.memory.fixtures_catalog import Clock, Workbench, ids, insert, update


@pytest.fixture
def store() -> Store:
    return Store(clock=Clock(), keep_versions=None)


def creates(name: str) -> Change:
    return Change(lambda state: state.with_schema(SchemaState(name)).altered())


def interrupted(name: str, interrupt: Callable[[int], None], times: int) -> Change:
    """A change that is interrupted whenever it is prepared, so many times."""
    tries = 0

    def apply(state: CatalogState) -> CatalogState:
        nonlocal tries
        tries += 1
        if tries <= times:
            interrupt(tries)
        return creates(name).apply(state)

    return Change(apply)


@pytest.mark.parametrize("times", [1, 3, 4])
def test_a_writer_that_loses_races_gets_through(store: Store, times: int) -> None:
    store.write(interrupted("mine", lambda n: store.write(creates(f"other{n}")), times))
    assert set(store.head.schemas) == {"mine", *(f"other{n}" for n in range(1, times + 1))}


@pytest.mark.parametrize("times", [1, 4])
def test_two_statements_of_a_transaction_at_once_are_both_kept(store: Store, times: int) -> None:
    identifier = store.begin()
    with request_scope(RequestContext(transaction_id=identifier)):
        store.write(interrupted("mine", lambda n: store.write(creates(f"other{n}")), times))
        assert "mine" in store.view().schemas
    assert not store.head.schemas
    store.commit(identifier)
    assert set(store.head.schemas) == {"mine", *(f"other{n}" for n in range(1, times + 1))}


def test_a_transaction_that_is_rolled_back_meanwhile_takes_no_more(store: Store) -> None:
    identifier = store.begin()
    with (
        request_scope(RequestContext(transaction_id=identifier)),
        pytest.raises(InvalidInputError, match="rolled back"),
    ):
        store.write(interrupted("mine", lambda _: store.rollback(identifier), 1))
    assert not store.head.schemas


def test_a_transaction_that_is_rolled_back_during_its_commit_commits_nothing(
    store: Store,
) -> None:
    identifier = store.begin()

    def give_up(tries: int) -> None:
        # The first time it is prepared for the transaction, the second time for all.
        if tries == 2:
            store.rollback(identifier)

    with request_scope(RequestContext(transaction_id=identifier)):
        store.write(interrupted("mine", give_up, 2))
    with pytest.raises(InvalidInputError, match="rolled back"):
        store.commit(identifier)
    assert not store.head.schemas
    assert store.status(identifier) is TransactionState.ABORTED


def test_a_statement_that_comes_during_a_commit_waits_for_the_next(store: Store) -> None:
    identifier = store.begin()

    def join(tries: int) -> None:
        # The first time it is prepared for the transaction, the second time for all.
        if tries == 2:
            with request_scope(RequestContext(transaction_id=identifier)):
                store.write(creates("late"))

    with request_scope(RequestContext(transaction_id=identifier)):
        store.write(interrupted("early", join, 2))
        store.commit(identifier)
        assert set(store.head.schemas) == {"early"}
        assert set(store.view().schemas) == {"early", "late"}
        store.commit(identifier)
    assert set(store.head.schemas) == {"early", "late"}
    assert store.status(identifier) is TransactionState.COMMITTED


def test_rows_are_merged_with_those_of_a_transaction_that_committed_meanwhile(
    memory_catalog: Workbench,
) -> None:
    table = memory_catalog.create()
    one, two = (
        memory_catalog.catalog.begin_transaction(),
        memory_catalog.catalog.begin_transaction(),
    )
    for turn in range(3):
        for number, transaction in enumerate((one, two)):
            with memory_catalog.within(transaction):
                insert(table, [{"id": 10 * number + turn}])
    memory_catalog.catalog.commit_transaction(one)
    insert(table, [{"id": 100}])
    update(table, [0], id=[-1])
    memory_catalog.catalog.commit_transaction(two)
    assert ids(table) == [-1, 1, 2, 10, 11, 12, 100]
    with memory_catalog.within(one):
        assert ids(table) == [0, 1, 2]
    with memory_catalog.within(two):
        assert ids(table) == [10, 11, 12]

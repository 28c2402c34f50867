"""Transactions that nobody uses any more are rolled back; the clock is ours."""

from __future__ import annotations

import pytest

from lakeport.airport.server.transactions import Transactions
from lakeport.catalog import RequestContext, TransactionState, current_request, request_scope
from lakeport.errors import InvalidInputError, NotFoundError
from tests.airport.transactional_catalog import TransactionalCatalog


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def transactions(clock: Clock) -> Transactions:
    return Transactions(idle_seconds=100, clock=clock)


@pytest.fixture
def catalog() -> TransactionalCatalog:
    return TransactionalCatalog()


def current(
    transactions: Transactions, owner: str | None, catalog: str, given: str | None
) -> str | None:
    return transactions.current(owner, catalog, given, identity="")


def test_an_idle_transaction_is_rolled_back(
    transactions: Transactions, catalog: TransactionalCatalog, clock: Clock
) -> None:
    identifier = transactions.begin(catalog, "lake", explicit=True)
    assert identifier is not None

    clock.now = 99
    transactions.expire()
    assert catalog.transaction_status(identifier) is TransactionState.ACTIVE

    clock.now = 100
    transactions.expire()
    assert catalog.transaction_status(identifier) is TransactionState.ABORTED
    with pytest.raises(InvalidInputError, match="rolled back after 100 seconds without a call"):
        transactions.commit(identifier)
    transactions.rollback(identifier)
    with pytest.raises(NotFoundError, match="there is no open transaction"):
        transactions.rollback(identifier)


def test_using_a_transaction_keeps_it_alive(
    transactions: Transactions, catalog: TransactionalCatalog, clock: Clock
) -> None:
    used = transactions.begin(catalog, "lake", explicit=True)
    idle = transactions.begin(catalog, "lake", explicit=True)
    assert used is not None
    assert idle is not None

    for moment in (50, 100, 149):
        clock.now = moment
        assert current(transactions, None, "lake", used) == used
    transactions.expire()

    assert catalog.transaction_status(used) is TransactionState.ACTIVE
    assert catalog.transaction_status(idle) is TransactionState.ABORTED
    transactions.commit(used)
    assert catalog.log[-1] == ("commit", used)


def test_a_transaction_is_not_idle_while_a_statement_of_it_runs(
    transactions: Transactions, catalog: TransactionalCatalog, clock: Clock
) -> None:
    identifier = transactions.begin(catalog, "lake", explicit=True)
    assert identifier is not None

    with (
        request_scope(RequestContext(transaction_id=identifier)),
        transactions.statement(catalog, "lake"),
    ):
        clock.now = 1000
        transactions.expire()
        assert catalog.transaction_status(identifier) is TransactionState.ACTIVE
    clock.now = 1099
    transactions.expire()
    assert catalog.transaction_status(identifier) is TransactionState.ACTIVE

    clock.now = 1100
    transactions.expire()
    assert catalog.transaction_status(identifier) is TransactionState.ABORTED


def test_a_rollback_that_fails_is_the_affair_of_nobody_else(
    transactions: Transactions, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(TransactionalCatalog):
        def rollback_transaction(self, transaction_id: str) -> None:
            raise RuntimeError("the disk is gone")

    broken, sound = Broken(), TransactionalCatalog()
    transactions.begin(broken, "broken", explicit=True)
    identifier = transactions.begin(sound, "sound", explicit=True)
    assert identifier is not None

    clock.now = 1000
    assert current(transactions, None, "sound", None) is None

    assert sound.transaction_status(identifier) is TransactionState.ABORTED
    assert "a transaction of catalog 'broken'" in caplog.text


def test_the_statements_of_an_expired_transaction_are_not_committed_one_by_one(
    transactions: Transactions, catalog: TransactionalCatalog, clock: Clock
) -> None:
    identifier = transactions.begin(catalog, "lake", explicit=True, owner="p")
    clock.now = 1000

    assert current(transactions, "p", "lake", None) == identifier
    with (
        request_scope(RequestContext(transaction_id=identifier)),
        pytest.raises(InvalidInputError, match="rolled back after 100 seconds without a call"),
        transactions.statement(catalog, "lake"),
    ):
        pytest.fail("the statement must not run")
    transactions.rollback(*transactions.bound_to("p"))

    assert current(transactions, "p", "lake", None) is None
    assert catalog.log == [("begin", identifier), ("rollback", identifier)]


def test_only_so_many_transactions_are_known(clock: Clock, catalog: TransactionalCatalog) -> None:
    transactions = Transactions(idle_seconds=100, keep=2, clock=clock)
    explicit = transactions.begin(catalog, "lake", explicit=True)
    running = transactions.begin(catalog, "lake")
    with (
        request_scope(RequestContext(transaction_id=running)),
        transactions.statement(catalog, "lake"),
    ):
        first, second = (transactions.begin(catalog, "lake") for _ in range(2))

    # Neither a transaction of several statements nor one that is running is forgotten.
    assert catalog.log[-2:] == [("rollback", first), ("commit", running)]
    assert second is not None
    assert explicit is not None
    transactions.commit(explicit)


def test_a_transaction_that_ended_already_is_forgotten_quietly(
    transactions: Transactions, catalog: TransactionalCatalog, clock: Clock
) -> None:
    identifier = transactions.begin(catalog, "lake")
    assert identifier is not None
    catalog.commit_transaction(identifier)

    clock.now = 1000
    transactions.expire()

    assert catalog.transaction_status(identifier) is TransactionState.COMMITTED
    assert ("rollback", identifier) not in catalog.log


def test_an_expired_transaction_sets_its_process_free(
    transactions: Transactions, catalog: TransactionalCatalog, clock: Clock
) -> None:
    first = transactions.begin(catalog, "lake", explicit=True, owner="p")
    assert current(transactions, "p", "lake", None) == first

    clock.now = 1000
    second = transactions.begin(catalog, "lake", explicit=True, owner="p")

    assert second != first
    assert current(transactions, "p", "lake", None) == second
    assert transactions.bound_to("p") == (second, "lake")


def test_every_beginning_cleans_up(
    transactions: Transactions, catalog: TransactionalCatalog, clock: Clock
) -> None:
    for moment in range(0, 1000, 200):
        clock.now = moment
        transactions.begin(catalog, "lake")

    assert sum(event == "rollback" for event, _ in catalog.log) == 4


def test_a_process_s_transaction_wins_over_the_one_a_call_names(
    transactions: Transactions, catalog: TransactionalCatalog
) -> None:
    bound = transactions.begin(catalog, "lake", explicit=True, owner="p")

    assert current(transactions, "p", "lake", "t99") == bound
    assert current(transactions, "p", "other", "t99") == "t99"
    assert current(transactions, "q", "lake", "t99") == "t99"
    assert current(transactions, None, "lake", None) is None


def test_a_statement_runs_inside_its_own_transaction(
    transactions: Transactions, catalog: TransactionalCatalog
) -> None:
    with transactions.statement(catalog, "lake"):
        inside = current_request().transaction_id

    assert inside == "t1"
    assert current_request().transaction_id is None
    assert catalog.log == [("begin", "t1"), ("commit", "t1")]


def test_a_statement_of_an_explicit_transaction_is_not_committed(
    transactions: Transactions, catalog: TransactionalCatalog
) -> None:
    identifier = transactions.begin(catalog, "lake", explicit=True)

    with (
        request_scope(RequestContext(transaction_id=identifier)),
        transactions.statement(catalog, "lake"),
    ):
        pass

    assert catalog.log == [("begin", identifier)]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_statement_that_is_interrupted_is_rolled_back(
    transactions: Transactions, catalog: TransactionalCatalog, error: type[BaseException]
) -> None:
    with pytest.raises(error), transactions.statement(catalog, "lake"):
        raise error

    assert catalog.log[-1] == ("rollback", "t1")


def test_a_catalog_without_transactions_just_runs(transactions: Transactions) -> None:
    with transactions.statement(object(), "lake"):
        assert current_request().transaction_id is None
    assert transactions.begin(object(), "lake") is None

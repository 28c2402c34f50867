"""Commits and transactions: the only place where the state of a catalog changes.

A reader takes the current state and needs no lock. A writer prepares the next state without a lock
and sets it under the lock. A writer that loses the race prepares its change again. A transaction
has a state of its own: the state it began with, and its changes. A commit applies these changes to
the committed state.
"""

from __future__ import annotations

import itertools
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lakeport.catalog import TransactionState, current_request
from lakeport.errors import InvalidInputError, LakeportError, UnavailableError
from lakeport.memory.changes import Change
from lakeport.memory.state import CatalogState, SchemaState, TableState, TableVersion

__all__ = ["Store"]

# After so many lost races a writer prepares under the lock, so that it cannot starve.
_OPTIMISTIC_TRIES = 4
_MAX_TRANSACTIONS = 10_000
# A pin keeps old versions alive, which costs little as long as the history keeps them anyway.
_MAX_PINS = 4_000
_MAX_PINS_OF_BOUNDED_HISTORY = 1_000
_NOTHING = CatalogState()
_ROLLED_BACK = (
    "the transaction was rolled back, because a statement failed or it was idle for too long; "
    "begin a new one"
)


@dataclass(slots=True, eq=False)
class _Transaction:
    """The state of a transaction. Guarded by the lock of the store."""

    base: CatalogState | None
    """The state it began with, and what it has committed since; None reads the committed state."""
    visible: CatalogState
    """The base with the changes that are not committed; unused without a base."""
    pending: tuple[Change, ...] = ()
    state: TransactionState = TransactionState.ACTIVE


@dataclass(frozen=True, slots=True)
class _Published:
    """A table as prepared and as committed."""

    prepared: TableVersion
    committed: TableState


class Store:
    """The state of a catalog and its transactions."""

    def __init__(self, *, clock: Callable[[], datetime], keep_versions: int | None) -> None:
        self._clock = clock
        self._keep_versions = keep_versions
        self._max_pins = _MAX_PINS if keep_versions is None else _MAX_PINS_OF_BOUNDED_HISTORY
        # Guards everything below. A thread that holds it never waits for a client.
        self._lock = threading.Lock()
        self._committed_state = CatalogState()
        self._last_commit: datetime | None = None
        self._transactions: OrderedDict[str, _Transaction] = OrderedDict()
        self._pins: OrderedDict[str, None] = OrderedDict()
        self._numbers = itertools.count(1)

    def next_number(self) -> int:
        """Return a number that is unique in this catalog."""
        return next(self._numbers)

    @property
    def committed_state(self) -> CatalogState:
        """The state that contains all commits."""
        return self._committed_state

    def visible_state(self) -> CatalogState:
        """Return the state of the current request's transaction, or the committed state."""
        identifier = current_request().transaction_id
        if identifier is None:
            return self._committed_state
        with self._lock:
            transaction = self._transactions.get(identifier)
            if transaction is None or transaction.base is None:
                return self._committed_state
            self._touch(identifier)
            self._rebase_on_ddl(transaction)
            return transaction.visible

    def write(self, change: Change) -> None:
        """Apply a change to the transaction of the current request, else commit it at once."""
        identifier = current_request().transaction_id
        transaction = None if identifier is None else self._writable(identifier)
        if identifier is None or transaction is None:
            self._commit((change,))
            return
        for attempt in itertools.count():
            visible = transaction.visible
            prepared = change.apply(visible) if attempt < _OPTIMISTIC_TRIES else None
            with self._lock:
                if transaction.state is TransactionState.ABORTED:
                    raise InvalidInputError(_ROLLED_BACK)
                if prepared is not None and transaction.visible is not visible:
                    continue
                transaction.visible = prepared or change.apply(transaction.visible)
                transaction.pending = (*transaction.pending, change)
                self._pins.pop(identifier, None)
                return

    def begin(self) -> str:
        """Begin a transaction on the committed state and return its identifier."""
        identifier = str(uuid.uuid4())
        with self._lock:
            self._transactions[identifier] = _Transaction(
                base=self._committed_state, visible=self._committed_state
            )
            self._touch(identifier)
            self._evict()
        return identifier

    def commit(self, identifier: str) -> None:
        """Apply the changes of a transaction to the committed state."""
        with self._lock:
            transaction = self._transactions.get(identifier)
            if transaction is None:
                return
            if transaction.state is TransactionState.ABORTED:
                raise InvalidInputError("the transaction was rolled back: nothing can be committed")
            pending = transaction.pending
            if not pending:
                transaction.state = TransactionState.COMMITTED
                return
        try:
            self._commit(pending, transaction, identifier)
        except LakeportError:
            self.rollback(identifier)
            raise

    def rollback(self, identifier: str) -> None:
        """Drop the uncommitted changes of a transaction and release the state that it pins."""
        with self._lock:
            transaction = self._transactions.get(identifier)
            if transaction is None:
                return
            touched = _changed_tables(transaction) if transaction.pending else []
            if transaction.pending or transaction.state is TransactionState.ACTIVE:
                transaction.state = TransactionState.ABORTED
            transaction.pending = ()
            transaction.base, transaction.visible = None, _NOTHING
            self._pins.pop(identifier, None)
        for table in touched:
            table.bounds.flush()

    def status(self, identifier: str) -> TransactionState | None:
        """Return the state of a transaction, or None if it is unknown."""
        with self._lock:
            transaction = self._transactions.get(identifier)
            return None if transaction is None else transaction.state

    def _commit(
        self,
        changes: tuple[Change, ...],
        transaction: _Transaction | None = None,
        identifier: str = "",
    ) -> None:
        for attempt in itertools.count():
            head = self._committed_state
            may_race = attempt < _OPTIMISTIC_TRIES
            prepared = self._prepare(head, changes, transaction) if may_race else None
            with self._lock:
                if transaction is not None and transaction.state is TransactionState.ABORTED:
                    raise InvalidInputError(_ROLLED_BACK)
                if prepared is None:
                    prepared = self._prepare(self._committed_state, changes, transaction)
                elif self._committed_state is not head:
                    continue
                before = self._committed_state
                published = [] if prepared is before else self._publish(prepared)
                if transaction is not None:
                    self._continue_after_commit(transaction, changes, published, before)
                    self._touch(identifier)
            break
        if self._keep_versions is not None:
            for table in published:
                table.committed.bounds.flush()

    def _prepare(
        self, head: CatalogState, changes: tuple[Change, ...], transaction: _Transaction | None
    ) -> CatalogState:
        base = None if transaction is None else transaction.base
        if base is not None:
            for change in changes:
                _check_not_altered(change, base, head)
        for change in changes:
            head = change.apply(head)
        return head

    def _publish(self, prepared: CatalogState) -> list[_Published]:
        """Give the changed tables their version numbers and commit the state."""
        time = self._clock()
        if self._last_commit is not None:
            time = max(time, self._last_commit + timedelta(microseconds=1))
        self._last_commit = time
        published: list[_Published] = []
        schemas: dict[str, SchemaState] = {}
        for name, schema in prepared.schemas.items():
            if self._committed_state.schemas.get(name) is schema:
                schemas[name] = schema
                continue
            tables = dict(schema.tables)
            for key, table in schema.tables.items():
                if table.current.version is None:
                    tables[key] = self._numbered(table, time)
                    published.append(_Published(table.current, tables[key]))
            schemas[name] = replace(schema, tables=tables)
        self._committed_state = replace(prepared, schemas=schemas)
        return published

    def _numbered(self, table: TableState, time: datetime) -> TableState:
        newest = table.versions[-1].version if table.versions else 0
        version = replace(table.current, version=(newest or 0) + 1, committed=time)
        versions = (*table.versions, version)
        if self._keep_versions is not None:
            versions = versions[-self._keep_versions :]
        return replace(table, current=version, versions=versions)

    def _continue_after_commit(
        self,
        transaction: _Transaction,
        changes: tuple[Change, ...],
        published: list[_Published],
        before: CatalogState,
    ) -> None:
        """Continue a transaction after its commit, still without the commits of others."""
        assert transaction.base is not None  # noqa: S101 - a transaction with changes has a base
        later = transaction.pending[len(changes) :]
        base = transaction.visible
        if later:
            base = transaction.base
            for change in changes:
                base = change.apply(base)
        for table in published:
            own = base.table(table.committed.id)
            # No other transaction changed the table, so its version is the committed one.
            if own is not None and own.current is table.prepared:
                base = base.with_table(table.committed)
        if transaction.base.ddl_version == before.ddl_version:
            base = replace(base, ddl_version=self._committed_state.ddl_version)
        transaction.base = transaction.visible = base
        for change in later:
            transaction.visible = change.apply(transaction.visible)
        transaction.pending = later
        transaction.state = TransactionState.COMMITTED

    def _rebase_on_ddl(self, transaction: _Transaction) -> None:
        """Apply later DDL to a transaction's state, because DuckDB runs DDL outside of it."""
        base = transaction.base
        if base is None or base.ddl_version == self._committed_state.ddl_version:
            return
        base = _with_structure_of(self._committed_state, base)
        visible = base
        for change in transaction.pending:
            visible = change.apply(visible)
        transaction.base, transaction.visible = base, visible

    def _writable(self, identifier: str) -> _Transaction | None:
        with self._lock:
            transaction = self._transactions.get(identifier)
            if transaction is None:
                return None
            if transaction.state is TransactionState.ABORTED:
                raise InvalidInputError(_ROLLED_BACK)
            if transaction.base is None:
                transaction.base = transaction.visible = self._committed_state
            self._rebase_on_ddl(transaction)
            transaction.state = TransactionState.ACTIVE
            return transaction

    def _touch(self, identifier: str) -> None:
        """Mark a transaction as used. The oldest ones that only read may lose their base."""
        transaction = self._transactions[identifier]
        self._transactions.move_to_end(identifier)
        if transaction.base is not None and not transaction.pending:
            self._pins[identifier] = None
            self._pins.move_to_end(identifier)
        while len(self._pins) > self._max_pins:
            oldest, _ = self._pins.popitem(last=False)
            idle = self._transactions.get(oldest)
            if idle is not None and not idle.pending:
                idle.base, idle.visible = None, _NOTHING

    def _evict(self) -> None:
        excess = len(self._transactions) - _MAX_TRANSACTIONS
        if excess <= 0:
            return
        for key in list(itertools.islice(self._transactions, 2 * excess)):
            if not self._transactions[key].pending:
                del self._transactions[key]
                self._pins.pop(key, None)


def _check_not_altered(change: Change, base: CatalogState, head: CatalogState) -> None:
    for table_id in change.alters:
        before, now = base.table(table_id), head.table(table_id)
        if before is not None and (now is None or now.current is not before.current):
            raise UnavailableError(f"table {before} was changed by another transaction; try again")


def _with_structure_of(head: CatalogState, base: CatalogState) -> CatalogState:
    """Return the structure of one state with the rows of another, where the columns are equal."""
    pinned = {table.id: table for table in base.tables()}
    schemas: dict[str, SchemaState] = {}
    for name, schema in head.schemas.items():
        tables = {
            key: _keep_rows(table, pinned.get(table.id)) for key, table in schema.tables.items()
        }
        schemas[name] = replace(schema, tables=tables)
    return replace(head, schemas=schemas)


def _keep_rows(table: TableState, before: TableState | None) -> TableState:
    if before is None or before.current.definition != table.current.definition:
        return table
    if before.current.definition is table.current.definition:
        return replace(table, current=before.current)
    # Only a default or a comment changed, so the rows are still valid.
    return table.changed(rows=before.current.rows)


def _changed_tables(transaction: _Transaction) -> list[TableState]:
    return [table for table in transaction.visible.tables() if table.current.version is None]

"""Transactions: which one a call belongs to, and when it is committed or rolled back.

DuckDB never tells a server that a transaction ended. So a statement that succeeds is committed and
one that fails is rolled back, whatever BEGIN and ROLLBACK say on the client. A client that wants
several statements to be one transaction says so:

* with the actions `begin_transaction`, `commit_transaction` and `rollback_transaction`, which
  DuckDB users call with `airport_action`: between them, all calls of that DuckDB process on that
  catalog belong to the transaction;
* or with `explicit` in `create_transaction`, as our Python client does: then the calls that carry
  the identifier belong to it.

Transactions that nobody uses for a while are rolled back.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from lakeport.catalog import (
    TransactionManager,
    TransactionState,
    current_request,
    request_scope,
)
from lakeport.errors import (
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    UnsupportedError,
)

__all__ = ["Transactions"]


@dataclass(slots=True)
class _Open:
    manager: TransactionManager
    catalog: str
    explicit: bool
    owner: str | None
    identity: str
    used: float


class Transactions:
    """The transactions of a server that are open or were used lately."""

    def __init__(
        self, *, idle_seconds: float = 600.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._idle = idle_seconds
        self._clock = clock
        # Guards the two tables below; no catalog is called while it is held.
        self._lock = threading.Lock()
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._by_owner: dict[tuple[str, str], str] = {}

    def begin(
        self,
        catalog: object,
        name: str,
        *,
        explicit: bool = False,
        owner: str | None = None,
    ) -> str | None:
        """Start a transaction; None where the catalog has none. All calls of an owner join it."""
        self.expire()
        if not isinstance(catalog, TransactionManager):
            if explicit:
                raise UnsupportedError(f"catalog {name!r} has no transactions")
            return None
        identifier = catalog.begin_transaction()
        identity = current_request().identity
        opened = _Open(catalog, name, explicit, owner, identity, self._clock())
        if not self._keep(identifier, opened):
            catalog.rollback_transaction(identifier)
            raise InvalidArgumentError(
                f"a transaction is open on catalog {name!r}: commit it or roll it back first"
            )
        return identifier

    def current(
        self, owner: str | None, catalog: str, given: str | None, *, identity: str
    ) -> str | None:
        """The transaction of a call: the one its owner began, else the one it names."""
        self.expire()
        with self._lock:
            bound = self._by_owner.get((owner, catalog)) if owner else None
            identifier = bound or given
            opened = self._open.get(identifier) if identifier is not None else None
            if identifier is not None and opened is not None:
                _check_identity(opened, identity)
                opened.used = self._clock()
                self._open.move_to_end(identifier)
        return identifier

    @contextmanager
    def statement(self, catalog: object) -> Iterator[None]:
        """Run one statement: commit it when it succeeds, roll it back when it fails."""
        if not isinstance(catalog, TransactionManager):
            yield
            return
        request = current_request()
        identifier = request.transaction_id
        if identifier is None:
            identifier = catalog.begin_transaction()
            request = replace(request, transaction_id=identifier)
        with request_scope(request):
            try:
                yield
                if not self._is_explicit(identifier):
                    catalog.commit_transaction(identifier)
            except BaseException:
                # The reason that the statement failed matters more than a failing rollback.
                with suppress(Exception):
                    catalog.rollback_transaction(identifier)
                raise

    def commit(self, identifier: str) -> None:
        """Commit an explicit transaction."""
        self._take(identifier).manager.commit_transaction(identifier)

    def rollback(self, identifier: str) -> None:
        """Roll an explicit transaction back."""
        self._take(identifier).manager.rollback_transaction(identifier)

    def bound_to(self, owner: str | None, catalog: str | None = None) -> str:
        """The one transaction that an owner began."""
        with self._lock:
            found = [
                identifier
                for (holder, name), identifier in self._by_owner.items()
                if holder == owner and catalog in (None, name)
            ]
        if len(found) != 1:
            raise NotFoundError(
                "there is no open transaction"
                if not found
                else "there are several open transactions: name the catalog"
            )
        return found[0]

    def expire(self) -> None:
        """Roll back what nobody has used for a while."""
        limit = self._clock() - self._idle
        expired: list[tuple[str, _Open]] = []
        with self._lock:
            while self._open:
                identifier, oldest = next(iter(self._open.items()))
                if oldest.used > limit:
                    break
                expired.append((identifier, self._forget(identifier)))
        for identifier, opened in expired:
            if opened.manager.transaction_status(identifier) is TransactionState.ACTIVE:
                opened.manager.rollback_transaction(identifier)

    def _keep(self, identifier: str, opened: _Open) -> bool:
        """Remember a transaction; False when its owner has one on the same catalog."""
        with self._lock:
            if identifier in self._open:
                raise InternalError(
                    f"catalog {opened.catalog!r} gave a transaction the identifier of another one"
                )
            if opened.owner is not None:
                key = (opened.owner, opened.catalog)
                if self._by_owner.setdefault(key, identifier) != identifier:
                    return False
            self._open[identifier] = opened
            return True

    def _is_explicit(self, identifier: str) -> bool:
        with self._lock:
            opened = self._open.get(identifier)
            return opened is not None and opened.explicit

    def _take(self, identifier: str) -> _Open:
        self.expire()
        with self._lock:
            opened = self._open.get(identifier)
            if opened is None or not opened.explicit:
                raise NotFoundError(f"there is no open transaction {identifier[:80]!r}")
            _check_identity(opened, current_request().identity)
            return self._forget(identifier)

    def _forget(self, identifier: str) -> _Open:
        opened = self._open.pop(identifier)
        if opened.owner is not None:
            self._by_owner.pop((opened.owner, opened.catalog), None)
        return opened


def _check_identity(opened: _Open, identity: str) -> None:
    if opened.identity != identity:
        raise PermissionDeniedError("the transaction belongs to somebody else")

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
        # By catalog and identifier: two catalogs may give the same identifier.
        self._open: OrderedDict[tuple[str, str], _Open] = OrderedDict()
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
            key = (catalog, identifier or "")
            opened = self._open.get(key)
            if opened is not None:
                _check_identity(opened, identity)
                opened.used = self._clock()
                self._open.move_to_end(key)
        return identifier

    @contextmanager
    def statement(self, catalog: object, name: str) -> Iterator[None]:
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
                if not self._is_explicit(name, identifier):
                    catalog.commit_transaction(identifier)
            except BaseException:
                # The reason that the statement failed matters more than a failing rollback.
                with suppress(Exception):
                    catalog.rollback_transaction(identifier)
                raise

    def commit(self, identifier: str, catalog: str | None = None) -> None:
        """Commit an explicit transaction; name the catalog where several know the identifier."""
        self._take(identifier, catalog).manager.commit_transaction(identifier)

    def rollback(self, identifier: str, catalog: str | None = None) -> None:
        """Roll an explicit transaction back; the catalog as in `commit`."""
        self._take(identifier, catalog).manager.rollback_transaction(identifier)

    def bound_to(self, owner: str | None, catalog: str | None = None) -> tuple[str, str]:
        """The one transaction that an owner began: its identifier and catalog."""
        with self._lock:
            found = [
                (identifier, name)
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
                key, oldest = next(iter(self._open.items()))
                if oldest.used > limit:
                    break
                expired.append((key[1], self._forget(key)))
        for identifier, opened in expired:
            if opened.manager.transaction_status(identifier) is TransactionState.ACTIVE:
                opened.manager.rollback_transaction(identifier)

    def _keep(self, identifier: str, opened: _Open) -> bool:
        """Remember a transaction; False when its owner has one on the same catalog."""
        with self._lock:
            if (opened.catalog, identifier) in self._open:
                raise InternalError(
                    f"catalog {opened.catalog!r} gave a transaction the identifier of another one"
                )
            if opened.owner is not None:
                key = (opened.owner, opened.catalog)
                if self._by_owner.setdefault(key, identifier) != identifier:
                    return False
            self._open[opened.catalog, identifier] = opened
            return True

    def _is_explicit(self, catalog: str, identifier: str) -> bool:
        with self._lock:
            opened = self._open.get((catalog, identifier))
            return opened is not None and opened.explicit

    def _take(self, identifier: str, catalog: str | None) -> _Open:
        self.expire()
        with self._lock:
            found = [
                (name, known)
                for (name, known), opened in self._open.items()
                if known == identifier and catalog in (None, name) and opened.explicit
            ]
            if len(found) != 1:
                raise NotFoundError(f"there is no open transaction {identifier[:80]!r}")
            _check_identity(self._open[found[0]], current_request().identity)
            return self._forget(found[0])

    def _forget(self, key: tuple[str, str]) -> _Open:
        opened = self._open.pop(key)
        if opened.owner is not None:
            self._by_owner.pop((opened.owner, opened.catalog), None)
        return opened


def _check_identity(opened: _Open, identity: str) -> None:
    if opened.identity != identity:
        raise PermissionDeniedError("the transaction belongs to somebody else")

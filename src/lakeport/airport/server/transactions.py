"""Transactions: which one a call belongs to, and when it is committed or rolled back.

DuckDB does not send the end of a transaction to a server. So a statement that succeeds is committed
and one that fails is rolled back, independently of BEGIN and ROLLBACK on the client. A client can
combine several statements in one transaction:

* with the actions `begin_transaction`, `commit_transaction` and `rollback_transaction`, which
  DuckDB users call with `airport_action`: between them, all calls of that DuckDB process on that
  catalog belong to the transaction;
* by writing to a catalog that stages all writes (`StagingCatalog`): the first write of a DuckDB
  process begins such a transaction;
* or with `explicit` in `create_transaction`, as Lakeport's Python client does: then the calls that
  send the identifier belong to it.

Idle transactions are rolled back. The identifiers of explicit ones are retained, so that their
later statements fail instead of being committed one by one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

from lakeport.catalog import (
    RequestContext,
    StagingCatalog,
    TransactionManager,
    TransactionState,
    current_request,
    request_scope,
)
from lakeport.errors import (
    InternalError,
    InvalidArgumentError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    UnsupportedError,
)

__all__ = ["Transactions"]

_log = logging.getLogger("lakeport.airport")

_Key: TypeAlias = tuple[str, str]
"""Catalog and identifier: two catalogs may return the same identifier."""


_NO_SESSION = (
    "this catalog stages writes until they are committed, which needs the header "
    "airport-client-session-id"
)


@dataclass(slots=True)
class _Open:
    manager: TransactionManager
    explicit: bool
    owner: str | None
    identity: str
    used: float
    running: int = 0
    """The number of its running statements."""


class Transactions:
    """The transactions of a server that are open or were used recently.

    DuckDB begins one for every statement and never ends it. Of those, and of the explicit ones that
    were rolled back because they were idle, the newest `max_entries` are retained.
    """

    def __init__(
        self,
        *,
        idle_seconds: float = 600.0,
        max_entries: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._idle = idle_seconds
        self._max_entries = max_entries
        self._clock = clock
        # Guards the tables below; no catalog is called while it is held.
        self._lock = threading.Lock()
        # The least recently used come first.
        self._explicit: OrderedDict[_Key, _Open] = OrderedDict()
        self._implicit: OrderedDict[_Key, _Open] = OrderedDict()
        # Explicit ones that were rolled back because they were idle.
        self._expired: OrderedDict[_Key, _Open] = OrderedDict()
        # The identifiers of the transactions that an owner began, by owner and catalog.
        self._bound: dict[str, dict[str, str]] = {}

    def begin(
        self,
        catalog: object,
        name: str,
        *,
        explicit: bool = False,
        owner: str | None = None,
    ) -> str | None:
        """Start a transaction; None if the catalog has none. All calls of an owner belong to it."""
        self.expire()
        if not isinstance(catalog, TransactionManager):
            if explicit:
                raise UnsupportedError(f"catalog {name!r} has no transactions")
            return None
        identifier = catalog.begin_transaction()
        identity = current_request().identity
        opened = _Open(catalog, explicit, owner, identity, self._clock())
        if not self._add((name, identifier), opened):
            catalog.rollback_transaction(identifier)
            raise InvalidArgumentError(
                f"a transaction is open on catalog {name!r}: commit it or roll it back first"
            )
        return identifier

    def open_counts(self, identity: str) -> tuple[int, int]:
        """Return how many explicit transactions an identity has open, and how many all have."""
        with self._lock:
            own = sum(opened.identity == identity for opened in self._explicit.values())
            return own, len(self._explicit)

    def current(
        self, owner: str | None, catalog: str, named: str | None, *, identity: str
    ) -> str | None:
        """Return the transaction of a call: the one that its owner began, else the one it names."""
        if owner is not None and owner in self._bound:
            self._release_ended(owner, catalog)
        idle: dict[_Key, _Open] = {}
        try:
            with self._lock:
                idle = self._take_idle()
                identifier = self._bound.get(owner or "", {}).get(catalog) or named
                if identifier is not None:
                    self._check_identity((catalog, identifier), identity)
                    self._touch((catalog, identifier))
        finally:
            _roll_back(idle)
        return identifier

    def check_identity(self, catalog: str, identifier: str) -> None:
        """Raise `PermissionDeniedError` if the transaction belongs to another user."""
        with self._lock:
            self._check_identity((catalog, identifier), current_request().identity)

    @contextmanager
    def statement(self, catalog: object, name: str) -> Iterator[None]:
        """Run one statement: commit it when it succeeds, roll it back when it fails."""
        if not isinstance(catalog, TransactionManager):
            yield
            return
        request = current_request()
        if isinstance(catalog, StagingCatalog) and catalog.stages_writes:
            request = replace(request, transaction_id=self._staged(catalog, name, request))
        elif request.transaction_id is None:
            request = replace(request, transaction_id=catalog.begin_transaction())
        identifier = request.transaction_id or ""
        with self._running((name, identifier)), request_scope(request):
            try:
                yield
                if not self._is_explicit((name, identifier)):
                    catalog.commit_transaction(identifier)
            except BaseException:
                # The error of the statement is raised, not that of a failing rollback.
                with suppress(Exception):
                    catalog.rollback_transaction(identifier)
                raise

    def commit(self, identifier: str, catalog: str | None = None) -> None:
        """Commit an explicit transaction; `catalog` if several catalogs have the identifier."""
        self.expire()
        with self._lock:
            key = self._find(identifier, catalog)
            if key in self._expired:
                raise InvalidInputError(self._expired_message())
            opened = self._remove(key)
        opened.manager.commit_transaction(identifier)

    def rollback(self, identifier: str, catalog: str | None = None) -> None:
        """Roll an explicit transaction back; the catalog as in `commit`."""
        self.expire()
        with self._lock:
            key = self._find(identifier, catalog)
            is_over = key in self._expired
            opened = self._remove(key)
        if is_over:
            _roll_back({key: opened})
        else:
            opened.manager.rollback_transaction(identifier)

    def bound_to(self, owner: str | None, catalog: str | None = None) -> tuple[str, str]:
        """Return the identifier and the catalog of the one transaction that an owner began."""
        with self._lock:
            bound = self._bound.get(owner or "", {})
            matches = [(i, name) for name, i in bound.items() if catalog in (None, name)]
        if len(matches) != 1:
            raise NotFoundError(
                "there is no open transaction"
                if not matches
                else "there are several open transactions: name the catalog"
            )
        return matches[0]

    def expire(self) -> None:
        """Roll back idle transactions."""
        with self._lock:
            idle = self._take_idle()
        _roll_back(idle)

    def _staged(self, catalog: TransactionManager, name: str, request: RequestContext) -> str:
        """Return the explicit transaction of the caller; make the one it names explicit."""
        identifier, owner = request.transaction_id, request.owner
        if identifier is None:
            if owner is None:
                raise InvalidArgumentError(_NO_SESSION)
            return self.begin(catalog, name, explicit=True, owner=owner) or ""
        key = (name, identifier)
        with self._lock:
            if key in self._explicit or key in self._expired:
                return identifier
            if owner is None:
                raise InvalidArgumentError(_NO_SESSION)
            opened = self._implicit.pop(key, None)
            used = self._clock() if opened is None else opened.used
            self._explicit[key] = _Open(
                catalog, explicit=True, owner=owner, identity=request.identity, used=used
            )
            self._bound.setdefault(owner, {})[name] = identifier
        return identifier

    def _release_ended(self, owner: str, catalog: str) -> None:
        """Release the transaction of an owner if the catalog has ended it by itself."""
        with self._lock:
            identifier = self._bound.get(owner, {}).get(catalog)
            opened = None if identifier is None else self._lookup((catalog, identifier))
        if opened is None or identifier is None or not isinstance(opened.manager, StagingCatalog):
            return
        if opened.manager.transaction_status(identifier) in (None, TransactionState.COMMITTED):
            with self._lock:
                if self._bound.get(owner, {}).get(catalog) == identifier:
                    self._remove((catalog, identifier))

    def _take_idle(self) -> dict[_Key, _Open]:
        """Remove and return idle transactions; the caller rolls them back without the lock."""
        limit = self._clock() - self._idle
        idle = {key: self._implicit.pop(key) for key in _idle(self._implicit, limit)}
        for key in _idle(self._explicit, limit):
            idle[key] = self._expired[key] = self._explicit.pop(key)
        while len(self._expired) > self._max_entries:
            self._remove(next(iter(self._expired)))
        return idle

    def _add(self, key: _Key, opened: _Open) -> bool:
        """Add a transaction; return False if its owner has one on the same catalog."""
        catalog, identifier = key
        with self._lock:
            if self._lookup(key) is not None:
                raise InternalError(
                    f"catalog {catalog!r} returned the identifier of another transaction"
                )
            if opened.owner is not None:
                bound = self._bound.get(opened.owner, {}).get(catalog)
                if bound is not None:
                    if (catalog, bound) not in self._expired:
                        return False
                    self._remove((catalog, bound))
                self._bound.setdefault(opened.owner, {})[catalog] = identifier
            (self._explicit if opened.explicit else self._implicit)[key] = opened
            surplus = self._surplus()
        _roll_back(surplus)
        return True

    def _surplus(self) -> dict[_Key, _Open]:
        """Remove and return the oldest implicit transactions over the limit; no running ones."""
        count = max(0, len(self._implicit) - self._max_entries)
        idle = (key for key, opened in self._implicit.items() if not opened.running)
        return {key: self._implicit.pop(key) for key in list(islice(idle, count))}

    @contextmanager
    def _running(self, key: _Key) -> Iterator[None]:
        with self._lock:
            if key in self._expired:
                raise InvalidInputError(self._expired_message())
            opened = self._lookup(key)
            if opened is not None:
                opened.running += 1
        try:
            yield
        finally:
            with self._lock:
                if opened is not None:
                    opened.running -= 1
                    self._touch(key)

    def _expired_message(self) -> str:
        return (
            f"the transaction was rolled back after {self._idle:g} seconds without a call: "
            "end it with rollback_transaction and begin again"
        )

    def _is_explicit(self, key: _Key) -> bool:
        with self._lock:
            return key in self._explicit

    def _find(self, identifier: str, catalog: str | None) -> _Key:
        """Return the key of the explicit transaction that a caller names."""
        tables = (self._explicit, self._expired)
        matches = (
            [key for table in tables for key in table if key[1] == identifier]
            if catalog is None
            else [key for key in [(catalog, identifier)] if any(key in table for table in tables)]
        )
        if len(matches) != 1:
            raise NotFoundError(f"there is no open transaction {identifier[:80]!r}")
        self._check_identity(matches[0], current_request().identity)
        return matches[0]

    def _remove(self, key: _Key) -> _Open:
        opened = self._expired.pop(key, None) or self._explicit.pop(key)
        if opened.owner is not None:
            bound = self._bound[opened.owner]
            del bound[key[0]]
            if not bound:
                del self._bound[opened.owner]
        return opened

    def _lookup(self, key: _Key) -> _Open | None:
        return self._explicit.get(key) or self._implicit.get(key) or self._expired.get(key)

    def _touch(self, key: _Key) -> None:
        for table in (self._explicit, self._implicit):
            opened = table.get(key)
            if opened is not None:
                opened.used = self._clock()
                table.move_to_end(key)

    def _check_identity(self, key: _Key, identity: str) -> None:
        opened = self._lookup(key)
        if opened is not None and opened.identity != identity:
            raise PermissionDeniedError(f"transaction {key[1][:80]!r} belongs to another user")


def _idle(table: OrderedDict[_Key, _Open], limit: float) -> list[_Key]:
    """Return the transactions that were last used before a time and are not running."""
    keys: list[_Key] = []
    for key, opened in table.items():
        if opened.used > limit:
            break
        if not opened.running:
            keys.append(key)
    return keys


def _roll_back(transactions: dict[_Key, _Open]) -> None:
    """Roll back active transactions; log errors instead of raising them."""
    for (catalog, identifier), opened in transactions.items():
        try:
            if opened.manager.transaction_status(identifier) is TransactionState.ACTIVE:
                opened.manager.rollback_transaction(identifier)
        except Exception:  # noqa: BLE001
            _log.exception("an idle transaction of catalog %r cannot be rolled back", catalog)

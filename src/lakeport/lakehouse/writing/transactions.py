"""The transactions of clients that write to a lake.

A write is staged in a transaction of the lake. The server commits it after the statement. In a
transaction of several statements, and in a lake that is served with explicit transactions, it stays
staged until the client commits: only requests of the same transaction see it.

A request without a transaction, such as DDL of DuckDB, is committed at once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from lakeport._cache import LruCache
from lakeport.catalog import TransactionState, current_request
from lakeport.ducklake.writing import CommitInfo, Transaction, WriteResult
from lakeport.errors import InvalidInputError, PermissionDeniedError
from lakeport.lakehouse.writing.changes import defined_relations, has_changes
from lakeport.types import fold_name

if TYPE_CHECKING:
    from lakeport.lakehouse.resources import LakeResources

__all__ = ["READ_ONLY", "LakeWrites"]

READ_ONLY: Final = (
    "the lake is served read-only: serve it with --writable, or with writable=True, to change it"
)
_ROLLED_BACK: Final = (
    "the transaction was rolled back, because a statement failed or it was idle for too long; end "
    "it with lakeport.rollback(), or with ROLLBACK after BEGIN, and start again"
)
_MAX_ENTRIES: Final = 10_000
_MAX_DEFINITIONS: Final = 100_000


@dataclass(slots=True)
class _Staged:
    """A transaction of the lake that is not committed yet."""

    transaction: Transaction
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held by the statement that changes the transaction; scans do not need it."""


class LakeWrites:
    """What clients of one lake have written and not committed yet."""

    def __init__(
        self,
        access: LakeResources,
        *,
        writable: bool,
        stages: bool,
        add_files_from: Sequence[str] = (),
    ) -> None:
        self._access = access
        self.writable = writable
        self.stages = stages
        """Whether all writes wait for a commit of the client."""
        self._folders = tuple(add_files_from)
        self._lock = threading.Lock()
        self._open: dict[str, _Staged] = {}
        # The snapshots in which sessions have defined relations, by owner, schema and name.
        self._definitions = LruCache(_MAX_DEFINITIONS)
        # How transactions have ended, and what sessions record with their next snapshot.
        self._states = LruCache(_MAX_ENTRIES)
        self._infos = LruCache(_MAX_ENTRIES)

    @contextmanager
    def statement(self) -> Iterator[Transaction]:
        """Run a statement in the transaction of the request, or commit it by itself."""
        self.require()
        identifier = current_request().transaction_id
        if identifier is None:
            transaction = self._begin(None)
            with transaction:
                yield transaction
            self._committed(transaction, None)
            return
        self._check_usable(identifier)
        staged = self._staged(identifier)
        with staged.lock:
            yield staged.transaction

    def require(self) -> None:
        """Raise PermissionDeniedError if the lake is served read-only."""
        if not self.writable:
            raise PermissionDeniedError(READ_ONLY)

    def check_added_path(self, path: str) -> None:
        """Raise PermissionDeniedError for files that clients may not add to the lake.

        The lake owns added files and may delete them. So clients name files below the lake's own
        data path, and below folders that the server allows.
        """
        lake = self._access.lake
        folders = [lake.data_root(lake.option_rows()), *self._folders]
        inside = any(path.startswith(folder.rstrip("/") + "/") for folder in folders)
        if not inside or ".." in path.split("/"):
            raise PermissionDeniedError(
                f"the files {path[:200]!r} are outside of the folders from which clients may add "
                "files: the data path of the lake, and those of add_files_from"
            )

    def begin(self) -> None:
        """Begin to write in the transaction of the request.

        A statement calls this before its rows arrive: what others change from then on conflicts.
        """
        self.require()
        identifier = current_request().transaction_id
        if identifier is not None:
            self._check_usable(identifier)
            self._staged(identifier)

    def current(self) -> Transaction | None:
        """Return the transaction with the staged writes of the request; None if it has none."""
        begun = self._begun()
        return begun if begun is not None and has_changes(begun) else None

    def continue_at_definition(self, schema: str, name: str | None, snapshot: int) -> bool:
        """Let the request's transaction read a relation as its own session has defined it.

        DuckDB sends DDL without a transaction, and all connections of its process know the new
        definition at once, also those with a transaction that began at an earlier snapshot. Return
        whether the transaction reads a later snapshot than the given one from now on.
        """
        request = current_request()
        if not request.transaction_id or not len(self._definitions):
            return False
        key = (request.owner, fold_name(schema), name and fold_name(name))
        defined: int | None = self._definitions.get(key)
        if defined is None or defined <= snapshot or self.current() is not None:
            return False
        self._access.read_from(defined, request.transaction_id)
        return True

    def commit(self, identifier: str, info: CommitInfo | None = None) -> WriteResult | None:
        """Commit the staged writes of a transaction, which then reads the new snapshot."""
        self._check_usable(identifier)
        with self._lock:
            staged = self._open.pop(identifier, None)
        if staged is None:
            return None
        transaction = staged.transaction
        if info is not None:
            transaction.info = _merged(transaction.info, info)
        with staged.lock:
            transaction.commit()
        return self._committed(transaction, identifier)

    def commit_and_end(self, identifier: str, info: CommitInfo) -> WriteResult | None:
        """Commit the staged writes of a session, which can begin again also if that fails."""
        self._check_usable(identifier)
        has_writes = identifier in self._open
        try:
            return self.commit(identifier, info)
        finally:
            if has_writes:
                self.end(identifier)

    def roll_back(self, identifier: str) -> None:
        """Discard the staged writes of a transaction, which can write no more."""
        self._states.put(identifier, TransactionState.ABORTED)
        with self._lock:
            staged = self._open.pop(identifier, None)
        if staged is not None:
            with staged.lock:
                staged.transaction.rollback()

    def end(self, identifier: str) -> None:
        """End a transaction for good: later calls of its session do not belong to it."""
        self._states.put(identifier, TransactionState.COMMITTED)

    def state(self, identifier: str) -> TransactionState:
        """Return the state of a transaction."""
        known: TransactionState | None = self._states.get(identifier)
        return TransactionState.ACTIVE if known is None else known

    def set_info(self, info: CommitInfo) -> None:
        """Record author, message and extra information with the next snapshot of the session."""
        begun = self._begun()
        if begun is not None:
            begun.info = _merged(begun.info, info)
        else:
            self._infos.put(current_request().owner, info)

    def close(self) -> None:
        """Discard everything that is staged."""
        with self._lock:
            staged, self._open = list(self._open.values()), {}
        for one in staged:
            one.transaction.rollback()

    def _begun(self) -> Transaction | None:
        """Return the transaction in which the request writes; None if it has not begun to."""
        identifier = current_request().transaction_id
        if not identifier or not self._open:
            return None
        staged = self._open.get(identifier)
        return None if staged is None else staged.transaction

    def _check_usable(self, identifier: str) -> None:
        """Raise InvalidInputError for a transaction that was rolled back."""
        if self._states.get(identifier) is TransactionState.ABORTED:
            raise InvalidInputError(_ROLLED_BACK)

    def _staged(self, identifier: str) -> _Staged:
        with self._lock:
            staged = self._open.get(identifier)
        if staged is not None:
            return staged
        begun = _Staged(self._begin(self._access.current_snapshot().id))
        with self._lock:
            return self._open.setdefault(identifier, begun)

    def _begin(self, version: int | None) -> Transaction:
        identity = current_request().identity or None
        transaction = self._access.lake.transaction(author=identity, version=version)
        info: CommitInfo | None = self._infos.get(current_request().owner)
        if info is not None:
            transaction.info = _merged(transaction.info, info)
        return transaction

    def _committed(self, transaction: Transaction, identifier: str | None) -> WriteResult:
        result = transaction.commit_result
        if result.snapshot is not None:
            owner = current_request().owner
            self._infos.put(owner, None)
            if owner is not None:
                for relation in defined_relations(transaction):
                    self._definitions.put((owner, *relation), result.snapshot)
            self._access.continue_at(result.snapshot, identifier)
        return result


def _merged(info: CommitInfo, other: CommitInfo) -> CommitInfo:
    """Return the information of `other`, and of `info` what it leaves out."""
    return replace(
        info,
        author=other.author or info.author,
        message=other.message or info.message,
        extra_info=other.extra_info or info.extra_info,
    )

"""The commit kernel: one database transaction that makes one snapshot, or nothing.

Each attempt reads the state anew, checks conflicts and computes new ids. An attempt that fails
because of another writer is repeated after a pause. If the connection is lost during COMMIT, the
next attempt first looks for the commit's token: after the lock was taken, the lost transaction has
ended, so the answer is final.
"""

from __future__ import annotations

import json
import logging
import random
import time
import uuid
from dataclasses import dataclass, replace

from lakeport._tracing import annotate, note_event, span
from lakeport._version import __version__
from lakeport.ducklake.metadata.queries import CatalogReader
from lakeport.ducklake.metadata.rows import SnapshotRow
from lakeport.ducklake.writing.change_set import ChangeSet, TableChange
from lakeport.ducklake.writing.conflicts import check_conflicts
from lakeport.ducklake.writing.database import CatalogWriter, WriteDatabase
from lakeport.ducklake.writing.rows import CommitIds, metadata_statements, plan_commit
from lakeport.ducklake.writing.state import read_state
from lakeport.errors import ConflictError, UnavailableError, UnknownOutcomeError

__all__ = ["Committed", "RetryPolicy", "commit"]

_log = logging.getLogger("lakeport.ducklake.writing")

# After this many rewritten delete files, the next ones are written while the lock is held.
_REWRITES_WITHOUT_LOCK = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often a commit is tried and how long it waits, with the reference's defaults."""

    attempts: int = 10
    wait_seconds: float = 0.1
    backoff: float = 1.5

    def pause(self, attempt: int) -> float:
        """Return the seconds to wait after an attempt; the first one is 0."""
        return self.wait_seconds * random.uniform(0.5, 1.0) * self.backoff**attempt  # noqa: S311


@dataclass(frozen=True, slots=True)
class Committed:
    """A successful commit."""

    snapshot: int
    """The new snapshot; the latest one if only metadata was committed."""
    attempts: int
    ids: CommitIds | None
    """None if a lost commit was found by its token."""


class _StaleDeletesError(Exception):
    """Delete files contain the id of a snapshot that another transaction has made."""

    def __init__(self, snapshot: int) -> None:
        super().__init__(snapshot)
        self.snapshot = snapshot


@span("commit")
def commit(
    database: WriteDatabase,
    catalog: CatalogReader,
    changes: ChangeSet,
    policy: RetryPolicy | None = None,
) -> Committed:
    """Commit a change set, or raise ConflictError, UnavailableError or UnknownOutcomeError."""
    policy = policy or RetryPolicy()
    work = _Commit(database, catalog, changes)
    # A database that stays locked is not waited for ten times.
    deadline = time.monotonic() + 2 * database.database.lock_timeout
    while True:
        try:
            done = work.attempt()
            annotate(snapshot=done.snapshot, attempts=done.attempts)
            return done
        except _StaleDeletesError as stale:
            work.rewrite_deletes(stale.snapshot)
        except database.database.errors as error:
            message = work.failed(error)
            if work.attempts >= policy.attempts or time.monotonic() > deadline:
                raise work.gave_up(message) from None
            note_event("attempt failed", attempt=work.attempts, reason=message)
            _log.debug("attempt %d of a commit failed: %s", work.attempts, message)
            time.sleep(policy.pause(work.attempts - 1))
        except ConflictError:
            raise
        except UnavailableError as error:
            if work.may_be_committed:
                raise work.unknown_outcome() from error
            raise


class _Commit:
    """The attempts of one commit."""

    def __init__(self, database: WriteDatabase, catalog: CatalogReader, changes: ChangeSet) -> None:
        self.attempts = 0
        self.may_be_committed = False
        self._database = database
        self._catalog = catalog
        self._token = uuid.uuid4().hex
        self._changes = _with_token(changes, self._token)
        self._rewrites = 0
        self._is_committing = False

    def attempt(self) -> Committed:
        """Run one database transaction."""
        self.attempts += 1
        self._is_committing = False
        with self._database.transaction() as writer:
            if self.may_be_committed:
                found = _find(writer, self._changes.base, self._token)
                if found is not None:
                    return Committed(found, self.attempts, None)
                self.may_be_committed = False
            state = read_state(writer, self._catalog, self._changes)
            note_event("state read", snapshot=state.latest.snapshot_id)
            check_conflicts(self._changes, state)
            note_event("conflicts checked")
            if self._changes.is_empty:
                return self._commit_metadata(writer, state.latest)
            snapshot = state.latest.snapshot_id + 1
            self._check_deletes(snapshot)
            plan = plan_commit(self._changes, state)
            writer.run_all(plan.statements)
            note_event("catalog rows written", statements=len(plan.statements))
            self._is_committing = True
            writer.commit()
            return Committed(snapshot, self.attempts, plan.ids)

    def _commit_metadata(self, writer: CatalogWriter, latest: SnapshotRow) -> Committed:
        writer.run_all(metadata_statements(self._changes, CommitIds(latest)))
        writer.commit()
        return Committed(latest.snapshot_id, self.attempts, None)

    def failed(self, error: Exception) -> str:
        """Return the reason of a failed attempt that can be repeated; raise other errors."""
        is_lost = self._database.dialect.is_lost(error)
        self.may_be_committed |= self._is_committing and is_lost
        message = str(getattr(error, "orig", None) or error)
        if not is_lost and not self._database.dialect.is_collision(error):
            raise self._database.database.error(message, locked=False) from None
        return message

    def rewrite_deletes(self, snapshot: int) -> None:
        """Write the delete files again that contain another id than that of the new snapshot."""
        tables = tuple(_rewritten(change, snapshot) for change in self._changes.tables)
        self._changes = replace(self._changes, tables=tables)

    def gave_up(self, message: str) -> UnavailableError:
        """Return the error after the last attempt."""
        if self.may_be_committed:
            return self.unknown_outcome()
        reason = self._database.database.error(message, locked=False)
        return UnavailableError(f"the commit failed after {self.attempts} attempts: {reason}")

    def unknown_outcome(self) -> UnknownOutcomeError:
        """Return the error for a commit that may have happened."""
        return UnknownOutcomeError(
            f"the connection to {self._database.database.location} was lost during a commit, and "
            "it is not known whether it happened: look at the newest snapshots before you repeat it"
        )

    def _check_deletes(self, snapshot: int) -> None:
        """Have delete files written again if they contain the id of another snapshot."""
        is_stale = any(
            file.embedded_snapshot not in (None, snapshot)
            for change in self._changes.tables
            for file in change.data.delete_files
        )
        if not is_stale:
            return
        self._rewrites += 1
        if self._rewrites <= _REWRITES_WITHOUT_LOCK:
            self.attempts -= 1
            raise _StaleDeletesError(snapshot)
        self.rewrite_deletes(snapshot)


def _with_token(changes: ChangeSet, token: str) -> ChangeSet:
    """Add the token to the commit's extra information, which the user may have filled, too."""
    own = {"version": __version__, "token": token}
    given = changes.info.extra_info
    document: object = None
    if given is not None:
        try:
            document = json.loads(given)
        except ValueError:
            document = None
    if given is None:
        document = {}
    elif not isinstance(document, dict):
        document = {"extra_info": given}
    text = json.dumps({**document, "lakeport": own})
    return replace(changes, info=replace(changes.info, extra_info=text))


def _find(writer: CatalogWriter, base: int, token: str) -> int | None:
    """Return the snapshot with a token, if there is one after the base."""
    mark = writer.dialect.placeholder
    table = writer.dialect.table(writer.database.schema, "ducklake_snapshot_changes")
    result = writer.execute(
        f"SELECT snapshot_id FROM {table} "
        f"WHERE snapshot_id > {mark} AND commit_extra_info LIKE {mark}",
        [base, f"%{token}%"],
    ).scalar()
    return None if result is None else int(result)


def _rewritten(change: TableChange, snapshot: int) -> TableChange:
    data = change.data
    files = []
    for file in data.delete_files:
        if file.embedded_snapshot in (None, snapshot):
            files.append(file)
            continue
        if data.rewrite_deletes is None:
            raise ConflictError(
                "another transaction was committed first, and the delete files contain its id"
            )
        files.append(data.rewrite_deletes(file, snapshot))
    return replace(change, data=replace(data, delete_files=tuple(files)))

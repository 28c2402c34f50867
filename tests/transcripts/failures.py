"""Whether an error reaches the user as one sentence, of the type that DuckDB knows for it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgpack

from tests.transcripts.recording import Outcome, Rpc, Statement
from tests.transcripts.replay_client import CallFailedError
from tests.transcripts.reply_checks import require

__all__ = ["ExpectedToFail", "clean_failure", "gets_of", "same_failure"]

_DUCKDB_KINDS = {
    "Constraint Error": "ConstraintException",
    "Permission Error": "PermissionException",
    "Invalid Input Error": "InvalidInputException",
}


def clean_failure(failure: CallFailedError) -> None:
    """One sentence, no traceback, and a detail that the client can read where there is one."""
    require(failure.message, "an error without a message")
    for leaked in ("Traceback", 'File "', ".py"):
        require(leaked not in failure.message, f"leaks {leaked!r}: {failure.message}")
    if not failure.detail:
        return
    require(failure.method != "DoAction", "an action error with msgpack, which is ignored there")
    detail = msgpack.unpackb(failure.detail)
    require(detail["exception_type"] in _DUCKDB_KINDS.values(), f"unknown type {detail}")
    require(isinstance(detail["message"], str) and detail["message"], "a detail without message")


def same_failure(failures: Sequence[CallFailedError], outcome: Outcome) -> None:
    """An error that DuckDB showed as one of its own types is typed here too, with its text."""
    kind, _, message = outcome.error.partition(": ")
    expected = _DUCKDB_KINDS.get(kind)
    if expected is None or not failures:
        return
    details = [msgpack.unpackb(failure.detail) for failure in failures if failure.detail]
    wanted = {"exception_type": expected, "message": message}
    require(wanted in details, f"{details}, not {wanted}")


class ExpectedToFail:
    """Lets a request fail exactly if it failed when it was recorded."""

    def __init__(
        self,
        rpc: Rpc,
        statement: Statement,
        failures: list[CallFailedError],
        *,
        strict: bool,
        at_end: bool,
    ) -> None:
        self._failures, self._strict = failures, strict
        self._where = f"{statement.number}: {statement.sql[:80]}: {rpc}"
        self._errors = [rpc.error] if rpc.error else []
        if rpc.action == "endpoints":
            self._errors += [get.error for get in gets_of(rpc, statement) if get.error]
        # A DoGet is read with its endpoints, and an exchange may fail until its end.
        self._may_pass = rpc.method == "DoGet" or (rpc.method == "DoExchange" and not at_end)

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if isinstance(error, CallFailedError):
            clean_failure(error)
            self._failures.append(error)
            if self._strict:
                self._check(error)
            return True
        if error is not None:
            error.add_note(self._where)
        elif self._strict and self._errors and not self._may_pass:
            raise AssertionError(f"{self._where}: did not fail")
        return False

    def _check(self, failure: CallFailedError) -> None:
        if not self._errors:
            raise AssertionError(f"{self._where}: failed: {failure.message}") from None
        raised = re.search(r"'(boom \w+)'", self._errors[0])
        if raised is not None and raised[1] not in failure.message:
            raise AssertionError(f"{self._where}: {failure.message} instead of {raised[1]}")


def gets_of(rpc: Rpc, statement: Statement) -> list[Rpc]:
    """The DoGets that belong to an `endpoints` call."""
    trace = rpc.header("airport-trace-id")
    return [
        other
        for other in statement.rpcs
        if other.method == "DoGet" and other.header("airport-trace-id") == trace
    ]

"""What a failed call means: the one place where Flight's exceptions become Lakeport's errors.

| Flight or Arrow exception                | error                               |
|------------------------------------------|-------------------------------------|
| any, with a DuckDB type in `extra_info`  | ConstraintError, InvalidInputError, |
|                                          | PermissionDeniedError               |
| ArrowKeyError (NOT_FOUND)                | NotFoundError                       |
| ArrowInvalid (INVALID_ARGUMENT)          | InvalidArgumentError                |
| ArrowNotImplementedError (UNIMPLEMENTED) | UnsupportedError                    |
| FlightUnauthenticatedError               | UnauthenticatedError                |
| FlightUnauthorizedError                  | PermissionDeniedError               |
| FlightUnavailableError, TimedOutError    | UnavailableError                    |
| FlightCancelledError                     | CancelledError                      |
| everything else                          | InternalError                       |
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgpack
import pyarrow as pa
from pyarrow import flight

from lakeport import errors

__all__ = ["calling", "from_flight"]

_MAX_MESSAGE = 4000

_KINDS: Final[tuple[tuple[type[Exception], type[errors.LakeportError]], ...]] = (
    (flight.FlightUnauthenticatedError, errors.UnauthenticatedError),
    (flight.FlightUnauthorizedError, errors.PermissionDeniedError),
    (flight.FlightUnavailableError, errors.UnavailableError),
    (flight.FlightTimedOutError, errors.UnavailableError),
    (flight.FlightCancelledError, errors.CancelledError),
    (pa.ArrowCancelled, errors.CancelledError),
    (pa.ArrowKeyError, errors.NotFoundError),
    (pa.ArrowNotImplementedError, errors.UnsupportedError),
    (pa.ArrowInvalid, errors.InvalidArgumentError),
)

_DUCKDB_TYPES: Final[dict[bytes, type[errors.LakeportError]]] = {
    b"ConstraintException": errors.ConstraintError,
    b"PermissionException": errors.PermissionDeniedError,
    b"InvalidInputException": errors.InvalidInputError,
}

# What Arrow and gRPC add to the sentence that the server wrote.
_DEBUG_CONTEXT = re.compile(r"\.? ?gRPC client debug context: .*", re.DOTALL)
_DETAIL = re.compile(
    r"\.? Detail: (?:Failed|Internal|Unavailable|TimedOut|Cancelled|Unauthenticated|Unauthorized"
    r"|Python exception: .*|flight::.*)\.?\s*$",
    re.DOTALL,
)
# What Arrow says of a stream whose other end left without an error.
_DISCONNECTED = "(server disconnect?)"
_PREFIX = re.compile(r"^Flight [a-z ]+, with message: ")


@contextmanager
def calling(what: str) -> Iterator[None]:
    """Turn whatever a call of the block raises into an error of the tree."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise from_flight(error, what) from None


def from_flight(error: Exception, what: str) -> errors.LakeportError:
    """The error that an exception of pyarrow stands for."""
    typed = _typed(getattr(error, "extra_info", None))
    if typed is not None:
        return typed
    message = _sentence(error) or f"{what} failed without a message"
    if _DISCONNECTED in message:
        return errors.InternalError(f"the server ended the {what} too early")
    for kind, meaning in _KINDS:
        if isinstance(error, kind):
            return meaning(message)
    return errors.InternalError(message)


def _typed(extra_info: object) -> errors.LakeportError | None:
    """The error of a DuckDB type that the server sent along."""
    if not isinstance(extra_info, bytes) or not extra_info:
        return None
    try:
        detail = msgpack.unpackb(extra_info, raw=True)
        kind, message = detail[b"exception_type"], detail[b"message"]
        return _DUCKDB_TYPES[kind](message.decode(errors="replace")[:_MAX_MESSAGE])
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, msgpack.UnpackException):
        return None


def _sentence(error: Exception) -> str:
    text = str(error)
    for noise in (_DEBUG_CONTEXT, _DETAIL, _PREFIX):
        text = noise.sub("", text)
    text = text.strip()[:_MAX_MESSAGE]
    if isinstance(error, KeyError) and len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text

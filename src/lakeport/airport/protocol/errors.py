"""The only place where exceptions become Flight statuses, and statuses become exceptions.

pyarrow derives the gRPC code from the type of an exception. `Flight*Error` covers some codes. The
others (NOT_FOUND, INVALID_ARGUMENT, UNIMPLEMENTED) need a builtin type, and pyarrow appends the
traceback of such an exception to the message. The types of `lakeport._quiet` cannot be formatted as
a traceback, so pyarrow sends only their name: the client receives one sentence with the right code.
See docs/decisions/0001-errors-without-tracebacks.md.

| error                                    | gRPC code         | DuckDB type, if there is one   |
|------------------------------------------|-------------------|--------------------------------|
| NotFoundError                            | NOT_FOUND         |                                |
| InvalidArgumentError, AlreadyExistsError | INVALID_ARGUMENT  |                                |
| SchemaNotEmptyError                      | INVALID_ARGUMENT  |                                |
| UnsupportedError, NotImplementedError    | UNIMPLEMENTED     |                                |
| InvalidInputError                        | INVALID_ARGUMENT¹ | Invalid Input Error            |
| ConstraintError                          | INVALID_ARGUMENT¹ | Constraint Error               |
| PermissionDeniedError, PermissionError   | PERMISSION_DENIED | Permission Error               |
| UnauthenticatedError                     | UNAUTHENTICATED   |                                |
| UnavailableError                         | UNAVAILABLE       |                                |
| CancelledError                           | CANCELLED         |                                |
| everything else                          | INTERNAL          |                                |

¹ UNKNOWN if the DuckDB type is sent too, because only a Flight error can contain it.
A PermissionError of the operating system counts as "everything else".
pyarrow 26 cannot send ALREADY_EXISTS. In GetSchema it cannot send the codes of Flight errors either
(PERMISSION_DENIED and those below it): the code is UNKNOWN, and the detail names the right one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final

import msgpack
import pyarrow as pa
from pyarrow import flight

from lakeport._quiet import (
    Cancelled,
    Internal,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    Quiet,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    Unimplemented,
    Unknown,
)
from lakeport.errors import (
    CancelledError,
    ConstraintError,
    InternalError,
    InvalidArgumentError,
    InvalidInputError,
    LakeportError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnavailableError,
    UnsupportedError,
)

__all__ = [
    "SHUTTING_DOWN",
    "as_lakeport_error",
    "from_flight",
    "reason_of",
    "status_name",
    "to_status",
    "translate_errors",
    "translating_errors",
]

_log = logging.getLogger("lakeport.airport")

# A status is sent up to three times in headers of 8 KiB, and gRPC encodes a byte that is not ASCII
# with three.
_MAX_MESSAGE_BYTES = 1000

_STATUSES: tuple[tuple[type[LakeportError], type[Exception]], ...] = (
    (NotFoundError, NotFound),
    (UnsupportedError, Unimplemented),
    (UnauthenticatedError, flight.FlightUnauthenticatedError),
    (PermissionDeniedError, flight.FlightUnauthorizedError),
    (ResourceExhaustedError, ResourceExhausted),
    (UnavailableError, flight.FlightUnavailableError),
    (CancelledError, flight.FlightCancelledError),
    (InternalError, flight.FlightInternalError),
    (LakeportError, InvalidArgument),
)

# The exceptions for a verb in which pyarrow does not convert Flight errors to statuses.
_WITHOUT_FLIGHT: tuple[tuple[type[Exception], type[Exception]], ...] = (
    (flight.FlightUnauthenticatedError, Unauthenticated),
    (flight.FlightUnauthorizedError, PermissionDenied),
    (flight.FlightUnavailableError, Unavailable),
    (flight.FlightCancelledError, Cancelled),
    (flight.FlightInternalError, Internal),
    (flight.FlightError, Unknown),
)

_CODES: tuple[tuple[type[BaseException], str], ...] = (
    (flight.FlightUnauthenticatedError, "UNAUTHENTICATED"),
    (flight.FlightUnauthorizedError, "PERMISSION_DENIED"),
    (flight.FlightUnavailableError, "UNAVAILABLE"),
    (flight.FlightTimedOutError, "DEADLINE_EXCEEDED"),
    (flight.FlightCancelledError, "CANCELLED"),
    (flight.FlightInternalError, "INTERNAL"),
    (flight.FlightError, "UNKNOWN"),
    (ResourceExhausted, "RESOURCE_EXHAUSTED"),
    (KeyError, "NOT_FOUND"),
    (NotImplementedError, "UNIMPLEMENTED"),
    (ValueError, "INVALID_ARGUMENT"),
    (OSError, "UNKNOWN"),
)

_DUCKDB_TYPES: tuple[tuple[type[LakeportError], str], ...] = (
    (ConstraintError, "ConstraintException"),
    (PermissionDeniedError, "PermissionException"),
    (InvalidInputError, "InvalidInputException"),
)

SHUTTING_DOWN: Final = "the server is shutting down; try again"

# Errors of calls that run while their server stops: Spark has ended, a wait was interrupted.
_INTERRUPTIONS: Final = (
    CancelledError,
    InternalError,
    UnavailableError,
    flight.FlightCancelledError,
    flight.FlightInternalError,
    flight.FlightUnavailableError,
)


class translate_errors:  # noqa: N801 (used like a function; quicker than a generator)
    """Convert every exception of the block to a status.

    Args:
        subject: The name of subject the block does, for messages.
        typed: Whether the client reads the DuckDB type of an error.
        flight_errors: False in a verb in which pyarrow cannot send Flight errors.
        stopping: Whether the server is stopping: failures then become UNAVAILABLE.

    """

    __slots__ = ("_flight_errors", "_stopping", "_subject", "_typed")

    def __init__(
        self,
        subject: str,
        *,
        typed: bool,
        flight_errors: bool = True,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._subject = subject
        self._typed = typed
        self._flight_errors = flight_errors
        self._stopping = stopping

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not isinstance(error, Exception) or isinstance(error, Quiet):
            return
        status: Exception
        if self._stopping() and _is_interruption(error):
            status = to_status(UnavailableError(SHUTTING_DOWN), typed=self._typed)
        elif isinstance(error, flight.FlightError):
            status = error
        else:
            status = to_status(as_lakeport_error(error, self._subject), typed=self._typed)
        raise (status if self._flight_errors else _without_flight(status)) from None


def _is_interruption(error: Exception) -> bool:
    is_expected = isinstance(error, LakeportError | flight.FlightError)
    return not is_expected or isinstance(error, _INTERRUPTIONS)


def as_lakeport_error(error: Exception, subject: str) -> LakeportError:
    """Return the error itself, or one for an unexpected exception, which is logged."""
    if isinstance(error, LakeportError):
        return error
    if isinstance(error, NotImplementedError):
        return UnsupportedError(_first_line(error, subject))
    # One with an errno comes from the operating system: the server may not open a file.
    if isinstance(error, PermissionError) and error.errno is None:
        return PermissionDeniedError(_first_line(error, subject))
    _log.error("%s failed", subject, exc_info=error)
    return InternalError(_first_line(error, subject))


def to_status(error: LakeportError, *, typed: bool) -> Exception:
    """Return the exception that pyarrow converts to the right status."""
    message = _truncate(str(error))
    if typed:
        for kind, duckdb_type in _DUCKDB_TYPES:
            if isinstance(error, kind):
                return _typed(error, message, duckdb_type)
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return status(message)
    raise AssertionError("every error has a status")


def status_name(error: BaseException | None) -> str:
    """Return the gRPC code of a call that ended with this error of pyarrow, or without one."""
    if error is None:
        return "OK"
    return next((name for kind, name in _CODES if isinstance(error, kind)), "UNKNOWN")


def reason_of(error: BaseException) -> str:
    """Return the message of an error of pyarrow, without the details that pyarrow adds."""
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return _truncate(text.partition("\n")[0].partition(". Detail: ")[0])


def _without_flight(status: Exception) -> Exception:
    for kind, quiet in _WITHOUT_FLIGHT:
        if isinstance(status, kind):
            return quiet(_truncate(str(status)))
    return status


def _typed(error: LakeportError, message: str, duckdb_type: str) -> Exception:
    detail = msgpack.packb({"exception_type": duckdb_type, "message": message})
    if isinstance(error, PermissionDeniedError):
        return flight.FlightUnauthorizedError(message, extra_info=detail)  # type: ignore[no-any-return]
    return flight.FlightServerError(message, extra_info=detail)  # type: ignore[no-any-return]


def _truncate(message: str) -> str:
    raw = message.encode(errors="replace")[:_MAX_MESSAGE_BYTES]
    return raw.decode(errors="ignore")


def _first_line(error: Exception, subject: str) -> str:
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    first_line = text.strip().partition("\n")[0]
    if isinstance(error, pa.ArrowException):
        return f"{subject} failed: {first_line}"
    return (
        f"{subject} failed: {type(error).__name__}: {first_line}"
        if first_line
        else (f"{subject} failed: {type(error).__name__}")
    )


_MAX_MESSAGE = 4000

_KINDS: Final[tuple[tuple[type[Exception], type[LakeportError]], ...]] = (
    (flight.FlightUnauthenticatedError, UnauthenticatedError),
    (flight.FlightUnauthorizedError, PermissionDeniedError),
    (flight.FlightUnavailableError, UnavailableError),
    (flight.FlightTimedOutError, UnavailableError),
    (flight.FlightCancelledError, CancelledError),
    (pa.ArrowCancelled, CancelledError),
    (pa.ArrowKeyError, NotFoundError),
    (pa.ArrowNotImplementedError, UnsupportedError),
    (pa.ArrowInvalid, InvalidArgumentError),
)

_EXCEPTION_TYPES: Final[dict[bytes, type[LakeportError]]] = {
    b"ConstraintException": ConstraintError,
    b"PermissionException": PermissionDeniedError,
    b"InvalidInputException": InvalidInputError,
}

# Text that Arrow and gRPC add to the server's message.
_DEBUG_CONTEXT = re.compile(r"\.? ?gRPC client debug context: .*", re.DOTALL)
_DETAIL = re.compile(
    r"\.? Detail: (?:Failed|Internal|Unavailable|TimedOut|Cancelled|Unauthenticated|Unauthorized"
    r"|Python exception: .*|flight::.*)\.?\s*$",
    re.DOTALL,
)
_EXHAUSTED = f"Python exception: {ResourceExhausted.__name__}"
# Arrow's message for a stream that the server closed without an error.
_DISCONNECTED = "(server disconnect?)"
_PREFIX = re.compile(r"^Flight [a-z ]+, with message: ")


@contextmanager
def translating_errors(subject: str) -> Iterator[None]:
    """Convert exceptions of pyarrow in the block to a `LakeportError`."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise from_flight(error, subject) from None


def from_flight(error: Exception, subject: str) -> LakeportError:
    """Return the `LakeportError` for an exception of pyarrow."""
    typed = _client_error(getattr(error, "extra_info", None))
    if typed is not None:
        return typed
    message = _server_message(error) or f"{subject} failed without a message"
    if _EXHAUSTED in str(error):
        return ResourceExhaustedError(message)
    if _DISCONNECTED in message:
        return InternalError(f"the server ended the {subject} too early")
    for kind, error_type in _KINDS:
        if isinstance(error, kind):
            return error_type(message)
    return InternalError(message)


def _client_error(extra_info: object) -> LakeportError | None:
    """Return the error of the DuckDB type that the server sent, or None."""
    if not isinstance(extra_info, bytes) or not extra_info:
        return None
    try:
        detail = msgpack.unpackb(extra_info, raw=True)
        kind, message = detail[b"exception_type"], detail[b"message"]
        return _EXCEPTION_TYPES[kind](message.decode(errors="replace")[:_MAX_MESSAGE])
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, msgpack.UnpackException):
        return None


def _server_message(error: Exception) -> str:
    text = str(error)
    for noise in (_DEBUG_CONTEXT, _DETAIL, _PREFIX):
        text = noise.sub("", text)
    text = text.strip()[:_MAX_MESSAGE]
    if isinstance(error, KeyError) and len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text

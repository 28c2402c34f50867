"""How an error travels: the one place where exceptions become Flight statuses.

gRPC codes come from what pyarrow makes of an exception's type. `Flight*Error` covers some of them;
the others (NOT_FOUND, INVALID_ARGUMENT, UNIMPLEMENTED) need a builtin type, whose traceback pyarrow
would append to the message. Those of `lakeport._quiet` cannot be formatted as a traceback, so that
pyarrow falls back to their bare name: the client sees one sentence, at once, with the right code.
See docs/decisions/0001-errors-without-tracebacks.md.

| error                                    | gRPC code         | DuckDB type where it knows one |
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

¹ UNKNOWN where the DuckDB type is sent along, since only a Flight error can carry it.
A PermissionError of the operating system counts as "everything else".
pyarrow has no way to say ALREADY_EXISTS. In GetSchema it has none for the codes of Flight errors
either (PERMISSION_DENIED and those below): the code is UNKNOWN, and the detail names the right one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

# A status travels in headers of 8 KiB, up to three times, and gRPC spells a byte beyond ASCII with
# three.
_MAX_MESSAGE_BYTES = 1000

_STATUSES: tuple[tuple[type[LakeportError], type[Exception]], ...] = (
    (NotFoundError, NotFound),
    (UnsupportedError, Unimplemented),
    (UnauthenticatedError, flight.FlightUnauthenticatedError),
    (PermissionDeniedError, flight.FlightUnauthorizedError),
    (UnavailableError, flight.FlightUnavailableError),
    (CancelledError, flight.FlightCancelledError),
    (InternalError, flight.FlightInternalError),
    (LakeportError, InvalidArgument),
)

# The exceptions for a verb in which pyarrow does not turn Flight errors into statuses.
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

# What a call meets when its server stops below it: Spark has gone, a wait was ended.
_CUT: Final = (
    CancelledError,
    InternalError,
    UnavailableError,
    flight.FlightCancelledError,
    flight.FlightInternalError,
    flight.FlightUnavailableError,
)


@contextmanager
def translate_errors(
    what: str,
    *,
    typed: bool,
    flight_errors: bool = True,
    stopping: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Turn whatever the block raises into a status; `typed` where the client reads DuckDB types.

    Without `flight_errors`, in a verb in which pyarrow cannot send them. What fails because the
    server is `stopping` becomes UNAVAILABLE.
    """
    try:
        yield
    except Quiet:
        raise
    except Exception as error:  # noqa: BLE001
        if stopping() and _is_cut(error):
            status = to_status(UnavailableError(SHUTTING_DOWN), typed=typed)
        elif isinstance(error, flight.FlightError):
            status = error
        else:
            status = to_status(as_lakeport_error(error, what), typed=typed)
        raise (status if flight_errors else _without_flight(status)) from None


def _is_cut(error: Exception) -> bool:
    foreseen = isinstance(error, LakeportError | flight.FlightError)
    return not foreseen or isinstance(error, _CUT)


def as_lakeport_error(error: Exception, what: str) -> LakeportError:
    """The error itself, or what an unforeseen exception amounts to. The latter is logged."""
    if isinstance(error, LakeportError):
        return error
    if isinstance(error, NotImplementedError):
        return UnsupportedError(_sentence(error, what))
    # One with a number comes from the system: the server itself may not open a file.
    if isinstance(error, PermissionError) and error.errno is None:
        return PermissionDeniedError(_sentence(error, what))
    _log.error("%s failed", what, exc_info=error)
    return InternalError(_sentence(error, what))


def to_status(error: LakeportError, *, typed: bool) -> Exception:
    """The exception that pyarrow turns into the right status."""
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
    """The gRPC code of a call that ended with this error of pyarrow, or without any."""
    if error is None:
        return "OK"
    return next((name for kind, name in _CODES if isinstance(error, kind)), "UNKNOWN")


def reason_of(error: BaseException) -> str:
    """The sentence of an error that pyarrow ended a call with, without what pyarrow adds to it."""
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


def _sentence(error: Exception, what: str) -> str:
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    first_line = text.strip().partition("\n")[0]
    if isinstance(error, pa.ArrowException):
        return f"{what} failed: {first_line}"
    return (
        f"{what} failed: {type(error).__name__}: {first_line}"
        if first_line
        else (f"{what} failed: {type(error).__name__}")
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
def translating_errors(what: str) -> Iterator[None]:
    """Turn whatever a call of the block raises into an error of the tree."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise from_flight(error, what) from None


def from_flight(error: Exception, what: str) -> LakeportError:
    """The error that an exception of pyarrow stands for."""
    typed = _client_error(getattr(error, "extra_info", None))
    if typed is not None:
        return typed
    message = _first_sentence(error) or f"{what} failed without a message"
    if _DISCONNECTED in message:
        return InternalError(f"the server ended the {what} too early")
    for kind, meaning in _KINDS:
        if isinstance(error, kind):
            return meaning(message)
    return InternalError(message)


def _client_error(extra_info: object) -> LakeportError | None:
    """The error of a DuckDB type that the server sent along."""
    if not isinstance(extra_info, bytes) or not extra_info:
        return None
    try:
        detail = msgpack.unpackb(extra_info, raw=True)
        kind, message = detail[b"exception_type"], detail[b"message"]
        return _EXCEPTION_TYPES[kind](message.decode(errors="replace")[:_MAX_MESSAGE])
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, msgpack.UnpackException):
        return None


def _first_sentence(error: Exception) -> str:
    text = str(error)
    for noise in (_DEBUG_CONTEXT, _DETAIL, _PREFIX):
        text = noise.sub("", text)
    text = text.strip()[:_MAX_MESSAGE]
    if isinstance(error, KeyError) and len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text

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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import msgpack
import pyarrow as pa
from pyarrow import flight

from lakeport import _quiet, errors

__all__ = [
    "SHUTTING_DOWN",
    "answering",
    "as_lakeport_error",
    "reason_of",
    "status_name",
    "to_status",
]

_log = logging.getLogger("lakeport.airport")

# A status travels in headers of 8 KiB, up to three times, and gRPC spells a byte beyond ASCII with
# three.
_MAX_MESSAGE_BYTES = 1000


_STATUSES: tuple[tuple[type[errors.LakeportError], type[Exception]], ...] = (
    (errors.NotFoundError, _quiet.NotFound),
    (errors.UnsupportedError, _quiet.Unimplemented),
    (errors.UnauthenticatedError, flight.FlightUnauthenticatedError),
    (errors.PermissionDeniedError, flight.FlightUnauthorizedError),
    (errors.UnavailableError, flight.FlightUnavailableError),
    (errors.CancelledError, flight.FlightCancelledError),
    (errors.InternalError, flight.FlightInternalError),
    (errors.LakeportError, _quiet.InvalidArgument),
)

# The exceptions for a verb in which pyarrow does not turn Flight errors into statuses.
_WITHOUT_FLIGHT: tuple[tuple[type[Exception], type[Exception]], ...] = (
    (flight.FlightUnauthenticatedError, _quiet.Unauthenticated),
    (flight.FlightUnauthorizedError, _quiet.PermissionDenied),
    (flight.FlightUnavailableError, _quiet.Unavailable),
    (flight.FlightCancelledError, _quiet.Cancelled),
    (flight.FlightInternalError, _quiet.Internal),
    (flight.FlightError, _quiet.Unknown),
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

_DUCKDB_TYPES: tuple[tuple[type[errors.LakeportError], str], ...] = (
    (errors.ConstraintError, "ConstraintException"),
    (errors.PermissionDeniedError, "PermissionException"),
    (errors.InvalidInputError, "InvalidInputException"),
)


SHUTTING_DOWN: Final = "the server is shutting down; try again"

# What a call meets when its server stops below it: Spark has gone, a wait was ended.
_CUT: Final = (
    errors.CancelledError,
    errors.InternalError,
    errors.UnavailableError,
    flight.FlightCancelledError,
    flight.FlightInternalError,
    flight.FlightUnavailableError,
)


@contextmanager
def answering(
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
    except _quiet.Quiet:
        raise
    except Exception as error:  # noqa: BLE001
        if stopping() and _is_cut(error):
            status = to_status(errors.UnavailableError(SHUTTING_DOWN), typed=typed)
        elif isinstance(error, flight.FlightError):
            status = error
        else:
            status = to_status(as_lakeport_error(error, what), typed=typed)
        raise (status if flight_errors else _without_flight(status)) from None


def _is_cut(error: Exception) -> bool:
    foreseen = isinstance(error, errors.LakeportError | flight.FlightError)
    return not foreseen or isinstance(error, _CUT)


def as_lakeport_error(error: Exception, what: str) -> errors.LakeportError:
    """The error itself, or what an unforeseen exception amounts to. The latter is logged."""
    if isinstance(error, errors.LakeportError):
        return error
    if isinstance(error, NotImplementedError):
        return errors.UnsupportedError(_sentence(error, what))
    # One with a number comes from the system: the server itself may not open a file.
    if isinstance(error, PermissionError) and error.errno is None:
        return errors.PermissionDeniedError(_sentence(error, what))
    _log.error("%s failed", what, exc_info=error)
    return errors.InternalError(_sentence(error, what))


def to_status(error: errors.LakeportError, *, typed: bool) -> Exception:
    """The exception that pyarrow turns into the right status."""
    message = _cut(str(error))
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
    return _cut(text.partition("\n")[0].partition(". Detail: ")[0])


def _without_flight(status: Exception) -> Exception:
    for kind, quiet in _WITHOUT_FLIGHT:
        if isinstance(status, kind):
            return quiet(_cut(str(status)))
    return status


def _typed(error: errors.LakeportError, message: str, duckdb_type: str) -> Exception:
    detail = msgpack.packb({"exception_type": duckdb_type, "message": message})
    if isinstance(error, errors.PermissionDeniedError):
        return flight.FlightUnauthorizedError(message, extra_info=detail)  # type: ignore[no-any-return]
    return flight.FlightServerError(message, extra_info=detail)  # type: ignore[no-any-return]


def _cut(message: str) -> str:
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

"""Exceptions that pyarrow turns into a gRPC status without a traceback.

For an exception that is not a Flight error, pyarrow appends the traceback to the status, with paths
and source lines of the server. Formatting a traceback of the exceptions in this module fails, so
pyarrow sends only their name. See docs/decisions/0001-errors-without-tracebacks.md.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "Cancelled",
    "Internal",
    "InvalidArgument",
    "NotFound",
    "PermissionDenied",
    "Quiet",
    "ResourceExhausted",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Unknown",
]


class Quiet(Exception):  # noqa: N818
    """An exception whose traceback cannot be formatted."""

    def __str__(self) -> str:
        return str(self.args[0])

    @property
    def __cause__(self) -> Any:
        # pyarrow formats a traceback by following the causes, and stops if that fails.
        raise RuntimeError

    @__cause__.setter
    def __cause__(self, value: Any) -> None:
        pass


class NotFound(Quiet, KeyError):  # noqa: N818
    """Becomes NOT_FOUND."""


class InvalidArgument(Quiet, ValueError):  # noqa: N818
    """Becomes INVALID_ARGUMENT."""


class Unimplemented(Quiet, NotImplementedError):  # noqa: N818
    """Becomes UNIMPLEMENTED."""


class Unknown(Quiet):
    """Becomes UNKNOWN, like its subclasses, which only GetSchema sends.

    pyarrow 26.0.1 converts Flight errors to status codes in all methods except GetSchema
    (`_get_schema` of its `_flight.pyx`). There, only the name of the class shows the code.
    """


class Unauthenticated(Unknown):
    """Stands for UNAUTHENTICATED."""


class PermissionDenied(Unknown):
    """Stands for PERMISSION_DENIED."""


class ResourceExhausted(Unknown):
    """Stands for RESOURCE_EXHAUSTED, which pyarrow cannot send in any method."""


class Unavailable(Unknown):
    """Stands for UNAVAILABLE."""


class Cancelled(Unknown):
    """Stands for CANCELLED."""


class Internal(Unknown):
    """Stands for INTERNAL."""

"""Exceptions that pyarrow turns into a gRPC status without a traceback.

pyarrow appends the traceback of an exception that is no Flight error to the status, with the paths
and source lines of the server. No traceback can be made of the exceptions here, so that pyarrow
sends their bare name instead. See docs/decisions/0001-errors-without-tracebacks.md.
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
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Unknown",
]


class Quiet(Exception):  # noqa: N818
    """An exception that no traceback can be made of."""

    def __str__(self) -> str:
        return str(self.args[0])

    @property
    def __cause__(self) -> Any:
        # pyarrow formats a traceback by walking the chain of causes, and gives up where that fails.
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
    """Becomes UNKNOWN, like the others below, which are sent by GetSchema only.

    pyarrow 26.0.1 turns Flight errors into their codes in every verb but that one (`_get_schema` of
    its `_flight.pyx`), so that the name of the class is all that shows the code there.
    """


class Unauthenticated(Unknown):
    """Stands for UNAUTHENTICATED."""


class PermissionDenied(Unknown):
    """Stands for PERMISSION_DENIED."""


class Unavailable(Unknown):
    """Stands for UNAVAILABLE."""


class Cancelled(Unknown):
    """Stands for CANCELLED."""


class Internal(Unknown):
    """Stands for INTERNAL."""

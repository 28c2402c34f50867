"""What a caller is about to do with an object, and the question whether that is allowed."""

from __future__ import annotations

import enum
from typing import Protocol

__all__ = ["MayDo", "Operation", "allow_everything"]


class Operation(enum.Enum):
    """What a caller is about to do with an object."""

    LIST = "list"
    """Find it in a listing."""
    READ = "read"
    """Scan a table, or ask for its schema or statistics."""
    WRITE = "write"
    """Insert, update or delete rows."""
    ALTER = "alter"
    """Create, alter or drop."""
    CALL = "call"
    """Call a function or an action."""


class MayDo(Protocol):
    """Return whether the caller may do something with an object of the request's catalog."""

    def __call__(
        self, operation: Operation, schema: str | None = None, name: str | None = None, /
    ) -> bool:
        """Return whether it is allowed. Names are the published ones, spelled as the objects are.

        Without a name the question is about the schema, without a schema about the catalog.
        """
        ...


def allow_everything(
    operation: Operation,  # noqa: ARG001
    schema: str | None = None,  # noqa: ARG001
    name: str | None = None,  # noqa: ARG001
    /,
) -> bool:
    """Return True: what is asked outside of a request, and on a server without an authorizer."""
    return True

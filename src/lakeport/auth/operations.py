"""The operations on an object, and the callable that checks whether one is allowed."""

from __future__ import annotations

import enum
from typing import Protocol

__all__ = ["MayDo", "Operation", "allow_everything"]


class Operation(enum.Enum):
    """An operation on an object."""

    LIST = "list"
    """Include it in a listing."""
    READ = "read"
    """Scan a table, or read its schema or statistics."""
    WRITE = "write"
    """Insert, update or delete rows."""
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    ALTER = "alter"
    """Create, alter or drop."""
    CREATE = "create"
    DROP = "drop"
    MAINTAIN = "maintain"
    """Compact files, expire snapshots, clean up."""
    CALL = "call"
    """Call a function or an action."""
    ADMIN = "admin"
    """See and cancel the calls of other identities."""

    @property
    def kind(self) -> Operation:
        """The operation that an authorizer decides about: WRITE for INSERT, ALTER for DROP."""
        if self in (Operation.INSERT, Operation.UPDATE, Operation.DELETE):
            return Operation.WRITE
        if self in (Operation.CREATE, Operation.DROP, Operation.MAINTAIN):
            return Operation.ALTER
        return self


class MayDo(Protocol):
    """Return whether the caller may do something with an object of the request's catalog."""

    def __call__(
        self, operation: Operation, schema: str | None = None, name: str | None = None, /
    ) -> bool:
        """Return whether it is allowed. Names are the published ones, in the objects' spelling.

        Without a name the operation is on the schema, without a schema on the catalog.
        """
        ...


def allow_everything(
    operation: Operation,
    schema: str | None = None,  # noqa: ARG001
    name: str | None = None,  # noqa: ARG001
    /,
) -> bool:
    """Return True, except for ADMIN: without an authorizer, identities see their own calls only."""
    return operation is not Operation.ADMIN

"""Authorization: one callable decides for each catalog, schema and table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from lakeport.auth.identity import ANONYMOUS, Identity
from lakeport.auth.operations import Operation

__all__ = ["AccessRequest", "Authorizer"]


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """An operation on an object, for the authorizer. Names have the spelling of the objects.

    A name that the catalog does not have is spelled as in the request.
    """

    identity: str
    """The user of the caller; empty without authentication."""
    operation: Operation
    """The operation that is checked."""
    catalog: str
    """The name of the catalog."""
    schema: str | None = None
    """The schema; None if the operation is on the catalog itself."""
    name: str | None = None
    """The table, function or action; None if the operation is on the schema itself."""
    caller: Identity = field(default=ANONYMOUS, compare=False)
    """The caller with groups and attributes."""
    verb: str = ""
    """What a WRITE or ALTER does, where it is known: `insert`, `update`, `delete`, `create`,
    `alter`, `drop`, `maintain`."""
    describes_catalog: bool = False
    """Whether the schema holds tables and functions about the catalog itself, such as `lakeport` of
    a lake. Their rows are about objects that the caller may list or read."""


Authorizer: TypeAlias = Callable[[AccessRequest], bool]
"""Returns whether an access is allowed. It is called for every object of a listing."""

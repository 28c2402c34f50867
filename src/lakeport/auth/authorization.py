"""What a caller may do: one hook that decides per catalog, schema and table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from lakeport.auth.operations import Operation

__all__ = ["AccessRequest", "Authorizer"]


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """A question to the authorizer. Names are spelled as the objects themselves are.

    A name that the catalog does not have is spelled as in the request.
    """

    identity: str
    """Who asks; empty without authentication."""
    operation: Operation
    """What they are about to do."""
    catalog: str
    """The name of the catalog."""
    schema: str | None = None
    """The schema; None when the question is about the catalog itself."""
    name: str | None = None
    """The table, function or action; None when the question is about the schema itself."""


Authorizer: TypeAlias = Callable[[AccessRequest], bool]
"""Answers whether an access is allowed. It is asked for every object of a listing: be quick."""

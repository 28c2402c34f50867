"""Custom Flight actions, which DuckDB users call with `airport_action(location, name, text)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["Action", "ActionHandler"]

ActionHandler: TypeAlias = Callable[[bytes], bytes | str | Iterable[bytes | str] | None]
"""Takes the body of the request and returns no result, one, or several."""


@dataclass(frozen=True, slots=True)
class Action:
    """A named action of a server or catalog."""

    name: str
    """The name that clients call."""
    handler: ActionHandler
    """What runs; `lakeport.current_request()` tells who calls."""
    description: str = ""
    """One line, shown by ListActions."""

"""Limits on what one caller, or all callers together, may use of a server at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from lakeport.auth.identity import Identity
from lakeport.auth.policies import Who
from lakeport.errors import DefinitionError

__all__ = ["UNLIMITED", "CallerLimits", "LimitRules"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerLimits:
    """What a caller may use; None is unlimited."""

    scans: int | None = None
    """Scans that run at once. More wait for their turn."""
    queued_scans: int | None = None
    """Scans that wait. More are refused."""
    rows_per_scan: int | None = None
    bytes_per_scan: int | None = None
    """Of Arrow, before compression."""
    scan_seconds: float | None = None
    calls_per_second: float | None = None
    """On average; as many may come at once as in two seconds."""
    connections: int | None = None
    """Open connections with at least one call. Calls of more are refused. Only on Linux."""
    transactions: int | None = None
    """Open transactions."""

    def __post_init__(self) -> None:
        """Raise DefinitionError for a limit that allows nothing."""
        for each in fields(self):
            value = getattr(self, each.name)
            may_be_zero = each.name == "queued_scans"
            if value is not None and (value < 0 or (value == 0 and not may_be_zero)):
                raise DefinitionError(f"the limit {each.name} must be positive")


UNLIMITED = CallerLimits()


@dataclass(frozen=True, slots=True)
class LimitRules:
    """The limits of each caller, and of all together."""

    each: Sequence[tuple[Who, CallerLimits]] = ()
    """The first rule that includes a caller holds for it."""
    together: CallerLimits = UNLIMITED
    """What all callers may use at once; rows, bytes and seconds are those of each scan."""

    def of(self, caller: Identity) -> CallerLimits:
        """Return the limits of one caller."""
        return next((limits for who, limits in self.each if who.includes(caller)), UNLIMITED)

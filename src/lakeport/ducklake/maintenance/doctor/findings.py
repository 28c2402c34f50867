"""What a check finds: a defect, what a reader sees of it, and the catalog rows that mend it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias

__all__ = [
    "NEW_SNAPSHOT",
    "Action",
    "CreateIndex",
    "Diagnosis",
    "Finding",
    "MergeDeletes",
    "Repair",
    "RowChange",
    "RowInsert",
    "Severity",
    "Verdict",
]


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    """Readers get wrong rows or an error, or the next commit makes it so."""
    WARNING = "warning"
    """Readers get the right rows; a write, a clean-up or a move of the lake may fail."""
    NOTE = "note"
    """Nothing is wrong; it costs space or time, or is good to know."""


class Verdict(StrEnum):
    """The state of a lake in one word."""

    HEALTHY = "healthy"
    AILING = "ailing"
    DAMAGED = "damaged"


class _NewSnapshot:
    """Stands for the id of the snapshot that a repair makes."""

    def __repr__(self) -> str:
        return "<the new snapshot>"


NEW_SNAPSHOT: Final = _NewSnapshot()


@dataclass(frozen=True, slots=True)
class RowChange:
    """Set columns of the rows that have the given values, or delete them."""

    table: str
    where: Mapping[str, Any]
    values: Mapping[str, Any] | None = None
    """The new values; None deletes the rows."""


@dataclass(frozen=True, slots=True)
class RowInsert:
    """Insert one row."""

    table: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class MergeDeletes:
    """Merge the delete files of a data file into one."""

    table_id: int
    data_file_id: int


@dataclass(frozen=True, slots=True)
class CreateIndex:
    """Create an index in the catalog database."""

    table: str
    columns: tuple[str, ...]


Action: TypeAlias = RowChange | RowInsert | MergeDeletes | CreateIndex


@dataclass(frozen=True, slots=True)
class Repair:
    """Changes of the catalog that mend a finding, in one transaction that makes one snapshot."""

    actions: Sequence[Action]
    changes: Sequence[str] = ()
    """What the new snapshot has as its changes, such as `altered_table:3`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One defect of one object."""

    check: str
    """The name of the check, which does not change between versions."""
    severity: Severity
    where: str
    """The object: a table, or the catalog."""
    what: str
    """What is wrong."""
    effect: str
    """What a reader or writer sees of it."""
    remedy: str
    """How to mend it."""
    count: int = 1
    """How many rows, files or values are affected."""
    examples: tuple[str, ...] = ()
    """Some of them."""
    repair: Repair | None = field(default=None, repr=False, compare=False)
    """What `--repair` does; None if a person has to decide."""

    def as_json(self) -> dict[str, Any]:
        """Return the finding as values of JSON."""
        return {
            "check": self.check,
            "severity": self.severity.value,
            "where": self.where,
            "what": self.what,
            "effect": self.effect,
            "remedy": self.remedy,
            "count": self.count,
            "examples": list(self.examples),
            "repairable": self.repair is not None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What the doctor found in a lake at a snapshot."""

    location: str
    version: str
    """The format version of the lake."""
    snapshot: int
    findings: tuple[Finding, ...]
    """The worst ones first."""
    checks: tuple[str, ...]
    """The names of all checks that ran."""
    files_read: int = 0
    """How many data files were opened."""
    files: int = 0
    """How many data files the snapshots have."""

    @property
    def verdict(self) -> Verdict:
        """The state of the lake."""
        found = {finding.severity for finding in self.findings}
        if Severity.ERROR in found:
            return Verdict.DAMAGED
        return Verdict.AILING if Severity.WARNING in found else Verdict.HEALTHY

    def of(self, check: str) -> list[Finding]:
        """Return the findings of one check."""
        return [finding for finding in self.findings if finding.check == check]

    def as_json(self) -> dict[str, Any]:
        """Return the diagnosis as values of JSON."""
        return {
            "location": self.location,
            "version": self.version,
            "snapshot": self.snapshot,
            "verdict": self.verdict.value,
            "files": self.files,
            "files_read": self.files_read,
            "findings": [finding.as_json() for finding in self.findings],
            "checks": list(self.checks),
        }

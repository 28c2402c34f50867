"""Run the checks on a lake and collect what they find."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from lakeport.ducklake.maintenance.doctor.catalog_copy import CatalogCopy
from lakeport.ducklake.maintenance.doctor.checks import CHECKS, check_contents, existing_indexes
from lakeport.ducklake.maintenance.doctor.examination import Check, Examination
from lakeport.ducklake.maintenance.doctor.findings import Diagnosis, Finding, Severity
from lakeport.ducklake.metadata.rows import MetadataRow, column_types, from_values

if TYPE_CHECKING:
    from lakeport.ducklake.lake import Lake

__all__ = ["diagnose", "examine", "run_checks"]

_ORDER: Final = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}
Progress = Callable[[str], None]


def diagnose(
    lake: Lake,
    *,
    deep: bool = False,
    sample: int = 20,
    progress: Progress | None = None,
) -> Diagnosis:
    """Examine a lake: its newest snapshot, and the files of all others.

    Args:
        lake: The lake.
        deep: Read all data files and compare them with their statistics.
        sample: How many data files are read without `deep`.
        progress: Is called with the name of each check before it runs, and while it reads files.
    """
    exam = lake.catalog.database.read(lambda connection: examine(lake, connection))
    exam.deep, exam.sample = deep, sample
    if progress is not None:
        exam.progress = progress
    try:
        found = [*run_checks(exam, CHECKS), *_contents(exam, lake)]
        count = exam.copy.value("SELECT count(*) FROM needed_file")
    finally:
        exam.copy.close()
    found.sort(key=lambda finding: (_ORDER[finding.severity], finding.check, finding.where))
    return Diagnosis(
        location=str(lake.catalog.database.location),
        version=lake.version,
        snapshot=exam.copy.latest,
        findings=tuple(found),
        checks=(*(check.__name__ for check in CHECKS), check_contents.__name__),
        files_read=exam.files_read,
        files=int(count),
    )


def examine(lake: Lake, connection: sa.Connection) -> Examination:
    """Copy the catalog in a transaction of its database."""
    copy = CatalogCopy(lake.catalog, connection)
    names = ", ".join(column_types(MetadataRow))
    options = [
        from_values(MetadataRow, row) for row in copy.rows(f"SELECT {names} FROM ducklake_metadata")
    ]
    return Examination(
        copy=copy,
        storage=lake.storage,
        root=lake.data_root(options),
        version=lake.version,
        kind=lake.catalog.database.kind,
        indexes=existing_indexes(lake.catalog.database, connection),
    )


def run_checks(exam: Examination, checks: Iterable[Check]) -> Iterator[Finding]:
    """Yield the findings of checks that need only the catalog and the storage."""
    for check in checks:
        exam.progress(check.__name__)
        yield from check(exam)


def _contents(exam: Examination, lake: Lake) -> Iterator[Finding]:
    exam.progress(check_contents.__name__)
    yield from check_contents(exam, lake)

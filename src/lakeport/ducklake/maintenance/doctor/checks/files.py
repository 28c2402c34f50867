"""Checks of files in storage: what is missing, changed, or scheduled although it is needed."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow.fs as fs

from lakeport.ducklake.maintenance.doctor.examination import Examination, Flaw, report
from lakeport.ducklake.maintenance.doctor.findings import Finding, RowChange, Severity
from lakeport.ducklake.storage.paths import is_local, local_path, resolve
from lakeport.errors import CorruptLakeError, LakeportError

__all__ = ["files_in_storage", "scheduled_files"]

_SUFFIXES: Final = (".parquet", ".puffin")
_YOUNG: Final = timedelta(days=1)


def files_in_storage(exam: Examination) -> Iterator[Finding]:
    """Compare the files that the catalog records with those that exist."""
    listing = _listing(exam)
    known = {_key(path) for _, path in _recorded(exam)}
    missing: dict[bool, list[Flaw]] = {True: [], False: []}
    changed: list[Flaw] = []

    unlisted = []
    for file in _needed(exam):
        found = listing.get(_key(file.path))
        if found is None:
            unlisted.append(file)
        else:
            changed += _changes(file, found)
    # Most of them are outside of the data path, or missing.
    for file, info in exam.each(lambda file: (file, _info(exam, file.path)), unlisted):
        if info is None or info.type != fs.FileType.File:
            missing[file.is_live].append(Flaw(file.table_id, file.path))
        else:
            changed += _changes(file, info)
    yield from report(
        exam,
        missing[True],
        check="missing_files",
        severity=Severity.ERROR,
        what="files of the table do not exist",
        effect="scans of the table fail",
        remedy="restore them from a backup, or restore the table to a snapshot without them",
    )
    yield from report(
        exam,
        missing[False],
        check="missing_files",
        severity=Severity.ERROR,
        what="files that only older snapshots of the table have do not exist",
        effect="scans of the newest snapshot work; scans of older ones fail",
        remedy="restore them from a backup, or expire the snapshots that have them",
    )
    yield from report(
        exam,
        changed,
        check="changed_files",
        severity=Severity.ERROR,
        what="files do not have the size that the catalog records",
        effect="readers fail, or return other rows than were committed",
        remedy="restore the files from a backup",
    )
    for path, relative in exam.copy.rows(
        "SELECT path, path_is_relative FROM ducklake_files_scheduled_for_deletion"
    ):
        known.add(_key(resolve(exam.root, path, relative=relative is not False)))
    limit = datetime.now(UTC) - _YOUNG
    orphans = [
        info
        for key, info in listing.items()
        if key not in known and info.mtime is not None and info.mtime < limit
    ]
    total = sum(info.size or 0 for info in orphans)
    yield from report(
        exam,
        (Flaw(None, info.path) for info in orphans),
        check="orphans",
        severity=Severity.NOTE,
        what=f"files below the data path belong to no snapshot; they have {total:,} bytes",
        effect="none; they take space",
        remedy="remove orphans with `lakeport maintain`, if no other lake has this data path",
    )


@dataclass(frozen=True, slots=True)
class _Needed:
    """A file that a snapshot has."""

    table_id: int
    path: str
    size: int | None
    is_live: bool
    """Whether the newest snapshot has it."""


def _needed(exam: Examination) -> Iterator[_Needed]:
    for table_id, path, relative, size, is_live in exam.copy.stream(
        "SELECT table_id, path, path_is_relative, file_size_bytes, end_snapshot IS NULL "
        "FROM needed_file UNION ALL SELECT table_id, path, path_is_relative, file_size_bytes, "
        "end_snapshot IS NULL AND data_file_id IN (SELECT data_file_id FROM live_file) "
        "FROM needed_delete ORDER BY ALL"
    ):
        with suppress(CorruptLakeError):
            resolved = exam.path(table_id, path, is_relative=relative)
            yield _Needed(table_id, resolved, size, is_live)


def _changes(file: _Needed, info: fs.FileInfo) -> list[Flaw]:
    if not file.size or info.size is None or info.size == file.size:
        return []
    example = f"{file.path} has {info.size} bytes, but the catalog records {file.size}"
    return [Flaw(file.table_id, example)]


def _recorded(exam: Examination) -> Iterator[tuple[int, str]]:
    """Yield all files that the catalog records: table and path."""
    for table_id, path, relative in exam.copy.stream(
        "SELECT table_id, path, path_is_relative FROM ducklake_data_file "
        "UNION ALL SELECT table_id, path, path_is_relative FROM ducklake_delete_file"
    ):
        with suppress(CorruptLakeError):
            yield table_id, exam.path(table_id, path, is_relative=relative)


def _listing(exam: Examination) -> dict[str, fs.FileInfo]:
    """Return the data and delete files below the data path, in one listing of the storage."""
    if not exam.root:
        return {}
    try:
        filesystem, name = exam.storage.filesystem(exam.root)
        selector = fs.FileSelector(name.rstrip("/"), recursive=True, allow_not_found=True)
        found: Iterable[fs.FileInfo] = filesystem.get_file_info(selector)
    except (OSError, LakeportError):
        return {}
    prefix = "" if is_local(exam.root) else exam.root[: exam.root.find("://") + 3]
    return {
        _key(prefix + info.path): info
        for info in found
        if info.type == fs.FileType.File and info.path.endswith(_SUFFIXES)
    }


def _info(exam: Examination, path: str) -> fs.FileInfo | None:
    try:
        filesystem, name = exam.storage.filesystem(path)
        return filesystem.get_file_info(name)
    except (OSError, LakeportError):
        return None


def _key(path: str) -> str:
    """Return a path in one spelling."""
    if is_local(path):
        return posixpath.normpath(local_path(path).replace("\\", "/"))
    scheme, _, rest = path.partition("://")
    return f"{scheme}://{posixpath.normpath(rest)}"


def scheduled_files(exam: Examination) -> Iterator[Finding]:
    """Find files that are scheduled for deletion although snapshots need them."""
    needed = {_key(path) for _, path in _recorded(exam)}
    flaws = []
    for file, path, relative in exam.copy.rows(
        "SELECT data_file_id, path, path_is_relative FROM ducklake_files_scheduled_for_deletion "
        "ORDER BY ALL"
    ):
        resolved = resolve(exam.root, path, relative=relative is not False)
        if _key(resolved) in needed:
            where = {"data_file_id": file, "path": path}
            change = RowChange("ducklake_files_scheduled_for_deletion", where)
            flaws.append(Flaw(None, path, [change]))
    yield from report(
        exam,
        flaws,
        check="scheduled_files",
        severity=Severity.ERROR,
        what="files are scheduled for deletion although snapshots need them",
        effect="the next clean-up deletes data",
        remedy="take them off the schedule",
    )

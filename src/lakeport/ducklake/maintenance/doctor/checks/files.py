"""Checks of files in storage: what is missing, changed, or scheduled although it is needed."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
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
    missing, changed, known = [], [], set()
    for table_id, path, size, is_live in _recorded(exam):
        key = _key(path)
        known.add(key)
        if not is_live:
            continue
        info = listing.get(key) or _info(exam, path)
        if info is None or info.type != fs.FileType.File:
            missing.append(Flaw(table_id, path))
        elif size and info.size is not None and info.size != size:
            example = f"{path} has {info.size} bytes, but the catalog records {size}"
            changed.append(Flaw(table_id, example))
    yield from report(
        exam,
        missing,
        check="missing_files",
        severity=Severity.ERROR,
        what="files of the table do not exist",
        effect="scans of the table fail",
        remedy="restore them from a backup, or restore the table to a snapshot without them",
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


def _recorded(exam: Examination) -> Iterator[tuple[int, str, int | None, bool]]:
    """Yield the files of all snapshots: table, path, size, and whether the newest one needs it."""
    rows = exam.copy.rows(
        "SELECT table_id, path, path_is_relative, file_size_bytes, "
        " end_snapshot IS NULL AND table_id IN (FROM live_table) FROM ducklake_data_file "
        "UNION ALL SELECT table_id, path, path_is_relative, file_size_bytes, "
        " end_snapshot IS NULL AND data_file_id IN (SELECT data_file_id FROM live_file) "
        "FROM ducklake_delete_file"
    )
    for table_id, path, relative, size, is_live in rows:
        try:
            yield table_id, exam.path(table_id, path, is_relative=relative), size, is_live
        except CorruptLakeError:
            continue


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
    needed = {_key(path) for _, path, _, _ in _recorded(exam)}
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

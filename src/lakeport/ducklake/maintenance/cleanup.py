"""Delete files that no snapshot needs: those that are scheduled, and orphans of failed writes.

Files are deleted first and then their rows, so that a run that was interrupted can be repeated.
Paths are compared in one form: the catalog and a listing may write the same one differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow.fs as fs
import sqlalchemy as sa

from lakeport._wording import counted
from lakeport.ducklake.lake import Lake
from lakeport.ducklake.maintenance.catalog_changes import Age, change_catalog, interval, moment_of
from lakeport.ducklake.maintenance.known_files import (
    known_files,
    path_key,
    scheduled_files,
    table_folders,
)
from lakeport.ducklake.maintenance.results import Cancel, MaintenanceResult
from lakeport.ducklake.metadata.catalog_tables import existing_tables
from lakeport.ducklake.metadata.rows import InlinedDataTableRow, ScheduledFileRow, TableRow
from lakeport.ducklake.metadata.union_query import UnionQuery
from lakeport.ducklake.snapshots import parse_catalog_timestamp
from lakeport.ducklake.storage.paths import is_local, resolve
from lakeport.ducklake.writing.database import CatalogWriter, Delete, DropTable
from lakeport.ducklake.writing.options import Options
from lakeport.errors import CancelledError, InvalidArgumentError, LakeportError

__all__ = ["delete_orphans", "delete_scheduled"]

DEFAULT_AGE: Final = timedelta(days=2)
"""How long files stay after no snapshot needs them, as in the reference."""

YOUNGEST_ORPHAN: Final = timedelta(days=1)
"""Younger files may belong to a write that is still running."""

_CHUNK: Final = 1000
_THREADS: Final = 8
# Files of Spark's tasks have the id of the write, the task, its attempt and a number.
_OWN_NAME: Final = re.compile(
    r"ducklake-(?:[0-9a-f-]{36}(-delete)?|[0-9a-f]{32}-\d{5,}-\d+-\d{4,})\.(parquet|puffin)"
)
_INLINED: Final = re.compile(r"ducklake_inlined_(?:data_(\d+)_\d+|delete_(\d+))")


def delete_scheduled(
    lake: Lake,
    *,
    older_than: Age | None = None,
    everything: bool = False,
    dry_run: bool = False,
    is_cancelled: Cancel = lambda: False,
) -> MaintenanceResult:
    """Delete files that were scheduled long enough ago; see `Lake.clean_up`."""
    options = lake.option_rows()
    if older_than is None:
        text = Options(options).get("delete_older_than")
        older_than = DEFAULT_AGE if text is None else interval(text)
    before = datetime.max.replace(tzinfo=UTC) if everything else moment_of(older_than)
    root = lake.data_root(options)
    scheduled = [
        row
        for row in scheduled_files(lake)
        if everything or parse_catalog_timestamp(row.schedule_start) < before
    ]
    needed = known_files(lake, root, with_scheduled=False) if scheduled else set()
    skipped, chosen = [], []
    for row in scheduled:
        path = resolve(root, row.path, relative=row.path_is_relative is not False)
        if not lake.storage.admits(path):
            skipped.append(f"{path} is outside of the data path, to which the lake is confined")
        elif path_key(path) in needed:
            skipped.append(f"{path} is scheduled for deletion, but snapshots still need it")
        else:
            chosen.append((row, path))
    result = MaintenanceResult(operation="clean_up", dry_run=dry_run, skipped=tuple(skipped))
    for start in range(0, len(chosen), _CHUNK):
        if is_cancelled():
            raise CancelledError("the clean-up was cancelled")
        chunk = chosen[start : start + _CHUNK]
        paths = [path for _, path in chunk]
        sizes = _delete(lake, paths, dry_run=dry_run)
        if not dry_run:
            _forget(lake, [row for row, _ in chunk])
        result = replace(
            result,
            files_replaced=result.files_replaced + len(chunk),
            bytes_replaced=result.bytes_replaced + sum(sizes),
            paths=(*result.paths, *paths),
        )
    if not dry_run:
        _tidy_inlined_tables(lake)
    return result


def delete_orphans(
    lake: Lake,
    *,
    older_than: Age = YOUNGEST_ORPHAN,
    force: bool = False,
    dry_run: bool = False,
    is_cancelled: Cancel = lambda: False,
) -> MaintenanceResult:
    """Delete files that the catalog does not know; see `Lake.remove_orphans`."""
    before = moment_of(older_than)
    if before > datetime.now(UTC) - YOUNGEST_ORPHAN + timedelta(minutes=1) and not force:
        raise InvalidArgumentError(
            "files younger than a day may belong to a write that is still running: give force=True "
            "to remove them"
        )
    root = lake.data_root(lake.option_rows())
    # The files first: one that is committed after the listing is known to the catalog.
    found = [
        (path, size)
        for path, size, changed in _listed(lake, root)
        if changed is not None and changed < before
    ]
    known = known_files(lake, root, with_scheduled=True) if found else set()
    folders = tuple(
        sorted({path_key(folder) + "/" for folder in set(table_folders(lake, root).values())})
    )
    orphans: list[tuple[str, int]] = []
    elsewhere: list[tuple[str, int]] = []
    for path, size in found:
        key = path_key(path)
        if key in known:
            continue
        inside = force or key.startswith(folders)
        (orphans if inside else elsewhere).append((path, size))
    skipped = []
    if elsewhere:
        skipped.append(
            f"{counted(len(elsewhere), 'file')} such as {elsewhere[0][0]} are in folders of no "
            "table: another lake may own them; give force=True to remove them"
        )
    for start in range(0, 0 if dry_run else len(orphans), _CHUNK):
        if is_cancelled():
            raise CancelledError("the removal of orphans was cancelled")
        _delete(lake, [path for path, _ in orphans[start : start + _CHUNK]], dry_run=False)
    return MaintenanceResult(
        operation="remove_orphans",
        dry_run=dry_run,
        files_replaced=len(orphans),
        bytes_replaced=sum(size for _, size in orphans),
        paths=tuple(path for path, _ in orphans),
        skipped=tuple(skipped),
    )


def _forget(lake: Lake, rows: Sequence[ScheduledFileRow]) -> None:
    keys = tuple((row.data_file_id, row.path) for row in rows)

    def work(writer: CatalogWriter) -> None:
        writer.run(Delete(ScheduledFileRow, ("data_file_id", "path"), keys))
        writer.commit()

    change_catalog(lake, work)


def _delete(lake: Lake, paths: Sequence[str], *, dry_run: bool) -> list[int]:
    """Delete files, several at once; return their sizes. A file that is gone is no error."""

    def one(path: str) -> int:
        filesystem, name = lake.storage.filesystem(path)
        info = filesystem.get_file_info(name)
        if info.type != fs.FileType.File:
            return 0
        if not dry_run:
            try:
                filesystem.delete_file(name)
            except FileNotFoundError:
                return 0
            except OSError as error:
                raise LakeportError(f"the file {path!r} cannot be deleted: {error}") from None
        return int(info.size or 0)

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="lakeport-delete") as pool:
        return list(pool.map(one, paths))


def _listed(lake: Lake, root: str) -> Iterator[tuple[str, int, datetime | None]]:
    """Yield path, size and time of the files below a folder that have names of the lake's files."""
    filesystem, name = lake.storage.filesystem(root)
    selector = fs.FileSelector(name.rstrip("/") or "/", recursive=True, allow_not_found=True)
    scheme = "" if is_local(root) else root.partition("://")[0] + "://"
    for info in filesystem.get_file_info(selector):
        if info.type == fs.FileType.File and _OWN_NAME.fullmatch(info.base_name):
            yield scheme + info.path, info.size or 0, info.mtime


def _tidy_inlined_tables(lake: Lake) -> None:
    """Drop tables for inlined rows that the directory lacks, then forget those that are empty.

    A reader that found a table in the directory may still read it. So a table is dropped one run
    after it has left the directory.
    """
    names = existing_tables(lake.catalog.database)
    present = lake.catalog.database.read(
        lambda connection: [row[0] for row in connection.execute(sa.select(names))]
    )
    existing = [name for name in present if _INLINED.fullmatch(name)]
    if not existing:
        return

    def work(writer: CatalogWriter) -> None:
        rows = _directory(lake, writer.connection)
        directory = {row.table_name for row in rows[InlinedDataTableRow]}
        tables = {row.table_id for row in rows[TableRow]}
        forgotten = [name for name in existing if _is_left(name, directory, tables)]
        newest: dict[int, int] = {}
        for row in rows[InlinedDataTableRow]:
            newest[row.table_id] = max(newest.get(row.table_id, 0), row.schema_version)
        superseded = [
            row
            for row in rows[InlinedDataTableRow]
            if row.schema_version < newest[row.table_id]
            and row.table_name in existing
            and not writer.count(row.table_name)
        ]
        for name in forgotten:
            writer.run(DropTable(name))
        if superseded:
            keys = tuple((row.table_name,) for row in superseded)
            writer.run(Delete(InlinedDataTableRow, ("table_name",), keys))
        if forgotten or superseded:
            writer.commit()

    change_catalog(lake, work)


def _directory(lake: Lake, connection: sa.Connection) -> Any:
    catalog = lake.catalog

    def build() -> UnionQuery:
        query = UnionQuery()
        query.add(InlinedDataTableRow, catalog.tables[InlinedDataTableRow])
        query.add(TableRow, catalog.tables[TableRow])
        return query

    return catalog.run(connection, "inlined_directory", build)


def _is_left(name: str, directory: set[str], tables: set[int]) -> bool:
    """Return whether no table of the lake needs a table for inlined rows or deletes."""
    match = _INLINED.fullmatch(name)
    if match is None:
        return False
    data, deletes = match.groups()
    if data is not None:
        return name not in directory
    return int(deletes) not in tables

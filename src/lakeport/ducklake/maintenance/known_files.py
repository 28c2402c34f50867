"""Which files the catalog of a lake knows, and to which tables folders belong.

Paths are compared in one form: the catalog and a listing may write the same one differently.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import sqlalchemy as sa

from lakeport.ducklake.lake import Lake
from lakeport.ducklake.metadata.rows import (
    DataFileRow,
    DeleteFileRow,
    ScheduledFileRow,
    SchemaRow,
    TableRow,
)
from lakeport.ducklake.metadata.union_query import UnionQuery
from lakeport.ducklake.storage.paths import (
    as_directory,
    glob_pattern,
    is_local,
    local_path,
    resolve,
)

__all__ = ["are_free_files", "known_files", "path_key", "scheduled_files", "table_folders"]

_S3_SCHEMES: Final = ("s3", "s3a", "s3n", "r2")


def are_free_files(lake: Lake, path: str, table_id: int) -> bool:
    """Return whether the files of a path, which may have wildcards, belong to no table yet.

    Files in the folders of other tables belong to those, also if the catalog does not know them.
    """
    root = lake.data_root(lake.option_rows())
    folders = {id: path_key(folder) + "/" for id, folder in table_folders(lake, root).items()}
    own = folders.get(table_id)
    # The folder of another table may contain that of this one.
    others = {each for each in folders.values() if own is None or not own.startswith(each)}
    pattern = glob_pattern(path)
    if pattern is not None:
        directory = pattern[0]
        start = path_key(directory) + "/"
        reaches_below = "/" in path[len(directory) :] or "**" in path
        if any(start.startswith(each) for each in others) or (
            reaches_below and any(each.startswith(start) for each in others)
        ):
            return False
    keys = {path_key(each) for each in lake.storage.glob(path)}
    if any(key.startswith(tuple(others)) for key in keys):
        return False
    return keys.isdisjoint(known_files(lake, root, with_scheduled=True))


def known_files(lake: Lake, root: str, *, with_scheduled: bool) -> set[str]:
    """Return the keys of all files that the catalog knows, of all snapshots."""
    catalog = lake.catalog
    sources = [catalog.tables[row] for row in (DataFileRow, DeleteFileRow)]
    folders = table_folders(lake, root)

    def work(connection: sa.Connection) -> set[str]:
        keys = set()
        for source in sources:
            columns = sa.select(source.c.table_id, source.c.path, source.c.path_is_relative)
            for table_id, path, relative in connection.execute(columns):
                folder = folders.get(table_id, root)
                keys.add(path_key(resolve(folder, path, relative=relative not in (False, 0))))
        return keys

    found = catalog.database.read(work)
    if with_scheduled:
        found |= _scheduled_keys(root, scheduled_files(lake))
    return found


def scheduled_files(lake: Lake) -> list[ScheduledFileRow]:
    """Return the files that are scheduled for deletion."""
    catalog = lake.catalog

    def build() -> UnionQuery:
        query = UnionQuery()
        query.add(ScheduledFileRow, catalog.tables[ScheduledFileRow])
        return query

    return catalog.database.read(
        lambda connection: catalog.run(connection, "scheduled", build)[ScheduledFileRow]
    )


def _scheduled_keys(root: str, rows: Iterable[ScheduledFileRow]) -> set[str]:
    return {
        path_key(resolve(root, row.path, relative=row.path_is_relative is not False))
        for row in rows
    }


def table_folders(lake: Lake, root: str) -> dict[int, str]:
    """Return the folders of all tables, dropped ones too, by their ids."""
    rows = lake.catalog.database.read(lake.catalog.lifetimes)
    schemas = {
        row.schema_id: as_directory(
            resolve(root, row.path or "", relative=row.path_is_relative is not False)
        )
        for row in rows[SchemaRow]
    }
    return {
        row.table_id: as_directory(
            resolve(
                schemas.get(row.schema_id, root),
                row.path or "",
                relative=row.path_is_relative is not False,
            )
        )
        for row in rows[TableRow]
    }


def path_key(path: str) -> str:
    """Return a path in the form in which paths are compared."""
    if is_local(path):
        folder, name = os.path.split(local_path(path))
        return f"{_real(folder)}/{name}".rstrip("/")
    scheme, _, rest = path.partition("://")
    if scheme in _S3_SCHEMES:
        scheme = "s3"
    elif scheme == "gcs":
        scheme = "gs"
    return f"{scheme}://{re.sub('/+', '/', rest).rstrip('/')}"


@lru_cache(maxsize=4096)
def _real(folder: str) -> str:
    """Return a folder without links; the paths of a table share a few of them."""
    return os.path.realpath(folder)

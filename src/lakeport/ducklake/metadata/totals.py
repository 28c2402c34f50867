"""Sums over the files and inlined rows of a lake, made by the catalog database.

They cost as much as the groups that they return, however many files there are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from lakeport.ducklake.metadata.catalog_tables import CatalogTables, existing_tables
from lakeport.ducklake.metadata.queries import CatalogReader
from lakeport.ducklake.metadata.rows import (
    DataFileRow,
    DeleteFileRow,
    FileColumnStatsRow,
    InlinedDataTableRow,
)

__all__ = ["GROWTH_SCHEMA", "null_counts", "snapshot_growth"]

_SUMS: Final = (
    *("files_added", "files_removed", "rows_added", "rows_removed"),
    *("bytes_added", "bytes_removed"),
)
GROWTH_SCHEMA: Final = pa.schema([(name, pa.int64()) for name in ("snapshot_id", *_SUMS)])

_DELETES: Final = "ducklake_inlined_delete_"


def snapshot_growth(catalog: CatalogReader, table_ids: Collection[int] | None = None) -> pa.Table:
    """Return files, rows and bytes that each snapshot added to tables and removed from them.

    Without `table_ids`, these are the sums of all tables, also of those that were dropped. A file
    that maintenance has merged counts for the first snapshot whose rows it has. Rows that several
    snapshots have deleted from one file count for the last of these snapshots.
    """

    def work(connection: sa.Connection) -> list[pa.Table]:
        of_files = _of_files(catalog.tables, by_table=table_ids is not None)
        selects = [*of_files, *_of_inlined(catalog, connection, table_ids)]
        return [_read(connection, columns, select) for columns, select in selects]

    parts = [GROWTH_SCHEMA.empty_table().append_column("table_id", pa.array([], pa.int64()))]
    parts += catalog.database.read(work)
    rows = pa.concat_tables(part.select([*GROWTH_SCHEMA.names, "table_id"]) for part in parts)
    if table_ids is not None:
        wanted = pa.array(sorted(table_ids), pa.int64())
        rows = rows.filter(pc.is_in(rows["table_id"], wanted))
    sums = rows.group_by("snapshot_id").aggregate([(name, "sum") for name in _SUMS])
    named = sums.rename_columns([name.removesuffix("_sum") for name in sums.column_names])
    return named.select(GROWTH_SCHEMA.names).cast(GROWTH_SCHEMA).sort_by("snapshot_id")


def null_counts(catalog: CatalogReader, table_id: int, snapshot: int) -> dict[int, tuple[int, int]]:
    """Return how many rows the files of a table have, and how often each column is NULL in them.

    By the ids of the columns, without those that a file has no count of. Writers differ in whether
    they count NULL as a value, so the rows are counted.
    """
    t = catalog.tables
    file, stats = t[DataFileRow], t[FileColumnStatsRow]
    select = (
        sa.select(
            stats.c.column_id,
            _sum(file.c.record_count),
            _sum(stats.c.null_count),
            sa.func.count(),
            sa.func.count(stats.c.null_count),
        )
        .select_from(stats.join(file, stats.c.data_file_id == file.c.data_file_id))
        .where(file.c.table_id == table_id, t.visible(file, sa.literal(snapshot)))
        .group_by(stats.c.column_id)
    )
    found = catalog.database.read(lambda connection: connection.execute(select).all())
    return {
        int(id): (int(rows or 0), int(nulls))
        for id, rows, nulls, counted, known in found
        if counted == known and nulls is not None
    }


def _of_files(
    t: CatalogTables, *, by_table: bool
) -> Iterator[tuple[tuple[str, ...], sa.Select[Any]]]:
    file, delete = t[DataFileRow], t[DeleteFileRow]
    file_table, delete_table = (
        source.c.table_id if by_table else sa.literal(0) for source in (file, delete)
    )
    of_file = (sa.func.count(), _sum(file.c.record_count), _sum(file.c.file_size_bytes))
    for end, verb in ((file.c.begin_snapshot, "added"), (file.c.end_snapshot, "removed")):
        names = (f"files_{verb}", f"rows_{verb}", f"bytes_{verb}")
        yield names, _grouped(file_table, end, *of_file)
    deleted = _sum(delete.c.delete_count)
    # The snapshots that deleted rows of a file share a delete file; the last of them is known.
    begins = sa.func.coalesce(delete.c.partial_max, delete.c.begin_snapshot)
    yield ("rows_removed",), _grouped(delete_table, begins, deleted)
    # With its data file, or when another one replaces it, a delete file ends: its rows were
    # removed before.
    ends = sa.case(
        (delete.c.end_snapshot.is_(None), file.c.end_snapshot),
        (file.c.end_snapshot < delete.c.end_snapshot, file.c.end_snapshot),
        else_=delete.c.end_snapshot,
    )
    joined = delete.outerjoin(file, file.c.data_file_id == delete.c.data_file_id)
    yield (
        ("rows_removed",),
        _grouped(delete_table, ends, -deleted).select_from(joined),
    )


def _of_inlined(
    catalog: CatalogReader, connection: sa.Connection, table_ids: Collection[int] | None
) -> Iterator[tuple[tuple[str, ...], sa.Select[Any]]]:
    """Yield queries of the inlined rows and inlined deletes of tables."""
    directory = catalog.tables[InlinedDataTableRow]
    existing = existing_tables(catalog.database)
    found = connection.execute(
        sa.select(existing.c.table_name).where(existing.c.table_name.like("ducklake_inlined_%"))
    )
    present = {str(name) for (name,) in found}
    listed = connection.execute(sa.select(directory.c.table_id, directory.c.table_name)).all()
    ids = {int(id) for id, _ in listed} | {
        int(name.removeprefix(_DELETES))
        for name in present
        if name.removeprefix(_DELETES).isdigit()
    }
    file = catalog.tables[DataFileRow]
    for id, name in listed:
        if name in present and (table_ids is None or id in table_ids):
            rows = _inlined(catalog, name, "begin_snapshot", "end_snapshot")
            for end, verb in ((rows.c.begin_snapshot, "added"), (rows.c.end_snapshot, "removed")):
                yield (f"rows_{verb}",), _grouped(sa.literal(int(id)), end, sa.func.count())
    for id in sorted(ids):
        if f"{_DELETES}{id}" in present and (table_ids is None or id in table_ids):
            rows = _inlined(catalog, f"{_DELETES}{id}", "file_id", "begin_snapshot")
            one, table = sa.func.count(), sa.literal(id)
            yield ("rows_removed",), _grouped(table, rows.c.begin_snapshot, one)
            joined = rows.join(file, file.c.data_file_id == rows.c.file_id)
            ended = _grouped(table, file.c.end_snapshot, -one).select_from(joined)
            yield ("rows_removed",), ended


def _inlined(catalog: CatalogReader, name: str, *columns: str) -> sa.TableClause:
    numbers = (sa.column(column, sa.BigInteger) for column in columns)
    return sa.table(name, *numbers, schema=catalog.database.schema)


def _grouped(
    table_id: ColumnElement[Any], snapshot: ColumnElement[Any], *sums: ColumnElement[Any]
) -> sa.Select[Any]:
    select = sa.select(table_id.label("table_id"), snapshot.label("snapshot_id"), *sums)
    return select.where(snapshot.is_not(None)).group_by(sa.text("1"), sa.text("2"))


def _sum(column: ColumnElement[Any]) -> ColumnElement[Any]:
    return sa.cast(sa.func.sum(column), sa.BigInteger)


def _read(connection: sa.Connection, names: tuple[str, ...], select: sa.Select[Any]) -> pa.Table:
    """Return a table with all sums, of which a query makes some."""
    rows = connection.execute(select).all()
    found = ("table_id", "snapshot_id", *names)
    arrays = {
        name: pa.array([row[index] or 0 for row in rows], pa.int64())
        for index, name in enumerate(found)
    }
    zeros = pa.array([0] * len(rows), pa.int64())
    return pa.table({name: arrays.get(name, zeros) for name in ("table_id", *GROWTH_SCHEMA.names)})

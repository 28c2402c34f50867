"""What the shape of a lake costs, from the numbers in its catalog, and which maintenance helps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from lakeport.ducklake.maintenance.doctor.catalog_copy import CatalogCopy

if TYPE_CHECKING:
    from lakeport.ducklake.lake import Lake

__all__ = ["Advice", "TableAdvice", "advise"]

# The reader counts the opening of a file as this many bytes; see `Lake.open`.
_OPENING_BYTES: Final = 32 << 10
_SMALL_FILE_BYTES: Final = 32 << 20
_MANY_SMALL_FILES: Final = 10
_DELETED_SHARE: Final = 0.1
_MANY_INLINED_ROWS: Final = 1_000
_MANY_SNAPSHOTS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAdvice:
    """What the shape of a table costs at the newest snapshot."""

    table: str
    files: int
    """The files that a scan without a filter opens."""
    small_files: int
    """Those below 32 MiB."""
    bytes: int
    deleted_share: float
    """The part of the rows in files that is deleted, and read for nothing."""
    delete_files: int
    inlined_rows: int
    """Rows in the catalog database, which each scan reads from there."""
    read_per_needed: float
    """Bytes that a full scan costs for each byte of rows that are left; an opened file counts as
    32 KiB."""
    overlap: float | None
    """How many files a point lookup opens at best, by the bounds of the most selective column."""
    overlap_column: str | None
    actions: tuple[str, ...]
    """What maintenance would gain, the largest gain first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What the shape of a lake costs."""

    location: str
    snapshot: int
    snapshots: int
    scheduled_files: int
    tables: tuple[TableAdvice, ...]
    """Those with the most to gain first."""
    actions: tuple[str, ...]
    """What concerns the whole lake."""

    def as_json(self) -> dict[str, Any]:
        """Return the advice as values of JSON."""
        return asdict(self)


def advise(lake: Lake) -> Advice:
    """Return what the shape of each table costs and which maintenance would gain what."""
    copy = lake.catalog.database.read(lambda connection: CatalogCopy(lake.catalog, connection))
    try:
        tables = sorted(_tables(copy), key=lambda t: (-len(t.actions), -t.read_per_needed, t.table))
        snapshots = int(copy.value("SELECT count(*) FROM ducklake_snapshot"))
        scheduled = int(copy.value("SELECT count(*) FROM ducklake_files_scheduled_for_deletion"))
    finally:
        copy.close()
    actions = []
    if snapshots > _MANY_SNAPSHOTS:
        actions.append(f"expire old snapshots: there are {snapshots:,}, whose files are kept")
    if scheduled:
        actions.append(f"clean up: {scheduled:,} files that no snapshot needs can be removed")
    return Advice(
        location=str(lake.catalog.database.location),
        snapshot=copy.latest,
        snapshots=snapshots,
        scheduled_files=scheduled,
        tables=tuple(tables),
        actions=tuple(actions),
    )


def _tables(copy: CatalogCopy) -> Iterator[TableAdvice]:
    overlaps = _overlaps(copy)
    rows = copy.rows(
        "SELECT table_id, name, coalesce(files, 0), coalesce(small, 0), coalesce(bytes, 0), "
        " coalesce(small_bytes, 0), coalesce(rows, 0), coalesce(deletes, 0), "
        " coalesce(deleted, 0) + coalesce(inlined_deletes, 0), coalesce(inlined, 0) "
        "FROM live_table JOIN named USING (table_id) "
        "LEFT JOIN (SELECT table_id, count(*) AS files, sum(file_size_bytes) AS bytes, "
        "  sum(record_count) AS rows, count(*) FILTER (file_size_bytes < $1) AS small, "
        "  sum(file_size_bytes) FILTER (file_size_bytes < $1) AS small_bytes "
        "  FROM live_file GROUP BY ALL) USING (table_id) "
        "LEFT JOIN (SELECT table_id, count(*) AS deletes, sum(delete_count) AS deleted "
        "  FROM live_delete GROUP BY ALL) USING (table_id) "
        "LEFT JOIN (SELECT table_id, count(*) AS inlined_deletes FROM inlined_delete GROUP BY ALL) "
        "  USING (table_id) "
        "LEFT JOIN (SELECT table_id, count(*) AS inlined FROM inlined_row "
        "  WHERE end_snapshot IS NULL GROUP BY ALL) USING (table_id) ORDER BY name",
        [_SMALL_FILE_BYTES],
    )
    for table_id, name, files, small, size, small_size, total, deletes, deleted, inlined in rows:
        share = min(1.0, float(deleted) / float(total)) if total else 0.0
        needed = float(size) * (1 - share)
        cost = float(size) + _OPENING_BYTES * (files + deletes)
        column, overlap = overlaps.get(table_id, (None, None))
        yield TableAdvice(
            table=name,
            files=files,
            small_files=small,
            bytes=int(size),
            deleted_share=round(share, 4),
            delete_files=deletes,
            inlined_rows=inlined,
            read_per_needed=round(cost / needed, 2) if needed else 1.0,
            overlap=overlap,
            overlap_column=column,
            actions=tuple(_actions(files, small, int(small_size), share, inlined, overlap, column)),
        )


def _actions(
    files: int,
    small: int,
    small_bytes: int,
    share: float,
    inlined: int,
    overlap: float | None,
    column: str | None,
) -> Iterator[str]:
    if small >= _MANY_SMALL_FILES:
        fewer = max(1, small_bytes // (512 << 20))
        yield f"merge: {small:,} small files become about {fewer:,}, so scans open fewer files"
    if share >= _DELETED_SHARE:
        yield f"rewrite: {share:.0%} of the rows that scans read are deleted"
    if inlined >= _MANY_INLINED_ROWS:
        yield f"flush: {inlined:,} rows are read from the catalog database by each scan"
    if overlap is not None and files >= _MANY_SMALL_FILES and overlap > max(2, files / 4):
        yield (
            f"sort: a lookup by {column} opens {overlap:.0f} of {files} files; sorted by it, "
            "it would open about one"
        )


def _overlaps(copy: CatalogCopy) -> dict[int, tuple[str, float]]:
    """Return for each table the column by whose bounds a lookup opens the fewest files.

    The number is what the planner leaves of the files for the value in the middle of their bounds.
    """
    best: dict[int, tuple[str, float]] = {}
    for type, duckdb_type in copy.rows(
        "SELECT DISTINCT type, duckdb_type FROM leaf WHERE type IN ('int32', 'int64', 'date', "
        "'timestamp', 'timestamptz', 'float64', 'varchar') ORDER BY 1"
    ):
        rows = copy.rows(
            "WITH bounds AS (SELECT f.table_id, l.column_name, "
            f"  TRY_CAST(min_value AS {duckdb_type}) AS low, "
            f"  TRY_CAST(max_value AS {duckdb_type}) AS high "
            "  FROM ducklake_file_column_stats f JOIN leaf l USING (table_id, column_id) "
            "  SEMI JOIN live_file USING (data_file_id) WHERE l.type = ?), "
            "points AS (SELECT table_id, column_name, "
            "  quantile_disc(low, 0.5) AS point FROM bounds WHERE low IS NOT NULL GROUP BY ALL) "
            "SELECT table_id, column_name, count(*) FILTER (point BETWEEN low AND high) "
            "FROM bounds JOIN points USING (table_id, column_name) GROUP BY ALL ORDER BY ALL",
            [type],
        )
        for table_id, name, count in rows:
            if table_id not in best or count < best[table_id][1]:
                best[table_id] = (name, float(count))
    return best

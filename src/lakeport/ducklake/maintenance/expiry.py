"""Expire snapshots: remove them and all that only they need, and schedule their files for deletion.

An expiry makes no snapshot. Rows that no remaining snapshot sees are dead. Of tables that are still
there, older names and columns stay: they describe old files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import numpy as np
import sqlalchemy as sa

from lakeport.ducklake.lake import Lake
from lakeport.ducklake.maintenance.catalog_changes import Age, change_catalog, moment_of
from lakeport.ducklake.maintenance.results import MaintenanceResult
from lakeport.ducklake.metadata.catalog_tables import existing_tables
from lakeport.ducklake.metadata.queries import QueryResult
from lakeport.ducklake.metadata.rows import (
    CatalogRow,
    ColumnMappingRow,
    ColumnRow,
    ColumnTagRow,
    DataFileRow,
    DeleteFileRow,
    FileColumnStatsRow,
    FilePartitionValueRow,
    FileVariantStatsRow,
    InlinedDataTableRow,
    MacroImplRow,
    MacroParameterRow,
    MacroRow,
    MetadataRow,
    NameMappingRow,
    PartitionColumnRow,
    PartitionInfoRow,
    ScheduledFileRow,
    SchemaRow,
    SchemaVersionRow,
    SnapshotChangesRow,
    SnapshotRow,
    SortExpressionRow,
    SortInfoRow,
    TableColumnStatsRow,
    TableRow,
    TableStatsRow,
    TagRow,
    ViewRow,
)
from lakeport.ducklake.metadata.union_query import UnionQuery
from lakeport.ducklake.snapshots import parse_catalog_timestamp
from lakeport.ducklake.writing.database import (
    CatalogWriter,
    Delete,
    DeleteDeadInlinedRows,
    DeleteInlinedDeletes,
    Insert,
    Statement,
)
from lakeport.ducklake.writing.options import Options
from lakeport.errors import InvalidArgumentError, NotFoundError

__all__ = ["expire_snapshots"]

_OF_TABLES: Final[tuple[type[CatalogRow], ...]] = (
    TableRow,
    TableStatsRow,
    TableColumnStatsRow,
    PartitionInfoRow,
    PartitionColumnRow,
    ColumnRow,
    ColumnTagRow,
    SortInfoRow,
    SortExpressionRow,
    SchemaVersionRow,
    InlinedDataTableRow,
    ColumnMappingRow,
)
_OF_FILES: Final[tuple[type[CatalogRow], ...]] = (
    DataFileRow,
    FileColumnStatsRow,
    FileVariantStatsRow,
    FilePartitionValueRow,
)
_EVER: Final = 1 << 62


def expire_snapshots(
    lake: Lake,
    *,
    older_than: Age | None = None,
    versions: Collection[int] | None = None,
    retain_last: int | None = None,
    dry_run: bool = False,
) -> MaintenanceResult:
    """Remove snapshots; see `Lake.expire`."""
    if versions is not None and (older_than is not None or retain_last is not None):
        raise InvalidArgumentError("versions cannot be given together with older_than, retain_last")
    if retain_last is not None and retain_last < 1:
        raise InvalidArgumentError("retain_last must be at least 1: the newest snapshot stays")
    if older_than is None and versions is None and retain_last is None:
        older_than = Options(lake.option_rows()).get("expire_older_than")
        if older_than is None:
            return MaintenanceResult(operation="expire", dry_run=dry_run)
    before = None if older_than is None else moment_of(older_than)

    def work(writer: CatalogWriter) -> MaintenanceResult:
        rows = _read(lake, writer)
        expired = _chosen(rows[SnapshotRow], before, versions, retain_last)
        result = MaintenanceResult(operation="expire", dry_run=dry_run, expired=tuple(expired))
        if not expired:
            return result
        names = sa.select(existing_tables(lake.catalog.database))
        present = {row[0] for row in writer.connection.execute(names)}
        plan = _Expiry(writer, rows, set(expired), present)
        plan.run()
        if not dry_run:
            for statement in plan.statements:
                writer.run(statement)
            writer.commit()
        return MaintenanceResult(
            operation="expire",
            dry_run=dry_run,
            expired=tuple(expired),
            files_replaced=plan.files,
            bytes_replaced=plan.bytes,
        )

    return change_catalog(lake, work)


def _chosen(
    snapshots: Sequence[SnapshotRow],
    before: datetime | None,
    versions: Collection[int] | None,
    retain_last: int | None,
) -> list[int]:
    """Return the snapshots that expire, ascending; the newest one never does."""
    ids = sorted(row.snapshot_id for row in snapshots)
    if versions is not None:
        if unknown := sorted(set(versions) - set(ids)):
            raise NotFoundError(f"there is no snapshot {unknown[0]} to expire")
        return sorted(set(versions) - set(ids[-1:]))
    kept = set(ids[-(retain_last or 1) :])
    return sorted(
        row.snapshot_id
        for row in snapshots
        if row.snapshot_id not in kept
        and (before is None or parse_catalog_timestamp(row.snapshot_time) < before)
    )


def _read(lake: Lake, writer: CatalogWriter) -> QueryResult:
    """Read all snapshots and objects, and the files that have ended, by one query."""
    catalog = lake.catalog

    def build() -> UnionQuery:
        query = UnionQuery()
        for row in (SnapshotRow, SchemaRow, TableRow, InlinedDataTableRow):
            query.add(row, catalog.tables[row])
        for ended in (DataFileRow, DeleteFileRow, ViewRow, TagRow, MacroRow):
            table = catalog.tables[ended]
            query.add(ended, table, table.c.end_snapshot.is_not(None))
        return query

    return catalog.run(writer.connection, "expiry", build)


@dataclass(slots=True)
class _Expiry:
    """Computes the statements of an expiry from the rows that were read."""

    writer: CatalogWriter
    rows: QueryResult
    expired: set[int]
    present: set[str]
    """The tables of the catalog database."""
    statements: list[Statement] = field(default_factory=list)
    files: int = 0
    bytes: int = 0
    tables: dict[int, TableRow] = field(default_factory=dict)
    schemas: dict[int, SchemaRow] = field(default_factory=dict)

    def run(self) -> None:
        """Collect the statements."""
        self.tables = {row.table_id: row for row in self.rows[TableRow]}
        self.schemas = {row.schema_id: row for row in self.rows[SchemaRow]}
        keys = [(id,) for id in sorted(self.expired)]
        for row in (SnapshotRow, SnapshotChangesRow):
            self._delete(row, ("snapshot_id",), keys)
        dead_tables = self._dead_tables()
        self._delete_files(dead_tables)
        self._delete_tables(dead_tables)
        self._delete_objects()
        for inlined in self.rows[InlinedDataTableRow]:
            if inlined.table_id not in dead_tables and inlined.table_name in self.present:
                self.statements.append(DeleteDeadInlinedRows(inlined.table_name))

    def _dead(self, rows: Iterable[Any]) -> list[Any]:
        """Return the rows that have ended and that no remaining snapshot sees."""
        ended = [row for row in rows if row.end_snapshot is not None]
        left = np.array(
            sorted(
                row.snapshot_id
                for row in self.rows[SnapshotRow]
                if row.snapshot_id not in self.expired
            )
        )
        begins = np.array([row.begin_snapshot for row in ended], np.int64)
        ends = np.array([row.end_snapshot for row in ended], np.int64)
        # The newest snapshot stays: a row that begins after all of them is being written.
        first = np.searchsorted(left, begins)
        seen = np.append(left, _EVER)[first]
        return [row for row, is_dead in zip(ended, seen >= ends, strict=True) if is_dead]

    def _dead_tables(self) -> set[int]:
        dead = {(row.table_id, row.begin_snapshot) for row in self._dead(self.rows[TableRow])}
        versions: dict[int, list[bool]] = defaultdict(list)
        for row in self.rows[TableRow]:
            versions[row.table_id].append((row.table_id, row.begin_snapshot) in dead)
        return {id for id, flags in versions.items() if all(flags)}

    def _delete_files(self, dead_tables: set[int]) -> None:
        of_tables = [(id,) for id in sorted(dead_tables)]
        found = [
            *self._dead(self.rows[DataFileRow]),
            *self.writer.select(DataFileRow, ["table_id"], of_tables),
        ]
        data_files = {row.data_file_id: row for row in found}
        of_files = [(id,) for id in sorted(data_files)]
        found = [
            *self._dead(self.rows[DeleteFileRow]),
            *self.writer.select(DeleteFileRow, ["data_file_id"], of_files),
            *self.writer.select(DeleteFileRow, ["table_id"], of_tables),
        ]
        delete_files = {row.delete_file_id: row for row in found}
        for row in _OF_FILES:
            self._delete(row, ("data_file_id",), of_files)
        self._delete(DeleteFileRow, ("delete_file_id",), [(id,) for id in sorted(delete_files)])
        scheduled = [
            *(self._scheduled(id, row) for id, row in data_files.items()),
            *(self._scheduled(id, row) for id, row in delete_files.items()),
        ]
        if scheduled:
            self.statements.append(Insert(tuple(scheduled)))
        self.files = len(scheduled)
        self.bytes = sum(
            row.file_size_bytes or 0 for row in (*data_files.values(), *delete_files.values())
        )
        self._delete_inlined_deletes(data_files.values(), dead_tables)

    def _delete_inlined_deletes(self, files: Iterable[DataFileRow], dead_tables: set[int]) -> None:
        by_table: dict[int, list[int]] = defaultdict(list)
        for row in files:
            by_table[row.table_id].append(row.data_file_id)
        for table_id, ids in by_table.items():
            name = f"ducklake_inlined_delete_{table_id}"
            if table_id not in dead_tables and name in self.present:
                self.statements.append(DeleteInlinedDeletes(table_id, tuple(ids), _EVER))

    def _scheduled(self, id: int, file: DataFileRow | DeleteFileRow) -> ScheduledFileRow:
        """Return the row that schedules a file; its path begins at the lake's data path."""
        table = self.tables[file.table_id]
        schema = self.schemas.get(table.schema_id)
        path, is_relative = file.path, file.path_is_relative is not False
        for owner in (table, schema):
            if is_relative and owner is not None:
                path = (owner.path or "") + path
                is_relative = owner.path_is_relative is not False
        return ScheduledFileRow(
            data_file_id=id,
            path=path,
            path_is_relative=is_relative,
            schedule_start=self.writer.now.strftime("%Y-%m-%d %H:%M:%S.%f+00"),
        )

    def _delete_tables(self, dead: set[int]) -> None:
        keys = [(id,) for id in sorted(dead)]
        mappings = self.writer.select(ColumnMappingRow, ["table_id"], keys)
        self._delete(NameMappingRow, ("mapping_id",), [(row.mapping_id,) for row in mappings])
        for row in _OF_TABLES:
            self._delete(row, ("table_id",), keys)
        options = [("table", id) for id in sorted(dead)]
        self._delete(MetadataRow, ("scope", "scope_id"), options)

    def _delete_objects(self) -> None:
        schemas = [(row.schema_id, row.begin_snapshot) for row in self._dead(self.rows[SchemaRow])]
        self._delete(SchemaRow, ("schema_id", "begin_snapshot"), schemas)
        views = [(row.view_id, row.begin_snapshot) for row in self._dead(self.rows[ViewRow])]
        self._delete(ViewRow, ("view_id", "begin_snapshot"), views)
        tags = [(r.object_id, r.begin_snapshot, r.key) for r in self._dead(self.rows[TagRow])]
        self._delete(TagRow, ("object_id", "begin_snapshot", "key"), tags)
        macros = [(row.macro_id,) for row in self._dead(self.rows[MacroRow])]
        for row in (MacroRow, MacroImplRow, MacroParameterRow):
            self._delete(row, ("macro_id",), macros)

    def _delete(
        self, row: type[CatalogRow], columns: tuple[str, ...], keys: Sequence[tuple[Any, ...]]
    ) -> None:
        if keys:
            self.statements.append(Delete(row, columns, tuple(keys)))

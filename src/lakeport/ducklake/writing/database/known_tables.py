"""Definitions of tables that this process has read, so that an append does not read them again.

Every change of a definition raises the schema version of the lake. A definition is still right if
the snapshot that it was read at exists, and the newest snapshot has the same schema version. The
newest snapshot and the options are read for each transaction, by one small query.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lakeport._cache import LruCache
from lakeport.ducklake.metadata.rows import MetadataRow, SchemaRow, SnapshotRow, TableRow
from lakeport.ducklake.writing.ddl.definitions import TableDefinition, table_definition
from lakeport.ducklake.writing.options import Options
from lakeport.types import fold_name

if TYPE_CHECKING:
    from lakeport.ducklake.lake import Lake, TableLookup
    from lakeport.ducklake.table import LakeTable

__all__ = ["KnownTable", "KnownTables", "TransactionBase", "read_base"]

_MAX_TABLES: Final = 1000


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A table as it was at a snapshot."""

    snapshot: SnapshotRow
    definition: TableDefinition
    table: LakeTable
    data_path: str
    """The directory of the files of the lake."""

    @classmethod
    def from_lookup(cls, lookup: TableLookup) -> KnownTable:
        """Return what a lookup has found."""
        rows = lookup.rows
        table, schema = rows[TableRow][0], rows[SchemaRow][0]
        definition = table_definition(rows, table, schema, lookup.table.snapshot.id)
        data_path = lookup.table.lake.data_root(rows[MetadataRow])
        return cls(rows[SnapshotRow][0], definition, lookup.table, data_path)


@dataclass(frozen=True, slots=True)
class TransactionBase:
    """The snapshot that a transaction reads, and the options of the lake."""

    snapshot: int
    options: Options


class KnownTables:
    """The tables that were used last, by their names. May be used by many threads."""

    def __init__(self) -> None:
        self._tables = LruCache(_MAX_TABLES)

    def get(self, schema: str, name: str) -> KnownTable | None:
        """Return what is known about a table; it may have changed since."""
        found: KnownTable | None = self._tables.get((fold_name(schema), fold_name(name)))
        return found

    def put(self, schema: str, name: str, table: KnownTable) -> None:
        """Keep what was read about a table."""
        self._tables.put((fold_name(schema), fold_name(name)), table)


def read_base(lake: Lake, known: KnownTable) -> TransactionBase | None:
    """Return the newest snapshot if a known table is the same there, else None."""
    catalog, then = lake.catalog, known.snapshot
    rows = catalog.database.read(
        lambda connection: catalog.newest_and(connection, then.snapshot_id), autocommit=True
    )
    snapshots = {row.snapshot_id: row for row in rows[SnapshotRow]}
    # A catalog that was restored from a copy may have another snapshot with this id.
    if snapshots.get(then.snapshot_id) != then:
        return None
    newest = snapshots[max(snapshots)]
    if newest.schema_version != then.schema_version:
        return None
    if lake.data_root(rows[MetadataRow]) != known.data_path:
        return None
    return TransactionBase(newest.snapshot_id, Options(rows[MetadataRow]))

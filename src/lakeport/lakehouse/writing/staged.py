"""What a client sees of a lake while its writes are staged: tables, views and their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from lakeport.catalog import ColumnStats, Endpoint, Partition, ScanOptions, TableSize
from lakeport.ducklake import Schema, Snapshot, View
from lakeport.ducklake.metadata import LakeContents, TableSummary, view_aliases
from lakeport.ducklake.writing import TableDefinition, Transaction, ViewDefinition
from lakeport.ducklake.writing.changes import read_rows
from lakeport.lakehouse.names import ROWID, PublishedNames
from lakeport.lakehouse.resources import LakeResources
from lakeport.lakehouse.table import LakeCatalogTable
from lakeport.lakehouse.writing.changes import is_changed

__all__ = ["StagedTable", "changed_tables", "staged_contents"]

_TOKEN = b"staged"


class StagedTable(LakeCatalogTable):
    """A table with changes that are not committed; only their own transaction reads it."""

    def __init__(
        self,
        access: LakeResources,
        names: PublishedNames,
        summary: TableSummary,
        snapshot: Snapshot,
        *,
        transaction: Transaction,
        direct: bool,
    ) -> None:
        super().__init__(access, names, summary, snapshot, direct=direct)
        self._writer = transaction.writer(summary.id)

    @property
    def is_staged(self) -> bool:
        """Whether the table has changes that are not committed: it has."""
        return True

    def size(self, options: ScanOptions) -> TableSize:
        """Return no estimate: the changes are not counted before they are committed."""
        return TableSize() if options.time_point is None else super().size(options)

    @property
    def offers_statistics(self) -> bool:
        """Whether clients may request statistics: never, while writes are staged."""
        return False

    def column_statistics(self, column: str, duckdb_type: str) -> ColumnStats:  # noqa: ARG002
        """Return nothing: staged rows may be outside of every bound."""
        return ColumnStats()

    def endpoints(self, options: ScanOptions) -> Sequence[Endpoint]:
        """Return one part, which only this server can read."""
        return [Partition(_TOKEN)] if options.time_point is None else super().endpoints(options)

    def open_scan(self, options: ScanOptions) -> tuple[TableSize, pa.RecordBatchReader]:
        """Read the rows as the transaction has left them."""
        if options.time_point is not None:
            return super().open_scan(options)
        wanted = self.arrow_schema(options.columns)
        names = [name for name in wanted.names if name != ROWID]
        row_id = ROWID if ROWID in wanted.names or not names else None
        rows = read_rows(self._writer.rows, names, options.filter, id_column=row_id)
        return TableSize(), rows


def changed_tables(transaction: Transaction) -> Iterator[TableSummary]:
    """Yield the tables that a transaction leaves changed, as it leaves them."""
    for entry in transaction.tables.values():
        if entry.after is not None and is_changed(entry):
            yield _summary(entry.after)


def staged_contents(contents: LakeContents, transaction: Transaction) -> LakeContents:
    """Return the contents of a lake as a transaction leaves them."""
    gone = {id for id, entry in transaction.tables.items() if is_changed(entry)}
    tables = [table for table in contents.tables if table.id not in gone]
    tables += changed_tables(transaction)
    views = [view for view in contents.views if view.id not in transaction.views]
    views += [_view(change.after) for change in transaction.views.values() if change.after]
    schemas = [schema for schema in contents.schemas if schema.id not in transaction.schemas]
    schemas += [
        Schema(id=change.after.id, name=change.after.name, uuid=change.after.uuid)
        for change in transaction.schemas.values()
        if change.after
    ]
    return replace(
        contents,
        schemas=tuple(schemas),
        tables=tuple(sorted(tables, key=lambda table: (table.schema, table.name))),
        views=tuple(sorted(views, key=lambda view: (view.schema, view.name))),
    )


def _summary(table: TableDefinition) -> TableSummary:
    return TableSummary(
        id=table.id,
        uuid=table.uuid,
        schema=table.schema.name,
        name=table.name,
        columns=table.tree,
        comment=table.tags.get("comment"),
    )


def _view(view: ViewDefinition) -> View:
    return View(
        id=view.id,
        schema=view.schema.name,
        name=view.name,
        uuid=view.uuid,
        dialect=view.dialect,
        sql=view.sql,
        column_aliases=view_aliases(view.column_aliases),
        comment=view.tags.get("comment"),
    )

"""A table of a lake as a caller with policies sees it: some rows, some columns, some masked.

The restricted table is a view over the table. `RestrictedScan` reads it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakeport.auth import Restriction
from lakeport.catalog import (
    Endpoint,
    Partition,
    ScanOptions,
    TimePoint,
    current_request,
    note_snapshot,
    project_schema,
)
from lakeport.ducklake import LakeTable
from lakeport.ducklake.metadata import TableSummary
from lakeport.ducklake.views import filtered
from lakeport.errors import UnavailableError
from lakeport.filters import Filter
from lakeport.lakehouse.names import ROWID, PublishedNames
from lakeport.lakehouse.permissions import Permissions
from lakeport.lakehouse.policies.raw_tables import filter_below
from lakeport.lakehouse.policies.restricted_scan import RestrictedScan
from lakeport.lakehouse.policies.restricted_writes import RestrictedWrites
from lakeport.lakehouse.policies.seen_rows import SeenRows
from lakeport.lakehouse.policies.visible import VisibleTable, failure_of, over_table
from lakeport.lakehouse.resources import LakeResources
from lakeport.lakehouse.table import LakeCatalogTable
from lakeport.lakehouse.tickets import DIGEST_BYTES, ScanPartToken

__all__ = ["RestrictedTable"]


class RestrictedTable:
    """One table of a lake, as far as a restriction leaves it.

    It has no statistics and no size, and a scan has one part: all three would depend on rows that
    the caller does not see.
    """

    def __init__(
        self,
        access: LakeResources,
        names: PublishedNames,
        table: LakeCatalogTable,
        restriction: Restriction,
    ) -> None:
        self.name = table.name
        self.comment = table.comment
        self._access = access
        self._names = names
        self._table = table
        self._restriction = restriction
        schema = names.published(table.summary.schema)
        verbs = current_request().restriction
        writes = RestrictedWrites(
            table,
            f"{schema}.{table.name}",
            seen=restriction,
            restriction=lambda verb: verbs(schema, table.name, verb),
            row_ids=self._row_ids,
            seen_with=self._seen_with,
        )
        self.insert = writes.insert
        self.update_rows = writes.update_rows
        self.delete_rows = writes.delete_rows

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the columns that are not hidden."""
        summary = self._table.summary
        permissions = Permissions.of_request(self._access, self._names)
        visible = VisibleTable.of(self._restriction, summary, summary.columns, permissions)
        return project_schema(visible.schema(), columns)

    def schema_at(self, time_point: TimePoint) -> pa.Schema:
        """Return the columns of that time that are not hidden."""
        return self._visible(self._at(time_point), self._restriction).schema()

    def endpoints(self, options: ScanOptions) -> Sequence[Endpoint]:
        """Return one endpoint: how many parts a scan could have depends on all rows."""
        return [Partition(_token(self._at(options.time_point)).to_bytes())]

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        """Run the scan, with columns and the filter pushed into it."""
        if options.partition is None:
            table = self._at(options.time_point)
        else:
            token = ScanPartToken.from_bytes(options.partition)
            note_snapshot(token.snapshot)
            table = self._table.at_snapshot(token.snapshot, self._restriction)
            if token != _token(table):
                raise UnavailableError(
                    f"the table {self.name!r} was replaced while the query was starting; run the "
                    "query again"
                )
        return self._stream(table, self._restriction, options)

    def _row_ids(self, restriction: Restriction) -> pa.ChunkedArray:
        """Return the ids of the rows that a restriction admits now."""
        every = ScanOptions(columns=(ROWID,))
        rows = self._stream(self._table.at(None, self._restriction), restriction, every)
        return rows.read_all().column(ROWID)

    def _seen_with(self, restriction: Restriction) -> SeenRows:
        """Return what a restriction leaves of rows of the table as it is now."""
        summary = self._table.summary
        permissions = Permissions.of_request(self._access, self._names)
        return SeenRows(
            self._access.view_database,
            summary,
            VisibleTable.of(restriction, summary, summary.columns, permissions),
            failure_of(f"{self._names.published(summary.schema)}.{summary.name}"),
        )

    def _stream(
        self, table: LakeTable, restriction: Restriction, options: ScanOptions
    ) -> pa.RecordBatchReader:
        is_staged = self._table.is_staged and options.time_point is None
        summary = self._table.summary if is_staged else _summary(table)
        permissions = Permissions.of_request(self._access, self._names)
        visible = VisibleTable.of(restriction, summary, summary.columns, permissions)
        schema = visible.schema()
        # A batch without columns has no number of rows.
        columns = options.columns or (schema.names[:1] if options.columns == () else None)
        if not schema.names:
            return pa.RecordBatchReader.from_batches(schema, [])
        failure = failure_of(f"{self._names.published(summary.schema)}.{summary.name}")
        wanted = project_schema(schema, columns)
        filter = filter_below(options.filter, visible)
        if is_staged:
            return self._access.view_database.stream(
                over_table(summary, visible),
                lambda _: self._staged_rows,
                schema=wanted,
                filter=filter,
                failure=failure,
            )
        return RestrictedScan(
            access=self._access,
            table=table,
            summary=summary,
            visible=visible,
            schema=wanted,
            filter=filter,
            failure=failure,
        ).to_batches()

    def _staged_rows(self, columns: Sequence[str], filter: Filter) -> pa.RecordBatchReader:
        """Read the rows of a table with changes that are not committed."""
        read = tuple(dict.fromkeys([*columns, *sorted(filter.columns)]))
        rows = self._table.scan(ScanOptions(columns=read, filter=filter))
        return filtered(rows, columns, filter)

    def _visible(self, table: LakeTable, restriction: Restriction) -> VisibleTable:
        permissions = Permissions.of_request(self._access, self._names)
        state = table.planner.state
        return VisibleTable.of(restriction, state, state.columns, permissions)

    def _at(self, time_point: TimePoint | None) -> LakeTable:
        return self._table.at(time_point, self._restriction)


def _summary(table: LakeTable) -> TableSummary:
    state = table.planner.state
    return TableSummary(
        id=table.id,
        uuid=state.uuid,
        schema=state.schema,
        name=state.name,
        columns=tuple(state.columns),
    )


def _token(table: LakeTable) -> ScanPartToken:
    return ScanPartToken(
        snapshot=table.snapshot.id, table=table.id, digest=bytes(DIGEST_BYTES), part=0, parts=1
    )

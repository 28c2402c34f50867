"""A table of a lake as a caller with policies sees it: some rows, some columns, some masked.

The restricted table is a view over the table, which DuckDB computes over the rows that the engine
of the lake reads. Filters of policies are pushed into that scan as far as they can be.
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
    note_snapshot,
    project_schema,
)
from lakeport.ducklake import LakeTable
from lakeport.ducklake.metadata import TableSummary
from lakeport.errors import UnavailableError
from lakeport.lakehouse.names import PublishedNames
from lakeport.lakehouse.permissions import Permissions
from lakeport.lakehouse.policies.raw_tables import open_raw_table, safe_filter
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

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the columns that are not hidden."""
        summary = self._table.summary
        permissions = Permissions.of_request(self._access, self._names)
        visible = VisibleTable.of(self._restriction, summary, summary.columns, permissions)
        return project_schema(visible.schema(), columns)

    def schema_at(self, time_point: TimePoint) -> pa.Schema:
        """Return the columns of that time that are not hidden."""
        return self._visible(self._at(time_point)).schema()

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
        visible = self._visible(table)
        schema = visible.schema()
        # A batch without columns has no number of rows.
        columns = options.columns or (schema.names[:1] if options.columns == () else None)
        if not schema.names:
            return pa.RecordBatchReader.from_batches(schema, [])
        state = table.planner.state
        summary = TableSummary(
            id=table.id,
            uuid=state.uuid,
            schema=state.schema,
            name=state.name,
            columns=tuple(state.columns),
        )
        return self._access.view_database.stream(
            over_table(summary, visible),
            open_raw_table(self._access, table.snapshot.id),
            schema=project_schema(schema, columns),
            filter=safe_filter(options.filter, schema),
            failure=failure_of(f"{self._names.published(state.schema)}.{state.name}"),
        )

    def _visible(self, table: LakeTable) -> VisibleTable:
        permissions = Permissions.of_request(self._access, self._names)
        state = table.planner.state
        return VisibleTable.of(self._restriction, state, state.columns, permissions)

    def _at(self, time_point: TimePoint | None) -> LakeTable:
        return self._table.at(time_point, self._restriction)


def _token(table: LakeTable) -> ScanPartToken:
    return ScanPartToken(
        snapshot=table.snapshot.id, table=table.id, digest=bytes(DIGEST_BYTES), part=0, parts=1
    )

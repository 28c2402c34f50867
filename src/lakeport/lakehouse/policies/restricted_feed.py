"""A change feed of a table as a caller with policies sees it.

A change is there if its row is there for the caller. An update of which the caller sees one side
only is an insert or a delete for that caller, as in a lake that has only these rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakeport.ducklake import ChangeFeed, LakeTable, Scan, View
from lakeport.ducklake.metadata import TableSummary
from lakeport.ducklake.views import ReadTable, filtered
from lakeport.errors import UnsupportedError
from lakeport.filters import Filter
from lakeport.lakehouse.names import ROWID
from lakeport.lakehouse.permissions import Permissions
from lakeport.lakehouse.policies.visible import (
    RawTable,
    VisibleTable,
    failure_of,
    raw_path,
    raw_table,
    view_over,
)
from lakeport.lakehouse.resources import LakeResources
from lakeport.spark import retried_when_lost
from lakeport.types import Column, duckdb_identifier

__all__ = ["RestrictedFeed"]

_SNAPSHOT: Final = Column(id=-2, name="snapshot_id", type="int64")
_ROWID: Final = Column(id=-1, name=ROWID, type="int64")
_CHANGE: Final = Column(id=-3, name="change_type", type="varchar")
_CHANGE_SQL: Final = (
    "CASE WHEN change_type IN ('update_preimage', 'update_postimage') "
    "AND count(*) OVER (PARTITION BY snapshot_id, rowid) = 1 "
    "THEN CASE change_type WHEN 'update_preimage' THEN 'delete' ELSE 'insert' END "
    "ELSE change_type END AS change_type"
)


@dataclass(frozen=True, slots=True)
class RestrictedFeed:
    """The changes of a table that a caller sees."""

    access: LakeResources
    feed: ChangeFeed | Scan
    summary: TableSummary
    visible: VisibleTable
    shown: str
    """The name of the table, for messages."""

    @classmethod
    def of(
        cls,
        access: LakeResources,
        permissions: Permissions,
        table: LakeTable,
        feed: ChangeFeed | Scan,
    ) -> RestrictedFeed | None:
        """Return the feed as the caller sees it; None if the caller sees all of it."""
        state = table.planner.state
        restriction = permissions.restriction(state)
        if restriction is None:
            return None
        shown = f"{permissions.names.published(state.schema)}.{state.name}"
        columns = tuple(state.columns)
        missing = {column.name for column in columns} - set(feed.schema.names)
        if missing or not {"snapshot_id", ROWID} <= set(feed.schema.names):
            raise UnsupportedError(
                f"the changes of {shown} cannot be read with policies: one of its columns has the "
                "name of a column of the feed"
            )
        visible = VisibleTable.of(restriction, state, columns, permissions)
        summary = TableSummary(
            id=state.id, uuid=state.uuid, schema=state.schema, name=state.name, columns=columns
        )
        return cls(access, feed, summary, visible, shown)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the feed that the caller sees."""
        names = {column.name for column in self.visible.columns}
        names |= {"snapshot_id", "change_type"} | ({ROWID} if self.visible.shows_rowid else set())
        fields = [field for field in self.feed.schema if field.name in names]
        return pa.schema([field.with_nullable(nullable=True) for field in fields])

    def to_batches(self) -> pa.RecordBatchReader:
        """Return the changes as they are computed."""
        extra = [_SNAPSHOT, _ROWID, *([_CHANGE] if self._has_kinds else [])]
        raw = raw_table(self.summary, (*extra, *self.summary.columns))
        reads: list[RawTable | View] = [raw, view_over(self.summary, self._select(raw))]
        return self.access.view_database.stream(
            reads,
            lambda _: self._read,
            schema=self.schema,
            filter=Filter.always(),
            failure=failure_of(self.shown),
        )

    @property
    def _has_kinds(self) -> bool:
        return "change_type" in self.feed.schema.names

    def _select(self, raw: RawTable) -> str:
        kinds = [_CHANGE.name] if self._has_kinds else []
        inner = self.visible.select(raw_path(raw), before=[_SNAPSHOT.name, ROWID, *kinds])
        chosen = [
            _CHANGE_SQL if name == _CHANGE.name and self._has_kinds else duckdb_identifier(name)
            for name in self.schema.names
        ]
        return f"SELECT {', '.join(chosen)} FROM ({inner})"  # noqa: S608

    @property
    def _read(self) -> ReadTable:
        def read(columns: Sequence[str], filter: Filter) -> pa.RecordBatchReader:
            with retried_when_lost():
                rows = self.feed.to_batches(engine=self.access.engine)
            return filtered(rows, columns, filter)

        return read

"""What a restriction leaves of rows in memory: those of RETURNING, and those of an UPDATE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lakeport.arrow import combine, relabel, thread_connection
from lakeport.ducklake import View
from lakeport.ducklake.metadata import TableSummary
from lakeport.ducklake.views import ViewDatabase, filtered
from lakeport.filters import Filter
from lakeport.lakehouse.names import ROWID
from lakeport.lakehouse.policies.visible import (
    RawTable,
    VisibleTable,
    raw_path,
    raw_table,
    view_over,
)
from lakeport.types import Column, arrow_schema

__all__ = ["SeenRows"]

_ROWID_COLUMN = Column(id=-1, name=ROWID, type="int64")


@dataclass(frozen=True, slots=True)
class SeenRows:
    """Computes row filter and masks of one table over rows of it."""

    database: ViewDatabase
    summary: TableSummary
    visible: VisibleTable
    failure: str
    """The message of an error of a policy's SQL."""

    def of(self, rows: pa.Table, *, row_id: str | None = None) -> pa.Table:
        """Return the visible columns of the visible rows, in their order, with row ids last.

        Args:
            rows: Rows of the table. Columns that they lack are NULL for filters and masks.
            row_id: The column of the row ids, if there is one.
        """
        extra = () if row_id is None else (_ROWID_COLUMN,)
        raw = raw_table(self.summary, (*self.summary.columns, *extra))
        after = [] if row_id is None else [ROWID]
        select = replace(self.visible, shows_rowid=False).select(raw_path(raw), after=after)
        reads: list[RawTable | View] = [raw, view_over(self.summary, select)]
        whole = self._whole(rows, raw, row_id)

        def read(columns: Sequence[str], filter: Filter) -> pa.RecordBatchReader:
            return filtered(whole.to_reader(), columns, filter)

        with self.database.stream(
            reads,
            lambda _: read,
            schema=arrow_schema((*self.visible.columns, *extra)),
            filter=Filter.always(),
            failure=self.failure,
        ) as seen:
            return seen.read_all()

    def restored(self, rows: pa.RecordBatch, stored: pa.Table, row_id: str) -> pa.RecordBatch:
        """Return changes without masks: a value that is the mask of the stored one is that one.

        A client sends back the columns that it does not change as it has read them.
        """
        masked = [name for name in rows.schema.names if name in self.visible.masked]
        if not masked or not rows.num_rows:
            return rows
        seen = self.of(stored, row_id=row_id)
        known, wanted = seen.column(ROWID).to_numpy(), rows.column(row_id).to_numpy()
        order = np.argsort(known)
        found = np.searchsorted(known[order], wanted).clip(max=max(len(known) - 1, 0))
        is_seen = known[order][found] == wanted if len(known) else np.zeros(len(wanted), np.bool_)
        positions = pa.array(order[found] if len(known) else found, mask=~is_seen)
        arrays = {name: rows.column(name) for name in rows.schema.names}
        for name in masked:
            shown = combine(seen.column(name)).take(positions)
            kept = _equal(arrays[name], shown) & is_seen
            both = pa.concat_arrays([arrays[name], _as(stored.column(name), arrays[name].type)])
            chosen = np.arange(len(kept)) + np.where(kept, len(kept), 0)
            arrays[name] = both.take(pa.array(chosen))
        return pa.RecordBatch.from_arrays(list(arrays.values()), schema=rows.schema)

    def _whole(self, rows: pa.Table, raw: RawTable, row_id: str | None) -> pa.Table:
        """Return rows in all columns of the table."""
        schema = arrow_schema(raw.columns)
        arrays = []
        for field in schema:
            name = row_id if row_id is not None and field.name == ROWID else field.name
            if name in rows.schema.names:
                arrays.append(_as(rows.column(name), field.type))
            else:
                arrays.append(pa.nulls(rows.num_rows, field.type))
        return pa.Table.from_arrays(arrays, schema=schema)


def _as(column: pa.ChunkedArray, type: pa.DataType) -> pa.Array:
    array = combine(column)
    return array if array.type == type else array.cast(type)


def _equal(left: pa.Array, right: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which values are the same, for any type; NULL is the same as NULL."""
    pairs = thread_connection().from_arrow(pa.table({"a": left, "b": right}))
    same = pairs.project("a IS NOT DISTINCT FROM b AS same").to_arrow_table().column(0)
    found: np.ndarray[tuple[int], np.dtype[np.bool_]] = np.asarray(
        relabel(combine(same), pa.bool_()).to_numpy(zero_copy_only=False), np.bool_
    )
    return found

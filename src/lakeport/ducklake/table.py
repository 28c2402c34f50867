"""A table at one snapshot: what it looks like, which files it has, and how to scan it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeport.ducklake.maintenance.methods import TableMaintenance
from lakeport.ducklake.model import (
    DataFile,
    PartitionSpec,
    Snapshot,
    SortField,
    TableState,
    TableStats,
)
from lakeport.ducklake.planning.changes import plan_changes
from lakeport.ducklake.planning.plan import FilterLike, Planner
from lakeport.ducklake.scan import ChangeFeed, Scan
from lakeport.ducklake.snapshots import _lower, _upper
from lakeport.ducklake.writing.table_methods import TableWriting
from lakeport.errors import InvalidArgumentError
from lakeport.types import Column, arrow_schema

if TYPE_CHECKING:
    from lakeport.ducklake.lake import Lake

__all__ = ["TASK_BYTES", "LakeTable"]

TASK_BYTES = 64 * 1024 * 1024


class LakeTable(TableWriting, TableMaintenance):
    """One table of a lake, pinned to a snapshot."""

    def __init__(self, lake: Lake, snapshot: Snapshot, state: TableState) -> None:
        self._lake = lake
        self._state = state
        self.snapshot = snapshot

    def __repr__(self) -> str:
        return f"LakeTable({self.schema_name}.{self.name} at snapshot {self.snapshot.id})"

    @property
    def lake(self) -> Lake:
        """The lake of the table."""
        return self._lake

    @property
    def id(self) -> int:
        """The table's id, which survives renames."""
        return self._state.id

    @property
    def uuid(self) -> str:
        """The table's UUID."""
        return self._state.uuid

    @property
    def name(self) -> str:
        """The table's name."""
        return self._state.name

    @property
    def schema_name(self) -> str:
        """The name of the table's schema."""
        return self._state.schema

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns, in order, with their comments, defaults and nullability."""
        return self._state.columns

    @property
    def schema(self) -> pa.Schema:
        """The columns as an Arrow schema."""
        return arrow_schema(self.columns)

    @property
    def comment(self) -> str | None:
        """The table's comment."""
        return self._state.comment

    @property
    def tags(self) -> Mapping[str, str | None]:
        """All tags of the table."""
        return self._state.tags

    @property
    def path(self) -> str:
        """The directory of the table's files."""
        return self._state.path

    @property
    def partition_spec(self) -> PartitionSpec | None:
        """How new files are partitioned; None if they are not."""
        return self._state.partition_spec

    @property
    def sort_order(self) -> tuple[SortField, ...]:
        """How rows are sorted within new files."""
        return self._state.sort_order

    @property
    def stats(self) -> TableStats | None:
        """The writers' own totals and bounds, of the newest snapshot; None without any row."""
        return self._state.stats

    def column(self, name: str) -> Column:
        """Return a column by its name, in any case."""
        return self.planner.column(name)

    def files(self) -> list[DataFile]:
        """Return the data files of the table at its snapshot, with the deletes that apply."""
        columns = self._lake.catalog.database.read(self.planner.files)
        return columns.data_file_objects(self._state)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: FilterLike = None,
        *,
        task_bytes: int = TASK_BYTES,
        exact: bool = True,
    ) -> Scan:
        """Plan a scan; its `to_batches()`, `to_arrow()`, `to_spark()` … run it.

        Args:
            columns: Names of columns, and of the virtual columns `rowid`, `snapshot_id`, `filename`
                and `file_row_number`; all columns of the table when left out.
            filter: A tree of `lakeport.filters`, or DuckDB SQL.
            task_bytes: Files larger than this are divided into several tasks.
            exact: Return only rows that pass the filter. Otherwise rows that cannot match are left
                out where statistics, partition values or Arrow show it, for a caller that filters
                again.
        """
        plan = self.planner.scan(columns, filter, task_bytes=task_bytes, exact=exact)
        return Scan(plan, self._lake.engine, self.planner)

    def to_spark(
        self,
        spark: object = None,
        *,
        columns: Sequence[str] | None = None,
        filter: FilterLike = None,
    ) -> Any:
        """Return the rows as a DataFrame; files that cannot pass the filter are not in it.

        The same as `scan(columns, filter).to_spark(spark)`.
        """
        return self.scan(columns, filter).to_spark(spark)

    def changes(self, first: int | datetime, last: int | datetime | None = None) -> ChangeFeed:
        """Plan a feed of what happened from one snapshot to another, both included.

        A time stands for the first snapshot at or after it as the lower bound, and for the last one
        at or before it as the upper bound. Without an upper bound: up to the table's snapshot.
        """
        snapshots = self._lake.snapshots()
        start = _lower(snapshots, first)
        end = self.snapshot if last is None else _upper(snapshots, last)
        if start.id > end.id:
            raise InvalidArgumentError(f"snapshot {start.id} is after snapshot {end.id}")
        plan = plan_changes(self._lake.table_by_id(self.id, end.id).planner, start)
        engine = self._lake.engine
        return ChangeFeed(
            plan.first, plan.last, Scan(plan.insertions, engine), Scan(plan.deletions, engine)
        )

    @property
    def planner(self) -> Planner:
        """How scans of the table are planned; for other parts of this package."""
        return Planner(self._lake.catalog, self._lake.storage, self.snapshot, self._state)

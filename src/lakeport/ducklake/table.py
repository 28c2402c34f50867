"""A table at one snapshot: what it looks like, which files it has, and how to scan it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import pyarrow as pa

from lakeport.ducklake.metadata.queries import CatalogReader
from lakeport.ducklake.metadata.table_state import data_files
from lakeport.ducklake.model import (
    DataFile,
    PartitionSpec,
    Snapshot,
    SortField,
    TableState,
    TableStats,
)
from lakeport.ducklake.planning.changes import ChangePlan, plan_changes
from lakeport.ducklake.planning.plan import FilterLike, Planner, ScanPlan
from lakeport.ducklake.snapshots import _lower, _upper
from lakeport.ducklake.storage.filesystems import Storage
from lakeport.errors import InvalidArgumentError
from lakeport.types import Column, arrow_schema

__all__ = ["TASK_BYTES", "LakeTable"]

TASK_BYTES = 64 * 1024 * 1024


class LakeTable:
    """One table of a lake, pinned to a snapshot."""

    def __init__(
        self,
        catalog: CatalogReader,
        storage: Storage,
        snapshot: Snapshot,
        state: TableState,
        *,
        snapshots: Callable[[], list[Snapshot]],
        at: Callable[[Snapshot], LakeTable],
    ) -> None:
        self._catalog = catalog
        self._storage = storage
        self._state = state
        self._snapshots = snapshots
        self._at = at
        self.snapshot = snapshot

    def __repr__(self) -> str:
        return f"LakeTable({self.schema_name}.{self.name} at snapshot {self.snapshot.id})"

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
        """A column by its name, in any case."""
        return self.planner.column(name)

    def files(self) -> list[DataFile]:
        """The data files of the table at its snapshot, with the deletes that apply to them."""
        rows = self._catalog.database.read(
            lambda connection: self.planner.file_rows(connection, ())
        )
        return data_files(self._state, rows)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: FilterLike = None,
        *,
        task_bytes: int = TASK_BYTES,
        exact: bool = True,
    ) -> ScanPlan:
        """Plan a scan.

        Args:
            columns: Names of columns, and of the virtual columns `rowid`, `snapshot_id`, `filename`
                and `file_row_number`; all columns of the table when left out.
            filter: A tree of `lakeport.filters`, or DuckDB SQL.
            task_bytes: Files larger than this are divided into several tasks.
            exact: Give only rows that pass the filter. Otherwise rows that cannot match are left
                out where statistics, partition values or Arrow can tell, for a caller that
                filters again.
        """
        return self.planner.scan(columns, filter, task_bytes=task_bytes, exact=exact)

    def changes(self, first: int | datetime, last: int | datetime | None = None) -> ChangePlan:
        """What happened to the table from one snapshot to another, both included.

        A moment stands for the first snapshot at or after it as the lower bound, and for the last
        one at or before it as the upper bound. Without an upper bound: up to the table's snapshot.
        """
        known = self._snapshots()
        start = _lower(known, first)
        end = self.snapshot if last is None else _upper(known, last)
        if start.id > end.id:
            raise InvalidArgumentError(f"snapshot {start.id} is after snapshot {end.id}")
        return plan_changes(self._at(end).planner, start)

    @property
    def planner(self) -> Planner:
        """How scans of the table are planned; for other parts of this package."""
        return Planner(self._catalog, self._storage, self.snapshot, self._state)

"""A table of a lake as a catalog table: columns, scans in parts, time travel, sizes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import cached_property

import pyarrow as pa

from lakeport.auth import Restriction
from lakeport.catalog import (
    ColumnStats,
    Endpoint,
    Partition,
    ScanNotes,
    ScanOptions,
    TableSize,
    TimePoint,
    current_request,
    note_snapshot,
    project_schema,
)
from lakeport.ducklake import LakeTable, Scan, ScanPlan, Snapshot
from lakeport.ducklake.metadata import TableSummary
from lakeport.ducklake.reading import FileTask, ScanTask
from lakeport.errors import (
    NotFoundError,
    PermissionDeniedError,
    SnapshotNotFoundError,
    UnavailableError,
)
from lakeport.lakehouse import resources
from lakeport.lakehouse.direct_reads import direct_reads
from lakeport.lakehouse.names import ROWID, PublishedNames
from lakeport.lakehouse.permissions import Permissions
from lakeport.lakehouse.resources import LakeResources, snapshot_at
from lakeport.lakehouse.statistics import column_statistics
from lakeport.lakehouse.tickets import ScanPartToken, plan_digest, split_tasks
from lakeport.lakehouse.writing.table_methods import TableWrites
from lakeport.spark import retried_when_lost

__all__ = ["LakeCatalogTable"]


class LakeCatalogTable(TableWrites):
    """One table of a lake, at the snapshot of the request or of a scan's time point."""

    def __init__(
        self,
        access: LakeResources,
        names: PublishedNames,
        summary: TableSummary,
        snapshot: Snapshot,
        *,
        direct: bool,
    ) -> None:
        self._access = access
        self._names = names
        self._summary = summary
        self._snapshot = snapshot
        self._direct = direct

    @property
    def summary(self) -> TableSummary:
        """The table at the snapshot of the request."""
        return self._summary

    @property
    def is_staged(self) -> bool:
        """Whether the table has changes that are not committed."""
        return False

    @property
    def name(self) -> str:
        """The name of the table."""
        return self._summary.name

    @property
    def comment(self) -> str:
        """The comment of the table in the lake."""
        return self._summary.comment or ""

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the columns, then the row id, which tables with direct reads do not have."""
        return project_schema(self._schema, columns)

    @cached_property
    def _schema(self) -> pa.Schema:
        return self._access.published_schema(self._summary.columns, with_rowid=not self._direct)

    def schema_at(self, time_point: TimePoint) -> pa.Schema:
        """Return the columns of the table that had this name at the time point."""
        table = self.at_snapshot(snapshot_at(self._access, time_point).id)
        return self._access.published_schema(table.columns, with_rowid=not self._direct)

    def size(self, options: ScanOptions) -> TableSize:
        """Return the number of live rows and the bytes of files; upper bounds with a filter."""
        if options.partition is not None:
            return _size(self._part(options).plan)
        table = self.at(options.time_point)
        if options.filter:
            return _size(self._plan(table, options))
        return self._access.facts.get_or_load(
            ("size", table.id, table.snapshot.id), lambda: _size(self._plan(table, options))
        )

    @property
    def offers_statistics(self) -> bool:
        """Whether listings offer the statistics: not for a small table."""
        return self._is_large

    @cached_property
    def _is_large(self) -> bool:
        return self._summary.id in self._access.large_tables(self._snapshot)

    def column_statistics(self, column: str, duckdb_type: str) -> ColumnStats:  # noqa: ARG002
        """Return bounds that hold for every snapshot that a query may read."""
        return column_statistics(self._access, self.at_snapshot(self._snapshot.id), column)

    def endpoints(self, options: ScanOptions) -> Sequence[Endpoint]:
        """Plan a scan at one snapshot and return its parts."""
        table = self.at(options.time_point)
        plan, digest = self._current_plan(table, options)
        if self._direct:
            references = direct_reads(self._access, table, plan)
            if references is not None:
                return references
        # Rows that are counted, or carried by the plan, are not worth a second request.
        is_read = any(task.bytes_to_read for task in plan.tasks)
        most = self._access.max_endpoints(plan) if is_read else 1
        parts = len(split_tasks(plan.tasks, most))
        return [
            Partition(
                ScanPartToken(
                    snapshot=table.snapshot.id,
                    table=table.id,
                    digest=digest,
                    part=part,
                    parts=parts,
                ).to_bytes()
            )
            for part in range(parts)
        ]

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        """Run a part of a scan, or all of it, on the engine of the catalog."""
        return self.open_scan(options)[1]

    def open_scan(self, options: ScanOptions) -> tuple[TableSize, pa.RecordBatchReader]:
        """Resolve a part of a scan once; return its size and its rows."""
        if options.partition is None:
            scan = Scan(self._plan(self.at(options.time_point), options), self._access.engine)
        else:
            scan = self._part(options)
        _note_scan(scan)
        with retried_when_lost():
            return _size(scan.plan), _starting_small(scan).to_batches()

    def _part(self, options: ScanOptions) -> Scan:
        """Return the part that a token names; raise if the token is for another table."""
        token = ScanPartToken.from_bytes(options.partition or b"")
        table = self.at_snapshot(token.snapshot)
        bound = (
            self.arrow_schema()
            if options.time_point is None
            else self.schema_at(options.time_point)
        )
        columns = self._access.published_schema(table.columns, with_rowid=not self._direct)
        if table.id != token.table or not columns.equals(bound):
            raise UnavailableError(
                f"the table {self.name!r} was replaced or altered while the query was starting; "
                "run the query again"
            )
        key = (*_key(table, options), token.digest)
        plan: ScanPlan | None = self._access.plans.get(key)
        if plan is None:
            plan = self._plan(table, options)
            if plan_digest(plan) != token.digest:
                raise UnavailableError(
                    f"the files of table {self.name!r} were compacted or flushed while the query "
                    "was starting; run the query again"
                )
            self._access.plans.put(key, plan)
        note_snapshot(token.snapshot)
        parts = split_tasks(plan.tasks, token.parts)
        # The engine is chosen for the whole scan: its parts are read at once.
        scan = Scan(plan, self._access.engine)
        return scan.with_tasks(parts[token.part] if token.part < len(parts) else ())

    def _current_plan(self, table: LakeTable, options: ScanOptions) -> tuple[ScanPlan, bytes]:
        """Return a plan and its digest; that of an identical scan if no commit was made since.

        Compaction and expiry change the files of earlier snapshots, so those are planned again.
        """
        plans = self._access.plans
        latest = _key(table, options)
        if table.snapshot.id == self._access.recent_snapshot(resources.PLAN_SECONDS).id:
            known: bytes | None = plans.get(latest)
            found: ScanPlan | None = plans.get((*latest, known))
            if known is not None and found is not None:
                return found, known
        plan = self._plan(table, options)
        digest = plan_digest(plan)
        plans.put((*latest, digest), plan)
        plans.put(latest, digest)
        return plan, digest

    def _plan(self, table: LakeTable, options: ScanOptions) -> ScanPlan:
        columns = [field.name for field in self._wanted(table, options)]
        return table.scan(columns, options.filter, exact=False).plan

    def _wanted(self, table: LakeTable, options: ScanOptions) -> pa.Schema:
        """Return the columns to read; at least one, unless only the number of rows is read."""
        schema = self._access.published_schema(table.columns, with_rowid=not self._direct)
        if options.rows_only:
            return pa.schema([])
        wanted = project_schema(schema, options.columns)
        if len(wanted) or not len(schema):
            return wanted
        cheapest = ROWID if ROWID in schema.names else schema.names[0]
        return project_schema(schema, [cheapest])

    def at(self, time_point: TimePoint | None, restriction: Restriction | None = None) -> LakeTable:
        """Return the table of this name at a time; `restriction` as for `at_snapshot`."""
        at = self._snapshot if time_point is None else snapshot_at(self._access, time_point)
        note_snapshot(at.id)
        return self.at_snapshot(at.id, restriction)

    def at_snapshot(self, snapshot: int, restriction: Restriction | None = None) -> LakeTable:
        """Return the table of this name at a snapshot; raise if the caller may not read it.

        `restriction` is what the caller of this method applies. Raise if the table that had this
        name then needs another.
        """
        schema, name = self._summary.schema, self._summary.name
        shown = f"{self._names.published(schema)}.{name}"
        try:
            table = self._access.table(schema, name, snapshot)
        except SnapshotNotFoundError:
            raise
        except NotFoundError:
            raise self._access.missing_table(schema, name, snapshot, shown=shown) from None
        # The server has checked the table that has this name at the newest snapshot.
        if table.id != self._summary.id or current_request().transaction_id is not None:
            permissions = Permissions.of_request(self._access, self._names)
            state = table.planner.state
            permissions.require_reading([state], denied=f"you may not read {shown}")
            if permissions.restriction(state) != restriction:
                raise PermissionDeniedError(f"you may not read {shown} of this snapshot")
        return table


def _key(table: LakeTable, options: ScanOptions) -> tuple[Hashable, ...]:
    columns = () if options.rows_only else options.columns
    return (table.id, table.snapshot.id, columns, repr(options.filter))


def _note_scan(scan: Scan) -> None:
    """Record what a scan reads and leaves out, for the list of queries."""
    plan = scan.plan
    current_request().notes.scan = ScanNotes(
        engine=scan.runs_on.name,
        files=plan.pruning.files,
        files_pruned_by_partition=plan.pruning.by_partition,
        files_pruned_by_statistics=plan.pruning.by_statistics,
        tasks=len(plan.tasks),
        bytes_to_read=plan.estimated_bytes,
    )


def _starting_small(scan: Scan) -> Scan:
    """Return the scan with small first batches: the client may cancel it after some rows."""
    engine = scan.runs_on
    if engine.name != "local":
        return scan
    # The tasks that threads begin with.
    first, rest = scan.plan.tasks[: engine.parallelism], scan.plan.tasks[engine.parallelism :]
    small = [
        replace(task, starts_small=True) if isinstance(task, FileTask) else task for task in first
    ]
    return scan.with_tasks((*small, *rest))


def _size(plan: ScanPlan) -> TableSize:
    return TableSize(rows=sum(_rows(task) for task in plan.tasks), bytes=plan.estimated_bytes)


def _rows(task: ScanTask) -> int:
    """Estimate the rows of a task; a range of a file has its share of the deletes."""
    if not isinstance(task, FileTask) or not task.file.record_count:
        return task.estimated_rows
    deleted = sum(delete.delete_count or 0 for delete in task.file.deletes)
    deleted += len(task.inlined_deletes) // 8
    share = task.estimated_rows * deleted // task.file.record_count
    return max(0, task.estimated_rows - share)

"""The methods of `Lake` and `LakeTable` that maintain them. Each commits on its own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from lakeport.ducklake.engine import Engine
    from lakeport.ducklake.lake import Lake
    from lakeport.ducklake.maintenance.catalog_changes import Age
    from lakeport.ducklake.maintenance.compaction import Curve, RowOrder
    from lakeport.ducklake.maintenance.policy import MaintenancePolicy
    from lakeport.ducklake.maintenance.results import (
        Cancel,
        MaintenanceResult,
        Operation,
        ProgressCallback,
    )
    from lakeport.ducklake.planning.plan import FilterLike
    from lakeport.ducklake.table import LakeTable

__all__ = ["LakeMaintenance", "TableMaintenance"]


class LakeMaintenance:
    """What a lake can be asked to keep in order."""

    def maintain(
        self,
        policy: MaintenancePolicy | None = None,
        *,
        operations: Collection[Operation] | None = None,
        dry_run: bool = False,
        engine: Engine | str | None = None,
        progress: ProgressCallback | None = None,
        cancel: Cancel | None = None,
    ) -> list[MaintenanceResult]:
        """Do all maintenance whose thresholds are reached; return what was done.

        Tables with the option `auto_compact` set to false are left out. Another process that
        maintains the same lake makes this one return without a result.

        Args:
            policy: The thresholds; see `MaintenancePolicy`.
            operations: Only these of `flush`, `merge`, `rewrite`, `expire`, `clean_up` and
                `remove_orphans`.
            dry_run: Change nothing; return what would be done.
            engine: Where files are compacted; by default where the lake's scans run.
            progress: Called with a `Progress` after each commit.
            cancel: Returns whether to end; what is finished is kept.
        """
        from lakeport.ducklake.maintenance.policy import maintain_lake

        return maintain_lake(
            _lake(self),
            policy,
            operations=operations,
            dry_run=dry_run,
            engine=engine,
            progress=progress,
            cancel=cancel,
        )

    def flush(self, *, dry_run: bool = False) -> list[MaintenanceResult]:
        """Write the inlined rows and deletes of all tables to files; see `LakeTable.flush`."""
        from lakeport.ducklake.maintenance.policy import MaintenancePolicy, maintain_lake

        policy = MaintenancePolicy(flush_rows=1)
        return maintain_lake(_lake(self), policy, operations=["flush"], dry_run=dry_run)

    def expire(
        self,
        *,
        older_than: Age | None = None,
        versions: Collection[int] | None = None,
        retain_last: int | None = None,
        dry_run: bool = False,
    ) -> MaintenanceResult:
        """Remove snapshots, and schedule the files that only they need for deletion.

        The newest snapshot always stays. Without an argument, the option `expire_older_than` of the
        lake decides; without that, nothing happens.

        Args:
            older_than: A time, or an age such as `timedelta(days=7)` or `7 days`.
            versions: The snapshots to remove.
            retain_last: How many of the newest snapshots stay, whatever their age is.
            dry_run: Change nothing; return what would be removed.
        """
        from lakeport.ducklake.maintenance.expiry import expire_snapshots

        return expire_snapshots(
            _lake(self),
            older_than=older_than,
            versions=versions,
            retain_last=retain_last,
            dry_run=dry_run,
        )

    def clean_up(
        self, *, older_than: Age | None = None, everything: bool = False, dry_run: bool = False
    ) -> MaintenanceResult:
        """Delete the files that were scheduled for deletion by merges, flushes and expiries.

        Readers that began before the file was scheduled may still need it. So files stay for the
        time in the option `delete_older_than` of the lake, two days if it is not set.

        Args:
            older_than: Another time for files to stay.
            everything: Delete all scheduled files now: no reader may be running.
            dry_run: Delete nothing; return what would be deleted.
        """
        from lakeport.ducklake.maintenance.cleanup import delete_scheduled

        return delete_scheduled(
            _lake(self), older_than=older_than, everything=everything, dry_run=dry_run
        )

    def remove_orphans(
        self,
        *,
        older_than: Age = timedelta(days=1),
        force: bool = False,
        dry_run: bool = False,
    ) -> MaintenanceResult:
        """Delete files in the folders of tables that the catalog does not know.

        Such files remain when a process is killed while it writes. Only files with names that
        DuckLake gives are deleted.

        Args:
            older_than: Younger files stay; at least a day, because writes may be running.
            force: Allow a shorter time, and delete files in folders of no table, too. Another lake
                with the same data path would lose its files.
            dry_run: Delete nothing; return what would be deleted.
        """
        from lakeport.ducklake.maintenance.cleanup import delete_orphans

        return delete_orphans(_lake(self), older_than=older_than, force=force, dry_run=dry_run)


class TableMaintenance:
    """What a table can be asked to keep in order."""

    def merge_files(
        self,
        *,
        where: FilterLike = None,
        target_file_size: int | None = None,
        max_file_size: int | None = None,
        min_file_size: int = 0,
        max_bytes_in_flight: int | None = None,
        dry_run: bool = False,
        engine: Engine | str | None = None,
        progress: ProgressCallback | None = None,
        cancel: Cancel | None = None,
    ) -> MaintenanceResult:
        """Merge small files; every snapshot, row id and change feed stays the same.

        Files with deletes are left out: rewrite them. Rows of a sorted table are sorted again.

        Args:
            where: Merge only files that may have rows which pass this filter.
            target_file_size: The bytes of a merged file; by default the table's option.
            max_file_size: Files of this size or more stay as they are.
            min_file_size: Smaller files stay as they are.
            max_bytes_in_flight: The bytes of files that are read at the same time, at most.
            dry_run: Change nothing; return what would be done.
            engine: Where the groups of files are merged: `local`, `spark`, or an engine.
            progress: Called with a `Progress` after each commit.
            cancel: Returns whether to end; groups that are finished are kept.
        """
        from lakeport.ducklake.engine import resolve_engine
        from lakeport.ducklake.maintenance.compaction import (
            MAX_BYTES_IN_FLIGHT,
            CompactionOptions,
            compact,
        )

        table = _table(self)
        options = CompactionOptions(
            where=where,
            target_bytes=target_file_size,
            max_file_bytes=max_file_size,
            min_file_bytes=min_file_size,
            max_bytes_in_flight=max_bytes_in_flight or MAX_BYTES_IN_FLIGHT,
            dry_run=dry_run,
            progress=progress or (lambda _: None),
            is_cancelled=cancel or (lambda: False),
        )
        chosen = resolve_engine(engine, table.lake.engine)
        return compact(table.lake, table.name, table.schema_name, "merge_adjacent", options, chosen)

    def rewrite_files(
        self,
        *,
        threshold: float | None = None,
        where: FilterLike = None,
        sort_by: Sequence[str] = (),
        cluster_by: Sequence[str] = (),
        curve: Curve = "hilbert",
        target_file_size: int | None = None,
        max_bytes_in_flight: int | None = None,
        dry_run: bool = False,
        engine: Engine | str | None = None,
        progress: ProgressCallback | None = None,
        cancel: Cancel | None = None,
    ) -> MaintenanceResult:
        """Write files without their deleted rows, which keep their row ids; optionally ordered.

        Older snapshots still read the old files, until they are expired.

        Args:
            threshold: The share of deleted rows from which a file is rewritten; by default the
                table's option, or 0.95. With an order, all files are rewritten unless it is given.
            where: Rewrite only files that may have rows which pass this filter.
            sort_by: Sort by these keys, such as `day DESC`, instead of the table's sort order.
            cluster_by: Order rows along a curve through these columns, so that filters on any of
                them skip files and row groups.
            curve: `hilbert` or `z_order`.
            target_file_size: The bytes of a new file; by default the table's option.
            max_bytes_in_flight: The bytes of files that are read at the same time, at most.
            dry_run: Change nothing; return what would be done.
            engine: Where the groups of files are rewritten: `local`, `spark`, or an engine.
            progress: Called with a `Progress` after each commit.
            cancel: Returns whether to end; groups that are finished are kept.
        """
        from lakeport.ducklake.engine import resolve_engine
        from lakeport.ducklake.maintenance.compaction import (
            MAX_BYTES_IN_FLIGHT,
            CompactionOptions,
            compact,
        )

        table = _table(self)
        order = _row_order(table, sort_by, cluster_by, curve)
        options = CompactionOptions(
            where=where,
            target_bytes=target_file_size,
            threshold=0.0 if threshold is None and order is not None else threshold,
            order=order,
            max_bytes_in_flight=max_bytes_in_flight or MAX_BYTES_IN_FLIGHT,
            dry_run=dry_run,
            min_files=1,
            progress=progress or (lambda _: None),
            is_cancelled=cancel or (lambda: False),
        )
        chosen = resolve_engine(engine, table.lake.engine)
        return compact(table.lake, table.name, table.schema_name, "rewrite_delete", options, chosen)

    def flush(self, *, dry_run: bool = False) -> MaintenanceResult:
        """Write inlined rows and inlined deletes to files; every snapshot stays the same."""
        from lakeport.ducklake.maintenance.flush import flush_table

        table = _table(self)
        return flush_table(table.lake, table.name, table.schema_name, dry_run=dry_run)


def _row_order(
    table: LakeTable, sort_by: Sequence[str], cluster_by: Sequence[str], curve: Curve
) -> RowOrder | None:
    from lakeport.ducklake.maintenance.compaction import RowOrder
    from lakeport.ducklake.model import SortField
    from lakeport.ducklake.writing.ddl.specs import sort_keys
    from lakeport.errors import InvalidArgumentError

    if sort_by and cluster_by:
        raise InvalidArgumentError("give sort_by or cluster_by, not both")
    if cluster_by:
        columns = tuple(table.column(name).name for name in cluster_by)
        return RowOrder(curve=curve, columns=columns)
    if not sort_by:
        return None
    keys = tuple(
        SortField(
            expression=key.expression,
            dialect=key.dialect,
            descending=key.direction == "DESC",
            nulls_first=key.null_order == "NULLS_FIRST",
        )
        for key in sort_keys(sort_by, table.columns)
    )
    return RowOrder(keys=keys)


def _lake(methods: LakeMaintenance) -> Lake:
    """Return the lake itself: only `Lake` has these methods."""
    return cast("Lake", methods)


def _table(methods: TableMaintenance) -> LakeTable:
    """Return the table itself: only `LakeTable` has these methods."""
    return cast("LakeTable", methods)

"""Maintain a lake by thresholds: do what is worth its cost, and leave the rest."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from lakeport.ducklake.engine import Engine, resolve_engine
from lakeport.ducklake.lake import Lake
from lakeport.ducklake.maintenance.catalog_changes import Age
from lakeport.ducklake.maintenance.cleanup import delete_orphans, delete_scheduled
from lakeport.ducklake.maintenance.compaction import (
    MAX_BYTES_IN_FLIGHT,
    CompactionOptions,
    compact,
)
from lakeport.ducklake.maintenance.expiry import expire_snapshots
from lakeport.ducklake.maintenance.flush import flush_table
from lakeport.ducklake.maintenance.lease import maintenance_lease
from lakeport.ducklake.maintenance.log import write_log
from lakeport.ducklake.maintenance.results import (
    Cancel,
    MaintenanceResult,
    Operation,
    ProgressCallback,
)
from lakeport.ducklake.writing.options import Options
from lakeport.errors import CancelledError, InvalidArgumentError, LakeportError

__all__ = ["OPERATIONS", "MaintenancePolicy", "maintain_lake"]

_log = logging.getLogger("lakeport.ducklake.maintenance")

OPERATIONS: Final[tuple[Operation, ...]] = (
    "flush",
    "expire",
    "merge",
    "rewrite",
    "clean_up",
    "remove_orphans",
)
"""All operations, in the order in which one makes work for the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePolicy:
    """When maintenance is worth its cost."""

    flush_rows: int = 1000
    """Flush a table with at least so many inlined rows and deletes."""
    merge_files: int = 8
    """Merge files of a table if at least so many small ones can be merged."""
    rewrite_threshold: float | None = None
    """Rewrite files of which this share of rows is deleted; by default the table's option."""
    target_file_size: int | None = None
    """The bytes of new files; by default the table's option."""
    max_bytes_in_flight: int = MAX_BYTES_IN_FLIGHT
    expire_older_than: Age | None = None
    """Expire older snapshots; by default the lake's option, or never."""
    retain_last: int | None = None
    """How many of the newest snapshots stay, whatever their age is."""
    delete_older_than: Age | None = None
    """How long files stay after no snapshot needs them; by default the lake's option, or 2 days."""
    orphans_older_than: Age | None = None
    """Remove orphans of this age; by default never."""
    tables: Mapping[str, MaintenancePolicy] = field(default_factory=dict)
    """Other thresholds for some tables, by `schema.name`."""


def maintain_lake(
    lake: Lake,
    policy: MaintenancePolicy | None = None,
    *,
    operations: Collection[Operation] | None = None,
    dry_run: bool = False,
    engine: Engine | str | None = None,
    progress: ProgressCallback | None = None,
    cancel: Cancel | None = None,
) -> list[MaintenanceResult]:
    """Do the maintenance whose thresholds are reached; see `Lake.maintain`."""
    wanted = OPERATIONS if operations is None else tuple(operations)
    if unknown := [name for name in wanted if name not in OPERATIONS]:
        known = ", ".join(OPERATIONS)
        raise InvalidArgumentError(f"there is no maintenance {unknown[0]!r}; there are {known}")
    work = _Maintenance(
        lake,
        policy or MaintenancePolicy(),
        dry_run,
        resolve_engine(engine, lake.engine),
        progress or (lambda _: None),
        cancel or (lambda: False),
    )
    if dry_run:
        return work.run(wanted)
    with maintenance_lease(lake) as is_held:
        if not is_held:
            _log.info("another process maintains %s", lake.catalog.database.location)
            return []
        try:
            return work.run(wanted)
        finally:
            write_log(lake, work.results)


@dataclass(slots=True)
class _Maintenance:
    lake: Lake
    policy: MaintenancePolicy
    dry_run: bool
    engine: Engine
    progress: ProgressCallback
    cancel: Cancel
    results: list[MaintenanceResult] = field(default_factory=list)

    def run(self, wanted: Collection[Operation]) -> list[MaintenanceResult]:
        """Run the operations in their order; return those that had something to do."""
        tables = self._tables()
        for operation in (name for name in OPERATIONS if name in wanted):
            if operation in ("flush", "merge", "rewrite"):
                for schema, name in tables:
                    self._guarded(
                        operation, f"{schema}.{name}", self._on_table(operation, schema, name)
                    )
            else:
                self._guarded(operation, None, self._on_lake(operation))
        return self.results

    def _tables(self) -> list[tuple[str, str]]:
        """Return the tables whose options allow their maintenance."""
        options = Options(self.lake.option_rows())
        contents = self.lake.contents()
        schemas = {schema.name: schema.id for schema in contents.schemas}
        found = []
        for table in contents.tables:
            text = options.get(
                "auto_compact", schema_id=schemas.get(table.schema), table_id=table.id
            )
            if (text or "true").lower() not in ("false", "0"):
                found.append((table.schema, table.name))
        return found

    def _guarded(
        self, operation: Operation, table: str | None, work: Callable[[], MaintenanceResult]
    ) -> None:
        """Run one operation; an error of it does not prevent the others."""
        if self.cancel():
            raise CancelledError("the maintenance was cancelled")
        try:
            result = work()
        except CancelledError:
            raise
        except LakeportError as error:
            _log.warning("%s of %s failed: %s", operation, table or "the lake", error)
            result = MaintenanceResult(
                operation=operation, table=table, dry_run=self.dry_run, skipped=(str(error),)
            )
        if not result.is_empty or result.skipped:
            self.results.append(result)

    def _on_table(
        self, operation: Operation, schema: str, name: str
    ) -> Callable[[], MaintenanceResult]:
        policy = self.policy.tables.get(f"{schema}.{name}", self.policy)
        if operation == "flush":
            return lambda: flush_table(
                self.lake, name, schema, dry_run=self.dry_run, min_rows=policy.flush_rows
            )
        options = CompactionOptions(
            target_bytes=policy.target_file_size,
            threshold=policy.rewrite_threshold,
            max_bytes_in_flight=policy.max_bytes_in_flight,
            dry_run=self.dry_run,
            min_files=policy.merge_files,
            progress=self.progress,
            is_cancelled=self.cancel,
        )
        if operation == "merge":
            return lambda: compact(self.lake, name, schema, "merge_adjacent", options, self.engine)
        alone = replace(options, min_files=1)
        return lambda: compact(self.lake, name, schema, "rewrite_delete", alone, self.engine)

    def _on_lake(self, operation: Operation) -> Callable[[], MaintenanceResult]:
        policy, lake, dry_run = self.policy, self.lake, self.dry_run
        if operation == "expire":
            # With a number of snapshots alone, their age would not count.
            older_than = policy.expire_older_than
            if older_than is None:
                older_than = Options(lake.option_rows()).get("expire_older_than")
            if older_than is None:
                return lambda: MaintenanceResult(operation="expire")
            return lambda: expire_snapshots(
                lake, older_than=older_than, retain_last=policy.retain_last, dry_run=dry_run
            )
        if operation == "clean_up":
            return lambda: delete_scheduled(
                lake,
                older_than=policy.delete_older_than,
                dry_run=dry_run,
                is_cancelled=self.cancel,
            )
        age = policy.orphans_older_than
        if age is None:
            return lambda: MaintenanceResult(operation="remove_orphans")
        return lambda: delete_orphans(
            lake, older_than=age, dry_run=dry_run, is_cancelled=self.cancel
        )

"""The checks that need only the catalog and the storage, in the order in which they run."""

from __future__ import annotations

from typing import Final

from lakeport.ducklake.maintenance.doctor.checks import (
    deletes,
    files,
    indexes,
    snapshots,
    statistics,
    structure,
)
from lakeport.ducklake.maintenance.doctor.examination import Check

__all__ = ["CHECKS"]

CHECKS: Final[tuple[Check, ...]] = (
    structure.dangling_rows,
    structure.impossible_lifetimes,
    structure.zombies,
    structure.tags_of_dropped_columns,
    structure.same_names,
    structure.missing_schema_versions,
    structure.inlined_tables,
    structure.partition_values,
    snapshots.snapshots_out_of_order,
    snapshots.expired_snapshots,
    snapshots.counters_too_low,
    snapshots.unknown_options,
    snapshots.scopes_of_options,
    snapshots.secrets_in_options,
    snapshots.data_path_problems,
    statistics.totals_of_tables,
    statistics.unreadable_bounds,
    statistics.bounds_of_tables,
    deletes.several_delete_files,
    deletes.deletes_in_two_places,
    deletes.deletes_of_missing_files,
    deletes.files_without_rows,
    deletes.wrong_delete_files,
    files.files_in_storage,
    files.scheduled_files,
    indexes.missing_indexes,
)

from .catalog_changes import Age
from .cleanup import delete_orphans, delete_scheduled
from .compaction import RowOrder, compact
from .expiry import expire_snapshots
from .inspection import LakeReport, SizeReport, TableReport, inspect_lake, inspect_table
from .known_files import are_free_files
from .lease import maintenance_lease
from .log import LogEntry, read_log
from .policy import OPERATIONS, MaintenancePolicy, maintain_lake
from .results import Cancel, MaintenanceResult, Operation, Progress, ProgressCallback
from .schedule import MaintenanceSchedule

__all__ = [
    "OPERATIONS",
    "Age",
    "Cancel",
    "LakeReport",
    "LogEntry",
    "MaintenancePolicy",
    "MaintenanceResult",
    "MaintenanceSchedule",
    "Operation",
    "Progress",
    "ProgressCallback",
    "RowOrder",
    "SizeReport",
    "TableReport",
    "are_free_files",
    "compact",
    "delete_orphans",
    "delete_scheduled",
    "expire_snapshots",
    "inspect_lake",
    "inspect_table",
    "maintain_lake",
    "maintenance_lease",
    "read_log",
]

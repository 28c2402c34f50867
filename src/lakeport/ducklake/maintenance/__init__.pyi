from .catalog_changes import Age
from .compaction import RowOrder, compact
from .inspection import LakeReport, SizeReport, TableReport, inspect_lake, inspect_table
from .lease import maintenance_lease
from .policy import OPERATIONS, MaintenancePolicy, maintain_lake
from .results import Cancel, MaintenanceResult, Operation, Progress, ProgressCallback

__all__ = [
    "OPERATIONS",
    "Age",
    "Cancel",
    "LakeReport",
    "MaintenancePolicy",
    "MaintenanceResult",
    "Operation",
    "Progress",
    "ProgressCallback",
    "RowOrder",
    "SizeReport",
    "TableReport",
    "compact",
    "inspect_lake",
    "inspect_table",
    "maintain_lake",
    "maintenance_lease",
]

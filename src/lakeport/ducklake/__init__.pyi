from .cache import SnapshotCache
from .changes import ChangeFeed
from .contents import Contents, FileTotals, TableSummary
from .filesystems import S3Secret, Storage
from .lake import Lake
from .model import (
    Column,
    ColumnStats,
    DataFile,
    DeleteFile,
    PartitionField,
    PartitionSpec,
    Schema,
    Snapshot,
    SortField,
    TableStats,
    View,
)
from .plan import ScanPlan, ScanTask
from .table import LakeTable
from .types import arrow_schema, arrow_type, spark_type

__all__ = [
    "ChangeFeed",
    "Column",
    "ColumnStats",
    "Contents",
    "DataFile",
    "DeleteFile",
    "FileTotals",
    "Lake",
    "LakeTable",
    "PartitionField",
    "PartitionSpec",
    "S3Secret",
    "ScanPlan",
    "ScanTask",
    "Schema",
    "Snapshot",
    "SnapshotCache",
    "SortField",
    "Storage",
    "TableStats",
    "TableSummary",
    "View",
    "arrow_schema",
    "arrow_type",
    "spark_type",
]

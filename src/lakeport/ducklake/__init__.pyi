from lakeport._cache import LruCache
from lakeport.types.columns import Column, arrow_schema, arrow_type, spark_type

from .lake import Lake
from .metadata.contents import FileTotals, LakeContents, TableSummary
from .model import (
    ColumnStats,
    DataFile,
    DeleteFile,
    NameMapping,
    PartitionField,
    PartitionSpec,
    Schema,
    Snapshot,
    SortField,
    TableStats,
    View,
)
from .planning.changes import ChangePlan
from .planning.plan import ScanPlan
from .reading.tasks import ScanTask
from .storage.filesystems import S3Secret, Storage
from .table import TASK_BYTES, LakeTable

__all__ = [
    "TASK_BYTES",
    "ChangePlan",
    "Column",
    "ColumnStats",
    "DataFile",
    "DeleteFile",
    "FileTotals",
    "Lake",
    "LakeContents",
    "LakeTable",
    "LruCache",
    "NameMapping",
    "PartitionField",
    "PartitionSpec",
    "S3Secret",
    "ScanPlan",
    "ScanTask",
    "Schema",
    "Snapshot",
    "SortField",
    "Storage",
    "TableStats",
    "TableSummary",
    "View",
    "arrow_schema",
    "arrow_type",
    "spark_type",
]

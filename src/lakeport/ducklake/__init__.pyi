from lakeport._cache import LruCache
from lakeport.types.columns import Column, arrow_schema, arrow_type, spark_type

from .engine import (
    FILE_OPEN_COST_BYTES,
    SMALL_SCAN_BYTES,
    AutoEngine,
    Engine,
    LocalEngine,
    ReadTask,
    RunTask,
    engine_named,
    make_engine,
)
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
from .scan import ChangeFeed, Scan
from .snapshots import parse_user_timestamp
from .storage.filesystems import S3Secret, Storage
from .table import TASK_BYTES, LakeTable

__all__ = [
    "FILE_OPEN_COST_BYTES",
    "SMALL_SCAN_BYTES",
    "TASK_BYTES",
    "AutoEngine",
    "ChangeFeed",
    "ChangePlan",
    "Column",
    "ColumnStats",
    "DataFile",
    "DeleteFile",
    "Engine",
    "FileTotals",
    "Lake",
    "LakeContents",
    "LakeTable",
    "LocalEngine",
    "LruCache",
    "NameMapping",
    "PartitionField",
    "PartitionSpec",
    "ReadTask",
    "RunTask",
    "S3Secret",
    "Scan",
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
    "engine_named",
    "make_engine",
    "parse_user_timestamp",
    "spark_type",
]

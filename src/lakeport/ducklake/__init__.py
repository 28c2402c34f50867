"""DuckLake, the format: from a catalog database to a scan plan. No Spark and no Flight in here."""

from lakeport.ducklake.cache import SnapshotCache
from lakeport.ducklake.changes import ChangeFeed
from lakeport.ducklake.contents import Contents, FileTotals, TableSummary
from lakeport.ducklake.filesystems import S3Secret, Storage
from lakeport.ducklake.lake import Lake
from lakeport.ducklake.model import (
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
from lakeport.ducklake.plan import ScanPlan, ScanTask
from lakeport.ducklake.table import LakeTable
from lakeport.ducklake.types import arrow_schema, arrow_type, spark_type

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

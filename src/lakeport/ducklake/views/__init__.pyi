from .database import VIEW_MEMORY_BYTES, ViewDatabase
from .dataset import ReadTable, TableDataset, filtered
from .references import (
    CATALOG,
    DEFAULT_SCHEMA,
    TableKey,
    check_view_text,
    reads_of,
    referenced_tables,
    table_key,
    used_macros,
)
from .schemas import ViewSchemas
from .task import PlannedTable, ViewTask

__all__ = [
    "CATALOG",
    "DEFAULT_SCHEMA",
    "VIEW_MEMORY_BYTES",
    "PlannedTable",
    "ReadTable",
    "TableDataset",
    "TableKey",
    "ViewDatabase",
    "ViewSchemas",
    "ViewTask",
    "check_view_text",
    "filtered",
    "reads_of",
    "referenced_tables",
    "table_key",
    "used_macros",
]

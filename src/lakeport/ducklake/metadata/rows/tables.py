"""The list of all catalog tables."""

from __future__ import annotations

from typing import Final

from lakeport.ducklake.metadata.rows.description import CatalogRow
from lakeport.ducklake.metadata.rows.files import (
    ColumnMappingRow,
    DataFileRow,
    DeleteFileRow,
    FileColumnStatsRow,
    FilePartitionValueRow,
    FileVariantStatsRow,
    InlinedDataTableRow,
    NameMappingRow,
    ScheduledFileRow,
    TableColumnStatsRow,
    TableStatsRow,
)
from lakeport.ducklake.metadata.rows.objects import (
    ColumnRow,
    ColumnTagRow,
    MacroImplRow,
    MacroParameterRow,
    MacroRow,
    MetadataRow,
    PartitionColumnRow,
    PartitionInfoRow,
    SchemaRow,
    SchemaVersionRow,
    SnapshotChangesRow,
    SnapshotRow,
    SortExpressionRow,
    SortInfoRow,
    TableRow,
    TagRow,
    ViewColumnTagRow,
    ViewRow,
)

__all__ = ["CATALOG_ROWS"]

CATALOG_ROWS: Final[tuple[type[CatalogRow], ...]] = (
    MetadataRow,
    SnapshotRow,
    SnapshotChangesRow,
    SchemaVersionRow,
    SchemaRow,
    TableRow,
    ViewRow,
    ColumnRow,
    TagRow,
    ColumnTagRow,
    ViewColumnTagRow,
    DataFileRow,
    DeleteFileRow,
    FileColumnStatsRow,
    FilePartitionValueRow,
    TableStatsRow,
    TableColumnStatsRow,
    ColumnMappingRow,
    NameMappingRow,
    PartitionInfoRow,
    PartitionColumnRow,
    SortInfoRow,
    SortExpressionRow,
    InlinedDataTableRow,
    FileVariantStatsRow,
    ScheduledFileRow,
    MacroRow,
    MacroImplRow,
    MacroParameterRow,
)

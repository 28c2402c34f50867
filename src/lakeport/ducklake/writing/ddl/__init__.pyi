from .definitions import (
    MacroDefinition,
    MacroImplementation,
    MacroParameter,
    PartitionKey,
    SchemaDefinition,
    SortKey,
    TableDefinition,
    ViewDefinition,
)
from .types import column_of

__all__ = [
    "MacroDefinition",
    "MacroImplementation",
    "MacroParameter",
    "PartitionKey",
    "SchemaDefinition",
    "SortKey",
    "TableDefinition",
    "ViewDefinition",
    "column_of",
]

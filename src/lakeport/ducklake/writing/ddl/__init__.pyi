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

__all__ = [
    "MacroDefinition",
    "MacroImplementation",
    "MacroParameter",
    "PartitionKey",
    "SchemaDefinition",
    "SortKey",
    "TableDefinition",
    "ViewDefinition",
]

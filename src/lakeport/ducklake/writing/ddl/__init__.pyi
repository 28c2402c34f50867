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
from .types import TypeLike, column_of

__all__ = [
    "MacroDefinition",
    "MacroImplementation",
    "MacroParameter",
    "PartitionKey",
    "SchemaDefinition",
    "SortKey",
    "TableDefinition",
    "TypeLike",
    "ViewDefinition",
    "column_of",
]

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
from .types import TypeLike

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
]

from .catalog import MemoryCatalog, MemorySchema
from .table import MemoryTable

__all__ = ["MemoryCatalog", "MemorySchema", "MemoryTable"]

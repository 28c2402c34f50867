"""A complete mutable catalog in memory: the embedded default, the example, the test double.

It is built on the public protocols of `lakeport.catalog` alone, and knows nothing of Flight.
"""

from lakeport.memory.catalog import MemoryCatalog, MemorySchema
from lakeport.memory.table import MemoryTable

__all__ = ["MemoryCatalog", "MemorySchema", "MemoryTable"]

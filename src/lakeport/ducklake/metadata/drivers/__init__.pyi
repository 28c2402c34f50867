from .duckdb_file import open_duckdb_file
from .postgresql import connect

__all__ = ["connect", "open_duckdb_file"]

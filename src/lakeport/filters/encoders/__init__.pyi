from .arrow import ArrowEncoder, to_arrow
from .duckdb import DuckDBEncoder, to_duckdb_sql
from .spark import SparkEncoder

__all__ = ["ArrowEncoder", "DuckDBEncoder", "SparkEncoder", "to_arrow", "to_duckdb_sql"]

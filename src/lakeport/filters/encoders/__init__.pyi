from .arrow import ArrowEncoder, to_arrow
from .duckdb import DuckDBEncoder, filter_shape, to_duckdb_sql
from .spark import SparkEncoder

__all__ = [
    "ArrowEncoder",
    "DuckDBEncoder",
    "SparkEncoder",
    "filter_shape",
    "to_arrow",
    "to_duckdb_sql",
]

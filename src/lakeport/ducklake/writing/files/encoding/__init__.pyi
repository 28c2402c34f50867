from .arrow_encoder import ArrowEncoder, Encoder
from .bounds import texts
from .duckdb_encoder import DuckDBEncoder
from .layout import FileLayout
from .statistics import FileStatistics

__all__ = ["ArrowEncoder", "DuckDBEncoder", "Encoder", "FileLayout", "FileStatistics", "texts"]

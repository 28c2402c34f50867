from .clauses import Clause, Merge, default_sql
from .statement import merge_rows

__all__ = ["Clause", "Merge", "default_sql", "merge_rows"]

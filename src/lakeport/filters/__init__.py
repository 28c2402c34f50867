"""A predicate that DuckDB pushed down: JSON to a tree, and the tree to SQL, Spark and Arrow.

``parse_filter`` reads what the client sends, ``to_json`` writes the same. ``to_duckdb_sql``,
``to_spark_sql`` and ``to_arrow`` encode a filter so that at least its rows are kept. ``col`` and
``lit`` build filters in Python.
"""

from lakeport._lazy import attach

# Names are loaded on first use, from the modules that `__init__.pyi` lists.
__getattr__, __dir__, __all__ = attach(__name__)

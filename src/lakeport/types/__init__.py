"""The types of values, once: DuckLake, DuckDB, Arrow, Spark and Parquet.

It also has names, literals, casts and field ids. It imports neither lakes nor Flight.
"""

from lakeport._lazy import attach

# Names are loaded on first use, from the modules that `__init__.pyi` lists.
__getattr__, __dir__, __all__ = attach(__name__)

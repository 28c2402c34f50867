"""A filter in the language of a target: Arrow, DuckDB SQL, Spark SQL."""

from lakeport._lazy import attach

# Names are loaded on first use, from the modules that `__init__.pyi` lists.
__getattr__, __dir__, __all__ = attach(__name__)

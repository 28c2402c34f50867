"""MERGE: rows of a source against rows of a table, here or on an engine."""

from lakeport._lazy import attach

# Names are loaded on first use, from the modules that `__init__.pyi` lists.
__getattr__, __dir__, __all__ = attach(__name__)

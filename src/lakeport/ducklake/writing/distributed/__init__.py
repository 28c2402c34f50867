"""Changes of rows that an engine makes: rows of data frames, and tasks that find and write rows.

It imports no Spark; the engine does the work.
"""

from lakeport._lazy import attach

# Names are loaded on first use, from the modules that `__init__.pyi` lists.
__getattr__, __dir__, __all__ = attach(__name__)

"""The files of a lake: data files, delete files, added files. A Spark worker imports it.

It writes files and returns what it wrote; it imports neither a database nor Spark.
"""

from lakeport._lazy import attach

# Names are loaded on first use, from the modules that `__init__.pyi` lists.
__getattr__, __dir__, __all__ = attach(__name__)

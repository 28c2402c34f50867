"""What one task of a distributed write does. A Spark worker imports it.

Tasks write files and return what they wrote as plain values; the process that planned them commits.
This folder imports neither a database nor Spark.
"""

from lakeport._lazy import attach

# Names are loaded on first use, from the modules that `__init__.pyi` lists.
__getattr__, __dir__, __all__ = attach(__name__)

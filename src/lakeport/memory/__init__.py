"""A complete mutable catalog in memory, for embedding, examples and tests.

It uses only the public protocols of `lakeport.catalog` and does not import Flight.
"""

from lakeport._lazy import attach

# Names are loaded on first use, from the modules that `__init__.pyi` lists.
__getattr__, __dir__, __all__ = attach(__name__)

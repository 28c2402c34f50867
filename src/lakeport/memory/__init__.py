"""A complete mutable catalog in memory: the embedded default, the example, the test double.

It is built on the public protocols of `lakeport.catalog` alone, and knows nothing of Flight.
"""

from lakeport._lazy import attach

# Names are loaded on first use, from the modules that `__init__.pyi` lists.
__getattr__, __dir__, __all__ = attach(__name__)

"""Statements of SQL that change a lake: parsed here, run by the methods of `Lake`."""

from lakeport._lazy import attach

# Names are loaded on first use, from the modules that `__init__.pyi` lists.
__getattr__, __dir__, __all__ = attach(__name__)

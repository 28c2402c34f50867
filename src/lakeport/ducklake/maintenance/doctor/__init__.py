"""The doctor: examine a lake, report its defects, mend what is safe to mend, advise maintenance."""

from lakeport._lazy import attach

# Names are loaded on first use, from the modules that `__init__.pyi` lists.
__getattr__, __dir__, __all__ = attach(__name__)

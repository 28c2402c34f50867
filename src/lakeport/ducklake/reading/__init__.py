"""What a worker runs: scan tasks, data files, delete files. No SQLAlchemy, no PySpark."""

from lakeport._lazy import attach

# Names are loaded on first use, from the modules that `__init__.pyi` lists.
__getattr__, __dir__, __all__ = attach(__name__)

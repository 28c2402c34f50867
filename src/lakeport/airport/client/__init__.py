"""A Python client that behaves like DuckDB's: what a server offers, for users without DuckDB.

What it shares with the server is the wire: how messages are encoded (`lakeport.airport.codec`), how
large they may be (`limits`), and how the list of databases is addressed (`addresses`).
"""

from lakeport._lazy import attach

# Names are loaded on first use, from the modules that `__init__.pyi` lists.
__getattr__, __dir__, __all__ = attach(__name__)

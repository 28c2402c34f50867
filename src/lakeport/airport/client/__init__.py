"""A Python client of Airport servers. It sends the same calls as DuckDB's client.

It shares with the server only `lakeport.airport.protocol`: the encoding of messages, their largest
sizes, and the address of the list of databases.
"""

from lakeport._lazy import attach

# Names are loaded on first use, from the modules that `__init__.pyi` lists.
__getattr__, __dir__, __all__ = attach(__name__)

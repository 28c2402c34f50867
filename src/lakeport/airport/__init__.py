"""The wire: an Arrow Flight server that DuckDB's airport extension attaches, and its client."""

from lakeport.airport.limits import Limits
from lakeport.airport.observer import EndedCall, Observer
from lakeport.airport.server import Server, serve

__all__ = ["EndedCall", "Limits", "Observer", "Server", "serve"]

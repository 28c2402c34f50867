"""A Python client that behaves like DuckDB's: what a server offers, for users without DuckDB.

This room knows the wire only by `lakeport.airport.codec`, and nothing of the server's insides.
"""

from lakeport.airport.client.client import Client, connect
from lakeport.airport.client.entries import (
    Column,
    FunctionKind,
    FunctionOverload,
    RemoteFunction,
    RemoteSchema,
)
from lakeport.airport.client.scan import Scan
from lakeport.airport.client.statements import Transaction
from lakeport.airport.client.table import RemoteTable
from lakeport.airport.client.writes import WriteResult

__all__ = [
    "Client",
    "Column",
    "FunctionKind",
    "FunctionOverload",
    "RemoteFunction",
    "RemoteSchema",
    "RemoteTable",
    "Scan",
    "Transaction",
    "WriteResult",
    "connect",
]

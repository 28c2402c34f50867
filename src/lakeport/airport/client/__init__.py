"""A Python client that behaves like DuckDB's: what a server offers, for users without DuckDB.

What it shares with the server is the wire: how messages are encoded (`lakeport.airport.codec`), how
large they may be (`limits`), and how the list of databases is addressed (`addresses`).
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

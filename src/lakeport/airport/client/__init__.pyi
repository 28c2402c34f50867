from .client import Client, connect
from .entries import Column, FunctionKind, FunctionOverload, RemoteFunction, RemoteSchema
from .scan import Scan
from .statements.statement import Transaction
from .statements.writes import WriteResult
from .table import RemoteTable

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

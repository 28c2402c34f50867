"""Lakeport: an airport for your lake.

Expose tables, functions and DataFrames to DuckDB in a dozen lines:

    import pyarrow as pa
    import lakeport

    catalog = lakeport.CatalogBuilder().schema("shop").table("orders", orders).build()
    lakeport.serve(catalog)

and read them without DuckDB:

    with lakeport.connect("grpc://127.0.0.1:8815") as client:
        client.table("shop.orders").scan().to_arrow()
"""

import os

from lakeport._version import __version__
from lakeport.airport import Limits, Server, serve
from lakeport.airport.client import Client, connect
from lakeport.auth import Access, BearerAuth, Operation, TlsConfig, TokenTable
from lakeport.catalog import (
    ANY,
    Action,
    Catalog,
    CatalogBuilder,
    CatalogVersion,
    ColumnStats,
    DMLOptions,
    DMLResult,
    FileFormat,
    FileReference,
    FunctionReference,
    Parameter,
    ParameterKind,
    Partition,
    RequestContext,
    ScanOptions,
    Schema,
    Stability,
    Table,
    TableSize,
    TimePoint,
    TimeUnit,
    column,
    current_request,
    find_rowid_column,
    geometry_column,
    project_schema,
    rowid_field,
)
from lakeport.errors import LakeportError
from lakeport.filters import Filter, col
from lakeport.memory import MemoryCatalog
from lakeport.spark import Lake

# Batches that came over the network may be unaligned, which every platform we run on can read;
# Arrow would print a warning for each scan.
os.environ.setdefault("ACERO_ALIGNMENT_HANDLING", "ignore")

__all__ = [
    "ANY",
    "Access",
    "Action",
    "BearerAuth",
    "Catalog",
    "CatalogBuilder",
    "CatalogVersion",
    "Client",
    "ColumnStats",
    "DMLOptions",
    "DMLResult",
    "FileFormat",
    "FileReference",
    "Filter",
    "FunctionReference",
    "Lake",
    "LakeportError",
    "Limits",
    "MemoryCatalog",
    "Operation",
    "Parameter",
    "ParameterKind",
    "Partition",
    "RequestContext",
    "ScanOptions",
    "Schema",
    "Server",
    "Stability",
    "Table",
    "TableSize",
    "TimePoint",
    "TimeUnit",
    "TlsConfig",
    "TokenTable",
    "__version__",
    "col",
    "column",
    "connect",
    "current_request",
    "find_rowid_column",
    "geometry_column",
    "project_schema",
    "rowid_field",
    "serve",
]

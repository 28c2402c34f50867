"""Lakeport: an airport for your lake.

Serve tables, functions and DataFrames to DuckDB:

    import pyarrow as pa
    import lakeport

    catalog = lakeport.CatalogBuilder().schema("shop").table("orders", orders).build()
    lakeport.serve(catalog)

and read them without DuckDB:

    with lakeport.connect("grpc://127.0.0.1:8815") as client:
        client.table("shop.orders").scan().to_arrow()
"""

import os

from lakeport._lazy import attach

# Batches from the network may be unaligned. Supported platforms can read them, but Arrow prints a
# warning for each scan.
os.environ.setdefault("ACERO_ALIGNMENT_HANDLING", "ignore")

# Names are loaded on first use, from the modules that `__init__.pyi` lists.
__getattr__, __dir__, __all__ = attach(__name__)

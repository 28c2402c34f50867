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

from lakeport._lazy import attach

# Batches that came over the network may be unaligned, which every platform we run on can read;
# Arrow would print a warning for each scan.
os.environ.setdefault("ACERO_ALIGNMENT_HANDLING", "ignore")

# Names come on first use, from the modules that `__init__.pyi` says.
__getattr__, __dir__, __all__ = attach(__name__)

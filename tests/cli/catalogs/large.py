"""A catalog for servers in other processes: more rows than the network can hold."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lakeport.catalog import CatalogBuilder

ROWS = 4096
BATCHES = 600
SCHEMA = pa.schema([("x", pa.int64()), ("text", pa.string())])


def rows() -> Iterator[pa.RecordBatch]:
    text = pa.array(["x" * 40] * ROWS)
    for number in range(BATCHES):
        values = pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64())
        yield pa.record_batch([values, text], schema=SCHEMA)


catalog = CatalogBuilder().schema("s").table("rows", rows, schema=SCHEMA).build()

"""Streams: a table of a lake is read as a stream, and two others are written, each row once."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakeport import Lake
from lakeport.spark import each_batch, session


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        uri = f"ducklake:sqlite:{Path(folder, 'shop.sqlite')}"
        with Lake.create(uri, data_path=f"{folder}/data/") as lake:
            for name in ("orders", "archive", "latest"):
                lake.create_table(name, {"customer": "VARCHAR", "price": "DOUBLE"})
            lake.table("orders").append(pa.table({"customer": ["Ada", "Bob"], "price": [9.5, 7.0]}))
            lake.table("orders").append(pa.table({"customer": ["Ada"], "price": [4.5]}))
        print("archive has", copy(uri, "archive", folder))
        print("latest has", copy(uri, "latest", folder, upsert))


def copy(uri: str, table: str, folder: str, write: Callable[..., Any] | None = None) -> Any:
    """Copy the orders that the checkpoint does not have to a table; return the table's rows."""
    reader = session().readStream.format("ducklake").option("lake", uri).option("table", "orders")
    # An upsert gets the appends one after the other.
    stream = reader.option("maxFilesPerTrigger", 1 if write else 100).load()
    writer = stream.writeStream.option("checkpointLocation", f"{folder}/{table}")
    if write is None:
        writer = writer.format("ducklake").option("lake", uri).option("table", table)
    else:
        writer = writer.foreachBatch(each_batch(uri, table, write))
    writer.trigger(availableNow=True).start().awaitTermination()
    with Lake.open(uri, engine="local") as lake:
        rows = lake.table(table).scan().to_arrow()
        return sorted(tuple(row.values()) for row in rows.to_pylist())


def upsert(latest: Any, rows: Any) -> None:
    """Keep the last order of each customer."""
    merge = latest.merge(rows, "target.customer = source.customer")
    merge.when_matched(update="*").when_not_matched().execute()


if __name__ == "__main__":
    main()

"""Reading a table of a catalog without a server."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakeport.catalog import Catalog, ScanOptions, Table

__all__ = ["rows_of", "table_of"]


def table_of(catalog: Catalog, name: str = "t", schema: str = "s") -> Table:
    found = catalog.schema(schema)
    assert found is not None
    table = found.table(name)
    assert table is not None
    return table


def rows_of(table: Table, options: ScanOptions | None = None) -> list[dict[str, Any]]:
    """All rows of a scan, as Python values."""
    read: pa.Table = table.scan(options or ScanOptions()).read_all()
    return read.to_pylist()  # type: ignore[no-any-return]

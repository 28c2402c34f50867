"""Reading a table of a catalog without a server."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from lakeport.catalog import Catalog, ScanOptions, Table

__all__ = ["greater_than", "rows_of", "table_of"]


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


def greater_than(column: str, value: int) -> str:
    """The JSON that the client sends for `column > value`."""
    integer = {"id": "BIGINT", "type_info": None}
    common = {"alias": "", "query_location": 2**64 - 1}
    comparison = {
        "expression_class": "BOUND_COMPARISON",
        "type": "COMPARE_GREATERTHAN",
        **common,
        "left": {
            "expression_class": "BOUND_COLUMN_REF",
            "type": "BOUND_COLUMN_REF",
            **common,
            "return_type": integer,
            "binding": {"table_index": 0, "column_index": 0},
            "depth": 0,
        },
        "right": {
            "expression_class": "BOUND_CONSTANT",
            "type": "VALUE_CONSTANT",
            **common,
            "value": {"type": integer, "is_null": False, "value": value},
        },
    }
    return json.dumps({"filters": [comparison], "column_binding_names_by_index": [column]})

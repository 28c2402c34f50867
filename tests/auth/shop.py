"""A catalog with tables and functions to allow and to deny, and the hook that denies them."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from lakeport.auth import AccessRequest, Operation
from lakeport.catalog import Action, CatalogBuilder, StaticCatalog

COLUMNS = pa.schema([("x", pa.int64())])


class Shop(StaticCatalog):
    """A catalog with an action of its own."""

    def actions(self) -> list[Action]:
        return [Action("restock", lambda body: b"done", "Fill the shelves")]


def make_shop() -> Shop:
    """Two schemas, each with a table `open` and one `closed`, and functions of each kind."""
    builder = CatalogBuilder("shop")
    for name in ("public", "private"):
        schema = builder.schema(name)
        for table in ("open", "closed"):
            schema.table(table, pa.table({"x": [1]}), statistics=True)
        schema.scalar_function("f", lambda x: x, parameters={"x": pa.int64()}, returns=pa.int64())
        schema.table_function("g", COLUMNS.empty_table, parameters={}, schema=COLUMNS)
        schema.table_function_in_out("h", lambda rows: rows, schema=COLUMNS)
    return Shop(builder.build().schemas(), name="shop")


def deny(*denied: tuple[Operation, str | None, str | None]) -> Callable[[AccessRequest], bool]:
    return lambda access: (access.operation, access.schema, access.name) not in denied

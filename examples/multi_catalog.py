"""Several catalogs on one server, added and removed while it runs, and a custom action.

Run it with `--serve` and type, in DuckDB:

    ATTACH 'north' AS north (TYPE airport, LOCATION 'grpc://127.0.0.1:8815');
    ATTACH 'south' AS south (TYPE airport, LOCATION 'grpc://127.0.0.1:8815');
    SELECT * FROM north.sales.orders UNION ALL SELECT * FROM south.sales.orders;
    SELECT * FROM airport_databases('grpc://127.0.0.1:8815');
    SELECT result::VARCHAR FROM airport_action('grpc://127.0.0.1:8815', 'greet', 'Ada');
"""

from __future__ import annotations

import sys

import pyarrow as pa

import lakeport
from lakeport.errors import NotFoundError


def region(name: str, orders: int) -> lakeport.Catalog:
    table = pa.table({"region": [name] * orders, "id": range(orders)})
    builder = lakeport.CatalogBuilder(name, comment=f"The {name}")
    return builder.schema("sales").table("orders", table).build()


def greet(body: bytes) -> str:
    return f"Hello {body.decode()}"


def main() -> None:
    catalogs = [region("north", 3), region("south", 2)]
    actions = [lakeport.Action("greet", greet, "Say hello")]
    if "--serve" in sys.argv:
        lakeport.serve(catalogs, actions=actions)
        return
    with lakeport.Server(catalogs, actions=actions) as server:
        with lakeport.connect(server.location, catalog="north") as north:
            print([database["name"] for database in north.databases()])
            print(north.table("sales.orders").scan().count(), "orders in the north")
            print(north.action("greet", "Ada")[0].decode())
        server.add_catalog("west", region("west", 5))
        with lakeport.connect(server.location, catalog="west") as west:
            print(west.table("sales.orders").scan().count(), "orders in the west")
        server.remove_catalog("west")
        with lakeport.connect(server.location, catalog="west") as west:
            try:
                west.schemas()
            except NotFoundError as error:
                print(error)


if __name__ == "__main__":
    main()

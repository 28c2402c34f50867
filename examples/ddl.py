"""CREATE, ALTER and DROP on the catalog in memory.

Run it with `--serve` and type, in DuckDB:

    ATTACH 'lake' AS lake (TYPE airport, LOCATION 'grpc://127.0.0.1:8815');
    CREATE SCHEMA lake.shop;
    CREATE TABLE lake.shop.items (id INTEGER PRIMARY KEY, name VARCHAR NOT NULL, price DOUBLE);
    ALTER TABLE lake.shop.items ADD COLUMN stock INTEGER;
    ALTER TABLE lake.shop.items ALTER stock SET DEFAULT 0;
    ALTER TABLE lake.shop.items RENAME COLUMN name TO title;
    ALTER TABLE lake.shop.items ALTER id TYPE BIGINT;
    CREATE TABLE lake.shop.cheap AS SELECT * FROM lake.shop.items WHERE price < 5;
    DROP TABLE lake.shop.cheap;
    DROP SCHEMA lake.shop;   -- with all its tables: DuckDB does not transmit CASCADE
"""

from __future__ import annotations

import sys

import pyarrow as pa

import lakeport
from lakeport.errors import ConstraintError, LakeportError


def describe(client: lakeport.Client, name: str) -> str:
    table = client.table(name)
    columns = [
        f"{column.name} {column.type}"
        + (" NOT NULL" if column.not_null else "")
        + (f" DEFAULT {column.default}" if column.default else "")
        for column in table.columns
    ]
    return f"{table.name}({', '.join(columns)})"


def main() -> None:
    catalog = lakeport.MemoryCatalog("lake")
    if "--serve" in sys.argv:
        lakeport.serve(catalog)
        return
    with lakeport.Server(catalog) as server, lakeport.connect(server.location) as client:
        client.create_schema("shop", comment="What we sell")
        items = client.create_table(
            "shop",
            "items",
            pa.schema([("id", pa.int32()), ("name", pa.string()), ("price", pa.float64())]),
            primary_key="id",
            not_null=["name"],
            check=["price >= 0"],
        )
        print(describe(client, "shop.items"))
        items.add_column("stock", pa.int32())
        items.set_default("stock", "0")
        items.rename_column("name", "title")
        items.change_type("id", pa.int64())
        print(describe(client, "shop.items"))

        items.insert([{"id": 1, "title": "tea", "price": 2.5}])
        print(items.scan().to_arrow().to_pylist())
        try:
            items.insert([{"id": 1, "title": "cake", "price": 4.0}])
        except ConstraintError as error:
            print(error)

        cheap = client.create_table_as("shop", "cheap", items.scan().to_arrow())
        cheap.rename("bargains")
        print([table.name for table in client.tables("shop")])
        try:
            client.drop_schema("shop")
        except LakeportError as error:
            print(error)
        client.drop_schema("shop", cascade=True)
        print([schema.name for schema in client.schemas()])


if __name__ == "__main__":
    main()

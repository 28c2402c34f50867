"""A table of Arrow data and a table that is computed, served to DuckDB.

Run it with `--serve` and type, in DuckDB:

    INSTALL airport FROM community;
    LOAD airport;
    ATTACH 'shop' AS shop (TYPE airport, LOCATION 'grpc://127.0.0.1:8815');
    SELECT customer, sum(price) FROM shop.sales.orders WHERE price > 5 GROUP BY customer;
    SELECT * FROM shop.sales.squares WHERE n < 5;
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pyarrow as pa

import lakeport

ORDERS = pa.table(
    {
        "id": [1, 2, 3, 4],
        "customer": ["Ada", "Grace", "Ada", "Edsger"],
        "price": [9.5, 20.0, 3.25, 12.0],
    }
)
SQUARES = pa.schema(
    [
        lakeport.column("n", pa.int64(), nullable=False, comment="A number"),
        lakeport.column("square", pa.int64(), comment="The number times itself"),
    ]
)


def build_catalog() -> lakeport.Catalog:
    builder = lakeport.CatalogBuilder("shop", comment="A corner shop")
    sales = builder.schema("sales", comment="What we sold")
    sales.table("orders", ORDERS, comment="Every order", statistics=True)

    @sales.table(schema=SQUARES, comment="Computed while it is read")
    def squares() -> Iterator[pa.RecordBatch]:
        for start in range(0, 3_000, 1_000):
            numbers = list(range(start, start + 1_000))
            yield pa.record_batch({"n": numbers, "square": [n * n for n in numbers]})

    return builder.build()


def main() -> None:
    catalog = build_catalog()
    if "--serve" in sys.argv:
        lakeport.serve(catalog)
        return
    with lakeport.Server(catalog) as server, lakeport.connect(server.location) as client:
        for table in client.tables():
            columns = ", ".join(f"{column.name} {column.type}" for column in table.columns)
            print(f"{table.schema_name}.{table.name}({columns}): {table.comment}")
        wanted = client.table("sales.orders").scan(
            columns=["customer", "price"], filter=lakeport.col("price") > 5
        )
        for row in wanted.to_arrow().to_pylist():
            print(f"{row['customer']} paid {row['price']}")
        print(f"{client.table('sales.squares').scan().count()} squares")


if __name__ == "__main__":
    main()

"""Spark DataFrames and Spark SQL as tables and functions.

Run it with `--serve` and type, in DuckDB:

    ATTACH 'shop' AS shop (TYPE airport, LOCATION 'grpc://127.0.0.1:8815');
    SELECT * FROM shop.sales.orders WHERE price > 9;
    SELECT * FROM shop.sales.spark_sql('SELECT customer, sum(price) FROM orders GROUP BY 1');
"""

from __future__ import annotations

import sys

import lakeport
from lakeport.spark import SparkTable, session, spark_sql_function

ORDERS = [("Ada", 9.5), ("Grace", 20.0), ("Ada", 4.5)]


def build_catalog() -> lakeport.Catalog:
    spark = session()
    orders = spark.createDataFrame(ORDERS, "customer string, price double")
    orders.createOrReplaceTempView("orders")
    builder = lakeport.CatalogBuilder("shop")
    sales = builder.schema("sales")
    sales.table("orders", SparkTable(orders), comment="A DataFrame")
    sales.table("ranking", SparkTable("SELECT * FROM orders ORDER BY price DESC"))
    sales.function(spark_sql_function(spark))
    return builder.build()


def main() -> None:
    catalog = build_catalog()
    if "--serve" in sys.argv:
        lakeport.serve(catalog)
        return
    with lakeport.Server(catalog) as server, lakeport.connect(server.location) as client:
        large = client.table("sales.orders").scan(["customer"], filter=lakeport.col("price") > 9)
        print(large.to_arrow().to_pylist())
        print(client.table("sales.ranking").scan().to_arrow()["price"].to_pylist())
        totals = "SELECT customer, sum(price) AS total FROM orders GROUP BY customer ORDER BY total"
        print(client.call_table("sales.spark_sql", totals).to_arrow().to_pylist())
        try:
            client.call_table("sales.spark_sql", "DROP VIEW orders").to_arrow()
        except lakeport.LakeportError as error:
            print(str(error).partition(":")[0])


if __name__ == "__main__":
    main()

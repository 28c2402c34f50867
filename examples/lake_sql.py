"""Statements of SQL that change a lake: INSERT, UPDATE, DELETE, MERGE and DDL by `lake.sql`.

A statement runs at once, in one transaction. Its queries run on Spark; its conditions and
expressions are DuckDB's SQL.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from lakeport import Lake
from lakeport.errors import UnsupportedError
from lakeport.spark import session


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        uri = f"ducklake:sqlite:{Path(folder, 'shop.sqlite')}"
        with Lake.create(uri, data_path=f"{folder}/data/", spark=session()) as lake:
            run(lake)


def run(lake: Lake) -> None:
    lake.sql("CREATE TABLE orders (id INTEGER NOT NULL, state VARCHAR DEFAULT 'new', price DOUBLE)")
    lake.sql("INSERT INTO orders VALUES (1, DEFAULT, 9.5), (2, DEFAULT, 20.0), (3, 'sent', 4.5)")
    updated = lake.sql("UPDATE orders SET price = price * 0.9 WHERE price > 10").first()
    print("updated", updated.num_updated_rows, "in snapshot", updated.snapshot_id)
    merged = lake.sql("""
        MERGE INTO orders USING (SELECT id + 1 AS id, 'sent' AS state FROM orders) AS news
        ON orders.id = news.id
        WHEN MATCHED AND orders.state <> news.state THEN UPDATE SET state = news.state
        WHEN NOT MATCHED THEN INSERT (id, state) VALUES (news.id, 'late')
        WHEN NOT MATCHED BY SOURCE THEN DELETE
    """).first()
    print("merged", merged.num_inserted_rows, merged.num_updated_rows, merged.num_deleted_rows)
    lake.sql("CREATE TABLE totals AS SELECT state, count(*) AS n FROM orders GROUP BY state")
    print([tuple(row) for row in lake.sql("SELECT * FROM totals ORDER BY state").collect()])
    print(lake.sql("SELECT sum(price) AS total FROM orders VERSION AS OF 2").first().total)
    try:
        lake.sql("DELETE FROM orders RETURNING id")
    except UnsupportedError as error:
        print(error)


if __name__ == "__main__":
    main()

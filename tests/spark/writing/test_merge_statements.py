"""MERGE, UPDATE … FROM and DELETE … USING: the same text on a lake and in DuckDB's own tables.

Each statement is run with its source collected in the driver, and with source and table joined by
tasks. The cases are the published semantics of MERGE in Spark and Delta Lake.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakeport import Lake
from lakeport.errors import InvalidInputError
from lakeport.spark import SparkEngine

TABLES = [
    "CREATE TABLE t (id INTEGER, v BIGINT, s VARCHAR)",
    "CREATE TABLE source (id INTEGER, v BIGINT, s VARCHAR)",
    "CREATE TABLE twice (id INTEGER)",
]
ROWS = {
    "t": "(1, 10, 'a'), (2, 20, 'b'), (3, 30, NULL), (4, NULL, 'd'), (5, 50, 'e'), (NULL, 60, 'f')",
    "source": "(2, 200, 'B'), (3, 300, 'C'), (4, 400, NULL), (8, 800, 'H'), (9, NULL, 'I'), "
    "(NULL, 0, 'N')",
    "twice": "(3), (3), (5), (5), (7)",
}  # fmt: skip

STATEMENTS = {
    "the first clause that holds applies": """
        MERGE INTO t USING source AS s ON t.id = s.id
        WHEN MATCHED AND s.v > 300 THEN DELETE
        WHEN MATCHED AND s.v > 200 THEN UPDATE SET v = s.v + t.v, s = coalesce(t.s, s.s)
        WHEN MATCHED AND s.v > 0 THEN UPDATE SET s = t.s || s.s
        WHEN MATCHED THEN DELETE
        WHEN NOT MATCHED AND s.v IS NULL THEN INSERT (s, id) VALUES (s.s || '!', s.id)
        WHEN NOT MATCHED THEN INSERT (id, v, s) VALUES (s.id, s.v, s.s)
        WHEN NOT MATCHED BY SOURCE AND t.v > 40 THEN UPDATE SET v = -t.v
        WHEN NOT MATCHED BY SOURCE AND t.id = 1 THEN DELETE""",
    "names in another case and order": """
        MERGE INTO t AS x USING (SELECT S, V, ID FROM source WHERE id > 0) AS Y ON X.ID = y.Id
        WHEN MATCHED THEN UPDATE BY NAME WHEN NOT MATCHED THEN INSERT BY NAME""",
    "columns that the table lacks": """
        MERGE INTO t USING (SELECT id, v, s, 'surplus' AS extra FROM source) AS y ON t.id = y.id
        WHEN MATCHED AND y.extra = 'surplus' THEN UPDATE SET s = y.extra
        WHEN NOT MATCHED THEN INSERT (id, s) VALUES (y.id, y.extra)""",
    "new rows only": """
        MERGE INTO t USING source AS s ON t.id = s.id AND t.v < s.v
        WHEN NOT MATCHED AND s.id <> 9 THEN INSERT (id, v, s) VALUES (s.id, s.v, s.s)""",
    "two keys, one of an expression": """
        MERGE INTO t USING source AS s ON t.id = s.id - 1 AND upper(t.s) = s.s
        WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED BY SOURCE THEN DELETE""",
    "no equal keys": """
        MERGE INTO t USING (SELECT max(id) AS top FROM source) AS m ON t.id < m.top
        WHEN MATCHED AND t.id > 3 THEN UPDATE SET v = m.top WHEN MATCHED THEN DELETE""",
    "the table itself": """
        MERGE INTO t USING t AS o ON t.id = o.id + 1
        WHEN MATCHED THEN UPDATE SET v = o.v + t.v
        WHEN NOT MATCHED THEN INSERT (id, v) VALUES (o.id + 100, o.v)""",
    "an empty source": """
        MERGE INTO t USING (SELECT * FROM source WHERE id > 100) AS s ON t.id = s.id
        WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE AND t.id = 2 THEN DELETE""",
    "rows that are deleted twice": """
        MERGE INTO t USING twice ON t.id = twice.id WHEN MATCHED THEN DELETE""",
    "an update from a table": """
        UPDATE t SET v = o.v + t.v, s = o.s FROM source AS o WHERE t.id = o.id AND o.v > 200""",
    "a delete by a table": "DELETE FROM t USING twice AS w WHERE t.id = w.id AND t.v > 30",
    "an empty table": """
        MERGE INTO t USING source AS s ON t.id = s.id AND t.id < 0
        WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)""",
}  # fmt: skip


@pytest.fixture(scope="module", params=["collected", "by tasks"])
def lake(
    request: pytest.FixtureRequest, spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("merges")
    sizes = {} if request.param == "collected" else dict.fromkeys(_SIZES, 0)
    uri = f"ducklake:sqlite:{folder}/m.sqlite"
    engine = SparkEngine(spark, **sizes)
    with Lake.create(uri, data_path=f"{folder}/data/", engine=engine) as made:
        # Rows in files: tasks read none of the catalog database.
        made.set_option("data_inlining_row_limit", 0)
        with duckdb.connect() as duck:
            for table in model(duck):
                made.create_table_as(table, duck.execute(f"FROM {table}").to_arrow_table())
        yield made


_SIZES = ("small_change_bytes", "small_source_bytes")


def model(duck: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Create the tables in DuckDB and return their names."""
    for table in TABLES:
        duck.execute(table)
    for table, rows in ROWS.items():
        duck.execute(f"INSERT INTO {table} VALUES {rows}")
    return tuple(ROWS)


def fill(lake: Lake, duck: duckdb.DuckDBPyConnection) -> None:
    """Give `t` the rows that it has in DuckDB."""
    lake.table("t").overwrite(duck.execute("FROM t").to_arrow_table())


def test_a_merge_leaves_the_rows_that_it_leaves_in_duckdb(lake: Lake, spark: Any) -> None:
    for case, statement in STATEMENTS.items():
        with duckdb.connect() as duck:
            model(duck)
            if case == "an empty table":
                duck.execute("DELETE FROM t")
            fill(lake, duck)
            duck.execute(statement)
            expected = sorted(duck.execute("FROM t").fetchall(), key=repr)

        lake.sql(statement, spark=spark)

        rows = lake.table("t").scan().to_arrow(engine="local").to_pylist()
        assert sorted((tuple(row.values()) for row in rows), key=repr) == expected, case
    in_catalog = {Path(file.path).name for file in lake.table("t").files()}
    assert in_catalog <= {path.name for path in Path(lake.table("t").path).rglob("*.parquet")}


def test_rows_that_match_twice_are_an_error_unless_all_are_deleted(lake: Lake, spark: Any) -> None:
    with duckdb.connect() as duck:
        model(duck)
        fill(lake, duck)
    before = lake.snapshot().id
    for clauses in (
        "WHEN MATCHED THEN UPDATE SET v = 0",
        "WHEN MATCHED AND t.id > 0 THEN DELETE",
        "WHEN MATCHED AND t.id = 3 THEN DELETE WHEN MATCHED THEN DELETE",
    ):
        with pytest.raises(InvalidInputError, match="match more than one row of the source"):
            lake.sql(f"MERGE INTO t USING twice AS w ON t.id = w.id {clauses}", spark=spark)
    assert lake.snapshot().id == before


def test_a_star_needs_all_columns_unless_the_schema_evolves(lake: Lake, spark: Any) -> None:
    with duckdb.connect() as duck:
        model(duck)
        fill(lake, duck)
    statement = """
        INTO t USING (SELECT id, 'new' AS s, id * 2 AS twice FROM source WHERE id IN (2, 8)) AS n
        ON t.id = n.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""

    with pytest.raises(InvalidInputError, match="has no column 'v', which '\\*' needs"):
        lake.sql(f"MERGE {statement}", spark=spark)
    lake.sql(f"MERGE WITH SCHEMA EVOLUTION {statement}", spark=spark)

    found = lake.table("t").scan(filter="id IN (1, 2, 8)").to_arrow(engine="local").sort_by("id")
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        (1, 10, "a", None),
        (2, 20, "new", 4),
        (8, None, "new", 16),
    ]
    lake.sql("ALTER TABLE t DROP COLUMN twice", spark=spark)

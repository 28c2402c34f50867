"""Filters that need little of a table: one of many files, one of many row groups; and views."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb

from benchmarks.measure import Figure, interleaved
from benchmarks.reference_lakes import attached, kept_lake
from benchmarks.sessions import shared_session
from lakeport import Lake
from lakeport.catalog import EndpointTable, ScanOptions
from lakeport.lakehouse import LakeCatalog

__all__ = ["one_file", "one_row_group", "views"]


def one_file(*, files: int, repeats: int) -> Iterator[Figure]:
    """Measure a query that needs one file, through a DataFrame, a registration and `lake.sql`."""

    def fill(duck: duckdb.DuckDBPyConnection) -> None:
        duck.execute("CREATE TABLE lake.t(id BIGINT, part INTEGER, amount DOUBLE)")
        duck.execute("ALTER TABLE lake.t SET PARTITIONED BY (part)")
        duck.execute(
            f"INSERT INTO lake.t SELECT i, i // 100, i * 0.5 FROM range({files * 100}) r(i)"
        )

    spark = shared_session()
    condition = f"id = {files * 50}"
    with Lake.open(kept_lake(f"files-{files}", fill), spark=spark) as lake:
        table = lake.table("t")
        frame = table.to_spark()
        registration = lake.register(spark, "pruned")
        name = registration.names["main", "t"]
        ways = {
            "where": lambda: frame.where(condition).collect(),
            "register": lambda: spark.sql(f"SELECT * FROM {name} WHERE {condition}").collect(),
            "lake.sql": lambda: lake.sql(f"SELECT * FROM t WHERE {condition}").collect(),
            "scan": lambda: table.scan(filter=condition).to_spark().collect(),
        }
        samples = interleaved(ways, repeats=repeats, warmups=3)
        registration.unregister()
    for way, title in (
        ("where", "where(…) of a DataFrame"),
        ("register", "Spark SQL over lake.register()"),
        ("lake.sql", "lake.sql(…), planned anew"),
    ):
        yield Figure.share(
            f"one of {files:,} files, by {title}",
            samples[way],
            samples["scan"],
            "scan(filter=…).to_spark(), planned anew",
            less_than=1.3,
        )


def one_row_group(*, groups: int, repeats: int) -> Iterator[Figure]:
    """Measure a comparison of doubles that leaves out all row groups but one."""
    rows = 10_240

    def fill(duck: duckdb.DuckDBPyConnection) -> None:
        duck.execute(f"CALL ducklake_set_option('lake', 'parquet_row_group_size', {rows})")
        duck.execute(
            f"CREATE TABLE lake.t AS SELECT CAST(i AS DOUBLE) AS d, hash(i) AS h, "
            f"'text of row ' || i AS s FROM range({rows * groups}) r(i)"
        )

    condition = f"d > {rows * groups - 10}"
    spark = shared_session()
    with Lake.open(kept_lake(f"groups-{groups}", fill), spark=spark) as lake:
        table = lake.table("t")
        frame = table.to_spark()
        samples = interleaved(
            {
                "arrow": lambda: table.scan(["s"], condition).to_arrow(engine="local"),
                "all rows, arrow": lambda: table.scan(["s", "d"]).to_arrow(engine="local"),
                "spark": lambda: frame.where(condition).select("s").toArrow(),
                # The text of the number has no statistics.
                "all rows, spark": lambda: (
                    frame.where(f"double(string(d)) > {rows * groups - 10}").select("s").toArrow()
                ),
            },
            repeats=repeats,
            warmups=3,
        )
    for engine, title in (("arrow", "scan(filter=…) as Arrow"), ("spark", "where(…) on Spark")):
        yield Figure.share(
            f"{title}: doubles leave out {groups - 1} of {groups} row groups",
            samples[engine],
            samples[f"all rows, {engine}"],
            "all row groups",
            less_than=0.5,
        )


def views(*, rows: int, repeats: int) -> Iterator[Figure]:
    """Measure a view on either engine against DuckDB with the real lake format."""

    def fill(duck: duckdb.DuckDBPyConnection) -> None:
        duck.execute(
            f"CREATE TABLE lake.t AS SELECT i AS id, i % 100 AS kind, i * 0.25 AS x "
            f"FROM range({rows}) r(i)"
        )
        duck.execute(
            "CREATE VIEW lake.v AS SELECT kind, count(*) AS n, sum(id) AS total, max(x) AS most "
            "FROM lake.t GROUP BY kind"
        )

    uri = kept_lake(f"view-{rows}", fill)
    spark = shared_session()
    with Lake.open(uri, spark=spark) as lake, attached(uri) as duck:
        registration = lake.register(spark, "viewed")
        name = registration.names["main", "v"]
        schema = LakeCatalog(lake, engine="local").schema("public")
        view = None if schema is None else schema.table("v")
        assert isinstance(view, EndpointTable)
        samples = interleaved(
            {
                "embedded": lambda: view.scan(ScanOptions()).read_all(),
                "spark": lambda: spark.table(name).toArrow(),
                "duckdb": lambda: duck.sql("FROM lake.v").to_arrow_table(),
            },
            repeats=repeats,
            warmups=3,
        )
        registration.unregister()
    for engine, title in (("embedded", "the embedded DuckDB"), ("spark", "Spark")):
        yield Figure.share(
            f"a view over {rows:,} rows in {title}",
            samples[engine],
            samples["duckdb"],
            "DuckDB with the ducklake extension",
        )

"""Random changes of one table by Spark and by the reference in turns, against a dictionary."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings

from lakeport import Lake
from lakeport.spark import SparkEngine
from tests.ducklake.writing.test_mixed_changes import Model, steps, theirs
from tests.fixtures_lakes import RealLake


def on_spark(lake: Lake, spark: Any, name: str, argument: Any, start: int) -> None:
    """Make a change whose rows and queries are all on Spark."""
    table = lake.table("t")
    if name == "append":
        rows = spark.range(start, start + argument, 1, 2)
        table.append(rows.selectExpr("CAST(id AS INT) AS i", "0L AS v"))
        return
    where = f"i BETWEEN {argument[0]} AND {argument[1]}"
    if name == "delete":
        table.delete(where)
    elif name == "update":
        table.update({"v": "v + 1"}, where=where)
    else:
        source = spark.range(argument[0], argument[1] + 1, 1, 2).selectExpr("CAST(id AS INT) AS i")
        merge = table.merge(source, "target.i = source.i")
        merge = merge.when_matched(update={"v": "target.v + 10"})
        merge.when_not_matched(insert={"i": "source.i", "v": "-1"}).execute()


@settings(
    max_examples=3,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps)
def test_spark_and_the_reference_change_one_lake_in_turns(
    spark: Any,
    reference: duckdb.DuckDBPyConnection,
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, tuple[str, Any]]],
) -> None:
    folder = tmp_path_factory.mktemp("mixed")
    real = RealLake(reference, f"ducklake:sqlite:{folder / 'm.sqlite'}", f"{folder}/data/")
    real.execute("CREATE TABLE t (i INTEGER, v BIGINT)")
    engine = SparkEngine(spark, small_change_bytes=0, small_source_bytes=0)
    model = Model()
    try:
        for writer, (name, argument) in steps:
            start = max(model.rows, default=-1) + 1
            if writer == "theirs" or name in ("flush", "rewrite"):
                real.execute(theirs(name, argument, start))
            else:
                real.detach()
                with Lake.open(real.uri, engine=engine) as lake:
                    on_spark(lake, spark, name, argument, start)
            model.apply(name, argument)
            found = real.query("SELECT i, v FROM t")
            assert sorted(found) == sorted(model.rows.items()), (writer, name, argument)
        assert real.query("SELECT count(DISTINCT rowid) FROM t") == [(len(model.rows),)]
        real.check()
    finally:
        real.detach()

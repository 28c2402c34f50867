"""`SparkEngine`: tasks as jobs of a session that is given, found or started."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from scan_tasks import SCHEMA, Result, Rows

from lakeport.ducklake import AutoEngine, LocalEngine, engine_named
from lakeport.errors import CorruptLakeError
from lakeport.spark import SparkEngine

MakeLake = Callable[..., Any]


def test_results_of_tasks_come_back_as_they_are(spark: Any) -> None:
    values = [7, "text", b"bytes", None, [1, 2], {"files": [{"path": "a", "rows": 3}], 5: 0.5}]

    results = list(SparkEngine(spark).run([Result(value) for value in values]))

    assert sorted(map(repr, results)) == sorted(map(repr, values))
    assert list(SparkEngine(spark).run([])) == []


def test_the_error_of_a_task_is_that_of_the_scan(spark: Any) -> None:
    tasks = [Result(1), Result(CorruptLakeError("the file a.parquet is damaged"))]

    with pytest.raises(CorruptLakeError, match=r"^the file a\.parquet is damaged$"):
        list(SparkEngine(spark).run(tasks))


def test_rows_are_counted_by_tasks(make_lake: MakeLake, spark: Any) -> None:
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id FROM range(50) r(i)", "DELETE FROM t WHERE id < 5"
    )

    with lake.open(spark=spark) as ours:
        scan = ours.table("t").scan(filter="id >= 10")
        assert scan.runs_on.name == "spark"
        assert scan.count() == scan.count(engine="local") == 40
        assert ours.table("t").scan().count() == 45


def test_a_session_may_be_found_anew_for_every_read(spark: Any) -> None:
    found: list[Any] = []

    def find() -> Any:
        found.append(spark)
        return spark

    engine, tasks = SparkEngine(find), cast("Any", [Rows(0)])
    for _ in range(2):
        with engine.stream(tasks, SCHEMA) as reader:
            assert reader.read_all().num_rows == 30

    assert len(found) == 2
    assert engine.parallelism == spark.sparkContext.defaultParallelism


def test_without_a_session_the_active_one_is_used(make_lake: MakeLake, spark: Any) -> None:
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute("CREATE TABLE t AS SELECT i AS id FROM range(50) r(i)")

    for engine in (LocalEngine(), SparkEngine(), AutoEngine(), engine_named("spark")):
        with lake.open(engine=engine) as ours:
            frame = ours.table("t").scan().to_spark()
            assert frame.sparkSession.sparkContext is spark.sparkContext
            assert frame.count() == 50


def test_a_large_scan_of_an_automatic_engine_runs_on_spark(make_lake: MakeLake, spark: Any) -> None:
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute("CREATE TABLE t AS SELECT i AS id FROM range(50) r(i)")

    with lake.open(engine="auto", spark=spark, small_scan_bytes=0) as ours:
        scan = ours.table("t").scan()
        assert isinstance(scan.runs_on, SparkEngine)
        assert scan.to_arrow().num_rows == 50
    with lake.open(engine="auto", spark=spark) as ours:
        assert ours.table("t").scan().runs_on.name == "local"

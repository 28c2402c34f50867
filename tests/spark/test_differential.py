"""The lakes of the differential suite on Spark: the rows of the real implementation, once more.

Every job costs, so tables are read at two snapshots, the newest and one in the middle: as Arrow,
and as a DataFrame, whose values are turned back into the lake's for the comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lakeport.arrow import batches, duckdb_connection, nested
from lakeport.ducklake import Column, ScanPlan, arrow_type
from lakeport.spark import Scan
from lakeport.spark.frames.values import spark_schema
from lakeport.types import duckdb_casts
from tests.lake_scenarios import CASES, SCENARIOS

# The catalog database does not matter to Spark; two lakes on another show that it does not.
SPARK_CASES = [
    case
    for case in CASES
    if case.values[1] == "duckdb"
    or case.id in ("updates inlined (sqlite)", "nested inlined, then flushed (postgresql)")
]
# Spark's widest integer has 38 digits.
TOO_HUGE = ("170141183460469231731687303715884105727", "170141183460469231731687303715884105728")
HUGE = "9" * 38


@pytest.mark.parametrize(("name", "kind"), SPARK_CASES)
def test_arrow_and_dataframes_have_the_rows_of_the_real_implementation(
    name: str, kind: str, make_lake: Callable[..., Any], spark: Any
) -> None:
    scenario = SCENARIOS[name]
    lake = make_lake(kind, scenario.options)
    lake.execute(*map(_less_huge, scenario.statements))

    snapshots = lake.snapshots()
    some = {snapshots[len(snapshots) // 2], snapshots[-1]}

    lake.check(
        lambda scan: _scan(scan).to_arrow(spark),
        lambda scan: _through_dataframe(spark, scan),
        snapshots=sorted(some),
    )


def _less_huge(statement: str) -> str:
    for number in TOO_HUGE:
        statement = statement.replace(number, HUGE)
    return statement


def _scan(plan: ScanPlan) -> Scan:
    assert isinstance(plan, Scan)
    return plan


def _through_dataframe(spark: Any, plan: ScanPlan) -> pa.Table:
    frame = _scan(plan).to_spark(spark)
    assert frame.schema == spark_schema(plan.columns)
    # DuckDB misreads a struct within a struct whose pieces do not match those of other columns.
    rows = frame.toArrow().combine_chunks()
    arrays = [
        _lake_values(batches.combine(array), column) if isinstance(column, Column) else array
        for array, column in zip(rows.columns, plan.columns, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=plan.schema)


def _lake_values(array: pa.Array, column: Column) -> pa.Array:
    """The lake's own values, from Spark's."""
    target = arrow_type(column)
    if column.type == "struct":
        children = [_lake_values(array.field(i), child) for i, child in enumerate(column.children)]
        return nested.rebuild_struct(array, target, children)
    if column.type == "list":
        return nested.rebuild_list(array, target, _lake_values(array.values, column.children[0]))
    if column.type == "map":
        key, value = column.children
        keys, items = _lake_values(array.keys, key), _lake_values(array.items, value)
        return nested.rebuild_map(array, target, keys, items)
    if column.type in ("time_ns", "timestamp_ns", "timestamptz_ns"):
        return array.view(target)
    if column.type == "interval":
        return _intervals(array)
    if column.type in ("json", "variant", "geometry"):
        return nested.relabel(array, target)
    return duckdb_casts.duckdb_cast(array, column)


def _intervals(array: pa.Array) -> pa.Array:
    parts = duckdb_connection.thread_connection().from_arrow(pa.table({"v": array}))
    made = parts.project("to_months(v.months) + to_days(v.days) + to_microseconds(v.micros) AS v")
    return batches.combine(made.to_arrow_table().column(0))

"""Every table at every snapshot of many lakes, on every engine, against the real implementation.

On Spark every scan is a job, so tables are read at two snapshots, the newest and one in the middle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakeport.ducklake import LocalEngine
from tests.lake_scenarios import CASES, SCENARIOS

# The catalog database does not matter to Spark; two lakes on another show that it does not.
SPARK_CASES = [
    case
    for case in CASES
    if case.values[1] == "duckdb"
    or case.id in ("updates inlined (sqlite)", "nested inlined, then flushed (postgresql)")
]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_every_table_at_every_snapshot_is_read_as_the_real_implementation_reads_it(
    name: str, kind: str, make_lake: Callable[..., Any]
) -> None:
    scenario = SCENARIOS[name]
    lake = make_lake(kind, scenario.options)
    lake.execute(*scenario.statements)
    lake.check(engine=LocalEngine())


@pytest.mark.parametrize(("name", "kind"), SPARK_CASES)
def test_tables_are_read_on_spark_as_the_real_implementation_reads_them(
    name: str, kind: str, make_lake: Callable[..., Any], spark: Any
) -> None:
    from lakeport.spark import SparkEngine

    scenario = SCENARIOS[name]
    lake = make_lake(kind, scenario.options)
    lake.execute(*scenario.statements)
    snapshots = lake.snapshots()
    some = {snapshots[len(snapshots) // 2], snapshots[-1]}
    lake.check(engine=SparkEngine(spark), snapshots=sorted(some))

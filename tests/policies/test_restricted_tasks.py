"""Row filters and masks run where the files are read: in the tasks of an engine."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from lakeport.ducklake import AutoEngine, LocalEngine
from lakeport.ducklake.reading.tasks import FileTask, ScanTask
from lakeport.ducklake.views import ViewTask
from lakeport.errors import InvalidInputError
from tests.policies.fixtures_policies import policy, serving

ROWS = (
    "SELECT i AS id, CASE WHEN i % 4 = 0 THEN 'eu' ELSE 'us' END AS region, "
    "'mail' || i || '@example' AS email, 'SECRET' || i AS card, i % 100 AS kind "
    "FROM range({}, {}) r(i)"
)
MASK = {"email": "regexp_replace(email, '.*@', '***@')"}
# Row filters that a scan can apply, and others that only DuckDB can.
PLAIN = (
    "region = user_attribute('region')",
    "kind < 50 AND NOT region = 'us'",
    "id IN (4, 8, 1000)",
)
COMPUTED = ("length(region) + kind = 2 + kind AND region[1] = 'e'", "md5(region) = md5('eu')")


class Elsewhere:
    """An engine that reads in another place: its tasks arrive as bytes."""

    name = "elsewhere"
    parallelism = 2

    def __init__(self) -> None:
        self.tasks: list[Any] = []

    def stream(self, tasks: Sequence[Any], schema: pa.Schema, **_: Any) -> pa.RecordBatchReader:
        self.tasks += tasks
        moved = pickle.loads(pickle.dumps(list(tasks)))
        batches = (batch for task in moved for batch in task.read())
        return pa.RecordBatchReader.from_batches(schema, batches)

    def run(self, tasks: Sequence[Any]) -> Iterator[Any]:
        return LocalEngine().run(tasks)

    @property
    def read(self) -> list[ScanTask]:
        """The tasks that read files."""
        found: list[ScanTask] = []
        for task in self.tasks:
            planned = getattr(task.reads[0], "tasks", ()) if isinstance(task, ViewTask) else [task]
            found += [each for each in planned if isinstance(each, FileTask)]
        return found


@pytest.fixture(scope="module")
def lake(
    reference: duckdb.DuckDBPyConnection, lake_class: Any, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    folder = tmp_path_factory.mktemp("lake")
    lake = lake_class(reference, f"ducklake:{folder}/meta.ducklake", f"{folder}/data/", "")
    lake.execute(f"CREATE TABLE people AS {ROWS.format(0, 1000)}")
    for start in range(1000, 6000, 1000):
        lake.execute(f"INSERT INTO people {ROWS.format(start, start + 1000)}")
    lake.execute(
        "DELETE FROM people WHERE id % 8 = 4",
        "INSERT INTO people VALUES (-4, 'eu', 'a@b', 'SECRET', 1)",
    )
    lake.detach()
    return lake


def rows_of(callers: Any, columns: list[str] | None = None, **options: Any) -> list[Any]:
    table = callers.client("ada").table("public.people").scan(columns, **options).to_arrow()
    return sorted(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.parametrize("rows", [None, *PLAIN, *COMPUTED])
@pytest.mark.parametrize("masked", [True, False])
def test_a_restricted_scan_is_the_same_in_tasks(lake: Any, rows: str | None, masked: bool) -> None:
    rule = policy("*.public.people", rows=rows, hide=("card",), mask=MASK if masked else {})
    with serving(lake, rule) as here:
        expected = [rows_of(here), rows_of(here, ["kind"]), rows_of(here, filter="id > 4500")]
    engine = Elsewhere()
    with serving(lake, rule, engine=engine) as there:
        found = [rows_of(there), rows_of(there, ["kind"]), rows_of(there, filter="id > 4500")]

    assert [len(part) > 0 for part in expected] == [True] * 3 or rows == PLAIN[2]
    assert found == expected
    assert "SECRET" not in repr(found)
    assert len(engine.read) > 0


@pytest.mark.parametrize("rows", PLAIN)
def test_a_row_filter_of_comparisons_is_that_of_a_client(lake: Any, rows: str) -> None:
    engine = Elsewhere()
    with serving(lake, policy("*.public.people", rows=rows, mask=MASK), engine=engine) as callers:
        rows_of(callers, ["id", "region"])

    assert engine.tasks
    assert not any(isinstance(task, ViewTask) for task in engine.tasks)


def test_masks_and_other_filters_are_computed_by_the_tasks(lake: Any) -> None:
    for options in ({"mask": MASK}, {"rows": COMPUTED[0]}):
        engine = Elsewhere()
        with serving(lake, policy("*.public.people", **options), engine=engine) as callers:
            found = rows_of(callers)

        assert found
        assert all(isinstance(task, ViewTask) for task in engine.tasks)
        assert len(engine.tasks) > 1


def test_files_without_visible_rows_are_not_read(lake: Any) -> None:
    for mask in ({}, MASK):
        engine = Elsewhere()
        rule = policy("*.public.people", rows="id BETWEEN 2100 AND 2200", mask=mask)
        with serving(lake, rule, engine=engine) as callers:
            assert len(rows_of(callers)) > 0

        assert len(engine.read) == 1


def test_only_the_columns_of_the_scan_are_read(lake: Any) -> None:
    engine = Elsewhere()
    rule = policy("*.public.people", rows=COMPUTED[1], mask=MASK, hide=("card",))
    with serving(lake, rule, engine=engine) as callers:
        rows_of(callers, ["kind"])

    assert {tuple(sorted(task.schema.names)) for task in engine.read} == {("kind", "region")}


def test_a_mask_that_fails_in_a_task_shows_no_value(lake: Any) -> None:
    rule = policy("*.public.people", mask={"id": "CAST(card AS BIGINT)"})
    with serving(lake, rule, engine=Elsewhere()) as callers:
        with pytest.raises(InvalidInputError, match="a row filter or a mask has failed") as caught:
            rows_of(callers)
        assert "SECRET" not in str(caught.value)


def test_a_small_part_of_a_large_table_is_computed_here(lake: Any) -> None:
    engine = Elsewhere()
    auto = AutoEngine(spark=engine, small_scan_bytes=100_000)
    with serving(lake, policy("*.public.people", mask=MASK), engine=auto) as callers:
        assert len(rows_of(callers)) > 5000
        in_tasks = len(engine.tasks)
        assert len(rows_of(callers, filter="id = 2096")) == 1

    assert in_tasks > 0
    assert len(engine.tasks) == in_tasks


def test_spark_computes_row_filters_and_masks(lake: Any, spark: Any) -> None:
    rule = policy("*.public.people", rows=COMPUTED[0], mask=MASK, hide=("card",))
    with serving(lake, rule) as here:
        expected = rows_of(here)
    with serving(lake, rule, engine=None, spark=spark, small_scan_bytes=0) as there:
        assert rows_of(there) == expected
    failing = policy("*.public.people", mask={"id": "CAST(card AS BIGINT)"})
    with serving(lake, failing, engine=None, spark=spark, small_scan_bytes=0) as there:
        with pytest.raises(InvalidInputError, match="has failed") as caught:
            rows_of(there)
        assert "SECRET" not in str(caught.value)

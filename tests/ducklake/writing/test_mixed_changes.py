"""Random changes of one table by Lakeport and by the reference in turns, against a dictionary."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeport import Lake
from tests.fixtures_lakes import RealLake

bounds = st.tuples(st.integers(0, 60), st.integers(0, 60)).map(sorted)
change = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 25)),
    st.tuples(st.just("delete"), bounds),
    st.tuples(st.just("update"), bounds),
    st.tuples(st.just("merge"), bounds),
    st.tuples(st.just("flush"), st.none()),
    st.tuples(st.just("rewrite"), st.none()),
)
steps = st.lists(st.tuples(st.sampled_from(["ours", "theirs"]), change), min_size=3, max_size=9)


class Model:
    """The table as a dictionary of ids and values."""

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}

    def apply(self, name: str, argument: Any) -> None:
        if name == "append":
            start = max(self.rows, default=-1) + 1
            self.rows |= dict.fromkeys(range(start, start + argument), 0)
        elif name == "delete":
            self.rows = {i: v for i, v in self.rows.items() if not _inside(i, argument)}
        elif name == "update":
            self.rows = {i: v + _inside(i, argument) for i, v in self.rows.items()}
        elif name == "merge":
            low, high = argument
            for i in range(low, high + 1):
                self.rows[i] = self.rows[i] + 10 if i in self.rows else -1


def _inside(i: int, bounds: Any) -> bool:
    return bool(bounds[0] <= i <= bounds[1])


def ours(lake: Lake, name: str, argument: Any, start: int) -> None:
    table = lake.table("t")
    if name == "append":
        table.append({"i": list(range(start, start + argument)), "v": [0] * argument})
    elif name == "delete":
        table.delete(f"i BETWEEN {argument[0]} AND {argument[1]}")
    elif name == "update":
        table.update({"v": "v + 1"}, where=f"i BETWEEN {argument[0]} AND {argument[1]}")
    elif name == "merge":
        source = pa.table({"i": pa.array(range(argument[0], argument[1] + 1), pa.int32())})
        merge = table.merge(source, "target.i = source.i")
        merge = merge.when_matched(update={"v": "target.v + 10"})
        merge.when_not_matched(insert={"i": "source.i", "v": "-1"}).execute()


def theirs(name: str, argument: Any, start: int) -> str:
    if name == "append":
        return f"INSERT INTO t SELECT i, 0 FROM range({start}, {start + argument}) r(i)"
    if name == "flush":
        return "CALL ducklake_flush_inlined_data('lake')"
    if name == "rewrite":
        # A flush of DuckDB 1.5.5 brings deleted rows of older snapshots back, if a rewrite has
        # ended their file and one of them was an inlined delete: so there are none.
        flush = theirs("flush", argument, start)
        return f"{flush}; CALL ducklake_rewrite_data_files('lake', delete_threshold => 0.2)"
    where = f"i BETWEEN {argument[0]} AND {argument[1]}"
    if name == "delete":
        return f"DELETE FROM t WHERE {where}"
    if name == "update":
        return f"UPDATE t SET v = v + 1 WHERE {where}"
    return (
        f"MERGE INTO t USING (SELECT i::INTEGER AS i FROM range({argument[0]}, {argument[1] + 1}) "
        "r(i)) s ON t.i = s.i WHEN MATCHED THEN UPDATE SET v = t.v + 10 "
        "WHEN NOT MATCHED THEN INSERT VALUES (s.i, -1)"
    )


@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps)
def test_both_change_one_lake_in_turns_and_every_snapshot_stays_the_same_for_both(
    reference: duckdb.DuckDBPyConnection,
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, tuple[str, Any]]],
) -> None:
    folder = tmp_path_factory.mktemp("mixed")
    lake = RealLake(reference, f"ducklake:sqlite:{folder / 'm.sqlite'}", f"{folder}/data/")
    lake.execute("CREATE TABLE t (i INTEGER, v BIGINT)")
    model = Model()
    try:
        for writer, (name, argument) in steps:
            start = max(model.rows, default=-1) + 1
            if writer == "theirs" or name in ("flush", "rewrite"):
                lake.execute(theirs(name, argument, start))
            else:
                lake.detach()
                with Lake.open(lake.uri) as own:
                    ours(own, name, argument, start)
            model.apply(name, argument)
            found = lake.query("SELECT i, v FROM t")
            assert sorted(found) == sorted(model.rows.items()), (writer, name, argument)
            assert lake.query("SELECT count(*) FROM t") == [(len(model.rows),)]
        ids = lake.query("SELECT count(DISTINCT rowid) FROM t")
        assert ids == [(len(model.rows),)]
        lake.check()
    finally:
        lake.detach()

"""MERGE into a lake's table, against DuckDB's own MERGE of tables in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lakeport import Lake
from lakeport.ducklake.writing.changes import Clause, Merge
from lakeport.errors import InvalidArgumentError, InvalidInputError
from tests.fixtures_lakes import LakeMaker, RealLake

SCHEMA = pa.schema([("id", pa.int32()), ("v", pa.int64()), ("s", pa.string())])


def rows(*values: tuple[int | None, int | None, str | None]) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, value, strict=True)) for value in values], schema=SCHEMA
    )


@pytest.fixture(scope="module")
def merge_lake(
    tmp_path_factory: pytest.TempPathFactory, reference: duckdb.DuckDBPyConnection
) -> Iterator[RealLake]:
    folder = tmp_path_factory.mktemp("merge")
    lake = RealLake(reference, f"ducklake:sqlite:{folder / 'm.sqlite'}", f"{folder}/data/")
    lake.execute("CREATE TABLE t (id INTEGER, v BIGINT, s VARCHAR)")
    lake.detach()
    yield lake
    lake.detach()


row = st.tuples(
    st.integers(0, 12) | st.none(),
    st.integers(-3, 3) | st.none(),
    st.sampled_from(["a", "b", None]),
)
condition = st.sampled_from([None, "source.v > 0", "target.v = source.v", "source.s = 'a'"])
by_source_condition = st.sampled_from([None, "target.v > 0", "target.s IS NULL"])
insert_condition = st.sampled_from([None, "source.v > 0", "source.s = 'a'"])
update = st.sampled_from(
    ["*", {"v": "source.v + target.v"}, {"s": "coalesce(source.s, 'n')", "V": "0"}]
)
clause = st.one_of(
    st.builds(lambda c, u: Clause("matched", c, u), condition, update),
    st.builds(lambda c: Clause("matched", c, None), condition),
    st.builds(
        lambda c, i: Clause("not_matched", c, i),
        insert_condition,
        st.sampled_from(["*", {"id": "source.id", "s": "'new'"}]),
    ),
    st.builds(
        lambda c: Clause("not_matched_by_source", c, {"v": "target.v * 10"}), by_source_condition
    ),
    st.builds(lambda c: Clause("not_matched_by_source", c, None), by_source_condition),
)


def model(
    target: pa.Table, source: pa.Table, on: str, clauses: Sequence[Clause]
) -> list[Any] | None:
    """The rows after DuckDB's own MERGE; None if a row of the target has two actions."""
    with duckdb.connect() as duck:
        duck.register("target_rows", target)
        duck.register("source_rows", source)
        duck.execute("CREATE TABLE target AS FROM target_rows")
        duck.execute("CREATE TABLE source AS FROM source_rows")
        applies = " OR ".join(
            f"({clause.condition or 'true'})" for clause in clauses if clause.rows == "matched"
        )
        twice = duck.execute(
            f"SELECT target.rowid FROM target JOIN source ON {on} WHERE {applies or 'false'} "
            "GROUP BY ALL HAVING count(*) > 1"
        ).fetchall()
        matched = [clause for clause in clauses if clause.rows == "matched"]
        all_are_deleted = [(c.condition, c.values) for c in matched] == [(None, None)]
        if twice and not all_are_deleted:
            return None
        duck.execute(
            f"MERGE INTO target USING source ON ({on}) {' '.join(map(clause_sql, clauses))}"
        )
        return sorted(duck.execute("FROM target").fetchall(), key=repr)


def clause_sql(clause: Clause) -> str:
    names = {
        "matched": "MATCHED",
        "not_matched": "NOT MATCHED BY TARGET",
        "not_matched_by_source": "NOT MATCHED BY SOURCE",
    }
    values = clause.values
    if values == "*":
        values = {name: f"source.{name}" for name in SCHEMA.names}
    if values is None:
        action = "DELETE"
    elif clause.rows == "not_matched":
        action = f"INSERT ({', '.join(values)}) VALUES ({', '.join(values.values())})"
    else:
        action = f"UPDATE SET {', '.join(f'{n} = {e}' for n, e in values.items())}"
    when = f" AND ({clause.condition or 'true'})"  # DuckDB takes one clause without a condition
    return f"WHEN {names[clause.rows]}{when} THEN {action}"


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    first=st.lists(row, max_size=14),
    second=st.lists(row, max_size=5),
    source=st.lists(row, max_size=14),
    clauses=st.lists(clause, min_size=1, max_size=4),
    on=st.sampled_from(["target.id = source.id", "target.id = source.id AND target.s = source.s"]),
)
# The row matches twice, and a clause applies to one of the matches.
@example(
    first=[],
    second=[(1, 0, "a")],
    source=[(1, None, "a"), (0, None, "a"), (1, 0, "a")],
    clauses=[Clause("matched", "target.v = source.v", "*")],
    on="target.id = source.id",
)
# The row matches twice, and is deleted whichever match applies.
@example(
    first=[(1, 0, "a")],
    second=[(1, 5, None)],
    source=[(1, 1, "a"), (1, 2, "b")],
    clauses=[Clause("matched", None, None), Clause("not_matched", None, "*")],
    on="target.id = source.id",
)
def test_a_merge_of_any_clauses_does_what_the_merge_of_duckdb_does(
    merge_lake: RealLake,
    first: list[Any],
    second: list[Any],
    source: list[Any],
    clauses: list[Clause],
    on: str,
) -> None:
    with Lake.open(merge_lake.uri) as lake:
        lake.table("t").overwrite(rows(*first))
        lake.table("t").append(rows(*second))
        expected = model(rows(*first, *second), rows(*source), on, clauses)
        merge = lake.table("t").merge(rows(*source), on)
        for each in clauses:
            merge = _described(merge, each)
        before = lake.table("t").snapshot.id
        if expected is None:
            with pytest.raises(InvalidInputError, match="match more than one row"):
                merge.execute()
            assert lake.table("t").snapshot.id == before
            return
        result = merge.execute()
        table = lake.table("t")
        found = table.scan().to_arrow()
        assert (
            sorted(zip(*(c.to_pylist() for c in found.columns), strict=True), key=repr) == expected
        )
        old = len(first) + len(second)
        assert found.num_rows == old + result.rows_inserted - result.rows_deleted
        ids = table.scan(["rowid"]).to_arrow().column(0).to_pylist()
        assert len(set(ids)) == len(ids)


def _described(merge: Merge[Any], clause: Clause) -> Merge[Any]:
    changes: Any = {"delete": True} if clause.values is None else {"update": clause.values}
    if clause.rows == "matched":
        return merge.when_matched(clause.condition, **changes)
    if clause.rows == "not_matched":
        return merge.when_not_matched(clause.condition, insert=clause.values or "*")
    return merge.when_not_matched_by_source(clause.condition, **changes)


def test_a_merge_reads_only_files_in_the_range_of_the_keys_and_keeps_row_ids(
    make_lake: LakeMaker,
) -> None:
    lake = make_lake()
    lake.execute("CREATE TABLE t (id INTEGER, v BIGINT, s VARCHAR)")
    for start in (0, 100, 200):
        lake.execute(f"INSERT INTO t SELECT i, i, 's' FROM range({start}, {start + 100}) r(i)")
    source = pa.table({"id": pa.array([*range(150, 170), 500], pa.int32()), "v": [7] * 21})
    with lake.open() as ours:
        before = {row["id"]: row["rowid"] for row in _rows(ours, "id", "rowid")}
        first = ours.table("t").files()[0]
        # Files outside of the range are not opened: this one is gone.
        Path(first.path).rename(f"{first.path}.hidden")
        result = (
            ours.table("t")
            .merge(source, "target.id = source.id")
            .when_matched("source.id < 160", update={"v": "target.v + source.v"})
            .when_matched("source.id = 165", delete=True)
            .when_not_matched(insert={"id": "source.id", "v": "-1"})
            .execute()
        )
        Path(f"{first.path}.hidden").rename(first.path)
        assert (result.rows_updated, result.rows_deleted, result.rows_inserted) == (10, 1, 1)
        after = {row["id"]: row for row in _rows(ours, "id", "v", "s", "rowid")}
    assert {id: row["rowid"] for id, row in after.items() if id != 500} == {
        id: rowid for id, rowid in before.items() if id != 165
    }
    assert [after[id]["v"] for id in (149, 150, 159, 160, 500)] == [149, 157, 166, 160, -1]
    assert (after[150]["s"], after[500]["s"]) == ("s", None)
    rows_of_reference = lake.query("SELECT id, v, s, rowid FROM t")
    assert sorted(rows_of_reference) == sorted(
        (id, row["v"], row["s"], row["rowid"]) for id, row in after.items()
    )
    assert lake.query("SELECT count(*), min(v), max(id) FROM t") == [(300, -1, 500)]


def _rows(lake: Lake, *columns: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = lake.table("t").scan(list(columns)).to_arrow().to_pylist()
    return found


def test_mistakes_in_a_merge_are_reported_before_anything_is_written(merge_lake: RealLake) -> None:
    with Lake.open(merge_lake.uri) as lake:
        table = lake.table("t")
        before = lake.snapshot().id
        merge = table.merge(pa.table({"id": [1]}), "target.id = source.id")
        with pytest.raises(InvalidArgumentError, match="at least one clause"):
            merge.execute()
        with pytest.raises(InvalidArgumentError, match="either update"):
            merge.when_matched()
        with pytest.raises(InvalidInputError, match="no column 'v', which '\\*' needs"):
            merge.when_matched(update="*").execute()
        with pytest.raises(InvalidArgumentError, match="no column 'w' to set"):
            merge.when_matched(update={"w": "1"}).execute()
        with pytest.raises(InvalidArgumentError, match="subquery"):
            merge.when_matched("(SELECT true)", delete=True).execute()
        with pytest.raises(InvalidArgumentError, match="is not SQL"):
            merge.when_matched("source.id >", delete=True).execute()
        assert lake.snapshot().id == before

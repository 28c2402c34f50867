"""Changes of rows of special types by us and by the reference: the same statements, the same catalogs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from lakeport import Lake
from lakeport.ducklake import LakeTable
from lakeport.errors import InvalidArgumentError, InvalidInputError
from tests.ducklake.writing.catalog_comparison import assert_same_catalogs
from tests.fixtures_lakes import LakeMaker, RealLake

COLUMNS = {
    "id": "INTEGER",
    "place": "GEOMETRY",
    "s": "STRUCT(x INTEGER, y VARCHAR, z STRUCT(w VARCHAR))",
}
ROWS = (
    "SELECT i::INTEGER AS id, ('POINT (' || i || ' 1)')::GEOMETRY AS place,"
    " {{'x': i::INTEGER, 'y': 'y ' || i, 'z': {{'w': NULL::VARCHAR}}}} AS s FROM range({0}, {1}) r(i)"
)
UPSERT = (
    "MERGE INTO {0} AS target USING (SELECT * FROM ({1})) AS source ON target.id = source.id"
    " WHEN MATCHED THEN UPDATE SET {2} WHEN NOT MATCHED THEN INSERT"
)


@dataclass(frozen=True)
class Step:
    """A statement of the reference, and our call for it, which may need rows."""

    sql: str
    ours: Callable[[LakeTable, pa.Table | None], Any]
    rows: str | None = None


def append(rows: str) -> Step:
    return Step(f"INSERT INTO t {rows}", lambda table, found: table.append(found), rows)


def upsert(rows: str, *columns: str) -> Step:
    sets = ", ".join(f"{name} = source.{name}" for name in columns)

    def run(table: LakeTable, found: pa.Table | None) -> None:
        merge = table.merge(found, "target.id = source.id")
        merge.when_matched(update="*").when_not_matched(insert="*").execute()

    return Step(UPSERT.format("t", rows, sets), run, rows)


def compare(make_lake: LakeMaker, kind: str, columns: dict[str, str], steps: list[Step]) -> None:
    """Make the same steps in two lakes, and compare all rows of the two catalogs."""
    ours, theirs = make_lake(kind), make_lake(kind)
    listed = ", ".join(f"{name} {type}" for name, type in columns.items())
    theirs.execute(f"CREATE TABLE t ({listed})")
    rows = [
        None if step.rows is None else theirs.connection.sql(step.rows).to_arrow_table()
        for step in steps
    ]
    with theirs.on_one_thread():
        theirs.execute(*(step.sql for step in steps))
    expected = texts(theirs)
    theirs.detach()
    with Lake.create(ours.uri, data_path=ours.data_path) as lake:
        lake.create_table("t", columns)
        for step, found in zip(steps, rows, strict=True):
            step.ours(lake.table("t"), found)

    assert_same_catalogs(ours.uri, theirs.uri)
    assert texts(ours) == expected
    ours.check()


def texts(lake: RealLake) -> list[tuple[str, ...]]:
    return sorted(lake.query("SELECT COLUMNS(*)::VARCHAR FROM t"), key=repr)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "duckdb"])
def test_a_merge_inlines_what_it_updates_and_writes_a_file_of_what_it_inserts(
    make_lake: LakeMaker, kind: str
) -> None:
    columns = {name: type for name, type in COLUMNS.items() if name != "place"}
    rows = "SELECT id, s FROM (" + ROWS + ")"
    steps = [
        append(rows.format(0, 3)),
        append(rows.format(3, 30)),
        upsert(rows.format(2, 5), "id", "s"),
        upsert(rows.format(29, 32), "id", "s"),
    ]

    compare(make_lake, kind, columns, steps)


def test_deletes_are_inlined_also_in_a_table_whose_rows_cannot_be(make_lake: LakeMaker) -> None:
    steps = [
        append(ROWS.format(0, 30)),
        append(ROWS.format(30, 32)),
        Step("DELETE FROM t WHERE id = 7", lambda t, _: t.delete("id = 7")),
        Step("DELETE FROM t WHERE id >= 30", lambda t, _: t.delete("id >= 30")),
        Step(
            "UPDATE t SET place = 'POINT (0 0)' WHERE id = 9",
            lambda t, _: t.update({"place": "'POINT (0 0)'"}, "id = 9"),
        ),
        Step(
            "UPDATE t SET place = CASE WHEN id = 1 THEN NULL ELSE place END WHERE id < 4",
            lambda t, _: t.update({"place": "CASE WHEN id = 1 THEN NULL ELSE place END"}, "id < 4"),
        ),
        upsert(ROWS.format(29, 31), "id", "place", "s"),
    ]

    compare(make_lake, "sqlite", COLUMNS, steps)


def test_a_huge_integer_is_stored_in_a_file_as_the_reference_stores_it(
    make_lake: LakeMaker,
) -> None:
    rows = "SELECT i::INTEGER AS id, i * 1234567890123456789012345678::HUGEINT AS h FROM range(30) r(i)"
    compare(make_lake, "sqlite", {"id": "INTEGER", "h": "HUGEINT"}, [append(rows)])


def test_a_huge_integer_that_no_file_can_hold_is_refused(make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite")
    rows = lake.connection.sql(
        f"SELECT i::INTEGER AS id, {2**127 - 1}::HUGEINT AS h FROM range(30) r(i)"
    ).to_arrow_table()
    with Lake.create(lake.uri, data_path=lake.data_path) as ours:
        table = ours.create_table("t", {"id": "INTEGER", "h": "HUGEINT"})

        with pytest.raises(InvalidInputError, match=r"'h'.*cannot hold 1701411834604692317"):
            table.append(rows)


def test_a_partition_key_takes_a_type_in_which_its_values_stay_the_same(
    make_lake: LakeMaker,
) -> None:
    lakes = make_lake("sqlite"), make_lake("sqlite")
    ours, theirs = lakes
    keys = "k, bucket(4, n), day(d)"
    query = (
        "SELECT (i % 3)::SMALLINT AS k, i::INTEGER AS n, DATE '2024-01-01' + i::INTEGER % 2 AS d"
        " FROM range(40) r(i)"
    )
    rows = theirs.connection.sql(query).to_arrow_table()
    changes = {"k": "BIGINT", "n": "BIGINT", "d": "TIMESTAMP"}
    for lake in lakes:
        lake.execute(
            "CREATE TABLE t (k SMALLINT, n INTEGER, d DATE)",
            f"ALTER TABLE t SET PARTITIONED BY ({keys})",
            f"INSERT INTO t {query}",
        )
        lake.detach()
    with ours.open() as own:
        for name, type in changes.items():
            own.table("t").alter_column(name, type)
        own.table("t").append(rows)
    theirs.execute(*(f"ALTER TABLE t ALTER {name} TYPE {type}" for name, type in changes.items()))
    theirs.execute(f"INSERT INTO t {query}")

    filters = ("true", "k = 1", "n = 7", "n IN (5, 39)", "d = '2024-01-02'", "d < '2024-01-02'")
    found = []
    for lake in (theirs, ours):
        found.append([lake.query(f"SELECT * FROM t WHERE {f} ORDER BY ALL") for f in filters])
        lake.detach()
    assert found[0] == found[1]
    with ours.open() as own:
        counts = [own.table("t").scan(filter=f).to_arrow().num_rows for f in filters]
    assert counts == [len(rows) for rows in found[0]]
    assert 0 not in counts


def test_a_partition_key_is_not_retyped_if_its_values_would_be_in_other_partitions(
    make_lake: LakeMaker,
) -> None:
    with Lake.create(make_lake("sqlite").uri, data_path="unused/") as lake:
        for number, (key, old, new) in enumerate(
            [
                ("bucket(4, c)", "DATE", "TIMESTAMP"),
                ("bucket(4, c)", "DECIMAL(9,2)", "DECIMAL(18,4)"),
                ("c", "FLOAT", "DOUBLE"),
                ("c", "BOOLEAN", "INTEGER"),
            ]
        ):
            table = lake.create_table(f"t{number}", {"c": old}, partition_by=[key])
            with pytest.raises(InvalidArgumentError, match="change the partitioning first"):
                table.alter_column("c", new)

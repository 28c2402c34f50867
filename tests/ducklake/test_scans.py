"""Scans: their columns, their tasks, the files that they read, and what is wrong with those."""

from __future__ import annotations

import pickle
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from lakeport.errors import (
    CorruptLakeError,
    InvalidArgumentError,
    MissingFileError,
    NotFoundError,
    UnsupportedError,
)
from lakeport.filters import col

LakeMaker = Callable[..., Any]


@pytest.mark.process
def test_plans_and_tasks_are_small_and_run_in_another_process(
    make_lake: LakeMaker, tmp_path: Path
) -> None:
    lake = make_lake("sqlite")
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id, {'a': i} AS s FROM range(1000) r(i)",
        "DELETE FROM t WHERE id = 5",
        "INSERT INTO t VALUES (7, {'a': 1})",
    )
    with lake.open() as ours:
        plan = ours.table("t").scan(["id", "s", "rowid"]).plan
    assert pickle.loads(pickle.dumps(plan)) == plan
    sizes = [len(pickle.dumps(task)) for task in plan.tasks]
    assert max(sizes) < 6000
    (tmp_path / "plan").write_bytes(pickle.dumps(plan))
    code = (
        "import pickle, sys; plan = pickle.load(open(sys.argv[1], 'rb'))\n"
        "print(sum(task.to_table().num_rows for task in plan.tasks))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "plan")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "1000"


def test_large_files_are_divided_and_every_row_is_read_once(make_lake: LakeMaker) -> None:
    lake = make_lake("duckdb", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        "CALL ducklake_set_option('lake', 'parquet_row_group_size', 2048)",
        "CREATE TABLE t AS SELECT i AS id FROM range(30000) r(i)",
        "DELETE FROM t WHERE id % 100 = 0",
    )
    with lake.open(engine="local") as ours:
        for task_bytes in (1, 10_000, 50_000, 1 << 30):
            scan = ours.table("t").scan(["id", "file_row_number", "rowid"], task_bytes=task_bytes)
            table = scan.to_arrow()
            assert table["id"].to_pylist() == [i for i in range(30000) if i % 100]
            assert table["id"] == table["file_row_number"] == table["rowid"]
        assert len(ours.table("t").scan(task_bytes=10_000).plan.tasks) > 3
        batches = list(ours.table("t").scan().plan.tasks[0].read(batch_rows=1000))
        assert max(batch.num_rows for batch in batches) <= 1000
        with pytest.raises(InvalidArgumentError):
            ours.table("t").scan(task_bytes=0)


def test_a_file_that_duckdb_must_read_may_be_divided(make_lake: LakeMaker) -> None:
    lake = make_lake("duckdb", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        "CALL ducklake_set_option('lake', 'parquet_row_group_size', 2048)",
        "CREATE TABLE t AS SELECT i AS id, INTERVAL (i) SECOND AS i FROM range(10000) r(i)",
        "ALTER TABLE t ALTER i TYPE JSON",
        "DELETE FROM t WHERE id % 100 = 0",
    )
    with lake.open() as ours:
        scan = ours.table("t").scan(["id", "i", "file_row_number"], task_bytes=20_000)
        assert len(scan.plan.tasks) > 1
        table = scan.to_arrow()
        assert table["id"].to_pylist() == [i for i in range(10000) if i % 100]
        assert table["id"] == table["file_row_number"]
        assert table["i"][0].as_py() == '"00:00:01"'


def test_a_scan_may_ask_for_any_columns_in_any_order(make_lake: LakeMaker) -> None:
    lake = make_lake()
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id, -i AS v FROM range(20) r(i)",
        "INSERT INTO t VALUES (100, 0)",
        "DELETE FROM t WHERE id = 3",
        "ALTER TABLE t ADD COLUMN d INTEGER DEFAULT 4",
    )
    with lake.open() as ours:
        table = ours.table("t")
        assert table.scan(["V", "id"]).to_arrow().column_names == ["v", "id"]
        assert table.scan(["d"]).to_arrow()["d"].to_pylist() == [4] * 20
        assert table.scan([]).to_arrow().num_rows == 20
        assert table.scan([], "1 = 0").to_arrow().num_rows == 0
        assert table.scan([], "NULL").to_arrow().num_rows == 0
        assert table.scan([], "1 = 1").to_arrow().num_rows == 20
        assert (
            table.scan(["filename"])
            .to_arrow()["filename"]
            .to_pylist()[-1]
            .startswith("ducklake_inlined")
        )
        assert table.scan().plan.estimated_rows == 21
        assert "2 columns" not in table.scan().explain()
        with pytest.raises(NotFoundError, match="no column 'nope'"):
            table.scan(["nope"])


@pytest.mark.parametrize("filter", [None, "id > 97", "length(v) > 3", "rowid > 97"])
def test_a_column_may_be_asked_for_twice(filter: str | None, make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite")
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id, 'x' || i AS v FROM range(100) r(i)",
        "INSERT INTO t VALUES (100, 'x100')",
    )
    with lake.open() as ours:
        once = ours.table("t").scan(["id", "rowid"], filter).to_arrow()
        twice = ours.table("t").scan(["id", "ID", "rowid", "rowid"], filter).to_arrow()
    assert twice.column_names == ["id", "id", "rowid", "rowid"]
    assert [column.to_pylist() for column in twice.columns] == [
        once[name].to_pylist() for name in twice.column_names
    ]


def test_a_column_named_like_a_virtual_one_hides_it(make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute("CREATE TABLE t AS SELECT 42 AS snapshot_id, 'f' AS filename")
    with lake.open() as ours:
        assert ours.table("t").scan(["snapshot_id", "filename"]).to_arrow().to_pylist() == [
            {"snapshot_id": 42, "filename": "f"}
        ]


def test_missing_files_are_errors(make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id FROM range(10) r(i)", "DELETE FROM t WHERE id = 1"
    )
    with lake.open() as ours:
        file = ours.table("t").files()[0]
        Path(file.deletes[0].path).unlink()
        with pytest.raises(MissingFileError, match="delete"):
            ours.table("t").scan().to_arrow()
        assert ours.table("t", version=1).scan().to_arrow().num_rows == 10
        Path(file.path).unlink()
        with pytest.raises(MissingFileError):
            ours.table("t", version=1).scan().to_arrow()


@pytest.mark.parametrize("type", ["INTEGER", "VARIANT"])  # the second is read by DuckDB
def test_damage_inside_a_file_names_the_file(type: str, make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute(f"CREATE TABLE t AS SELECT i::{type} AS id FROM range(10000) r(i)")
    with lake.open() as ours:
        file = Path(ours.table("t").files()[0].path)
        content = bytearray(file.read_bytes())
        content[4:4000] = b"\xff" * 3996
        file.write_bytes(content)
        with pytest.raises(CorruptLakeError, match=file.name):
            ours.table("t").scan().to_arrow()


@pytest.mark.parametrize("inlining", [0, 10])
def test_variants_that_became_json(inlining: int, make_lake: LakeMaker) -> None:
    # The real implementation itself cannot read the snapshots before it any more.
    lake = make_lake("duckdb", f"DATA_INLINING_ROW_LIMIT {inlining}")
    lake.execute(
        "CREATE TABLE t(v VARIANT)",
        "INSERT INTO t VALUES ({'a': 1}::VARIANT), (42::VARIANT), (NULL), ('null'::JSON::VARIANT)",
        "ALTER TABLE t ALTER v TYPE JSON",
    )
    wanted = [row[0] for row in lake.query("SELECT v FROM t")]
    with lake.open() as ours:
        assert ours.table("t").scan().to_arrow()["v"].to_pylist() == wanted


@pytest.mark.parametrize("inlining", [0, 10])
def test_nested_values_that_became_variants(inlining: int, make_lake: LakeMaker) -> None:
    lake = make_lake("duckdb", f"DATA_INLINING_ROW_LIMIT {inlining}")
    lake.execute(
        "CREATE TABLE t(s STRUCT(i INTERVAL, g GEOMETRY, n INTEGER), l TIMETZ[])",
        "INSERT INTO t VALUES"
        " ({'i': INTERVAL 3 DAY, 'g': 'POINT(1 2)'::GEOMETRY, 'n': 5}, ['10:00:00+02'::TIMETZ])",
        "INSERT INTO t VALUES (NULL, NULL)",
        "ALTER TABLE t ALTER s TYPE STRUCT(i VARIANT, g VARIANT, n VARIANT)",
        "ALTER TABLE t ALTER l TYPE VARIANT[]",
    )
    as_json = "SELECT s::STRUCT(i JSON, g JSON, n JSON)::VARCHAR, l::JSON[]::VARCHAR FROM "
    wanted = lake.query(as_json + "t")
    with lake.open() as ours:
        found = ours.table("t").scan().to_arrow()
    assert duckdb.from_arrow(found).query("found", as_json + "found").fetchall() == wanted


def test_structs_inlined_as_text_keep_what_the_real_implementation_loses(
    make_lake: LakeMaker,
) -> None:
    lake = make_lake("sqlite")
    lake.execute(
        "CREATE TABLE t(s STRUCT(q VARCHAR, d DATE, ts TIMESTAMP, b BLOB, u UUID, f DOUBLE, n STRUCT(x VARCHAR), i INTERVAL))",
        r"""INSERT INTO t VALUES ({'q': 'x''y\z', 'd': '2024-01-02', 'ts': '2024-01-02 03:04:05', 'b': '\x00\xAA'::BLOB,
            'u': '00000000-0000-0000-0000-000000000001', 'f': 'nan', 'n': {'x': 'a' || chr(0) || '''b'},
            'i': INTERVAL '1 month 2 days'})""",
    )
    with lake.open() as ours:
        value = ours.table("t").scan().to_arrow()["s"][0]
    assert value["q"].as_py() == r"x'y\z"
    assert str(value["d"].as_py()) == "2024-01-02"
    assert value["b"].as_py() == b"\x00\xaa"
    assert value["n"]["x"].as_py() == "a\x00'b"
    assert value["i"].as_py() == pa.scalar((1, 2, 0), pa.month_day_nano_interval()).as_py()


def test_a_plan_is_shown_in_a_few_lines(make_lake: LakeMaker) -> None:
    names = ", ".join(f"{i} AS c{i}" for i in range(40))
    lake = make_lake("duckdb", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute(f"CREATE TABLE t AS SELECT {names}", *["INSERT INTO t FROM t"] * 4)
    with lake.open() as ours:
        scan = ours.table("t").scan(filter="c0 = 0")

        assert repr(scan).startswith("scan of main.t at snapshot 5")
        assert repr(scan) == f"{scan.plan!r}\n  engine: local"
        assert len(repr(scan).splitlines()) == 6
        assert "c7 and 32 more" in repr(scan)


def test_a_filter_may_cast_to_an_arrow_type(make_lake: LakeMaker) -> None:
    lake = make_lake("duckdb")
    lake.execute("CREATE TABLE t AS SELECT i AS id FROM range(50) r(i)")
    with lake.open() as ours:
        plan = ours.table("t").scan(filter=col("id").cast(pa.string()) == "42")

        assert plan.to_arrow()["id"].to_pylist() == [42]


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
@pytest.mark.parametrize("inlined_rows", [0, 10])
def test_a_column_of_an_unknown_type_does_not_keep_others_from_being_read(
    make_lake: LakeMaker, kind: str, inlined_rows: int
) -> None:
    lake = make_lake(kind, options=f"DATA_INLINING_ROW_LIMIT {inlined_rows}")
    lake.execute("CREATE TABLE t AS SELECT 1 AS odd, 2 AS id", "INSERT INTO t VALUES (3, 4)")
    lake.execute(
        "ALTER TABLE t ADD COLUMN late INTEGER DEFAULT 5", "INSERT INTO t VALUES (6, 7, 8)"
    )
    lake.detach()
    path = lake.uri.removeprefix("ducklake:").removeprefix("sqlite:")
    connect: Any = {"duckdb": duckdb.connect, "sqlite": sqlite3.connect}[kind]
    catalog = connect(path)
    catalog.execute(
        "UPDATE ducklake_column SET column_type = 'quaternion' WHERE column_name = 'odd'"
    )
    catalog.commit()
    catalog.close()

    with lake.open() as ours:
        table = ours.table("t")
        rows = table.scan(["id", "late"]).to_arrow().sort_by("id").to_pydict()
        only_late = table.scan(["late"]).to_arrow().sort_by("late").to_pydict()
        with pytest.raises(UnsupportedError, match="'quaternion'"):
            table.scan(["odd"])

    assert rows == {"id": [2, 4, 7], "late": [5, 5, 8]}
    assert only_late == {"late": [5, 5, 8]}

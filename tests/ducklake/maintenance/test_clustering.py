"""The order of rows in new files: sort keys, and curves through several columns."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.ducklake import Lake
from lakeport.ducklake.maintenance.compaction import curve_keys, hilbert_keys, z_order_keys
from lakeport.errors import InvalidArgumentError, InvalidInputError, NotFoundError
from tests.fixtures_lakes import LakeMaker, RealLake


def grid(dimensions: int, bits: int) -> list[Any]:
    points = np.array(list(itertools.product(range(1 << bits), repeat=dimensions)), np.uint64)
    return [points[:, axis].copy() for axis in range(dimensions)]


@pytest.mark.parametrize(("dimensions", "bits"), [(1, 6), (2, 4), (3, 3), (4, 2)])
def test_a_hilbert_curve_visits_each_point_and_moves_by_one_step(
    dimensions: int, bits: int
) -> None:
    axes = grid(dimensions, bits)
    keys = hilbert_keys(axes, bits)
    assert sorted(keys.tolist()) == list(range(1 << (dimensions * bits)))
    path = np.stack(axes, axis=1).astype(np.int64)[np.argsort(keys)]
    assert np.abs(np.diff(path, axis=0)).sum(axis=1).tolist() == [1] * (len(path) - 1)


def test_a_z_order_interleaves_bits() -> None:
    first, second = np.array([0b10, 0b11], np.uint64), np.array([0b01, 0b00], np.uint64)
    assert z_order_keys([first, second], 2).tolist() == [0b1001, 0b1010]
    axes = grid(3, 3)
    assert sorted(z_order_keys(axes, 3).tolist()) == list(range(512))


def test_keys_follow_the_ranks_of_any_values() -> None:
    numbers = curve_keys(pa.table({"a": [5, 1, None, 3]}), "hilbert")
    texts = curve_keys(pa.table({"a": ["m", "b", None, "c"]}), "hilbert")
    assert np.argsort(numbers).tolist() == np.argsort(texts).tolist() == [1, 3, 0, 2]
    assert len(curve_keys(pa.table({"a": pa.array([], pa.int32())}), "z_order")) == 0
    with pytest.raises(InvalidInputError, match="column 'a'"):
        curve_keys(pa.table({"a": [{"x": 1}]}), "z_order")


@pytest.fixture
def lake(make_lake: LakeMaker) -> RealLake:
    lake = make_lake("sqlite", options="DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        "CREATE TABLE t (a INTEGER, b INTEGER, c VARCHAR)",
        "CALL lake.set_option('parquet_row_group_size', 256)",
        "INSERT INTO t SELECT (hash(i) % 1000)::INT, (hash(i + 7) % 1000)::INT, 'x' || i FROM range(4096) r(i)",
        "DELETE FROM t WHERE a = 5",
    )
    return lake


def spans(lake: RealLake, column: int) -> float:
    """Return the average width of a column in the row groups of the table's only file."""
    with lake.open() as ours:
        footer = pq.read_metadata(ours.table("t").files()[0].path)
    widths: list[float] = [
        (stats := footer.row_group(i).column(column).statistics).max - stats.min
        for i in range(footer.num_row_groups)
    ]
    return sum(widths) / len(widths)


@pytest.mark.parametrize("curve", ["hilbert", "z_order"])
def test_a_clustered_rewrite_narrows_all_columns_and_keeps_the_rows(
    lake: RealLake, curve: Any
) -> None:
    before = lake.query("SELECT rowid, * FROM t ORDER BY 1")
    lake.detach()
    assert min(spans(lake, 0), spans(lake, 1)) > 900
    with lake.open(engine="local") as ours:
        result = ours.table("t").rewrite_files(cluster_by=["A", "b"], curve=curve)
    assert result.files_written == 1
    assert lake.query("SELECT rowid, * FROM t ORDER BY 1") == before
    lake.detach()
    assert max(spans(lake, 0), spans(lake, 1)) < 500
    lake.check()


def test_a_rewrite_sorts_by_given_keys(lake: RealLake) -> None:
    before = lake.query("SELECT rowid, * FROM t ORDER BY 1")
    with lake.open(engine="local") as ours:
        ours.table("t").rewrite_files(sort_by=["b DESC", "a"])
        path = ours.table("t").files()[0].path
    rows = pq.read_table(path, columns=["b", "a"]).to_pylist()
    assert rows == sorted(rows, key=lambda row: (-row["b"], row["a"]))
    assert lake.query("SELECT rowid, * FROM t ORDER BY 1") == before


def test_wrong_orders_are_refused(lake: RealLake) -> None:
    with lake.open(engine="local") as ours:
        table = ours.table("t")
        with pytest.raises(NotFoundError, match="'d'"):
            table.rewrite_files(cluster_by=["a", "d"])
        with pytest.raises(InvalidArgumentError, match="not both"):
            table.rewrite_files(cluster_by=["a"], sort_by=["b"])


def test_groups_run_as_tasks_of_spark(lake: RealLake, spark: Any) -> None:
    lake.execute(
        *(f"INSERT INTO t SELECT i, i, 'y' FROM range({n}, {n + 50}) r(i)" for n in (0, 50))
    )
    lake.execute("ALTER TABLE t SET SORTED BY (c)")
    before = lake.query("SELECT rowid, snapshot_id, * FROM t ORDER BY ALL")
    lake.detach()
    with Lake.open(lake.uri, spark=spark) as ours:
        merged = ours.table("t").merge_files()
        rewritten = ours.table("t").rewrite_files(threshold=0.0001)
    assert (merged.files_replaced, merged.files_written) == (2, 1)
    assert (rewritten.files_replaced, rewritten.files_written) == (1, 1)
    rows = lake.query("SELECT rowid, * FROM t ORDER BY ALL")
    assert rows == sorted((row[0], *row[2:]) for row in before)
    lake.check()

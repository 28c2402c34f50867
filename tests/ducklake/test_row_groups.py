"""Row groups are left out by their statistics, and no matching row with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings

from lakeport.ducklake import Lake, LakeTable
from lakeport.ducklake.reading import FileTask, ScanTask
from lakeport.ducklake.reading.footers import row_group_filter
from lakeport.ducklake.reading.parquet import open_parquet
from lakeport.filters import DuckDBEncoder, Expression, col
from tests.ducklake.typed_table import COLUMNS, filters, rows
from tests.fixtures_lakes import LakeMaker

ROWS = 20_480
GROUP = 2_048


@pytest.fixture(scope="module")
def table(
    reference: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LakeTable]:
    """One file of ten row groups whose columns were renamed, swapped and promoted afterwards."""
    folder = tmp_path_factory.mktemp("row-groups")
    uri = f"ducklake:sqlite:{folder}/lake.sqlite"
    reference.execute(f"ATTACH '{uri}' AS grouped (DATA_PATH '{folder}/data/')")
    for statement in (
        f"CALL ducklake_set_option('grouped', 'parquet_row_group_size', {GROUP})",
        f"CREATE TABLE grouped.t({COLUMNS})",
        f"INSERT INTO grouped.t {rows(0, ROWS)}",
        "ALTER TABLE grouped.t RENAME COLUMN i TO other",
        "ALTER TABLE grouped.t RENAME COLUMN b TO i",
        "ALTER TABLE grouped.t RENAME COLUMN other TO b",
        "ALTER TABLE grouped.t ALTER COLUMN r TYPE DOUBLE",
        "ALTER TABLE grouped.t ADD COLUMN later INTEGER DEFAULT 9",
        "DELETE FROM grouped.t WHERE b % 1000 = 11",
        "DETACH grouped",
    ):
        reference.execute(statement)
    with Lake.open(uri) as lake:
        yield lake.table("t")


@pytest.fixture(scope="module")
def duckdb_connection(table: LakeTable) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB that holds all rows. Of Arrow data it would let Arrow filter, which drops NaN."""
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("rows", table.scan([*table.schema.names, "rowid"]).to_arrow())
        connection.execute("CREATE TABLE everything AS FROM rows")
        yield connection


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(predicate=filters(most=ROWS, names={"i": "b", "b": "i"}))
@example(predicate=col("f") > -0.0)
def test_no_row_group_with_a_matching_row_is_left_out(
    predicate: Expression, table: LakeTable, duckdb_connection: duckdb.DuckDBPyConnection
) -> None:
    scan = table.scan(["rowid"], predicate)
    sql = DuckDBEncoder().encode(scan.plan.filter)
    matching = duckdb_connection.table("everything").filter(sql).project("rowid").to_arrow_table()
    assert scan.to_arrow() == matching


@pytest.mark.parametrize(
    ("predicate", "groups"),
    [
        (col("b") == 5_000, 1),
        ((col("b") < 10) | (col("b") > 20_000), 2),
        (col("i") == 1_000_003, 1),
        (col("d") < 3, 1),
        (col("ts").is_null(), 0),
        (col("r") == 1.0, 10),  # promoted after the file was written
        (col("later") == 8, 10),  # not in the file
        (col("f") > 6_000.0, 10),  # NaN is greater, and statistics do not count it
    ],
)
def test_row_groups_that_cannot_match_are_not_read(
    predicate: Expression, groups: int, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def watched(*given: object, **options: object) -> object:
        source = open_parquet(*given, **options)  # type: ignore[arg-type]
        batches = source.batches

        def counted(*given: object, **options: object) -> Iterator[tuple[int, pa.RecordBatch]]:
            for position, batch in batches(*given, **options):  # type: ignore[arg-type]
                read.append(position)
                yield position, batch

        source.batches = counted  # type: ignore[method-assign]
        return source

    monkeypatch.setattr("lakeport.ducklake.reading.data_files.open_parquet", watched)
    for task in table.scan(["rowid"], predicate).plan.tasks:
        list(task.read(batch_rows=GROUP))
    assert len(read) == groups
    assert all(position % GROUP == 0 for position in read)


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_row_groups_are_left_out_by_numbers_of_files_without_nan(
    make_lake: LakeMaker, kind: str
) -> None:
    lake = make_lake(kind, "DATA_INLINING_ROW_LIMIT 0")
    numbers = f"SELECT i - {ROWS // 2} AS d, CAST(i AS FLOAT) AS f FROM range({ROWS}) r(i)"
    lake.execute(
        f"CALL ducklake_set_option('lake', 'parquet_row_group_size', {GROUP})",
        f"CREATE TABLE t AS SELECT CAST(d AS DOUBLE) AS d, f FROM ({numbers})",
        f"INSERT INTO t SELECT if(d = 5, 'nan'::DOUBLE, d), f FROM ({numbers})",
    )
    with lake.open() as ours:
        for predicate, rows, read in (
            # DuckDB writes no bounds for the row group with NaN, so that it is read.
            (col("d") > ROWS / 2 - 3, 2 + 3, GROUP + 2 * GROUP),
            (col("f") >= ROWS - 2.0, 4, 2 * GROUP),
            (col("f") == 1.0, 2, 2 * GROUP),
            (~(col("f") <= ROWS - 2.0), 2, 2 * GROUP),
        ):
            tasks = ours.table("t").scan(["d"], predicate).plan.tasks
            assert sum(batch.num_rows for task in tasks for batch in task.read()) == rows
            loose = ours.table("t").scan(["d"], predicate, exact=False)
            assert rows <= loose.to_arrow().num_rows <= read
            assert _rows_decoded(tasks) == read


def test_nan_of_a_file_with_several_row_groups_is_found(make_lake: LakeMaker) -> None:
    lake = make_lake("duckdb", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        "CREATE TABLE t AS SELECT if(i = 7, 'nan'::DOUBLE, i) AS d FROM range(130_000) r(i)",
        "INSERT INTO t SELECT i FROM range(1_000) r(i)",
    )
    # The flag is that of the last row group: the real implementation does not find the row.
    flags = lake.query(f"SELECT contains_nan FROM {lake.meta}.ducklake_file_column_stats")
    assert flags == [(False,), (False,)]
    with lake.open() as ours:
        scan = ours.table("t").scan(filter=col("d") > 1_000_000.0)
        assert scan.plan.pruning.files_read == 1
        assert scan.to_arrow(engine="local").num_rows == 1


def _rows_decoded(tasks: Sequence[ScanTask]) -> int:
    """Return the rows of the row groups that remain after the filter of each task."""
    rows = 0
    for task in tasks:
        assert isinstance(task, FileTask)
        context = task.context
        with closing(open_parquet(context.storage, task.file.recorded)) as source:
            where = row_group_filter(
                context.filter, context.read_columns, source.shape.schema, None,
                task.file.without_nan,
            )  # fmt: skip
            found = source.batches([0], batch_rows=GROUP, where=where)
            rows += sum(batch.num_rows for _, batch in found)
    return rows


def test_positions_stay_right_where_row_groups_are_left_out(make_lake: LakeMaker) -> None:
    lake = make_lake("duckdb", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        f"CALL ducklake_set_option('lake', 'parquet_row_group_size', {GROUP})",
        f"CREATE TABLE t AS SELECT i AS id, i // {GROUP} % 2 AS odd FROM range({ROWS}) r(i)",
        "DELETE FROM t WHERE id % 100 = 0",
    )
    with lake.open() as ours:
        for task_bytes in (10_000, 1 << 30):
            plan = ours.table("t").scan(
                ["id", "file_row_number", "rowid"], col("odd") == 1, task_bytes=task_bytes
            )
            found = plan.to_arrow()
            assert found["id"] == found["file_row_number"] == found["rowid"]
            assert found.num_rows == sum(1 for i in range(ROWS) if i // GROUP % 2 and i % 100)


def test_files_without_field_ids_are_pruned_by_their_mapped_names(
    make_lake: LakeMaker, tmp_path: Path
) -> None:
    lake = make_lake("duckdb", "DATA_INLINING_ROW_LIMIT 0")
    path = tmp_path / "added.parquet"
    lake.execute(
        "CREATE TABLE t(id BIGINT, v BIGINT)",
        f"COPY (SELECT i AS ID, -i AS V FROM range({ROWS}) r(i)) TO '{path}' (ROW_GROUP_SIZE {GROUP})",
        f"CALL ducklake_add_data_files('lake', 't', '{path}')",
        "ALTER TABLE t RENAME COLUMN id TO x",
        "ALTER TABLE t RENAME COLUMN v TO id",
        "ALTER TABLE t RENAME COLUMN x TO v",
    )
    with lake.open() as ours:
        assert ours.table("t").scan(["id"], col("id") == -7).to_arrow().to_pylist() == [{"id": -7}]
        assert ours.table("t").scan(["v"], col("v") == 7).to_arrow().to_pylist() == [{"v": 7}]


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[int, ...], tuple[str, ...]]]:
    """The row groups and columns that pyarrow decodes."""
    reads: list[tuple[tuple[int, ...], tuple[str, ...]]] = []
    original = pq.ParquetFile.iter_batches

    def record(self: pq.ParquetFile, **options: Any) -> Any:
        reads.append((tuple(options["row_groups"]), tuple(options["columns"])))
        return original(self, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", record)
    monkeypatch.setattr("lakeport.ducklake.reading.tasks._PROBED_BYTES", 0)
    return reads


@pytest.fixture
def scattered(make_lake: LakeMaker) -> Iterator[LakeTable]:
    """Ten row groups; statistics say nothing about `v`, whose values are all over the file."""
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        f"CALL ducklake_set_option('lake', 'parquet_row_group_size', {GROUP})",
        f"CREATE TABLE t AS SELECT i AS id, (i * 7919) % {ROWS} AS v, 'text ' || i AS s"
        f" FROM range({ROWS}) r(i)",
    )
    with lake.open(engine="local") as ours:
        yield ours.table("t")


def test_other_columns_are_read_only_of_row_groups_with_a_matching_row(
    scattered: LakeTable, decoded: list[tuple[tuple[int, ...], tuple[str, ...]]]
) -> None:
    wanted = (3 * GROUP + 5) * 7919 % ROWS

    rows = scattered.scan(["s", "id"], filter=col("v") == wanted).to_arrow()

    assert rows.to_pylist() == [{"s": f"text {3 * GROUP + 5}", "id": 3 * GROUP + 5}]
    assert [groups for groups, columns in decoded if columns == ("v",)] == [(g,) for g in range(10)]
    assert [groups for groups, columns in decoded if columns != ("v",)] == [(3,)]


def test_a_filter_that_every_row_group_passes_is_looked_at_twice(
    scattered: LakeTable, decoded: list[tuple[tuple[int, ...], tuple[str, ...]]]
) -> None:
    rows = scattered.scan(["s"], filter=col("v") > 10).to_arrow()

    assert rows.num_rows == ROWS - 11
    assert [groups for groups, columns in decoded if columns == ("v",)] == [(0,), (1,)]
    assert len([groups for groups, columns in decoded if columns != ("v",)]) == 10


def test_deleted_rows_do_not_make_a_row_group_wanted(
    make_lake: LakeMaker, decoded: list[tuple[tuple[int, ...], tuple[str, ...]]]
) -> None:
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        f"CALL ducklake_set_option('lake', 'parquet_row_group_size', {GROUP})",
        f"CREATE TABLE t AS SELECT i % {GROUP} AS v, i AS id FROM range({ROWS}) r(i)",
        f"DELETE FROM t WHERE v = 7 AND id > {2 * GROUP} AND id < {9 * GROUP}",
    )
    with lake.open(engine="local") as ours:
        rows = ours.table("t").scan(["id"], filter=col("v") == 7).to_arrow()

    assert rows["id"].to_pylist() == [7, GROUP + 7, 9 * GROUP + 7]
    assert [groups for groups, columns in decoded if columns == ("v",)] == [(g,) for g in range(10)]
    assert [groups for groups, columns in decoded if "id" in columns] == [(0,), (1,), (9,)]


def test_a_row_group_with_few_matching_rows_is_read_up_to_the_last_of_them(
    scattered: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    original = pq.ParquetFile.iter_batches

    def record(self: pq.ParquetFile, **options: Any) -> Any:
        for batch in original(self, **options):
            if len(options["columns"]) > 1:
                taken.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", record)
    monkeypatch.setattr("lakeport.ducklake.reading.tasks._PROBED_BYTES", 0)
    monkeypatch.setattr("lakeport.ducklake.reading.parquet._SMALL_BATCH_ROWS", 100)
    wanted = [(3 * GROUP + at) * 7919 % ROWS for at in (5, 250)]

    rows = scattered.scan(["s", "id"], filter=col("v").is_in(wanted)).to_arrow()

    assert rows["id"].to_pylist() == [3 * GROUP + 5, 3 * GROUP + 250]
    assert taken == [100, 100, 100]


@pytest.mark.parametrize("step", [1, 37, 150, 2000])
def test_rows_between_skipped_batches_keep_their_positions(
    step: int, make_lake: LakeMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleted rows and row ids are found by position, however many batches were skipped."""
    monkeypatch.setattr("lakeport.ducklake.reading.tasks._PROBED_BYTES", 0)
    monkeypatch.setattr("lakeport.ducklake.reading.parquet._SMALL_BATCH_ROWS", 64)
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        f"CALL ducklake_set_option('lake', 'parquet_row_group_size', {GROUP})",
        f"CREATE TABLE t AS SELECT i AS id, i % {step} AS v, 'text ' || i AS s"
        f" FROM range({ROWS}) r(i)",
        "DELETE FROM t WHERE id % 3 = 0",
    )
    with lake.open(engine="local") as ours:
        found = ours.table("t").scan(["rowid", "s"], filter=col("v") == 0).to_arrow()

    kept = [i for i in range(0, ROWS, step) if i % 3]
    assert found["rowid"].to_pylist() == kept
    assert found["s"].to_pylist() == [f"text {i}" for i in kept]


@pytest.mark.parametrize("small_bytes", [0, 1 << 30])
def test_a_scan_may_start_with_small_batches_of_the_first_row_group(
    small_bytes: int, make_lake: LakeMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that cancels after some rows has caused little work; others lose no row."""
    monkeypatch.setattr("lakeport.ducklake.reading.parquet._SMALL_BYTES", small_bytes)
    monkeypatch.setattr("lakeport.ducklake.reading.parquet._SMALL_BATCH_ROWS", 512)
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        f"CALL ducklake_set_option('lake', 'parquet_row_group_size', {GROUP})",
        f"CREATE TABLE t AS SELECT i AS id, 'text ' || i AS s FROM range({ROWS}) r(i)",
        "DELETE FROM t WHERE id = 600",
    )
    with lake.open(engine="local") as ours:
        (task,) = ours.table("t").scan(["rowid", "id", "s"]).plan.tasks
        assert isinstance(task, FileTask)
        batches = list(replace(task, starts_small=True).read())

    sizes = [batch.num_rows for batch in batches]
    first = [512, 511, 512, 512, ROWS - GROUP]
    assert sizes == (first if not small_bytes else [ROWS - 1])
    rows = pa.Table.from_batches(batches)
    kept = [i for i in range(ROWS) if i != 600]
    assert rows["id"].to_pylist() == rows["rowid"].to_pylist() == kept

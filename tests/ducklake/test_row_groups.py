"""Row groups are left out by their statistics, and no matching row with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings

from lakeport.ducklake import Lake, LakeTable
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
        connection.register("rows", table.scan([*table.schema.names, "rowid"]).to_table())
        connection.execute("CREATE TABLE everything AS FROM rows")
        yield connection


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(predicate=filters(most=ROWS, names={"i": "b", "b": "i"}))
@example(predicate=col("f") > -0.0)
def test_no_row_group_with_a_matching_row_is_left_out(
    predicate: Expression, table: LakeTable, duckdb_connection: duckdb.DuckDBPyConnection
) -> None:
    plan = table.scan(["rowid"], predicate)
    sql = DuckDBEncoder().encode(plan.filter)
    matching = duckdb_connection.table("everything").filter(sql).project("rowid").to_arrow_table()
    assert plan.to_table() == matching


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

    monkeypatch.setattr("lakeport.ducklake.reading.data_files.open_source", watched)
    for task in table.scan(["rowid"], predicate).tasks:
        list(task.read(batch_rows=GROUP))
    assert len(read) == groups
    assert all(position % GROUP == 0 for position in read)


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
            found = plan.to_table()
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
        assert ours.table("t").scan(["id"], col("id") == -7).to_table().to_pylist() == [{"id": -7}]
        assert ours.table("t").scan(["v"], col("v") == 7).to_table().to_pylist() == [{"v": 7}]

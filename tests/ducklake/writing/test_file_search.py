"""Deletes and updates of large files, which DuckDB's Parquet reader searches, beside the reference."""

from __future__ import annotations

from operator import methodcaller
from pathlib import Path

import pytest

from lakeport.ducklake import LakeTable
from lakeport.ducklake.writing import WriteResult
from lakeport.errors import CorruptLakeError
from tests.ducklake.writing.test_row_changes import Twins
from tests.fixtures_lakes import LakeMaker

# Files of more than 1 MiB, whose values do not compress.
ROWS = (
    "SELECT i AS id, hash(i) AS h, 'name ' || hash(i + 7) AS name, i % 97 AS part {more} "
    "FROM range({0}, {1}) r(i)"
)
LARGE = (
    "CREATE TABLE t (id BIGINT, h UBIGINT, name VARCHAR, part INTEGER)",
    "INSERT INTO t " + ROWS.format(0, 60_000, more=""),
    "DELETE FROM t WHERE id % 1000 < 100",
)


def check(twins: Twins) -> None:
    """Compare the rows with their ids: ours as the reference reads them and as we do."""
    query = "SELECT rowid, * FROM t ORDER BY rowid"
    expected = twins.theirs.query(query)
    twins.theirs.detach()
    assert twins.ours.query(query) == expected
    with twins.ours.open() as lake:
        table = lake.table("t")
        rows = table.scan(["rowid", *table.schema.names]).to_arrow().sort_by("rowid")
    assert list(zip(*(column.to_pylist() for column in rows.columns), strict=True)) == expected


@pytest.mark.parametrize(
    "condition",
    ["id % 10 = 3", "h < 1000000000000000000", "name LIKE 'name 1%' OR id < 50", "part IS NULL"],
)
def test_rows_of_a_large_file_are_deleted_as_by_the_reference(
    make_lake: LakeMaker, condition: str
) -> None:
    twins = Twins(make_lake, "sqlite", LARGE)

    twins.run(lambda table: table.delete(condition), f"DELETE FROM t WHERE {condition}")

    check(twins)


def test_files_from_before_a_change_of_columns_are_searched_too(make_lake: LakeMaker) -> None:
    twins = Twins(
        make_lake,
        "duckdb",
        (
            *LARGE,
            "ALTER TABLE t RENAME COLUMN part TO portion",
            "ALTER TABLE t ADD COLUMN extra INTEGER DEFAULT 5",
            "ALTER TABLE t ALTER portion TYPE BIGINT",
            "INSERT INTO t " + ROWS.format(60_000, 120_000, more=", 6 AS extra"),
        ),
    )
    for condition in ("portion = 5", "extra = 5 AND id % 3 = 0", "h > 17000000000000000000"):
        delete = methodcaller("delete", condition)
        twins.run(delete, f"DELETE FROM t WHERE {condition}")

    check(twins)


def test_partition_folders_are_no_columns(make_lake: LakeMaker) -> None:
    rows = ROWS.format(0, 120_000, more="").replace("i % 97", "i % 2")
    twins = Twins(
        make_lake,
        "sqlite",
        (LARGE[0], "ALTER TABLE t SET PARTITIONED BY (part)", f"INSERT INTO t {rows}"),
    )

    twins.run(
        lambda table: table.update({"name": "'x'"}, "part = 1 AND id % 20 = 1"),
        "UPDATE t SET name = 'x' WHERE part = 1 AND id % 20 = 1",
    )

    check(twins)


def test_a_second_delete_of_a_transaction_does_not_find_what_the_first_deleted(
    make_lake: LakeMaker,
) -> None:
    twins = Twins(make_lake, "sqlite", LARGE)

    def change(table: LakeTable) -> WriteResult | None:
        with table.lake.transaction() as transaction:
            own = transaction.table("t")
            own.delete("id % 10 = 3")
            own.delete("id % 5 = 3 OR h % 7 = 0")
            own.update({"part": "-1"}, "id % 10 < 5")
        return transaction.result

    result = twins.run(
        change,
        "BEGIN",
        "DELETE FROM t WHERE id % 10 = 3",
        "DELETE FROM t WHERE id % 5 = 3 OR h % 7 = 0",
        "UPDATE t SET part = -1 WHERE id % 10 < 5",
        "COMMIT",
    )

    check(twins)
    twins.ours.detach()
    (live,) = twins.theirs.query("SELECT count(*), count(*) FILTER (part = -1) FROM t")
    assert (result.rows_deleted, result.rows_updated) == (54_000 - live[0], live[1])


def test_a_replaced_file_is_found_out(make_lake: LakeMaker) -> None:
    """A file of another size is not searched: the scan task refuses it."""
    real = make_lake("sqlite")
    real.execute(*LARGE[:2])
    with real.open() as lake:
        (file,) = lake.table("t").files()
        with Path(file.path).open("ab") as stream:
            stream.write(b"x")

        with pytest.raises(CorruptLakeError, match="bytes"):
            lake.table("t").delete("id = 5")

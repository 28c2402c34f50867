"""INSERT, UPDATE and DELETE through a server, beside the same statements of the reference."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakeport import Lake
from lakeport.errors import LakeportError, PermissionDeniedError
from tests.lakehouse.writing.conftest import Write, Written

TABLE = "CREATE TABLE t (id INTEGER, name VARCHAR, amount DECIMAL(9,2), moment TIMESTAMP)"
ROWS = (
    "INSERT INTO t SELECT i, 'n' || i, i / 4, TIMESTAMP '2024-01-01' + INTERVAL (i) HOUR "
    "FROM range({0}, {1}) r(i)"
)
LIVE = (
    TABLE,
    ROWS.format(0, 5),
    ROWS.format(5, 105),
    ROWS.format(105, 205),
    "DELETE FROM t WHERE id IN (3, 7)",
    "DELETE FROM t WHERE id BETWEEN 110 AND 140",
    "UPDATE t SET name = 'updated' WHERE id % 10 = 0",
)


def new_rows(first: int, last: int) -> pa.Table:
    ids = pa.array(range(first, last), pa.int32())
    return pa.table(
        {
            "id": ids,
            "name": [f"n{i}" for i in range(first, last)],
            "amount": pc.divide(ids.cast(pa.float64()), 4).cast(pa.decimal128(9, 2)),
            "moment": pc.add(
                pa.scalar(1704067200_000000, pa.int64()),
                pc.multiply(ids.cast(pa.int64()), 3600_000000),
            ).cast(pa.timestamp("us")),
        }
    )


@pytest.mark.parametrize(
    ("kind", "count"), [("duckdb", 10), ("duckdb", 11), ("sqlite", 1), ("sqlite", 5000)]
)
def test_inserted_rows_are_those_of_the_reference(write: Write, kind: str, count: int) -> None:
    here = write(*LIVE, kind=kind)

    result = here.client.table("public.t").insert(new_rows(300, 300 + count))
    here.reference(ROWS.format(300, 300 + count))

    assert result.affected_rows == count
    assert here.client.table("public.t").scan().count() == 172 + count
    here.compare("t")


@pytest.mark.parametrize("where", ["id < 2", "id % 3 = 0", "id >= 0"])
def test_deleted_rows_are_those_of_the_reference(write: Write, where: str) -> None:
    here = write(*LIVE)
    found = here.rows("public.t", where, "id")

    result = here.client.table("public.t").delete(found.column("rowid"), returning=True)
    here.reference(f"DELETE FROM t WHERE {where}")

    assert result.affected_rows == found.num_rows
    assert result.returning is not None
    assert sorted(result.returning.column("id").to_pylist()) == sorted(
        found.column("id").to_pylist()
    )
    here.compare("t")


@pytest.mark.parametrize(
    ("where", "returning"),
    [("id < 2", True), ("id % 3 = 0", False), ("id >= 0", False), ("name = 'updated'", True)],
)
def test_updated_rows_are_those_of_the_reference(
    write: Write, where: str, *, returning: bool
) -> None:
    here = write(*LIVE)
    found = here.rows("public.t", where, "name", "amount")
    changes = pa.table(
        {
            "rowid": found.column("rowid"),
            "name": pc.binary_join_element_wise(found.column("name"), "!", ""),
            "amount": pc.add(found.column("amount"), pa.scalar(1)).cast(pa.decimal128(9, 2)),
        }
    )

    result = here.client.table("public.t").update(changes, returning=returning)
    here.reference(f"UPDATE t SET name = name || '!', amount = amount + 1 WHERE {where}")

    assert result.affected_rows == found.num_rows
    if returning:
        assert result.returning is not None
        assert result.returning.column("name").to_pylist() == changes.column("name").to_pylist()
    here.compare("t")


def test_a_statement_is_one_snapshot(write: Write) -> None:
    here = write(*LIVE)
    before = here.catalog.lake.snapshot().id
    table = here.client.table("public.t")

    table.insert(new_rows(300, 5300))
    table.delete(here.rows("public.t", "id > 310").column("rowid"))
    table.update(here.rows("public.t", "id < 310", "name"))

    assert here.catalog.lake.snapshot().id == before + 3


def test_a_repeated_row_id_takes_the_last_value(write: Write) -> None:
    here = write(TABLE, ROWS.format(0, 3))
    ids = here.rows("public.t", "id = 1").column("rowid").to_pylist()

    result = here.client.table("public.t").update(
        pa.table({"rowid": [*ids, *ids], "name": ["first", "last"]})
    )

    assert result.affected_rows == 1
    assert here.rows("public.t", "id = 1", "name").column("name").to_pylist() == ["last"]


def test_a_row_of_several_batches_is_deleted_and_returned_once(write: Write) -> None:
    here = write(TABLE, ROWS.format(0, 7000))
    ids = here.rows("public.t", "id % 2 = 0").column("rowid").to_pylist()

    result = here.client.table("public.t").delete([*ids, *ids[1000:], *ids[::-1]], returning=True)
    here.reference("DELETE FROM t WHERE id % 2 = 0")

    assert result.returning is not None
    assert sorted(result.returning.column("id").to_pylist()) == list(range(0, 7000, 2))
    assert result.affected_rows == 3500
    here.compare("t")


def test_row_ids_without_a_row_are_ignored(write: Write) -> None:
    here = write(*LIVE)

    result = here.client.table("public.t").delete([0, 0, 3, 10**15, -5])

    assert result.affected_rows == 1


def test_rows_are_found_by_ids_that_they_carry(write: Write) -> None:
    """Compaction writes ids into the file, and the ranges of the catalog do not help."""
    here = write(
        *LIVE,
        "CALL ducklake_rewrite_data_files('lake', 't', delete_threshold => 0.01)",
        "CALL ducklake_merge_adjacent_files('lake')",
    )
    found = here.rows("public.t", "id % 7 = 0")

    here.client.table("public.t").delete(found.column("rowid"))
    here.reference("DELETE FROM t WHERE id % 7 = 0")

    here.compare("t")


def test_a_lake_is_read_only_unless_it_is_served_writable(write: Write) -> None:
    here = write(TABLE, ROWS.format(0, 3), writable=False)
    table = here.client.table("public.t")

    for change in (
        lambda: table.insert(new_rows(1, 2)),
        lambda: table.delete([1]),
        lambda: table.update(pa.table({"rowid": [1], "name": ["x"]})),
        lambda: table.add_column("extra", pa.int64()),
        lambda: here.client.create_table("public", "other", new_rows(0, 1).schema),
        lambda: here.client.drop_table("public.t"),
        lambda: here.client.create_schema("other"),
        lambda: here.client.drop_schema("public"),
    ):
        with pytest.raises(PermissionDeniedError, match="served read-only: serve it with"):
            change()
    assert here.catalog.lake.snapshot().id == 2


def test_a_null_in_a_column_that_is_not_null_leaves_nothing(write: Write) -> None:
    here = write(
        "CREATE TABLE t (id INTEGER NOT NULL, name VARCHAR)", "INSERT INTO t VALUES (1, 'a')"
    )
    before = here.catalog.lake.snapshot().id

    with pytest.raises(LakeportError, match="id"):
        here.client.table("public.t").update(
            pa.table({"rowid": pa.array([0]), "id": pa.array([None], pa.int32())})
        )

    assert here.catalog.lake.snapshot().id == before


def test_a_transaction_sees_its_own_writes_and_no_others(write: Write) -> None:
    here = write(TABLE, ROWS.format(0, 3))
    table = here.client.table("public.t")

    with here.client.transaction():
        assert table.scan().count() == 3
        table.insert(new_rows(10, 12))
        assert table.scan().count() == 5
        with Lake.open(here.ours.uri) as other:
            other.table("t").append(new_rows(20, 24))
        assert table.scan().count() == 5
    assert table.scan().count() == 9


def test_an_explicit_transaction_is_one_snapshot(write: Write) -> None:
    here = write(TABLE, ROWS.format(0, 30))
    before = here.catalog.lake.snapshot().id
    table = here.client.table("public.t")

    with here.client.transaction(explicit=True):
        table.insert(new_rows(100, 103))
        table.insert(new_rows(200, 5200))
        assert table.scan().count() == 30 + 3 + 5000
        table.delete(here.rows("public.t", "id in (5, 101, 300)").column("rowid"))
        changed = here.rows("public.t", "id in (6, 102, 301)", "id")
        table.update(pa.table({"rowid": changed.column("rowid"), "name": ["x", "x", "x"]}))
        names = here.rows("public.t", "name = 'x'", "id").column("id").to_pylist()
        assert sorted(names) == [6, 102, 301]
        with Lake.open(here.ours.uri) as other:
            assert other.snapshot().id == before

    assert here.catalog.lake.snapshot().id == before + 1
    here.reference(
        "BEGIN",
        ROWS.format(100, 103),
        ROWS.format(200, 5200),
        "DELETE FROM t WHERE id IN (5, 101, 300)",
        "UPDATE t SET name = 'x' WHERE id in (6, 102, 301)",
        "COMMIT",
    )
    here.compare("t", row_ids=False)


def test_a_transaction_that_is_rolled_back_leaves_nothing(write: Write) -> None:
    here = write(TABLE, ROWS.format(0, 3))
    before = here.catalog.lake.snapshot().id
    table = here.client.table("public.t")

    with pytest.raises(ZeroDivisionError), here.client.transaction(explicit=True):
        table.insert(new_rows(100, 5100))
        raise ZeroDivisionError

    assert here.catalog.lake.snapshot().id == before
    assert table.scan().count() == 3
    assert _files(here) == []


def _files(here: Written) -> list[str]:
    return [str(path) for path in Path(here.ours.data_path).rglob("*.parquet")]

"""Several changes of rows in one transaction, and transactions that fail."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeport import Lake
from lakeport.errors import ConflictError, ConstraintError, InvalidArgumentError, NotFoundError
from tests.fixtures_lakes import LakeMaker, RealLake


def numbers(start: int, end: int, v: int = 0) -> pa.Table:
    ids = list(range(start, end))
    return pa.table({"id": pa.array(ids, pa.int32()), "v": pa.array([v] * len(ids), pa.int64())})


def make(make_lake: LakeMaker, kind: str = "duckdb", options: str = "") -> RealLake:
    lake = make_lake(kind, options)
    lake.execute(
        "CREATE TABLE t (id INTEGER, v BIGINT)",
        "INSERT INTO t SELECT i, 0 FROM range(5) r(i)",
        "INSERT INTO t SELECT i, 0 FROM range(5, 105) r(i)",
    )
    return lake


def contents(lake: RealLake) -> dict[int, tuple[int, int]]:
    """Value and row id of each id, as the reference reads them."""
    rows = lake.query("SELECT id, v, rowid FROM t")
    assert lake.query("SELECT count(*) FROM t") == [(len(rows),)]
    found = {id: (v, rowid) for id, v, rowid in rows}
    assert len(found) == len(rows)
    return found


def files_on_disk(lake: RealLake) -> set[str]:
    return {path.name for path in Path(lake.data_path).rglob("*.*")}


def registered(lake: RealLake) -> set[str]:
    tables = ("data_file", "delete_file", "files_scheduled_for_deletion")
    paths = [lake.query(f"SELECT path FROM meta.ducklake_{table}") for table in tables]
    return {Path(path).name for rows in paths for (path,) in rows}


@pytest.mark.parametrize("options", ["", "DATA_INLINING_ROW_LIMIT 0"])
def test_all_changes_of_a_transaction_become_one_snapshot_without_a_trace_of_the_steps(
    make_lake: LakeMaker, options: str
) -> None:
    lake = make(make_lake, options=options)
    if options:
        lake.execute("CALL lake.set_option('data_inlining_row_limit', 0)")
    before = contents(lake)
    with lake.open() as ours:
        with ours.transaction(message="many") as transaction:
            table = transaction.table("t")
            table.append(numbers(200, 230))
            table.append(numbers(300, 303))
            table.update({"v": "v + 1"}, where="id IN (1, 50, 205, 301)")
            table.update({"v": "v + 1"}, where="id IN (1, 50, 205, 301)")
            table.delete("id BETWEEN 10 AND 40")
            table.delete("id BETWEEN 41 AND 45 OR id BETWEEN 210 AND 220 OR id = 302")
            table.update({"v": "7"}, where="id = 45 OR id = 46")
            table.delete("id = 51")
        result = transaction.result
    assert result is not None
    assert (result.rows_inserted, result.rows_updated, result.rows_deleted) == (21, 3, 37)
    expected = {id: v for id, (v, _) in before.items() if not (10 <= id <= 45 or id == 51)}
    expected |= dict.fromkeys([*range(200, 210), *range(221, 230), 300, 301], 0)
    expected |= {1: 2, 50: 2, 205: 2, 301: 2, 46: 7}
    after = contents(lake)
    assert {id: v for id, (v, _) in after.items()} == expected
    assert {id: rowid for id, (_, rowid) in after.items() if id in before} == {
        id: rowid for id, (_, rowid) in before.items() if id in after
    }
    assert len(lake.snapshots()) == 5
    lake.check()
    lake.attach()
    assert files_on_disk(lake) == registered(lake)


def test_a_row_that_is_added_and_deleted_again_never_reaches_the_lake(
    make_lake: LakeMaker,
) -> None:
    lake = make(make_lake)
    before = contents(lake)
    with lake.open() as ours, ours.transaction() as transaction:
        table = transaction.table("t")
        table.append(numbers(200, 300))
        table.append(numbers(300, 303))
        table.delete("id >= 200")
    assert transaction.result is not None
    assert transaction.result.snapshot is None
    assert contents(lake) == before
    assert files_on_disk(lake) == registered(lake)


def test_a_statement_that_fails_ends_the_transaction_and_removes_its_files(
    make_lake: LakeMaker,
) -> None:
    lake = make(make_lake)
    before = contents(lake)
    disk = files_on_disk(lake)
    with lake.open() as ours:
        with ours.transaction() as transaction:
            table = transaction.table("t")
            table.append(numbers(200, 300))
            table.delete("id BETWEEN 20 AND 60")
            with pytest.raises(InvalidArgumentError, match="cannot be evaluated"):
                table.update({"v": "error('no')"}, where="id = 5")
            with pytest.raises(InvalidArgumentError, match="has ended"):
                transaction.table("t")
        assert transaction.result is None
    assert contents(lake) == before
    assert files_on_disk(lake) == disk


def test_a_file_whose_delete_file_was_replaced_since_is_a_conflict(make_lake: LakeMaker) -> None:
    # DuckLake 1.5.5 commits both, and reads rows twice afterwards: issue 1406.
    lake = make(make_lake, "sqlite")
    lake.execute("DELETE FROM t WHERE id BETWEEN 20 AND 40")
    lake.detach()
    with Lake.open(lake.uri) as one, Lake.open(lake.uri) as two:
        transaction = one.transaction()
        transaction.table("t").delete("id BETWEEN 50 AND 65")
        two.table("t").delete("id BETWEEN 70 AND 85")
        with pytest.raises(ConflictError):
            transaction.commit()
    assert len(contents(lake)) == 105 - 21 - 16
    assert files_on_disk(lake) == registered(lake)


def test_a_delete_file_has_the_snapshot_that_the_commit_got_in_the_end(
    make_lake: LakeMaker,
) -> None:
    lake = make(make_lake, "sqlite")
    lake.execute("CREATE TABLE other (i INTEGER)", "DELETE FROM t WHERE id BETWEEN 20 AND 40")
    lake.detach()
    with Lake.open(lake.uri) as one, Lake.open(lake.uri) as two:
        transaction = one.transaction()
        transaction.table("t").delete("id BETWEEN 50 AND 65")
        two.table("other").append(pa.table({"i": pa.array([1], pa.int32())}))
        assert transaction.commit().snapshot == 7
    for snapshot, count in ((5, 84), (6, 84), (7, 68)):
        assert lake.query(f"SELECT count(*) FROM t AT (VERSION => {snapshot})") == [(count,)]
        assert len(lake.query(f"FROM t AT (VERSION => {snapshot})")) == count
    assert files_on_disk(lake) == registered(lake)
    lake.check()


def test_updated_rows_go_to_the_partition_of_their_new_values(make_lake: LakeMaker) -> None:
    lake = make_lake()
    lake.execute(
        "CREATE TABLE t (id INTEGER, v BIGINT)",
        "ALTER TABLE t SET PARTITIONED BY (v)",
        "INSERT INTO t SELECT i, i % 2 FROM range(40) r(i)",
    )
    before = contents(lake)
    with lake.open() as ours:
        ours.table("t").update({"v": "CASE WHEN id < 30 THEN 2 ELSE 3 END"}, where="v = 1")
    after = contents(lake)
    assert {id: v for id, (v, _) in after.items()} == {
        id: (v if v == 0 else 2 if id < 30 else 3) for id, (v, _) in before.items()
    }
    assert {id: rowid for id, (_, rowid) in after.items()} == {
        id: rowid for id, (_, rowid) in before.items()
    }
    values = lake.query("SELECT DISTINCT partition_value FROM meta.ducklake_file_partition_value")
    assert sorted(value for (value,) in values) == ["0", "1", "2", "3"]
    assert lake.query("SELECT count(*) FROM t WHERE v = 3") == [(5,)]


def test_rows_are_overwritten_by_a_condition_or_all_of_them(make_lake: LakeMaker) -> None:
    lake = make(make_lake)
    with lake.open() as ours:
        result = ours.table("t").overwrite(numbers(50, 80, 9), where="id >= 90")
        assert (result.rows_inserted, result.rows_deleted) == (30, 15)
        assert ours.table("t").scan().count() == 120
        ours.table("t").overwrite(ours.table("t").scan(filter="v = 9").to_batches())
        assert ours.table("t").scan(["id"]).to_arrow().num_rows == 30
        ours.table("t").overwrite(numbers(0, 0))
        assert ours.table("t").scan().count() == 0
    assert contents(lake) == {}
    lake.check()


def test_rows_that_break_a_constraint_or_do_not_fit_change_nothing(make_lake: LakeMaker) -> None:
    lake = make(make_lake)
    lake.execute("ALTER TABLE t ALTER id SET NOT NULL")
    before = contents(lake)
    with lake.open() as ours:
        table = ours.table("t")
        with pytest.raises(ConstraintError, match="'id' does not allow NULL"):
            table.update({"id": "NULL"}, where="id = 3")
        with pytest.raises(ConstraintError, match="no column 'id'"):
            table.append(pa.table({"v": pa.array([1], pa.int64())}))
        with pytest.raises(InvalidArgumentError, match="no column 'vv' to set; did you mean 'v'"):
            table.update({"vv": "1"})
        with pytest.raises(NotFoundError, match="no column 'nothing'"):
            table.delete("nothing = 1")
        with pytest.raises(InvalidArgumentError, match="cannot be evaluated"):
            table.update({"v": "nothing + 1"})
        with pytest.raises(InvalidArgumentError, match="is not one expression"):
            table.delete("id = 1 FROM t")
        with pytest.raises(InvalidArgumentError, match="cannot be evaluated"):
            table.update({"v": "'text'"}, where="id = 50")
    assert contents(lake) == before


def test_an_encrypted_lake_stays_encrypted(make_lake: LakeMaker) -> None:
    lake = make(make_lake, options="ENCRYPTED")
    with lake.open() as ours:
        ours.table("t").update({"v": "1"}, where="id BETWEEN 20 AND 60")
        ours.table("t").delete("id BETWEEN 70 AND 90")
    keys = lake.query("SELECT encryption_key FROM meta.ducklake_data_file")
    keys += lake.query("SELECT encryption_key FROM meta.ducklake_delete_file")
    assert len(keys) == 3
    assert None not in {key for (key,) in keys}
    after = contents(lake)
    assert len(after) == 84
    assert sum(v for v, _ in after.values()) == 41


def test_the_virtual_columns_can_be_used_in_a_condition(make_lake: LakeMaker) -> None:
    lake = make(make_lake)
    with lake.open() as ours:
        ours.table("t").delete("rowid = 7")
        ours.table("t").delete("snapshot_id = 2")
    assert sorted(contents(lake)) == [5, 6, *range(8, 105)]


def test_readers_of_any_kind_are_appended(make_lake: LakeMaker) -> None:
    lake = make(make_lake)
    sources: list[Any] = [
        numbers(200, 201),
        numbers(201, 202).to_reader(),
        numbers(202, 203).to_pandas(),
        [{"id": 203, "v": 1}],
        {"id": [204], "v": [None]},
        pa.RecordBatchReader.from_batches(
            numbers(0, 0).schema,
            (b for i in range(300, 400) for b in numbers(i, i + 1).to_batches()),
        ),
    ]
    with lake.open() as ours:
        table = ours.table("t")
        results = [table.append(source) for source in sources]
        assert [result.rows_inserted for result in results] == [1, 1, 1, 1, 1, 100]
        assert [result.files_added for result in results] == [0, 0, 0, 0, 0, 1]
        assert table.append(numbers(0, 0)).snapshot is None
    assert sorted(contents(lake)) == [*range(105), *range(200, 205), *range(300, 400)]
    lake.check()


def test_values_of_every_type_survive_an_update_in_files_and_in_the_catalog(
    make_lake: LakeMaker,
) -> None:
    lake = make_lake()
    tables = {
        "g": ("p GEOMETRY", "('POINT(' || i || ' 1)')::GEOMETRY"),
        "v": ("v VARIANT", "{'a': i, 'b': [i]}::VARIANT"),
        "x": (
            (
                "h HUGEINT, u UUID, j JSON, iv INTERVAL, tz TIMETZ, m MAP(VARCHAR, INTEGER), b BLOB, "
                "ns TIMESTAMP_NS, s STRUCT(x VARCHAR, l DOUBLE[])"
            ),
            (
                "i, md5(i::VARCHAR)::UUID, '{\"a\": 1}', INTERVAL (i) DAY, '10:00:00+02', "
                "MAP {'k': i}, '\\x00'::BLOB, '2024-01-01 00:00:00.123456789', "
                "{'x': 'it''s', 'l': ['nan'::DOUBLE, NULL]}"
            ),
        ),
    }
    for name, (columns, values) in tables.items():
        lake.execute(
            f"CREATE TABLE {name} (i INTEGER, {columns})",
            f"INSERT INTO {name} SELECT i, {values} FROM range(30) r(i)",
        )
    query = "SELECT COLUMNS(*)::VARCHAR FROM (SELECT * EXCLUDE (i) FROM {0} ORDER BY rowid)"
    before = {name: lake.query(query.format(name)) for name in tables}
    with lake.open() as ours:
        for name in tables:
            ours.table(name).update({"i": "i + 100"}, where="i < 20")
            ours.table(name).update({"i": "i + 100"}, where="i = 25")
    for name in tables:
        assert lake.query(query.format(name)) == before[name]
        assert lake.query(f"SELECT count(*) FROM {name} WHERE i >= 100") == [(21,)]
    lake.check()


def test_rows_are_not_inlined_in_a_table_of_older_columns(make_lake: LakeMaker) -> None:
    lake = make(make_lake)
    lake.execute(
        "CALL lake.set_option('data_inlining_row_limit', 0)",
        "ALTER TABLE t ADD COLUMN more INTEGER",
        "CALL lake.set_option('data_inlining_row_limit', 10)",
    )
    with lake.open() as ours:
        ours.table("t").append([{"id": 200, "v": 1, "more": 2}])
        ours.table("t").update({"more": "3"}, where="id = 1")
    assert lake.query("SELECT id, v, more FROM t WHERE more IS NOT NULL ORDER BY 1") == [
        (1, 0, 3),
        (200, 1, 2),
    ]
    lake.check()


def test_statements_of_two_writers_on_one_file_are_repeated_until_both_are_done(
    make_lake: LakeMaker,
) -> None:
    lake = make(make_lake, "sqlite")
    lake.detach()
    times = 4

    def work(remainder: int) -> None:
        with Lake.open(lake.uri) as own:
            for number in range(times):
                own.table("t").update({"v": "v + 1"}, where=f"id % 2 = {remainder}")
                own.table("t").delete(f"id = {10 + 2 * number + remainder}")

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(work, 0), pool.submit(work, 1)]:
            future.result()
    found = {id: v for id, (v, _) in contents(lake).items()}
    assert found == {id: times for id in range(105) if not 10 <= id < 10 + 2 * times}
    assert len(lake.snapshots()) == 4 + 4 * times
    assert files_on_disk(lake) == registered(lake)
    lake.check()

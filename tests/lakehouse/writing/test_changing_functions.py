"""The functions of the schema `lakeport` that change a lake, and explicit transactions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport import Client, Lake, connect
from lakeport.airport.client import connection
from lakeport.errors import InvalidInputError, LakeportError, NotFoundError, PermissionDeniedError
from tests.lakehouse.writing.conftest import Write, Written
from tests.wait import TIMEOUT_SECONDS

TABLE = "CREATE TABLE t (id INTEGER, day DATE)"
ROWS = "INSERT INTO t SELECT i, DATE '2024-01-01' + i::INTEGER FROM range(20) r(i)"


def call(client: Client, name: str, *arguments: Any, **named: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        client.call_table(f"lakeport.{name}", *arguments, **named).to_arrow().to_pylist()
    )
    return rows


def ids(lake: Lake, table: str = "t") -> list[int]:
    found: list[int] = lake.table(table).scan(["id"]).to_arrow().column("id").to_pylist()
    return sorted(found)


def test_a_write_can_be_undone(write: Write) -> None:
    here = write(TABLE, ROWS)
    before = here.catalog.lake.snapshot().id
    here.client.table("public.t").delete(list(range(10)))

    call(here.client, "rollback_to", before, message="undo the delete")

    assert ids(here.catalog.lake) == list(range(20))
    assert here.client.table("public.t").scan().count() == 20
    assert here.catalog.lake.snapshot().id == before + 2
    assert here.catalog.lake.snapshot().commit_message == "undo the delete"


def test_one_table_can_be_restored(write: Write) -> None:
    here = write(TABLE, ROWS, "CREATE TABLE other (id INTEGER)")
    before = here.catalog.lake.snapshot().id
    here.client.table("public.t").delete([3])
    here.client.table("public.other").insert([{"id": 1}])

    call(here.client, "restore", "public.t", before)

    assert ids(here.catalog.lake) == list(range(20))
    assert ids(here.catalog.lake, "other") == [1]


def test_options_layouts_and_comments_are_set_as_by_the_reference(write: Write) -> None:
    here = write(TABLE)

    call(here.client, "set_partitioning", "t", ["month(day)"])
    call(here.client, "set_sorting", "public.t", ["day DESC"])
    call(here.client, "comment_on", "t", "trips by day")
    call(here.client, "comment_on", "t", "when", column_name="day")
    call(here.client, "set_option", "parquet_compression", "zstd")
    call(here.client, "set_option", "target_file_size", "1MB", table_name="t")
    here.reference(
        "ALTER TABLE t SET PARTITIONED BY (month(day))",
        "ALTER TABLE t SET SORTED BY (day DESC)",
        "COMMENT ON TABLE t IS 'trips by day'",
        "COMMENT ON COLUMN t.day IS 'when'",
        "CALL lake.set_option('parquet_compression', 'zstd')",
        "CALL lake.set_option('target_file_size', '1MB', table_name => 't')",
    )

    for query in (
        "SELECT transform, partition_key_index FROM meta.ducklake_partition_column",
        "SELECT expression, sort_direction, null_order FROM meta.ducklake_sort_expression",
        "SELECT key, value FROM meta.ducklake_tag",
        "SELECT column_id, key, value FROM meta.ducklake_column_tag",
        (
            "SELECT key, value, scope FROM meta.ducklake_metadata WHERE key IN "
            "('parquet_compression', 'target_file_size') ORDER BY ALL"
        ),
    ):
        theirs, ours = (_query(lake, query) for lake in (here.theirs, here.ours))
        assert ours == theirs


def test_views_are_created_by_a_function(write: Write) -> None:
    here = write(TABLE, ROWS)

    call(here.client, "create_view", "late", "SELECT id FROM t WHERE id > 15")
    here.client.refresh()
    assert here.client.table("public.late").scan().count() == 4
    assert here.ours.query("SELECT count(*) FROM late") == [(4,)]
    here.ours.detach()

    with pytest.raises(LakeportError, match=r"late exists already"):
        call(here.client, "create_view", "late", "SELECT 1 AS id")
    call(here.client, "create_view", "late", "SELECT 1 AS id", replace=True)
    with pytest.raises(InvalidInputError, match="view broken cannot be read"):
        call(here.client, "create_view", "broken", "SELECT id FROM nowhere")
    call(here.client, "drop_view", "public.late")
    with pytest.raises(NotFoundError):
        call(here.client, "drop_view", "late")
    call(here.client, "drop_view", "late", if_exists=True)


def test_files_are_added_from_allowed_folders_only(write: Write, tmp_path: Path) -> None:
    allowed = tmp_path / "incoming"
    allowed.mkdir()
    here = write(TABLE, ROWS, add_files_from=[str(allowed)])
    rows = pa.table({"id": pa.array([100], pa.int32()), "day": pa.array([None], pa.date32())})
    for folder in (allowed, tmp_path):
        pq.write_table(rows, folder / "more.parquet")

    call(here.client, "add_files", "t", str(allowed / "more.parquet"))

    assert ids(here.catalog.lake) == [*range(20), 100]
    for path in (tmp_path / "more.parquet", allowed / ".." / "more.parquet"):
        with pytest.raises(PermissionDeniedError, match="outside of the folders"):
            call(here.client, "add_files", "t", str(path))


def test_a_message_is_recorded_with_the_next_snapshot_only(write: Write) -> None:
    here = write(TABLE)
    table = here.client.table("public.t")

    call(here.client, "set_commit_message", "ann", "first load")
    table.insert([{"id": 1}])
    first = here.catalog.lake.snapshot()
    table.insert([{"id": 2}])
    second = here.catalog.lake.snapshot()

    assert (first.author, first.commit_message) == ("ann", "first load")
    assert (second.author, second.commit_message) == (None, None)


def test_a_read_only_lake_has_no_functions_that_change_it(write: Write) -> None:
    here = write(TABLE, writable=False)

    documented = here.client.table("lakeport.functions").scan().to_arrow()

    names = documented.column("function_name").to_pylist()
    assert "table_changes" in names
    assert "rollback_to" not in names


def test_the_functions_are_documented_in_a_table(write: Write) -> None:
    here = write(TABLE)

    rows = here.client.table("lakeport.functions").scan().to_arrow().to_pylist()

    names = {row["function_name"] for row in rows}
    assert names == {function.name for function in here.client.functions("lakeport")}
    commit = next(row for row in rows if row["function_name"] == "commit")
    assert commit["parameters"] == "message VARCHAR"
    assert all(row["description"] for row in rows)


def test_staged_writes_wait_for_their_commit(write: Write) -> None:
    here = write(TABLE, ROWS, explicit_transactions=True)
    before = here.catalog.lake.snapshot().id
    client = here.client

    client.table("public.t").insert([{"id": 100}])
    client.table("public.t").delete([0])
    client.create_table("public", "fresh", pa.schema([("id", pa.int32())]))
    client.table("public.fresh").insert([{"id": 7}])
    call(client, "set_sorting", "t", ["id"])

    assert client.table("public.t").scan().count() == 20
    assert here.catalog.lake.snapshot().id == before
    assert _other_process(here, "t") == 20

    committed = call(client, "commit", "load and clean")

    assert committed == [
        {"snapshot_id": before + 1, "rows_inserted": 2, "rows_updated": 0, "rows_deleted": 1}
    ]
    snapshot = here.catalog.lake.snapshot()
    assert (snapshot.id, snapshot.commit_message) == (before + 1, "load and clean")
    assert ids(here.catalog.lake) == [*range(1, 20), 100]
    assert ids(here.catalog.lake, "fresh") == [7]
    with Lake.open(here.ours.uri) as other:
        other.table("t").append(pa.table({"id": pa.array([101], pa.int32())}))
    assert client.table("public.t").scan().count() == 21


def test_staged_writes_vanish_when_they_are_rolled_back(write: Write) -> None:
    here = write(TABLE, ROWS, explicit_transactions=True)
    before = here.catalog.lake.snapshot().id

    here.client.table("public.t").insert([{"id": i} for i in range(5000)])
    call(here.client, "rollback")

    assert here.client.table("public.t").scan().count() == 20
    assert here.catalog.lake.snapshot().id == before
    with pytest.raises(InvalidInputError, match="nothing to commit"):
        call(here.client, "commit", "nothing")


def test_a_failed_statement_ends_the_staged_writes(write: Write) -> None:
    here = write(TABLE, ROWS, explicit_transactions=True)
    table = here.client.table("public.t")
    table.insert([{"id": 100}])

    with pytest.raises(LakeportError):
        here.client.create_table("public", "t", pa.schema([("id", pa.int32())]))
    with pytest.raises(InvalidInputError, match=r"end it with lakeport\.rollback\(\)"):
        table.insert([{"id": 101}])
    call(here.client, "rollback")
    table.insert([{"id": 102}])
    call(here.client, "commit", "again")

    assert ids(here.catalog.lake) == [*range(20), 102]


def _other_process(here: Written, table: str) -> int:
    """The rows that a client with another session sees."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "_SESSION_ID", "another")
        with connect(here.server.location, timeout=TIMEOUT_SECONDS) as client:
            return client.table(f"public.{table}").scan().count()


def _query(lake: Any, sql: str) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = lake.query(sql)
    lake.detach()
    return rows

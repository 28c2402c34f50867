"""The offsets of streams: where they start, how far a batch goes, what it reads. Without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    ReadMinRows,
)

from lakeport import Lake
from lakeport.errors import (
    InvalidArgumentError,
    InvalidInputError,
    LakeportError,
    NotFoundError,
    SnapshotNotFoundError,
    UnsupportedError,
)
from lakeport.spark.source import stream_reader
from lakeport.spark.source.stream_reader import make_stream_reader
from tests.fixtures_lakes import LakeMaker, RealLake

ALL = ReadAllAvailable()


STATEMENTS = (
    "CREATE SCHEMA s",
    "CREATE TABLE s.t AS SELECT i AS id, 'v' || i AS v FROM range(20) r(i)",
    "INSERT INTO s.t SELECT i, 'v' || i FROM range(20, 32) r(i)",
    "INSERT INTO s.t SELECT i, 'v' || i FROM range(32, 44) r(i)",
    "CREATE TABLE other AS SELECT 1 AS x",
    "DELETE FROM s.t WHERE id = 5",
    "INSERT INTO s.t SELECT i, 'v' || i FROM range(44, 49) r(i)",
)
"""Snapshots 2, 3, 4 and 7 append; the rows of snapshot 7 are inlined; snapshot 6 deletes a row."""
REST = [i for i in range(49) if i != 5]


@pytest.fixture
def real(make_lake: LakeMaker) -> RealLake:
    """Return a lake that the test changes."""
    made = make_lake("sqlite")
    made.execute(*STATEMENTS)
    made.detach()
    return made


@pytest.fixture(scope="module")
def unchanged(
    tmp_path_factory: pytest.TempPathFactory, reference: duckdb.DuckDBPyConnection
) -> RealLake:
    """Return the same lake for the tests that only read it."""
    folder = tmp_path_factory.mktemp("streams")
    made = RealLake(reference, f"ducklake:sqlite:{folder}/m.sqlite", f"{folder}/data/")
    made.execute(*STATEMENTS)
    made.detach()
    return made


class Stream:
    """A reader as Spark uses it, and the rows that it has read."""

    def __init__(self, real: RealLake, **options: Any) -> None:
        self.given = {"catalog": real.uri, "table": "s.t"}
        self.given |= {key: str(value) for key, value in options.items()}
        with Lake.open(real.uri) as lake:
            columns = lake.table("t", "s").columns
        self.reader: Any = make_stream_reader(self.given, columns)
        self.offset = self.reader.initialOffset()
        self.ends: list[int] = []

    def batch(self, limit: Any = ALL) -> pa.Table:
        end = self.reader.latestOffset(self.offset, limit)
        rows = self.rows(self.offset, end)
        self.offset = end
        self.ends.append(end["snapshot"])
        return rows

    def rows(self, start: dict[str, int], end: dict[str, int]) -> pa.Table:
        partitions = self.reader.partitions(start, end)
        batches = [b for partition in partitions for b in self.reader.read(partition)]
        return pa.Table.from_batches(batches) if batches else pa.table({"id": pa.array([])})

    def ids(self, limit: Any = ALL) -> list[int]:
        return sorted(self.batch(limit)["id"].to_pylist())


def test_a_new_stream_reads_the_table_and_then_what_is_appended(real: RealLake) -> None:
    stream = Stream(real)

    assert stream.ids() == REST
    assert stream.ids() == []
    real.execute("INSERT INTO s.t VALUES (100, 'new')", "INSERT INTO other VALUES (2)")
    real.detach()
    assert stream.ids() == [100]
    # Snapshot 9 does not change the table.
    assert stream.ends == [7, 7, 8]


def test_a_stream_starts_at_a_snapshot_a_time_or_now(unchanged: RealLake) -> None:
    with Lake.open(unchanged.uri) as lake:
        moment = lake.snapshot(version=4).time

    assert Stream(unchanged, startingVersion=3, skipChangeCommits=True).ids() == list(range(20, 49))
    assert Stream(unchanged, startingVersion=7).ids() == list(range(44, 49))
    assert Stream(unchanged, startingVersion="latest").ids() == []
    by_time = Stream(unchanged, startingTimestamp=moment.isoformat(sep=" "), skipChangeCommits=True)
    assert by_time.ids() == list(range(32, 49))
    assert Stream(unchanged, startingTimestamp="2999-01-01").ids() == []


@pytest.mark.parametrize(
    ("limit", "option", "ends"),
    [
        (ReadMaxFiles(1), {"maxFilesPerTrigger": 1}, [2, 3, 4, 7, 7]),
        (ReadMaxFiles(2), {"maxFilesPerTrigger": 2}, [3, 7, 7]),
        (ReadMaxRows(32), {"maxRowsPerTrigger": 32}, [3, 7, 7]),
        (ReadMaxBytes(1), {"maxBytesPerTrigger": 1}, [2, 3, 4, 7, 7]),
        (ReadMinRows(10), {}, [7, 7]),
        (ALL, {"maxFilesPerTrigger": 1}, [7, 7]),
    ],
)
def test_the_first_rows_are_read_in_batches(
    unchanged: RealLake, limit: Any, option: dict[str, int], ends: list[int]
) -> None:
    stream = Stream(unchanged, **option)
    found = [i for _ in ends for i in stream.ids(limit)]

    assert stream.ends == ends
    assert sorted(found) == REST
    if option and limit is not ALL:
        assert stream.reader.getDefaultReadLimit() == limit


@pytest.mark.parametrize(
    ("limit", "option", "ends"),
    [
        (ReadMaxFiles(1), {"maxFilesPerTrigger": 1}, [3, 4, 7, 7]),
        (ReadMaxRows(24), {"maxRowsPerTrigger": 24}, [4, 7, 7]),
        (ReadMaxRows(1), {"maxRowsPerTrigger": 1}, [3, 4, 7, 7]),
    ],
)
def test_appended_rows_are_read_in_batches(
    unchanged: RealLake, limit: Any, option: dict[str, int], ends: list[int]
) -> None:
    stream = Stream(unchanged, startingVersion=3, skipChangeCommits=True, **option)
    found = [i for _ in ends for i in stream.ids(limit)]

    assert stream.ends == ends
    assert sorted(found) == list(range(20, 49))


def test_a_batch_waits_for_enough_rows(unchanged: RealLake) -> None:
    stream = Stream(unchanged, startingVersion=7)

    assert stream.ids(ReadMinRows(6)) == []
    assert stream.ids(ReadMinRows(5)) == list(range(44, 49))


def test_a_batch_can_be_read_again(real: RealLake) -> None:
    stream = Stream(real, maxFilesPerTrigger=1)
    start = stream.offset
    first, second = stream.batch(ReadMaxFiles(1)), stream.batch(ReadMaxFiles(1))
    real.execute(
        "CALL ducklake_merge_adjacent_files('lake')",
        "INSERT INTO s.t SELECT i, 'x' FROM range(50, 60) r(i)",
        "ALTER TABLE s.t ADD COLUMN later INTEGER",
    )
    real.detach()

    again = Stream(real)
    first_again = again.rows(start, {"table": 2, "snapshot": 2, "initial": 7})
    assert sorted(first_again["id"].to_pylist()) == sorted(first["id"].to_pylist())
    repeated = again.rows({"table": 2, "snapshot": 2, "initial": 7}, stream.offset)
    assert sorted(repeated["id"].to_pylist()) == sorted(second["id"].to_pylist())
    assert repeated["later"].null_count == len(repeated)


def test_a_snapshot_that_deletes_ends_a_stream_of_appends(unchanged: RealLake) -> None:
    stream = Stream(unchanged, startingVersion=5)

    with pytest.raises(UnsupportedError, match=r"snapshot 6 deletes .*skipChangeCommits"):
        stream.batch()


def test_the_change_feed_has_deletes_and_updates(real: RealLake) -> None:
    real.execute("UPDATE s.t SET v = 'changed' WHERE id = 7")
    real.detach()
    stream = Stream(real, startingVersion=6, readChangeFeed=True)

    rows = stream.batch().sort_by([("snapshot_id", "ascending"), ("change_type", "descending")])

    assert rows.column_names == ["snapshot_id", "rowid", "change_type", "id", "v"]
    assert [(r["snapshot_id"], r["change_type"], r["id"], r["v"]) for r in rows.to_pylist()] == [
        (6, "delete", 5, "v5"),
        *((7, "insert", i, f"v{i}") for i in range(44, 49)),
        (8, "update_preimage", 7, "v7"),
        (8, "update_postimage", 7, "changed"),
    ]


def test_a_change_feed_begins_with_the_rows_of_the_table(unchanged: RealLake) -> None:
    stream = Stream(unchanged, readChangeFeed=True)

    rows = stream.batch()

    assert set(rows["change_type"].to_pylist()) == {"insert"}
    assert set(rows["snapshot_id"].to_pylist()) == {2, 3, 4, 7}
    assert len(rows) == 48


def test_available_now_reads_nothing_that_comes_later(real: RealLake) -> None:
    stream = Stream(real, startingVersion=7)
    stream.reader.prepareForTriggerAvailableNow()
    real.execute("INSERT INTO s.t VALUES (100, 'late')")
    real.detach()

    assert stream.ids() == list(range(44, 49))
    assert stream.ids() == []
    assert stream.reader.reportLatestOffset() == {"snapshot": 8}


def test_what_has_been_expired_is_an_error(real: RealLake) -> None:
    stream, new = Stream(real, startingVersion=3), Stream(real)
    real.execute(
        "INSERT INTO s.t VALUES (100, 'late')",
        "CALL ducklake_expire_snapshots('lake', versions => [3, 4, 5, 7])",
    )
    real.detach()

    with pytest.raises(SnapshotNotFoundError, match=r"has not read snapshot 3, which has been exp"):
        stream.batch()
    with pytest.raises(SnapshotNotFoundError, match=r"has not read snapshot 7, which has been exp"):
        new.batch()
    real.execute("CALL ducklake_expire_snapshots('lake', versions => [0, 1, 2])")
    real.detach()
    with pytest.raises(SnapshotNotFoundError, match=r"snapshot 3, which has been expired: the old"):
        Stream(real, startingVersion=3)
    with pytest.raises(SnapshotNotFoundError, match="the newest one is 8"):
        Stream(real, startingVersion=10)


def test_another_table_or_checkpoint_is_an_error(real: RealLake) -> None:
    stream = Stream(real)
    real.execute("DROP TABLE s.t", "CREATE TABLE s.t (id INTEGER, v VARCHAR)")
    real.detach()

    with pytest.raises(InvalidInputError, match="another table"):
        stream.batch()
    with pytest.raises(InvalidInputError, match="another source"):
        stream.reader.latestOffset({"0": 17}, ALL)


def test_the_reader_of_pyspark_4_1_limits_its_batches(
    unchanged: RealLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_reader, "admission", None)
    stream = Stream(unchanged, maxFilesPerTrigger=1)
    found = []
    for _ in range(5):
        end = stream.reader.latestOffset()
        found += stream.rows(stream.offset, end)["id"].to_pylist()
        stream.offset = end

    assert sorted(found) == REST


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"startingVersion": "x"}, InvalidArgumentError, "'startingVersion' is 'x'"),
        ({"startingVersion": 1, "startingTimestamp": "2026-01-01"}, InvalidArgumentError, "both"),
        ({"maxFilesPerTrigger": 0}, InvalidArgumentError, "'maxFilesPerTrigger' is '0'"),
        ({"readChangeFeed": "maybe"}, InvalidArgumentError, "write true or false"),
        ({"readChangeFeed": True, "skipChangeCommits": True}, InvalidArgumentError, "all changes"),
        ({"filter": "id > 1"}, UnsupportedError, "'filter' is not for streams"),
        ({"version": "3"}, UnsupportedError, "use 'startingVersion'"),
        ({"nothing": "3"}, InvalidArgumentError, "nothing"),
        ({"table": "s.gone"}, NotFoundError, "gone"),
    ],
)
def test_wrong_options_are_errors(
    unchanged: RealLake, options: dict[str, Any], error: type[LakeportError], message: str
) -> None:
    with pytest.raises(error, match=message):
        Stream(unchanged, **options)


@pytest.fixture(autouse=True)
def _without_hidden_tracebacks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore what the planning process of Spark, which ends after an error, would keep."""
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "0")
    yield
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK")

"""The commit kernel: creation, conflicts, retries, lost connections, statistics, many writers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from lakeport import Lake
from lakeport.ducklake.metadata.rows import TableColumnStatsRow
from lakeport.ducklake.writing import Transaction, WriteDatabase, WrittenColumn
from lakeport.ducklake.writing.database import CatalogWriter
from lakeport.ducklake.writing.rows.changes_made import Change, format_changes, parse_changes
from lakeport.ducklake.writing.rows.statistics import merge_columns
from lakeport.errors import (
    AlreadyExistsError,
    ConflictError,
    ConstraintError,
    CorruptLakeError,
    InvalidArgumentError,
    LakeVersionError,
    NotFoundError,
    SchemaNotEmptyError,
    UnavailableError,
    UnknownOutcomeError,
)
from lakeport.types import Column
from tests.ducklake.writing.catalog_comparison import assert_same_catalogs
from tests.fixtures_lakes import LakeMaker, RealLake

REAL: dict[Lake, RealLake] = {}
"""The lakes of the running test, as the reference sees them."""
KINDS = ["duckdb", "sqlite", "postgresql", "mysql"]


@pytest.fixture
def new_lake(make_lake: LakeMaker) -> Iterator[Callable[..., Lake]]:
    """Create lakes by us; they are closed at the end of the test."""

    def create(kind: str = "sqlite", **options: Any) -> Lake:
        real = make_lake(kind)
        lake = Lake.create(real.uri, data_path=real.data_path, **options)
        REAL[lake] = real
        return lake

    yield create
    for lake in REAL:
        lake.close()
    REAL.clear()


def rows(table: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.scan().to_arrow().to_pylist()
    return sorted(found, key=repr)


@pytest.mark.parametrize("kind", KINDS)
def test_a_lake_is_created_filled_and_never_overwritten(make_lake: LakeMaker, kind: str) -> None:
    real = make_lake(kind)
    with Lake.create(real.uri, data_path=real.data_path) as lake:
        table = lake.create_table("t", {"i": "INTEGER", "s": "VARCHAR"}, comment="c")
        assert table.append([{"i": 1, "s": "a"}]).rows_inserted == 1
        assert table.append([{"i": n, "s": None} for n in range(20)]).files_added == 1
        lake.table("t").add_column("n", "BIGINT", default=4)
        lake.table("t").rename("u")

        assert len(rows(lake.table("u"))) == 21
        assert {row["n"] for row in rows(lake.table("u"))} == {4}
        assert [snapshot.id for snapshot in lake.snapshots()] == [0, 1, 2, 3, 4, 5]

    with pytest.raises(AlreadyExistsError, match="never overwritten"):
        Lake.create(real.uri, data_path=real.data_path)


@pytest.mark.database_server
def test_a_lake_on_mysql_has_the_rows_of_one_on_sqlite_without_inlining(
    new_lake: Callable[..., Lake],
) -> None:
    lakes = [new_lake("mysql"), new_lake("sqlite")]
    for lake in lakes:
        lake.set_option("data_inlining_row_limit", 0)
        lake.create_schema("s")
        lake.create_table("t", {"i": "INTEGER", "st": "STRUCT(a INTEGER)"}, "s", partition_by=["i"])
        lake.table("t", "s").append([{"i": 1, "st": {"a": 2}}, {"i": None, "st": None}])
        lake.table("t", "s").add_column(("st", "b"), "VARCHAR", default="é")
        lake.table("t", "s").set_comment("x")
        lake.create_view("v", "SELECT 1 AS x")
        lake.drop_schema("s", cascade=True)
        lake.close()

    uris = [REAL[lake].uri for lake in lakes]
    assert_same_catalogs(uris[0], uris[1])


def test_a_lake_that_needs_a_folder_or_a_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="does not exist"):
        Lake.create(f"ducklake:{tmp_path}/none/m.ducklake")
    with pytest.raises(InvalidArgumentError, match="data_path"):
        Lake.create(f"ducklake:sqlite:{tmp_path}/m.sqlite")


def test_the_default_data_path_is_beside_the_file(tmp_path: Path) -> None:
    with Lake.create(f"ducklake:{tmp_path}/m.ducklake") as lake:
        assert (
            lake.create_table("t", {"i": "INTEGER"}).path == f"{tmp_path}/m.ducklake.files/main/t/"
        )


@pytest.mark.parametrize("version", ["0.3", "0.4"])
def test_an_older_format_is_refused_with_the_statement_that_migrates(
    new_lake: Callable[..., Lake], version: str
) -> None:
    lake = new_lake()
    set_version(lake, version)

    with (
        Lake.open(REAL[lake].uri) as older,
        pytest.raises(LakeVersionError, match="AUTOMATIC_MIGRATION"),
    ):
        older.create_schema("s")


def test_a_newer_format_is_refused(new_lake: Callable[..., Lake]) -> None:
    lake = new_lake()
    set_version(lake, "1.2")

    with (
        Lake.open(REAL[lake].uri) as newer,
        pytest.raises(LakeVersionError, match=r"writes 1.0 and 1.1"),
    ):
        newer.create_schema("s")


def set_version(lake: Lake, version: str) -> None:
    with lake.write_database.transaction() as writer:
        writer.execute("UPDATE ducklake_metadata SET value = ? WHERE key = 'version'", [version])
        writer.commit()


def test_options_are_stored_as_the_reference_stores_them(
    new_lake: Callable[..., Lake], make_lake: LakeMaker
) -> None:
    ours, theirs = new_lake(), make_lake("sqlite")
    ours.create_table("t", {"i": "INTEGER"})
    theirs.execute("CREATE TABLE t(i INTEGER)")
    for key, value in [
        ("data_inlining_row_limit", 5),
        ("parquet_compression", "ZSTD"),
        ("parquet_version", 2),
        ("target_file_size", "10MB"),
        ("target_file_size", "1GiB"),
        ("sort_on_insert", "false"),
        ("rewrite_delete_threshold", 0.5),
        ("expire_older_than", "1 week"),
    ]:
        ours.set_option(key, value)
        theirs.execute(f"CALL ducklake_set_option('lake', '{key}', {value!r})")
    ours.set_option("parquet_compression", "gzip", table="t")
    ours.set_option("parquet_compression", "snappy", schema="main")
    theirs.execute(
        "CALL ducklake_set_option('lake', 'parquet_compression', 'gzip', table_name => 't')",
        "CALL ducklake_set_option('lake', 'parquet_compression', 'snappy', schema => 'main')",
    )
    theirs.detach()

    assert_same_catalogs(REAL[ours].uri, theirs.uri)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("nonsense", 1),
        ("version", "9"),
        ("parquet_compression", "bad"),
        ("data_inlining_row_limit", -1),
    ],
)
def test_wrong_options_are_refused(new_lake: Callable[..., Lake], key: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=key):
        new_lake().set_option(key, value)


def test_a_lake_can_require_messages(new_lake: Callable[..., Lake]) -> None:
    lake = new_lake()
    lake.set_option("require_commit_message", True)

    with pytest.raises(InvalidArgumentError, match="require_commit_message"):
        lake.create_schema("s")
    with lake.transaction(message="why", author="who", extra_info='{"k": 1}') as transaction:
        transaction.create_schema("s")

    newest = lake.snapshot()
    assert (newest.commit_message, newest.author) == ("why", "who")
    assert json.loads(newest.commit_extra_info or "")["k"] == 1


def test_a_transaction_that_changes_nothing_makes_no_snapshot(
    new_lake: Callable[..., Lake],
) -> None:
    lake = new_lake()
    with lake.transaction() as transaction:
        transaction.create_table("t", {"i": "INTEGER"})
        transaction.drop_table("t")

    assert transaction.commit_result.snapshot is None
    assert lake.snapshot().id == 0


def test_an_error_in_a_transaction_leaves_no_snapshot_and_no_file(
    new_lake: Callable[..., Lake],
) -> None:
    lake = new_lake()
    table = lake.create_table("t", {"i": "INTEGER"})
    with pytest.raises(RuntimeError), lake.transaction() as transaction:
        transaction.table("t").append([{"i": n} for n in range(100)])
        transaction.create_table("new", {"i": "INTEGER"}).append([{"i": n} for n in range(100)])
        raise RuntimeError

    assert lake.snapshot().id == 1
    assert list(Path(table.path).parents[0].rglob("*.parquet")) == []


REFUSED: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda t: t.add_column("I", "INTEGER"), AlreadyExistsError, "has a column"),
    (lambda t: t.add_column("n", "INTEGER", nullable=False), InvalidArgumentError, "not null"),
    (lambda t: t.add_column("row_id", "INTEGER"), InvalidArgumentError, "reserves"),
    (lambda t: t.add_column("n", "UNION(a INTEGER)"), Exception, "cannot store"),
    (lambda t: t.add_column("n", "int8"), InvalidArgumentError, "ambiguous"),
    (lambda t: t.add_column("n", "INTEGER", default="x"), InvalidArgumentError, "default"),
    (lambda t: t.add_column(("i", "x"), "INTEGER"), InvalidArgumentError, "only a struct"),
    (lambda t: t.drop_column("p"), InvalidArgumentError, "partitioned by"),
    (lambda t: t.drop_column("o"), InvalidArgumentError, "sorted by"),
    (lambda t: t.drop_column("none"), NotFoundError, "no column none"),
    (lambda t: t.drop_column(("st", "a")), InvalidArgumentError, "last column"),
    (lambda t: t.rename_column("i", "P"), AlreadyExistsError, "has a column"),
    (lambda t: t.alter_column("i", "VARCHAR"), InvalidArgumentError, "cannot become varchar"),
    (lambda t: t.alter_column("i", "SMALLINT"), InvalidArgumentError, "cannot become int16"),
    (lambda t: t.alter_column("st", "INTEGER"), InvalidArgumentError, "cannot become int32"),
    (lambda t: t.set_partitioning(["month(i)"]), InvalidArgumentError, "does not apply"),
    (lambda t: t.set_partitioning(["st"]), InvalidArgumentError, "cannot be a partition key"),
    (lambda t: t.set_partitioning(["bucket(i)"]), InvalidArgumentError, "number of buckets"),
    (lambda t: t.set_partitioning(["none"]), NotFoundError, "names no column"),
    (lambda t: t.set_sorting(["none"]), NotFoundError, "names no column"),
    (lambda t: t.set_nullable("i", nullable=False), ConstraintError, "some rows have NULL"),
    (lambda t: t.rename("other"), AlreadyExistsError, "exists already"),
]  # fmt: skip


def test_changes_that_cannot_be_made_are_refused(new_lake: Callable[..., Lake]) -> None:
    lake = new_lake()
    columns = {"i": "INTEGER", "p": "INTEGER", "o": "INTEGER", "st": "STRUCT(a INTEGER)"}
    lake.create_table("t", columns, partition_by=["p"], sort_by=["lower(o::VARCHAR)"])
    lake.create_table("other", {"i": "INTEGER"})
    lake.table("t").append([{"i": None, "p": 1, "o": 1, "st": None}])
    before = lake.snapshot().id

    for change, error, message in REFUSED:
        with pytest.raises(error, match=message):
            change(lake.table("t"))
    calls: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: lake.create_table("t", {"i": "INTEGER"}), AlreadyExistsError, "exists already"),
        (lambda: lake.create_table("x", {"i": "INTEGER", "I": "INTEGER"}), InvalidArgumentError, "two columns"),
        (lambda: lake.create_table("x", {}), InvalidArgumentError, "at least one column"),
        (lambda: lake.create_table("x", {"i": "INTEGER"}, "none"), NotFoundError, "no schema none"),
        (lambda: lake.create_view("t", "SELECT 1"), AlreadyExistsError, "exists already"),
        (lambda: lake.create_view("v", "SELEC 1"), InvalidArgumentError, "not understood"),
        (lambda: lake.drop_schema("main"), SchemaNotEmptyError, "cascade"),
        (lambda: lake.drop_table("none"), NotFoundError, "no table"),
    ]  # fmt: skip
    for call, error, message in calls:
        with pytest.raises(error, match=message):
            call()
    assert lake.snapshot().id == before


def other_writer(lake: Lake) -> Lake:
    return Lake.open(REAL[lake].uri)


CONFLICTS = [
    # ours, theirs, whether ours can still be committed
    ("append", "append", True),
    ("append", "comment", True),
    ("append", "delete", True),
    ("append", "rename", True),
    ("append", "add_column", False),
    ("append", "partition", False),
    ("append", "drop", False),
    ("delete", "append", False),
    ("delete", "delete", False),
    ("delete", "drop", False),
    ("add_column", "append", True),
    ("add_column", "rename", True),
    ("add_column", "comment", False),
    ("add_column", "drop", False),
    ("not_null", "append", False),
    ("rename", "drop", False),
    ("rename", "rename", False),
    ("drop", "append", True),
    ("drop", "drop", False),
    ("create", "create", False),
    ("create_schema", "create_schema", False),
]


@pytest.mark.parametrize(("ours", "theirs", "possible"), CONFLICTS)
def test_a_commit_is_possible_unless_another_one_changed_what_it_needs(
    new_lake: Callable[..., Lake], ours: str, theirs: str, possible: bool
) -> None:
    lake = new_lake()
    lake.set_option("data_inlining_row_limit", 0)
    lake.create_table("t", {"i": "INTEGER"})
    lake.table("t").append([{"i": n} for n in range(100)])
    transaction = lake.transaction()
    change(transaction, ours, "a")
    with other_writer(lake) as other, other.transaction() as second:
        change(second, theirs, "b")

    if possible:
        assert transaction.commit().snapshot == second.commit_result.snapshot + 1  # type: ignore[operator]
    else:
        with pytest.raises(ConflictError):
            transaction.commit()
        assert lake.snapshot().id == second.commit_result.snapshot


def change(transaction: Transaction, what: str, name: str) -> None:
    table = transaction.table("t")
    match what:
        case "append":
            table.append([{"i": 1000}])
        case "delete":
            table.delete("i = 7")
        case "comment":
            table.set_comment(name)
        case "rename":
            table.rename(name)
        case "add_column":
            table.add_column(name, "INTEGER")
        case "partition":
            table.set_partitioning(["i"])
        case "not_null":
            table.set_nullable("i", nullable=False)
        case "drop":
            transaction.drop_table("t")
        case "create":
            transaction.create_table("NEW" if name == "a" else "new", {"i": "INTEGER"})
        case "create_schema":
            transaction.create_schema("s")


def test_snapshots_that_expired_during_a_transaction_are_a_conflict(
    new_lake: Callable[..., Lake],
) -> None:
    lake = new_lake()
    lake.create_table("t", {"i": "INTEGER"})
    transaction = lake.transaction()
    transaction.table("t").append([{"i": 1}])
    for number in range(2):
        lake.table("t").append([{"i": number}])
    with lake.write_database.transaction() as writer:
        writer.execute("DELETE FROM ducklake_snapshot WHERE snapshot_id = 2")
        writer.commit()

    with pytest.raises(ConflictError, match="snapshot 2 was expired"):
        transaction.commit()


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["sqlite", "duckdb", "postgresql", "mysql"])
def test_many_writers_lose_nothing_and_leave_no_gaps(
    new_lake: Callable[..., Lake], kind: str
) -> None:
    lake = new_lake(kind)
    lake.create_table("t", {"writer": "INTEGER", "number": "INTEGER"})
    writers, commits = 4, 5

    def work(writer: int) -> list[int | None]:
        with other_writer(lake) as own:
            return [
                own.table("t").append([{"writer": writer, "number": n}]).snapshot
                for n in range(commits)
            ]

    with ThreadPoolExecutor(writers) as pool:
        acknowledged = sorted(id for ids in pool.map(work, range(writers)) for id in ids)  # type: ignore[type-var]

    assert acknowledged == list(range(2, 2 + writers * commits))
    assert [snapshot.id for snapshot in lake.snapshots()] == list(range(2 + writers * commits))
    expected = [{"writer": w, "number": n} for w in range(writers) for n in range(commits)]
    assert rows(lake.table("t")) == sorted(expected, key=repr)
    times = [snapshot.time for snapshot in lake.snapshots()]
    assert times == sorted(set(times)) or kind == "mysql"
    assert lake.table("t").stats.next_row_id == writers * commits  # type: ignore[union-attr]


def test_a_lost_connection_during_commit_is_settled_by_the_token(
    new_lake: Callable[..., Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server commits, and ends the session before it answers."""
    lake = new_lake("postgresql")
    lake.create_table("t", {"i": "INTEGER"})
    lost = iter([True])
    commit = CatalogWriter.commit

    def commit_and_lose(writer: CatalogWriter) -> None:
        commit(writer)
        if next(lost, False):
            raise sa.exc.OperationalError("COMMIT", None, psycopg.OperationalError("server closed"))

    monkeypatch.setattr(CatalogWriter, "commit", commit_and_lose)
    result = lake.table("t").append([{"i": 1}])

    assert (result.snapshot, result.attempts) == (2, 2)
    assert rows(lake.table("t")) == [{"i": 1}]


def test_a_commit_whose_server_stays_away_has_an_unknown_outcome(
    new_lake: Callable[..., Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = new_lake("postgresql")
    table = lake.create_table("t", {"i": "INTEGER"})
    begin = WriteDatabase.transaction
    is_away = False

    @contextmanager
    def transaction(database: WriteDatabase) -> Iterator[CatalogWriter]:
        nonlocal is_away
        if is_away:
            raise UnavailableError("the server cannot be reached")
        with begin(database) as writer:
            yield writer
            is_away = True
            raise sa.exc.OperationalError("COMMIT", None, psycopg.OperationalError("server closed"))

    monkeypatch.setattr(WriteDatabase, "transaction", transaction)
    monkeypatch.setattr(CatalogWriter, "commit", lambda writer: None)
    with pytest.raises(UnknownOutcomeError, match="not known whether it happened"):
        table.append([{"i": n} for n in range(100)])
    # Its files may be part of the lake.
    assert len(list(Path(table.path).glob("*.parquet"))) == 1


def test_a_writer_of_the_reference_makes_ours_try_again(
    new_lake: Callable[..., Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reference takes no lock: it commits after we have read the newest snapshot."""
    lake = new_lake("postgresql")
    lake.create_table("t", {"i": "INTEGER"})
    real = REAL[lake]
    real.attach()
    run = CatalogWriter.run
    others = iter([True])

    def run_after_another(writer: CatalogWriter, statement: Any) -> None:
        if next(others, False):
            real.execute("INSERT INTO lake.t VALUES (1)")
        run(writer, statement)

    monkeypatch.setattr(CatalogWriter, "run", run_after_another)
    result = lake.table("t").append([{"i": 2}])

    assert (result.snapshot, result.attempts) == (3, 2)
    assert real.query("SELECT i, rowid FROM lake.t ORDER BY i") == [(1, 0), (2, 1)]


def test_the_time_of_a_commit_is_after_that_of_the_one_before(
    new_lake: Callable[..., Lake],
) -> None:
    lake = new_lake()
    future = datetime.now(UTC) + timedelta(hours=1)
    with lake.write_database.transaction() as writer:
        writer.execute("UPDATE ducklake_snapshot SET snapshot_time = ?", [future])
        writer.commit()
    lake.create_schema("s")

    assert lake.snapshot().time == future + timedelta(microseconds=1)


def test_bounds_of_a_retyped_column_are_values_of_the_new_type(
    new_lake: Callable[..., Lake],
) -> None:
    """The reference leaves `true` as a bound of a number, and then fails at every insert."""
    lake = new_lake()
    lake.create_table("t", {"b": "BOOLEAN", "f": "FLOAT", "i": "INTEGER"})
    real = REAL[lake]
    real.execute("INSERT INTO t VALUES (true, 0.1, 9), (false, 0.1, 10)")
    real.detach()
    for name, type in (("b", "INTEGER"), ("f", "DOUBLE"), ("i", "JSON")):
        lake.table("t").alter_column(name, type)

    real.execute(
        "INSERT INTO t SELECT 5, 0.05, '1' FROM range(20)", "INSERT INTO t VALUES (7, 1, '2')"
    )
    assert real.query("SELECT min(b), max(b), count(*) FILTER (f > 0.1) FROM t") == [(0, 7, 3)]
    assert real.query("SELECT count(*) FROM t WHERE i = '10'") == [(1,)]


def test_bounds_that_are_no_values_of_a_new_type_are_removed(new_lake: Callable[..., Lake]) -> None:
    """The reference keeps them, and cannot read the table once it has been attached again."""
    lake = new_lake()
    lake.create_table("t", {"i": "INTEGER", "ms": "TIMESTAMP_MS", "l": "TIMESTAMP[]"})
    real = REAL[lake]
    early = "'0044-03-15 (BC)'"
    real.execute(f"INSERT INTO t VALUES (1, {early}, [{early}]), (2, '2024-01-01', [])")
    real.detach()
    lake.table("t").delete("i = 1")
    lake.table("t").alter_column("ms", "TIMESTAMP_NS")
    lake.table("t").alter_column("l", "TIMESTAMP_NS[]")

    assert real.query("SELECT i, ms::VARCHAR, min(ms)::VARCHAR, l FROM t GROUP BY ALL") == [
        (2, "2024-01-01 00:00:00", "2024-01-01 00:00:00", [])
    ]


def test_unknown_bounds_stay_unknown(new_lake: Callable[..., Lake]) -> None:
    """The reference takes unknown bounds for those of an empty table, and loses rows."""
    lake = new_lake()
    lake.set_option("data_inlining_row_limit", 0)
    lake.create_table("t", {"s": "VARCHAR"})
    lake.table("t").append([{"s": "é" * 300}])
    lake.table("t").append([{"s": "a"}])
    real = REAL[lake]

    assert real.query("SELECT count(*) FROM t WHERE s > 'b'") == [(1,)]
    assert real.query("SELECT length(max(s)) FROM t") == [(300,)]


def test_a_column_of_nulls_gets_the_bounds_of_its_first_values(
    new_lake: Callable[..., Lake],
) -> None:
    lake = new_lake()
    lake.create_table("t", {"i": "INTEGER"})
    for value in (None, 5, 3):
        lake.table("t").append([{"i": value}])

    stats = lake.table("t").stats
    assert stats is not None
    assert (stats.columns[1].min_value, stats.columns[1].max_value) == ("3", "5")


@pytest.mark.parametrize(
    ("type", "low", "high"),
    [
        ("int64", "9", "10"),
        ("decimal(10,2)", "-10.00", "9.50"),
        ("float64", "-inf", "1e+300"),
        ("boolean", "false", "1"),
        ("date", "0044-03-15 (BC)", "2024-01-01"),
        ("timestamp", "2024-01-01 00:00:00", "2024-01-01 00:00:00.5"),
        ("timestamp", "9999-12-31 00:00:00", "10000-01-01 00:00:00"),
        ("timestamptz", "2024-01-01 00:00:00+00", "infinity"),
        ("timestamptz", "2024-01-01 00:00:00+00", "2024-01-01 00:00:00.25+00"),
        ("time", "09:59:59.999999", "10:00:00"),
        ("varchar", "B", "a"),
    ],
)  # fmt: skip
def test_bounds_are_compared_as_values_of_their_type(type: str, low: str, high: str) -> None:
    column = Column(id=1, name="c", type=type)
    recorded = {1: TableColumnStatsRow(1, 1, False, None, high, high, None)}
    new = WrittenColumn(
        column_id=1, size_bytes=0, value_count=1, null_count=1, min_value=low, max_value=low
    )

    merged = merge_columns(1, recorded, [(new,)], {1: column}, is_first=False)[1]

    assert (merged.min_value, merged.max_value, merged.contains_null) == (low, high, True)


def test_changes_are_written_and_parsed_in_the_grammar_of_the_reference() -> None:
    changes = [
        Change("altered_table", 3),
        Change("inserted_into_table", 3),
        Change("created_table", None, "we ird", 't "q'),
        Change("created_schema", schema="we ird"),
    ]
    text = format_changes(changes)

    assert (
        text
        == 'created_schema:"we ird",created_table:"we ird"."t ""q",inserted_into_table:3,altered_table:3'
    )
    assert set(parse_changes(text)) == set(changes)
    with pytest.raises(CorruptLakeError):
        parse_changes("exploded_table:x")

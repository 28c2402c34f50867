"""Files come as Arrow columns, the database leaves out files, and objects are made for the rest."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings

from lakeport.ducklake import DataFile, Lake, LakeTable
from lakeport.ducklake.planning import files as planning_files
from lakeport.ducklake.planning import plan as planning
from lakeport.ducklake.planning.files import FileColumns
from lakeport.ducklake.planning.pushdown import PushedFilter, pushed_filter
from lakeport.ducklake.reading.tasks import FileTask
from lakeport.filters import DuckDBEncoder, Expression, col
from tests.differential.scenarios import NO_INLINING, SCENARIOS
from tests.ducklake.typed_table import COLUMNS, filters, rows

LakeMaker = Callable[..., Any]
ON_SQLITE = [name for name, scenario in SCENARIOS.items() if scenario.text]
SERVERS = [
    pytest.param("postgresql", marks=pytest.mark.database_server),
    pytest.param("mysql", marks=pytest.mark.database_server),
]


def twenty_files(lake: Any) -> None:
    """Twenty files of ten rows: ids from 0 to 199, a day and a name for each file."""
    lake.execute(
        "CREATE TABLE t(id BIGINT, day DATE, ts TIMESTAMP, name VARCHAR, other DOUBLE, part INT)",
        "ALTER TABLE t SET PARTITIONED BY (part)",
        "INSERT INTO t SELECT i, DATE '2024-01-01' + (i // 10)::INTEGER, TIMESTAMP '2024-01-01'"
        " + to_hours(i // 10) + to_seconds(i % 10), 'n' || lpad((i // 10)::VARCHAR, 2, '0'),"
        " i % 10, i // 10 FROM range(200) r(i)",
    )


def edit(lake: Any, statement: str) -> None:
    """Change the catalog of a lake by hand."""
    lake.detach()
    if lake.uri.startswith("ducklake:sqlite:"):
        with closing(sqlite3.connect(lake.uri.removeprefix("ducklake:sqlite:"))) as connection:
            connection.execute(statement)
            connection.commit()
        return
    with lake.open() as ours, ours.catalog.database.engine.begin() as connection:
        connection.exec_driver_sql(statement)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the data files that are made, by their ids."""
    made: list[int] = []

    def make(**values: Any) -> DataFile:
        made.append(values["id"])
        return DataFile(**values)

    monkeypatch.setattr(planning_files, "DataFile", make)
    return made


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", *SERVERS])
def test_objects_are_made_only_for_files_that_may_match(
    kind: str, make_lake: LakeMaker, counted: list[int]
) -> None:
    lake = make_lake(kind, NO_INLINING)
    twenty_files(lake)
    with lake.open() as ours:
        scan = ours.table("t").scan(filter="id BETWEEN 45 AND 62 AND other >= 0")
        assert len(counted) == scan.plan.pruning.files_read == 3
        assert scan.plan.pruning.files == 20
        assert scan.count() == 18


RETURNED = {
    "id = 57": 1,
    "id IN (5, 57, 190)": 3,
    "id < 20 AND id <> 3": 2,
    "day > DATE '2024-01-18'": 2,
    "ts >= TIMESTAMP '2024-01-01 18:00:05.5'": 2,
    "name = 'n07'": 1,
    "starts_with(name, 'n19')": 1,
    "name IS NULL": 0,
    "part = 3": 1,
    "part IN (3, 4) AND id < 35": 1,
    "id = 57 OR id = 58": 1,
    "id = 57 OR day = DATE '2024-01-01'": 20,  # two columns
    "other = 30": 20,  # a database rounds doubles in its own way
}


@pytest.mark.parametrize("kind", ["sqlite", *SERVERS])
def test_the_database_returns_only_files_that_may_match(
    kind: str, make_lake: LakeMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make_lake(kind, NO_INLINING)
    twenty_files(lake)
    read: list[FileColumns] = []
    of = FileColumns.of

    def remember(*arguments: Any) -> FileColumns:
        read.append(of(*arguments))
        return read[-1]

    monkeypatch.setattr(FileColumns, "of", remember)
    with lake.open() as ours:
        table = ours.table("t")
        counts = {}
        for predicate, returned in RETURNED.items():
            read.clear()
            plan = table.scan(filter=predicate).plan
            counts[predicate] = len(read[0])
            assert len(read) == 1, predicate
            assert plan.pruning.files == 20
            assert plan.pruning.files_read <= returned
    assert counts == RETURNED


def test_statistics_are_read_only_for_the_columns_of_the_filter(make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite", NO_INLINING)
    twenty_files(lake)
    with lake.open() as ours:
        table = ours.table("t")
        ids = (table.column("other").id,)
        columns = ours.catalog.database.read(lambda c: table.planner.files(c, ids))
    assert set(columns.statistics["column_id"].to_pylist()) == set(ids)
    assert columns.statistics.num_rows == 20


def plan_of(table: LakeTable, predicate: Any) -> list[Any]:
    """The tasks of a plan, without what all of them share, and its counts."""
    plan = table.scan(filter=predicate).plan
    tasks: list[Any] = [
        (task.file, task.start, task.end, task.inlined_deletes)
        for task in plan.tasks
        if isinstance(task, FileTask)
    ]
    return [*tasks, len(plan.tasks), plan.pruning.files, plan.pruning.files_read]


def some_predicates(table: LakeTable) -> Iterator[str]:
    """Comparisons of each column with one of its values, as SQL."""
    values = table.scan().to_arrow()
    for column in table.columns:
        name = '"' + column.name.replace('"', '""') + '"'
        yield f"{name} IS NULL"
        yield f"{name} IS NOT NULL"
        found = values[column.name].drop_null()
        if column.type not in ("int32", "int64", "date", "varchar") or not len(found):
            continue
        value = found.cast("string")[len(found) // 2].as_py().replace("'", "''")
        if "out of range" in value:  # Arrow has no text for an infinite date
            continue
        for op in ("=", "<>", "<", "<=", ">", ">="):
            yield f"{name} {op} '{value}'::{column.type.replace('int', 'INT').upper()}"


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ON_SQLITE)
def test_plans_are_the_same_with_and_without_conditions_for_the_database(
    name: str, make_lake: LakeMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = SCENARIOS[name]
    lake = make_lake("sqlite", scenario.options)
    lake.execute(*scenario.statements)
    snapshot = lake.snapshots()[-1]
    tables = lake.tables(snapshot)
    with lake.open() as ours:
        for schema, table_name in tables:
            table = ours.table(table_name, schema)
            for predicate in some_predicates(table):
                pushed = plan_of(table, predicate)
                with monkeypatch.context() as patch:
                    patch.setattr(planning, "pushed_filter", lambda *_: PushedFilter())
                    assert plan_of(table, predicate) == pushed, (table, predicate)


@pytest.fixture(scope="module", params=SERVERS)
def typed(
    request: pytest.FixtureRequest, reference: duckdb.DuckDBPyConnection, tmp_path_factory: Any
) -> Iterator[LakeTable]:
    """A table of many types whose files have several partition specs, on a database server."""
    uri = request.getfixturevalue("mariadb" if request.param == "mysql" else "postgresql")()
    folder = tmp_path_factory.mktemp("typed")
    reference.execute(f"ATTACH '{uri}' AS typed (DATA_PATH '{folder}/', {NO_INLINING})")
    reference.execute("CALL ducklake_set_option('typed', 'hive_file_pattern', false)")
    reference.execute(f"CREATE TABLE typed.t({COLUMNS}, later INTEGER)")
    specs: tuple[str | None, ...] = (None, "i", "s", "year(ts), month(ts)", "bucket(5, i)", "dt")
    if request.param == "mysql":  # the real implementation cannot insert a second time there
        specs = ("i, month(ts)",)
    for number, spec in enumerate(specs):
        if spec is not None:
            reference.execute(f"ALTER TABLE typed.t SET PARTITIONED BY ({spec})")
        reference.execute(
            f"INSERT INTO typed.t SELECT *, 9 FROM ({rows(number * 30, number * 30 + 40)})"
        )
    reference.execute("DETACH typed")
    with Lake.open(uri) as lake:
        yield lake.table("t")


@pytest.mark.exhaustive
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(predicate=filters())
def test_no_database_leaves_out_a_file_with_a_matching_row(
    predicate: Expression, typed: LakeTable
) -> None:
    scan = typed.scan(["rowid"], predicate)
    planned = {task.file.path for task in scan.plan.tasks if isinstance(task, FileTask)}
    sql = DuckDBEncoder().encode(scan.plan.filter) or "TRUE"
    everything = typed.scan([*typed.schema.names, "filename"]).to_arrow()
    with closing(duckdb.connect(config={"threads": 1})) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        matching = connection.from_arrow(everything).filter(sql).project("filename").distinct()
        assert {row[0] for row in matching.fetchall()} <= planned


UNUSUAL = ("007", " 57", "+57", "5.7e1", "57.0", "abc", "", "99999999999999999999", "0x39")


@pytest.mark.parametrize("kind", ["sqlite", *SERVERS])
def test_bounds_with_an_unusual_text_exclude_no_more_files_than_duckdb_does(
    kind: str, make_lake: LakeMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make_lake(kind, NO_INLINING)
    twenty_files(lake)
    for text in UNUSUAL:
        bounds = f"min_value = '{text}', max_value = '{text}'"
        where = "data_file_id = 5 AND column_id IN (1, 2)"
        edit(lake, f"UPDATE ducklake_file_column_stats SET {bounds} WHERE {where}")
        with lake.open() as ours:
            table = ours.table("t")
            for predicate in ("id = 57", "id < 8", "id > 190", "day = DATE '2024-01-06'"):
                kept = {task[0].id for task in plan_of(table, predicate)[:-3]}
                with monkeypatch.context() as patch:
                    patch.setattr(planning, "pushed_filter", lambda *_: PushedFilter())
                    exact = {task[0].id for task in plan_of(table, predicate)[:-3]}
                assert exact <= kept, (text, predicate)


def test_a_file_with_two_values_of_a_partition_key_is_kept(make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite", NO_INLINING)
    lake.execute(
        "CREATE TABLE t(id BIGINT, v INTEGER)",
        "ALTER TABLE t SET PARTITIONED BY (id)",
        "INSERT INTO t VALUES (1, 1), (2, 2)",
    )
    edit(
        lake,
        "INSERT INTO ducklake_file_partition_value"
        " SELECT data_file_id, table_id, partition_key_index, '9'"
        " FROM ducklake_file_partition_value WHERE partition_value = '1'",
    )
    edit(lake, "DELETE FROM ducklake_file_column_stats")
    with lake.open() as ours:
        scan = ours.table("t").scan(filter=col("id") == 1)
        assert scan.to_arrow().to_pylist() == [{"id": 1, "v": 1}]
        assert scan.plan.pruning.by_partition == 1


def test_a_duckdb_file_applies_the_exact_rules_itself(make_lake: LakeMaker) -> None:
    lake = make_lake("duckdb", NO_INLINING)
    twenty_files(lake)
    with lake.open() as ours:
        table = ours.table("t")
        filter = table.scan(filter=col("id") == 3).plan.filter
        assert not pushed_filter("duckdb", filter, table.columns, {}, frozenset()).exclusions

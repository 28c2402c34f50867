"""Every change of a table is kept and can be read, by version and by time."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakeport.catalog import (
    AddColumnOptions,
    RemoveColumnOptions,
    RenameTableOptions,
    ScanOptions,
    TimePoint,
    TimeUnit,
)
from lakeport.errors import InvalidArgumentError, NotFoundError
from lakeport.memory import MemoryTable
from tests.memory.fixtures_catalog import (
    Workbench,
    at_timestamp,
    at_version,
    delete,
    ids,
    insert,
    read,
    update,
)


@pytest.fixture
def table(memory_catalog: Workbench) -> MemoryTable:
    """Version 1 is empty, 2 has three people, 3 one less, 4 another name, 5 and 6 other columns.

    The schema is created at 00:00:01, so that version n is of the second n + 1.
    """
    table = memory_catalog.people()
    delete(table, 0)
    update(table, [1], name=["x"])
    table.add_column(pa.schema([("age", pa.int32())]), AddColumnOptions())
    table.remove_column("name", RemoveColumnOptions())
    return table


def test_each_version_is_read_as_it_was(table: MemoryTable) -> None:
    assert [len(read(table, time_point=at_version(v))) for v in range(1, 7)] == [0, 3, 2, 2, 2, 2]
    assert read(table, time_point=at_version(3))[0] == {"id": 2, "name": "p2"}
    assert read(table, time_point=at_version(4))[0] == {"id": 2, "name": "x"}
    assert read(table, time_point=at_version(5))[0] == {"id": 2, "name": "x", "age": None}
    assert read(table, time_point=at_version(6)) == read(table)


def test_each_version_has_the_columns_of_its_time(table: MemoryTable) -> None:
    assert table.schema_at(at_version(4)).names == ["id", "name", "rowid"]
    assert table.schema_at(at_version(5)).names == ["id", "name", "age", "rowid"]
    assert table.schema_at(at_version(6)) == table.arrow_schema()


def test_a_snapshot_is_a_version(table: MemoryTable) -> None:
    assert len(read(table, time_point=TimePoint(TimeUnit.SNAPSHOT, "2"))) == 3


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("2024-01-01 00:00:02", 0),
        ("2024-01-01 00:00:03", 3),
        ("2024-01-01 00:00:03.999999", 3),
        ("2024-01-01T00:00:03Z", 3),
        ("2024-01-01 00:00:03+00", 3),
        ("2024-01-01 02:30:03+02:30", 3),
        ("2023-12-31 19:00:03-05", 3),
        ("2024-01-01 00:00:04", 2),
        ("2024-01-02", 2),
        ("9999-12-31 23:59:59.999999", 2),
    ],
)
def test_a_time_means_the_version_of_that_time(table: MemoryTable, text: str, count: int) -> None:
    assert len(read(table, time_point=at_timestamp(text))) == count


@pytest.mark.parametrize(
    "point",
    [at_version(0), at_version(7), at_version(-1), at_timestamp("2024-01-01 00:00:01.999999")],
    ids=str,
)
def test_what_never_was_is_not_found(table: MemoryTable, point: TimePoint) -> None:
    known = r"versions 1 to 6, from 2024-01-01T00:00:02\+00:00 to 2024-01-01T00:00:07\+00:00"
    with pytest.raises(NotFoundError, match=known):
        table.schema_at(point)
    with pytest.raises(NotFoundError, match=r"s\.t"):
        table.scan(ScanOptions(time_point=point))


@pytest.mark.parametrize(
    "point",
    [at_version("two"), at_version("1.5"), at_timestamp("yesterday"), at_timestamp("infinity")],
    ids=str,
)
def test_what_is_no_time_is_refused(table: MemoryTable, point: TimePoint) -> None:
    with pytest.raises(InvalidArgumentError):
        table.schema_at(point)


def test_a_renamed_table_keeps_its_history(memory_catalog: Workbench, table: MemoryTable) -> None:
    memory_catalog.schema.rename_table("t", "u", RenameTableOptions())
    assert len(read(memory_catalog.table("u"), time_point=at_version(2))) == 3
    assert len(table.versions()) == 6


def test_versions_are_in_order_even_when_the_clock_is_not(memory_catalog: Workbench) -> None:
    memory_catalog.clock.step *= -1
    table = memory_catalog.people()
    moments = [version.committed for version in table.versions()]
    insert(table, [{"id": 4}])
    moments = [version.committed for version in table.versions()]
    assert moments == sorted(set(moments))  # type: ignore[type-var]
    assert ids(table, time_point=at_timestamp(str(moments[1]))) == [1, 2, 3]


def test_the_history_can_be_bounded() -> None:
    memory_catalog = Workbench(keep_versions=2)
    table = memory_catalog.people()
    insert(table, [{"id": 4}])
    insert(table, [{"id": 5}])
    assert [version.version for version in table.versions()] == [3, 4]
    assert ids(table, time_point=at_version(3)) == [1, 2, 3, 4]
    with pytest.raises(NotFoundError, match="versions 3 to 4"):
        read(table, time_point=at_version(2))


def test_a_transaction_reads_parts_of_a_version_that_is_no_longer_kept() -> None:
    memory_catalog = Workbench(keep_versions=1)
    table = memory_catalog.create()
    insert(table, pa.table({"id": range(300_000)}))
    transaction = memory_catalog.catalog.begin_transaction()
    with memory_catalog.within(transaction):
        parts = table.endpoints(ScanOptions())
    assert len(parts) == 2
    insert(table, [{"id": -1}])
    with memory_catalog.within(transaction):
        rows = [table.scan(ScanOptions(partition=part.token)).read_all() for part in parts]
    assert sum(part.num_rows for part in rows) == 300_000
    with pytest.raises(NotFoundError, match="no version 2"):
        table.scan(ScanOptions(partition=parts[0].token))


def test_parts_of_an_old_version_can_be_read(memory_catalog: Workbench) -> None:
    table = memory_catalog.create()
    insert(table, pa.table({"id": range(300_000)}))
    delete(table, *range(300_000))
    assert len(table.endpoints(ScanOptions())) == 1
    parts = table.endpoints(ScanOptions(time_point=at_version(2)))
    assert len(parts) == 2
    total = sum(
        table.scan(ScanOptions(partition=part.token, time_point=at_version(2))).read_all().num_rows
        for part in parts
    )
    assert total == 300_000

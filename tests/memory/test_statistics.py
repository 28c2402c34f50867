"""Statistics hold for everything that a client may read: any version, any transaction."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakeport.catalog import (
    AddColumnOptions,
    ChangeColumnTypeOptions,
    ColumnStats,
    RemoveColumnOptions,
    RenameColumnOptions,
)
from lakeport.errors import NotFoundError
from lakeport.memory import MemoryTable
from tests.memory.fixtures_catalog import Workbench, delete, insert, update


def bounds(table: MemoryTable, name: str) -> tuple[Any, Any]:
    stats = table.column_statistics(name, "")
    return tuple(None if b is None else b.as_py() for b in (stats.min, stats.max))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("type", "values", "least", "greatest"),
    [
        (pa.int8(), [3, -5], -5, 3),
        (pa.uint64(), [2**64 - 1, 0], 0, 2**64 - 1),
        (pa.float64(), [1.5, -2.5], -2.5, 1.5),
        (pa.bool_(), [True, False], False, True),
        (pa.string(), ["b", "a", "é"], "a", "é"),
        (pa.binary(), [b"\xff", b"\x00"], b"\x00", b"\xff"),
        (
            pa.decimal128(9, 2),
            [Decimal("1.20"), Decimal("-3.00")],
            Decimal("-3.00"),
            Decimal("1.20"),
        ),
        (
            pa.date32(),
            [dt.date(2024, 1, 2), dt.date(2023, 1, 1)],
            dt.date(2023, 1, 1),
            dt.date(2024, 1, 2),
        ),
    ],
    ids=str,
)
def test_bounds_are_exact_for_what_was_written(
    memory_catalog: Workbench, type: pa.DataType, values: list[Any], least: Any, greatest: Any
) -> None:
    table = memory_catalog.create(pa.schema([("v", type)]))
    insert(table, pa.table({"v": pa.array(values, type)}))
    assert bounds(table, "V") == (least, greatest)
    stats = table.column_statistics("v", "")
    assert (stats.has_null, stats.has_not_null) == (False, True)


def test_texts_have_a_length_and_a_kind(memory_catalog: Workbench) -> None:
    table = memory_catalog.people(3)
    stats = table.column_statistics("name", "VARCHAR")
    assert (stats.max_string_length, stats.contains_unicode) == (2, False)
    insert(table, [{"name": "Ångström"}])
    stats = table.column_statistics("name", "VARCHAR")
    assert (stats.max_string_length, stats.contains_unicode) == (10, True)


def test_nothing_is_known_of_a_table_without_rows(memory_catalog: Workbench) -> None:
    table = memory_catalog.create()
    assert table.column_statistics("id", "BIGINT") == ColumnStats()


def test_a_missing_column_is_an_error(memory_catalog: Workbench) -> None:
    with pytest.raises(NotFoundError, match="'x'"):
        memory_catalog.people().column_statistics("x", "BIGINT")


def test_nulls_alone_have_no_bounds(memory_catalog: Workbench) -> None:
    table = memory_catalog.create()
    insert(table, [{"id": None}])
    assert table.column_statistics("id", "") == ColumnStats(has_null=True, has_not_null=False)


def test_nan_leaves_no_bounds(memory_catalog: Workbench) -> None:
    table = memory_catalog.create(pa.schema([("v", pa.float64())]))
    insert(table, pa.table({"v": [1.0, float("nan")]}))
    insert(table, pa.table({"v": [2.0]}))
    assert bounds(table, "v") == (None, None)


def test_bounds_never_narrow_since_old_versions_can_be_read(memory_catalog: Workbench) -> None:
    table = memory_catalog.people(3)
    delete(table, 2)
    update(table, [0], id=[-7])
    assert bounds(table, "id") == (-7, 3)


def test_bounds_include_what_a_transaction_has_not_committed(memory_catalog: Workbench) -> None:
    table = memory_catalog.people(3)
    transaction = memory_catalog.catalog.begin_transaction()
    with memory_catalog.within(transaction):
        insert(table, [{"id": 100}])
        update(table, [0], id=[-100])
        assert bounds(table, "id") == (-100, 100)
    # The request may come without its transaction.
    assert bounds(table, "id") == (-100, 100)
    memory_catalog.catalog.rollback_transaction(transaction)
    low, high = bounds(table, "id")
    assert low <= 1
    assert high >= 3


def test_a_column_is_known_under_all_its_names(memory_catalog: Workbench) -> None:
    table = memory_catalog.people(3)
    table.rename_column("id", "number", RenameColumnOptions())
    insert(table, [{"number": 9}])
    assert bounds(table, "number") == (1, 9)
    # AT an older version asks for the older name.
    assert bounds(table, "id") == (1, 3)


def test_a_name_of_two_types_has_no_bounds(memory_catalog: Workbench) -> None:
    table = memory_catalog.people(3)
    table.change_column_type(
        pa.schema([("id", pa.string())]), "CAST(id AS VARCHAR)", ChangeColumnTypeOptions()
    )
    stats = table.column_statistics("id", "")
    assert stats == ColumnStats(has_null=False, has_not_null=True)


def test_an_added_column_has_nulls(memory_catalog: Workbench) -> None:
    table = memory_catalog.people(3)
    table.add_column(pa.schema([("age", pa.int32())]), AddColumnOptions())
    assert table.column_statistics("age", "").has_null
    table.remove_column("age", RemoveColumnOptions())
    assert table.column_statistics("age", "").has_null


def test_many_statements_are_summed_up(memory_catalog: Workbench) -> None:
    table = memory_catalog.create()
    for number in range(300):
        insert(table, [{"id": number}])
    assert bounds(table, "id") == (0, 299)


def test_a_bounded_history_is_summed_up_as_it_goes() -> None:
    memory_catalog = Workbench(keep_versions=1)
    table = memory_catalog.people(3)
    delete(table, 0, 1, 2)
    low, high = bounds(table, "id")
    assert (low, high) == (1, 3)

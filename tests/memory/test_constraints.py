"""NOT NULL, CHECK, UNIQUE and PRIMARY KEY."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakeport.catalog import CreateTableOptions, DMLOptions, ScanOptions
from lakeport.errors import ConstraintError, InvalidInputError
from lakeport.memory import MemoryCatalog
from tests.memory.arrow_samples import SAMPLES, Sample
from tests.memory.fixtures_catalog import Workbench, delete, ids, insert, read, update

TWO = pa.schema([("a", pa.int64()), ("b", pa.string())])
KEYS = [
    sample
    for sample in SAMPLES
    if not (
        pa.types.is_nested(sample.type)
        or pa.types.is_interval(sample.type)
        or sample.name in {"bool", "bool8", "enum", "bignum"}  # their samples repeat
    )
]


def test_nulls_are_rejected_by_insert_and_update(memory_catalog: Workbench) -> None:
    table = memory_catalog.people(not_null_columns=("name",))
    with pytest.raises(ConstraintError, match=r"NOT NULL constraint failed: s\.t\.name"):
        insert(table, [{"id": 4, "name": "d"}, {"id": 5}])
    with pytest.raises(ConstraintError, match=r"s\.t\.name"):
        insert(table, pa.table({"id": [4]}))
    with pytest.raises(ConstraintError, match=r"s\.t\.name"):
        update(table, [0], name=[None])
    assert ids(table) == [1, 2, 3]


def test_rows_that_make_a_check_false_are_rejected(memory_catalog: Workbench) -> None:
    table = memory_catalog.create(TWO, check_constraints=("(a > 1) AND (length(b) < 4)",))
    assert insert(table, pa.table({"a": [2, 3], "b": ["x", "yyy"]})) == 2
    with pytest.raises(ConstraintError, match=r"CHECK constraint failed: s\.t: .*'a', 'b'"):
        insert(table, pa.table({"a": [5, 1], "b": ["x", "x"]}))
    with pytest.raises(ConstraintError, match="CHECK"):
        update(table, [0], b=["much too long"])
    assert read(table) == [{"a": 2, "b": "x"}, {"a": 3, "b": "yyy"}]
    assert update(table, [0], b=["ok"]) == 1


def test_a_check_that_is_null_passes(memory_catalog: Workbench) -> None:
    table = memory_catalog.create(TWO, check_constraints=("a > 1",))
    assert insert(table, pa.table({"b": ["x"]})) == 1


def test_a_check_may_be_a_number(memory_catalog: Workbench) -> None:
    table = memory_catalog.create(TWO, check_constraints=("a",))
    insert(table, pa.table({"a": [1]}))
    with pytest.raises(ConstraintError):
        insert(table, pa.table({"a": [0]}))


def test_a_check_that_cannot_be_evaluated_fails_the_statement(memory_catalog: Workbench) -> None:
    table = memory_catalog.create(TWO, check_constraints=("CAST(b AS INTEGER) > 1",))
    insert(table, pa.table({"b": ["2"]}))
    with pytest.raises(InvalidInputError, match=r"(?i)convert"):
        insert(table, pa.table({"b": ["two"]}))
    assert len(read(table)) == 1


def test_checks_are_made_in_large_statements_too(memory_catalog: Workbench) -> None:
    table = memory_catalog.create(TWO, check_constraints=("a <> 150000",))
    rows = pa.table({"a": range(200_000)})
    with pytest.raises(ConstraintError):
        table.insert(rows.to_reader(max_chunksize=5000), DMLOptions())
    assert read(table) == []
    kept = rows.filter(pc.field("a") != 150_000)
    assert insert(table, kept) == 199_999


def test_keys_may_not_repeat(memory_catalog: Workbench) -> None:
    table = memory_catalog.create(TWO, primary_key=("a",))
    insert(table, pa.table({"a": [1, 2]}))
    with pytest.raises(ConstraintError, match=r"PRIMARY KEY \(a\) .* table s\.t .* a = 2"):
        insert(table, pa.table({"a": [3, 2]}))
    with pytest.raises(ConstraintError, match="a = 5"):
        insert(table, pa.table({"a": [5, 5]}))
    with pytest.raises(ConstraintError, match=r"s\.t\.a"):
        insert(table, pa.table({"a": [None]}, schema=pa.schema([("a", pa.int64())])))
    with pytest.raises(ConstraintError, match="a = 2"):
        update(table, [0], a=[2])
    assert [row["a"] for row in read(table)] == [1, 2]


def test_keys_are_free_again_after_delete_and_update(memory_catalog: Workbench) -> None:
    table = memory_catalog.create(TWO, unique_constraints=(("a",),))
    insert(table, pa.table({"a": [1, 2, 3]}))
    delete(table, 0)
    insert(table, pa.table({"a": [1]}))
    update(table, [1], a=[9])
    insert(table, pa.table({"a": [2]}))
    assert sorted(row["a"] for row in read(table)) == [1, 2, 3, 9]


def test_keys_can_be_exchanged_in_one_statement(memory_catalog: Workbench) -> None:
    table = memory_catalog.create(TWO, unique_constraints=(("a",),))
    insert(table, pa.table({"a": [1, 2]}))
    assert update(table, [0, 1], a=[2, 1]) == 2
    assert update(table, [0, 1], a=[7, 8]) == 2


def test_rows_with_a_null_in_the_key_never_repeat(memory_catalog: Workbench) -> None:
    table = memory_catalog.create(TWO, unique_constraints=(("a", "b"),))
    insert(table, pa.table({"a": [1, 1, None], "b": [None, None, "x"]}))
    insert(table, pa.table({"a": [1, None], "b": [None, "x"]}))
    assert len(read(table)) == 5


def test_composite_keys_repeat_only_as_a_whole(memory_catalog: Workbench) -> None:
    table = memory_catalog.create(TWO, unique_constraints=(("B", "a"),))
    insert(table, pa.table({"a": [1, 1, 2], "b": ["x", "y", "x"]}))
    insert(table, pa.table({"a": [2], "b": ["y"]}))
    with pytest.raises(ConstraintError, match=r"UNIQUE \(b, a\) .* b, a = y, 1"):
        insert(table, pa.table({"a": [3, 1], "b": ["x", "y"]}))


def test_columns_that_are_not_in_the_key_may_be_updated(memory_catalog: Workbench) -> None:
    table = memory_catalog.people(primary_key=("id",))
    assert update(table, [0, 1, 2], name=["same", "same", "same"]) == 3


@pytest.mark.parametrize("sample", KEYS, ids=lambda sample: sample.name)
def test_keys_of_every_type_are_told_apart(memory_catalog: Workbench, sample: Sample) -> None:
    table = memory_catalog.create(pa.schema([("k", sample.type)]), unique_constraints=(("k",),))
    insert(table, pa.table({"k": sample.values}))
    insert(table, pa.table({"k": sample.values.slice(3, 1)}))
    with pytest.raises(ConstraintError, match="UNIQUE"):
        insert(table, pa.table({"k": sample.values.slice(1, 1)}))
    assert table.size(ScanOptions()).rows == 5


def test_minus_zero_and_zero_are_the_same_key(memory_catalog: Workbench) -> None:
    table = memory_catalog.create(pa.schema([("k", pa.float64())]), unique_constraints=(("k",),))
    insert(table, pa.table({"k": [0.0, float("nan")]}))
    for value in (-0.0, float("nan")):
        with pytest.raises(ConstraintError):
            insert(table, pa.table({"k": [value]}))


def test_data_that_breaks_its_own_constraints_is_not_added() -> None:
    catalog = MemoryCatalog()
    options = CreateTableOptions(primary_key=("a",))
    with pytest.raises(ConstraintError):
        catalog.add_table("s", "t", pa.table({"a": [1, 1]}), options=options)
    schema = catalog.schema("s")
    assert schema is not None
    assert schema.tables() == []

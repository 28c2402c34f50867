"""Every type goes through insert, scan, update, RETURNING, delete and ALTER unchanged."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakeport.arrow import convert
from lakeport.catalog import (
    AddColumnOptions,
    ChangeColumnTypeOptions,
    ColumnStats,
    RenameColumnOptions,
    ScanOptions,
)
from lakeport.memory import MemoryTable
from tests.memory.arrow_samples import SAMPLES, Sample
from tests.memory.fixtures_catalog import Workbench, at_version, delete, insert, returning, update

every_type = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
other_layouts = pytest.mark.parametrize(
    ("sample", "layout"),
    [
        pytest.param(sample, layout, id=f"{sample.name}-{layout.type}")
        for sample in SAMPLES
        for layout in sample.same_as
    ],
)


def column(table: MemoryTable, name: str = "v", **options: object) -> pa.Array:
    rows = table.scan(ScanOptions(**options)).read_all()  # type: ignore[arg-type]
    values = rows.column(name)
    return pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)


def same(left: pa.Array, right: pa.Array) -> bool:
    return bool(left.type == right.type and left.to_pylist() == right.to_pylist())


@pytest.fixture
def table(memory_catalog: Workbench, sample: Sample) -> MemoryTable:
    table = memory_catalog.create(pa.schema([("id", pa.int64()), ("v", sample.type)]))
    insert(table, pa.table({"id": [1, 2, 3, 4], "v": sample.values}))
    return table


@every_type
def test_inserted_values_are_scanned_unchanged(table: MemoryTable, sample: Sample) -> None:
    assert same(column(table), sample.values)
    assert table.arrow_schema().field("v").type == sample.type


@every_type
def test_values_are_updated_and_returned(table: MemoryTable, sample: Sample) -> None:
    options, emitted = returning()
    rows = pa.table({"v": sample.values.take(pa.array([3, 0])), "rowid": [1, 2]})
    assert table.update_rows(rows.to_reader(), options).affected_rows == 2
    assert same(emitted[0].column("v"), sample.values.take(pa.array([3, 0])))
    assert same(column(table), sample.values.take(pa.array([0, 3, 0, 3])))
    # All rows of a chunk are replaced without looking at the old ones.
    update(table, [3, 2, 1, 0], v=sample.values)
    assert same(column(table), sample.values.take(pa.array([3, 2, 1, 0])))


@every_type
def test_values_of_deleted_rows_are_returned(table: MemoryTable, sample: Sample) -> None:
    options, emitted = returning()
    table.delete_rows(pa.table({"rowid": [0, 2]}).to_reader(), options)
    assert same(emitted[0].column("v"), sample.values.take(pa.array([0, 2])))
    assert same(column(table), sample.values.take(pa.array([1, 3])))
    assert same(column(table, time_point=at_version(2)), sample.values)


@every_type
def test_a_column_of_any_type_is_added_with_nulls(
    memory_catalog: Workbench, sample: Sample
) -> None:
    table = memory_catalog.people(2)
    table.add_column(pa.schema([("v", sample.type)]), AddColumnOptions())
    insert(table, pa.table({"id": [3], "v": sample.values.slice(0, 1)}))
    update(table, [1], v=sample.values.slice(1, 1))
    expected = [None, sample.values[1].as_py(), sample.values[0].as_py()]
    assert column(table).to_pylist() == expected
    table.rename_column("v", "w", RenameColumnOptions())
    assert column(table, "w").to_pylist() == expected


@every_type
def test_expressions_may_stand_beside_a_column_of_any_type(
    memory_catalog: Workbench, sample: Sample
) -> None:
    columns = pa.schema([("id", pa.int32()), ("v", sample.type)])
    table = memory_catalog.create(columns, check_constraints=("id > 0", "v IS NOT NULL OR id < 9"))
    insert(table, pa.table({"id": pa.array([1, 2, 3, 4], pa.int32()), "v": sample.values}))
    wider = pa.schema([("id", pa.int64())])
    table.change_column_type(wider, "CAST(id AS BIGINT)", ChangeColumnTypeOptions())
    assert column(table, "id").equals(pa.array([1, 2, 3, 4], pa.int64()))
    assert same(column(table), sample.values)


@every_type
def test_statistics_are_true_for_any_type(table: MemoryTable, sample: Sample) -> None:
    stats = table.column_statistics("v", "")
    assert (stats.has_null, stats.has_not_null) == (True, True)
    for bound in (stats.min, stats.max):
        assert bound is None or bound.type == sample.type


@other_layouts
def test_other_layouts_of_a_type_are_taken(
    table: MemoryTable, sample: Sample, layout: pa.Array
) -> None:
    rows = pa.table({"id": [5, 6, 7, 8], "v": layout})
    assert insert(table, rows) == 4
    assert update(table, [0, 1, 2, 3], v=layout) == 4
    assert same(column(table), pa.concat_arrays([sample.values, sample.values]))


@pytest.mark.parametrize(
    ("declared", "stored"),
    [
        (pa.string_view(), pa.string()),
        (pa.binary_view(), pa.binary()),
        (pa.list_view(pa.int32()), pa.list_(pa.int32())),
        (pa.large_list_view(pa.int32()), pa.large_list(pa.int32())),
        (pa.struct([("a", pa.string_view())]), pa.struct([("a", pa.string())])),
        (pa.list_(pa.string_view(), 2), pa.list_(pa.string(), 2)),
        (pa.map_(pa.string_view(), pa.string_view()), pa.map_(pa.string(), pa.string())),
        (pa.run_end_encoded(pa.int32(), pa.int64()), pa.int64()),
        (
            pa.sparse_union([pa.field("a", pa.string_view())]),
            pa.sparse_union([pa.field("a", pa.string())]),
        ),
    ],
    ids=str,
)
def test_views_are_declared_in_the_plain_layout_of_the_same_duckdb_type(
    memory_catalog: Workbench, declared: pa.DataType, stored: pa.DataType
) -> None:
    table = memory_catalog.create(pa.schema([("v", declared)]))
    assert table.arrow_schema().field("v").type == stored
    assert insert(table, pa.table({"v": pa.nulls(2, stored)})) == 2


def test_an_unknown_type_of_statistics_has_no_bounds(memory_catalog: Workbench) -> None:
    table = memory_catalog.create(pa.schema([("v", pa.list_(pa.int32()))]))
    insert(table, pa.table({"v": [[1]]}))
    assert table.column_statistics("v", "INTEGER[]") == ColumnStats(
        has_not_null=True, has_null=False
    )
    delete(table, 0)


def test_json_in_views_of_texts_is_stored_as_plain_texts(memory_catalog: Workbench) -> None:
    # DuckDB sends it after SET produce_arrow_string_view.
    json = pa.json_(pa.string_view())
    values = pa.ExtensionArray.from_storage(json, pa.array(["{}", None]).cast(pa.string_view()))
    table = memory_catalog.create(pa.schema([("id", pa.int64()), ("v", json)]))

    stored = table.arrow_schema().field("v").type
    insert(table, pa.table({"id": [1, 2], "v": convert(values, stored, "v")}))
    update(table, [0], v=pa.ExtensionArray.from_storage(pa.json_(), pa.array(["[]"])))

    assert stored == pa.json_()
    assert column(table).to_pylist() == ["[]", None]

"""Rows of a caller become the columns of a table, or the error names the column."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

from lakeport.ducklake.writing.files import RowFitter
from lakeport.errors import ConstraintError, InvalidInputError
from lakeport.types import Column, arrow_schema


def column(type: str, *children: Column, name: str = "v", id: int = 1, **options: Any) -> Column:
    return Column(id=id, name=name, type=type, children=children, **options)


def fitted(array: pa.Array, target: Column) -> list[Any]:
    batch = pa.record_batch([array], names=["v"])
    found = RowFitter(batch.schema, [target])(batch)
    found.validate(full=True)
    assert found.schema == arrow_schema([target])
    values: list[Any] = found.column(0).to_pylist()
    return values


NOON = dt.datetime(2024, 1, 2, 12)

ACCEPTED: list[tuple[pa.Array, str, list[Any]]] = [
    (pa.array([1, None], pa.int8()), "int64", [1, None]),
    (pa.array([1], pa.uint32()), "int64", [1]),
    (pa.array([True]), "int32", [1]),
    (pa.array([2**53 + 1]), "float64", [float(2**53)]),
    (pa.array([1.5], pa.float32()), "float64", [1.5]),
    (pa.array([1.5], pa.float16()), "float32", [1.5]),
    (pa.array([7], pa.int32()), "decimal(18,3)", [decimal.Decimal("7.000")]),
    (
        pa.array([decimal.Decimal("1.5")], pa.decimal128(4, 1)),
        "decimal(18,3)",
        [decimal.Decimal("1.500")],
    ),
    (pa.array(["a", None], pa.large_string()), "varchar", ["a", None]),
    (pa.array(["a", "a"]).dictionary_encode(), "varchar", ["a", "a"]),
    (pa.array(["a", "b"], pa.string_view()), "varchar", ["a", "b"]),
    (pa.array([b"a"], pa.large_binary()), "blob", [b"a"]),
    (pa.array([b"ab"], pa.binary(2)), "blob", [b"ab"]),
    (pa.array([dt.date(2024, 1, 2)]), "timestamp", [dt.datetime(2024, 1, 2)]),
    (pa.array([NOON], pa.timestamp("s")), "timestamp", [NOON]),
    (pa.array([NOON], pa.timestamp("ns")), "timestamp", [NOON]),
    (pa.array([NOON], pa.timestamp("us")), "timestamp_s", [NOON]),
    (
        pa.array([NOON], pa.timestamp("ns", "Europe/Berlin")),
        "timestamptz",
        [NOON.replace(tzinfo=dt.UTC)],
    ),
    (pa.array([dt.time(1, 2)], pa.time32("s")), "time", [dt.time(1, 2)]),
    (pa.array([dt.date(2024, 1, 2)], pa.date64()), "date", [dt.date(2024, 1, 2)]),
    (pa.array([None, None]), "uuid", [None, None]),
]


@pytest.mark.parametrize(
    ("array", "type", "values"), ACCEPTED, ids=[f"{a.type}-{t}" for a, t, _ in ACCEPTED]
)
def test_a_wider_column_takes_the_values(array: pa.Array, type: str, values: list[Any]) -> None:
    assert fitted(array, column(type)) == values


REJECTED: list[tuple[pa.Array, str]] = [
    (pa.array([1]), "int32"),
    (pa.array([1], pa.uint64()), "int64"),
    (pa.array([1.5]), "float32"),
    (pa.array([1.5]), "int64"),
    (pa.array(["1"]), "int64"),
    (pa.array([1]), "varchar"),
    (pa.array([b"a"]), "varchar"),
    (pa.array(["a"]), "blob"),
    (pa.array([1], pa.int64()), "decimal(18,3)"),
    (pa.array([decimal.Decimal("1.55")]), "decimal(18,1)"),
    (pa.array([NOON], pa.timestamp("us", "UTC")), "timestamp"),
    (pa.array([NOON], pa.timestamp("us")), "date"),
    (pa.array([b"x" * 15], pa.binary(15)), "uuid"),
    (pa.array([1]), "list"),
    (pa.array([[1]]), "int64"),
]


@pytest.mark.parametrize(("array", "type"), REJECTED, ids=[f"{a.type}-{t}" for a, t in REJECTED])
def test_another_column_names_itself_in_the_error(array: pa.Array, type: str) -> None:
    children = (column("int64", name="element", id=2),) if type == "list" else ()

    with pytest.raises(InvalidInputError, match="'v'"):
        fitted(array, column(type, *children))


@pytest.mark.parametrize(
    ("array", "type"),
    [
        (pa.array([1], pa.timestamp("ns")), "timestamp"),
        (pa.array(["no uuid"]), "uuid"),
        (pa.array(["{"]), "json"),
        (pa.array([2**62], pa.timestamp("s")), "timestamp"),
    ],
)
def test_a_value_that_would_change_names_its_column(array: pa.Array, type: str) -> None:
    with pytest.raises(InvalidInputError, match="'v'"):
        fitted(array, column(type))


def test_text_becomes_uuids_and_json() -> None:
    text = "00000000-0000-0000-0000-00000000000a"

    assert str(fitted(pa.array([text]), column("uuid"))[0]) == text
    assert fitted(pa.array(['{"a": 1}']), column("json")) == ['{"a": 1}']
    assert fitted(pa.array([{"a": 1}]), column("json")) == ['{"a":1}']
    assert fitted(pa.array(["x"]), column("variant")) == ['"x"']


def test_infinite_dates_stay_infinite() -> None:
    infinite = pa.array([2**31 - 1], pa.int32()).view(pa.date32())

    batch = pa.record_batch([infinite], names=["v"])
    found = RowFitter(batch.schema, [column("timestamp")])(batch)

    assert found.column(0).view(pa.int64()).to_pylist() == [2**63 - 1]


def test_hugeints_take_integers_and_whole_decimals() -> None:
    for array in (pa.array([5, None]), pa.array([decimal.Decimal(5), None], pa.decimal128(38, 0))):
        batch = pa.record_batch([array], names=["v"])
        found = RowFitter(batch.schema, [column("int128")])(batch)
        rows = duckdb.connect().from_arrow(pa.Table.from_batches([found])).fetchall()
        assert rows == [(5,), (None,)]


def test_columns_are_found_by_name_in_any_order_and_case() -> None:
    batch = pa.record_batch([pa.array(["x"]), pa.array([1])], names=["NAME", "id"])
    fit = RowFitter(batch.schema, [column("int64", name="id"), column("varchar", name="name")])

    assert fit(batch).to_pylist() == [{"id": 1, "name": "x"}]


def test_fields_of_structs_are_found_by_name_at_every_level() -> None:
    inner = column("struct", column("int64", name="x"), column("varchar", name="y"), name="element")
    target = column("list", inner)
    values = [[{"Y": "a"}, None], None, []]
    array = pa.array(values, pa.large_list(pa.struct([("Y", pa.large_string())])))

    assert fitted(array.slice(0, 3), target) == [[{"x": None, "y": "a"}, None], None, []]
    assert fitted(array.slice(1, 2), target) == [None, []]
    with pytest.raises(InvalidInputError, match=r"'v\.element' has no field 'z'"):
        fitted(pa.array([[{"z": 1}]]), target)


def test_maps_are_widened_inside() -> None:
    target = column("map", column("varchar", name="key"), column("float64", name="value"))
    array = pa.array([[("a", 1)], None, []], pa.map_(pa.large_string(), pa.int32()))

    assert fitted(array, target) == [[("a", 1.0)], None, []]
    assert fitted(array.slice(1), target) == [None, []]


def test_unknown_and_double_columns_are_errors() -> None:
    target = [column("int64", name="price")]

    with pytest.raises(InvalidInputError, match="no column 'pice'; did you mean 'price'"):
        RowFitter(pa.schema([("pice", pa.int64())]), target)
    with pytest.raises(InvalidInputError, match="two columns 'price'"):
        RowFitter(pa.schema([("price", pa.int64()), ("PRICE", pa.int64())]), target)


def test_null_in_a_column_that_forbids_it_is_an_error() -> None:
    target = column("int64", nullable=False)

    with pytest.raises(ConstraintError, match="'v' does not allow NULL"):
        fitted(pa.array([1, None]), target)
    with pytest.raises(ConstraintError, match="no column 'v'"):
        RowFitter(pa.schema([]), [target])


def test_an_absent_column_takes_its_default() -> None:
    columns = [
        column("int64", name="id"),
        column("decimal(9,2)", name="price", default="1.5"),
        column("timestamptz", name="at", default="now()", default_is_expression=True),
        column("varchar", name="none"),
    ]
    batch = pa.record_batch([pa.array([1, 2])], names=["id"])
    fit = RowFitter(batch.schema, columns)

    first, second = fit(batch), fit(batch)

    assert first.column("price").to_pylist() == [decimal.Decimal("1.50")] * 2
    assert first.column("none").to_pylist() == [None, None]
    # One statement has one time.
    assert len({*first.column("at").to_pylist(), *second.column("at").to_pylist()}) == 1


def test_a_frame_of_pandas_fits() -> None:
    frame = pd.DataFrame({"at": pd.to_datetime(["2024-01-02 12:00"]), "n": [1]})
    batch = pa.RecordBatch.from_pandas(frame, preserve_index=False)
    columns = [column("timestamp", name="at"), column("int64", name="n")]

    assert RowFitter(batch.schema, columns)(batch).to_pylist() == [{"at": NOON, "n": 1}]

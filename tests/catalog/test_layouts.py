"""One DuckDB type, several Arrow layouts: conversions keep every value, or refuse."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakeport.arrow.conversion import SchemaAdapter
from lakeport.errors import InvalidInputError

ID = uuid.UUID("12345678-1234-5678-1234-567812345678")
HUGE = 2**100 + 7
HUGEINT = pa.opaque(pa.binary(16), "hugeint", "DuckDB")
UHUGEINT = pa.opaque(pa.binary(16), "uhugeint", "DuckDB")
BIT = pa.opaque(pa.binary(), "bit", "DuckDB")
TIME_TZ = pa.opaque(pa.binary(8), "time_tz", "DuckDB")


def extension(type: pa.DataType, storage: pa.Array) -> pa.Array:
    return pa.ExtensionArray.from_storage(type, storage)


def little(*values: int | None) -> pa.Array:
    """HUGEINTs as DuckDB sends them with arrow_lossless_conversion."""
    packed = [v if v is None else v.to_bytes(16, "little", signed=True) for v in values]
    return extension(HUGEINT, pa.array(packed, pa.binary(16)))


def cast(values: pa.Array, type: pa.DataType) -> pa.Array:
    source, target = pa.schema([("c", values.type)]), pa.schema([("c", type)])
    batch = SchemaAdapter(source, target, "table s.t")(pa.record_batch([values], schema=source))
    batch.validate(full=True)
    assert batch.schema.equals(target)
    return batch.column(0)


UUIDS = extension(pa.uuid(), pa.array([ID.bytes, None], pa.binary(16)))
TEXT_IDS = pa.array([str(ID), None])
BOOLEANS = pa.array([True, False, None])
BYTES = extension(pa.bool8(), pa.array([1, 0, None], pa.int8()))
TEXTS = pa.array(["a", "é", "", None])
JSON = extension(pa.json_(), TEXTS)
BLOBS = pa.array([b"\x00\xff", b"", None])
LISTS = pa.array([["a", None], [], None, ["b"]], pa.list_(pa.string()))
ENUMS = pa.array(["red", None, "blue", "red"])

PAIRS: dict[str, tuple[pa.Array, pa.Array]] = {
    "uuid": (TEXT_IDS, UUIDS),
    "bytes of a uuid": (UUIDS.storage, UUIDS),
    "bytes of a hugeint": (little(HUGE, None).storage, little(HUGE, None)),
    "bool8": (BOOLEANS, BYTES),
    "hugeint": (
        pa.array([Decimal(HUGE), Decimal(-1), None], pa.decimal128(38, 0)),
        little(HUGE, -1, None),
    ),
    "large text": (TEXTS, TEXTS.cast(pa.large_string())),
    "text view": (TEXTS, TEXTS.cast(pa.string_view())),
    "large text and view": (TEXTS.cast(pa.large_string()), TEXTS.cast(pa.string_view())),
    "json": (TEXTS, JSON),
    "large blob": (BLOBS, BLOBS.cast(pa.large_binary())),
    "blob view": (BLOBS, BLOBS.cast(pa.binary_view())),
    "bit": (BLOBS, extension(BIT, BLOBS)),
    "large list": (LISTS, LISTS.cast(pa.large_list(pa.large_string()))),
    "list view": (
        LISTS,
        pa.ListViewArray.from_arrays(
            pa.array([0, 2, 2, 2], pa.int32()),
            pa.array([2, 0, 0, 1], pa.int32()),
            pa.array(["a", None, "b"], pa.string_view()),
            mask=pa.array([False, False, True, False]),
        ),
    ),
    "enum": (ENUMS, ENUMS.dictionary_encode().cast(pa.dictionary(pa.uint8(), pa.string()))),
    "zone": (
        pa.array([0, None], pa.timestamp("us", tz="UTC")),
        pa.array([0, None], pa.timestamp("us", tz="America/New_York")),
    ),
    "unit": (pa.array([1_000, None], pa.timestamp("us")), pa.array([1, None], pa.timestamp("ms"))),
    "date": (
        pa.array([dt.date(2024, 1, 2), None], pa.date32()),
        pa.array([dt.date(2024, 1, 2), None], pa.date64()),
    ),
    "uuid in a list": (
        pa.ListArray.from_arrays([0, 1, 2], TEXT_IDS),
        pa.ListArray.from_arrays([0, 1, 2], UUIDS),
    ),
    "uuid in a map": (
        pa.MapArray.from_arrays([0, 1, None, 2], ["a", "b"], TEXT_IDS),
        pa.MapArray.from_arrays([0, 1, None, 2], ["a", "b"], UUIDS),
    ),
    "hugeint in a list of a fixed size": (
        pa.FixedSizeListArray.from_arrays(
            pa.array([Decimal(HUGE), Decimal(-1), None, Decimal(7)], pa.decimal128(38, 0)),
            2,
            mask=pa.array([False, False]),
        ),
        pa.FixedSizeListArray.from_arrays(little(HUGE, -1, None, 7), 2),
    ),
    "bool8 in a struct": (
        pa.StructArray.from_arrays([BOOLEANS], names=["b"]),
        pa.StructArray.from_arrays([BYTES], names=["b"]),
    ),
    "uuid in a union": tuple(
        pa.UnionArray.from_sparse(
            pa.array([1, 0], pa.int8()), [ids, pa.array([5, 6])], ["id", "number"]
        )
        for ids in (pa.array(["no id", str(ID)]), UUIDS.take(pa.array([1, 0])))
    ),
}
BOTH_WAYS = {
    f"{name}, {way}": pair if way == "to" else pair[::-1]
    for name, pair in PAIRS.items()
    for way in ("to", "back")
}


@pytest.mark.parametrize(("given", "expected"), BOTH_WAYS.values(), ids=BOTH_WAYS)
def test_values_keep_their_meaning_in_another_layout(given: pa.Array, expected: pa.Array) -> None:
    got = cast(given, expected.type)

    assert got.type == expected.type
    assert got.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize(("given", "expected"), BOTH_WAYS.values(), ids=BOTH_WAYS)
def test_a_slice_is_converted_as_a_slice(given: pa.Array, expected: pa.Array) -> None:
    got = cast(given.slice(1), expected.type)

    assert got.to_pylist() == expected.slice(1).to_pylist()


@pytest.mark.parametrize("runs", [TEXTS, LISTS, JSON, ENUMS.dictionary_encode()], ids=str)
def test_runs_become_the_values_of_their_rows(runs: pa.Array) -> None:
    ends = pa.array(range(2, 2 + 2 * len(runs), 2), pa.int32())
    type = runs.type.value_type if pa.types.is_dictionary(runs.type) else runs.type

    got = cast(pa.RunEndEncodedArray.from_arrays(ends, runs).slice(1), type)

    expected = [value for value in runs.to_pylist() for _ in range(2)]
    assert got.to_pylist() == expected[1:]


def test_a_layout_that_no_conversion_reaches_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="cannot take these values"):
        cast(UNION, pa.sparse_union([pa.field("m", pa.int64())]))


@pytest.mark.parametrize(("given", "expected"), BOTH_WAYS.values(), ids=BOTH_WAYS)
def test_no_rows_are_converted_to_no_rows(given: pa.Array, expected: pa.Array) -> None:
    assert len(cast(given.slice(0, 0), expected.type)) == 0


NO_IDS = pa.array(["", str(ID)])
FIRST = pa.array([True, False])
UNION = pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1, 2])], ["n"])


@pytest.mark.parametrize(
    ("given", "type", "expected"),
    [
        (
            pa.StructArray.from_arrays([NO_IDS], names=["u"], mask=FIRST),
            pa.struct([("u", pa.uuid())]),
            [None, {"u": ID}],
        ),
        (
            pa.FixedSizeListArray.from_arrays(NO_IDS, 1, mask=FIRST),
            pa.list_(pa.uuid(), 1),
            [None, [ID]],
        ),
        (
            pa.StructArray.from_arrays([UNION, NO_IDS], names=["n", "u"], mask=FIRST),
            pa.struct([("n", UNION.type), ("u", pa.uuid())]),
            [None, {"n": 2, "u": ID}],
        ),
    ],
    ids=["struct", "array", "struct with a union"],
)
def test_what_is_hidden_below_a_null_is_not_converted(
    given: pa.Array, type: pa.DataType, expected: list[Any]
) -> None:
    assert cast(given, type).to_pylist() == expected
    assert cast(given.slice(1), type).to_pylist() == expected[1:]


def test_the_largest_hugeints_are_exact() -> None:
    bounds = [10**38 - 1, -(10**38) + 1, 0, None]
    decimals = pa.array([v if v is None else Decimal(v) for v in bounds], pa.decimal128(38, 0))

    assert cast(decimals, HUGEINT).storage.equals(little(*bounds).storage)
    assert cast(little(*bounds), pa.decimal128(38, 0)).equals(decimals)


def test_a_uhugeint_beyond_int64_is_exact() -> None:
    value = 2**64 + 5
    got = cast(pa.array([Decimal(value)], pa.decimal128(38, 0)), UHUGEINT)

    assert got.storage.to_pylist() == [value.to_bytes(16, "little")]


REFUSED: dict[str, tuple[pa.Array, pa.DataType]] = {
    "text that is no number": (pa.array(["x"]), pa.int64()),
    "a number that is too large": (pa.array([300]), pa.int8()),
    "text that is no uuid": (pa.array(["not a uuid"]), pa.uuid()),
    "a hugeint that no decimal holds": (little(2**127 - 1), pa.decimal128(38, 0)),
    "a fraction": (pa.array([1.5]), pa.int64()),
    "a time that needs more digits": (pa.array([1], pa.timestamp("us")), pa.timestamp("ms")),
    "an array of another size": (
        pa.array([[1, 2]], pa.list_(pa.int64(), 2)),
        pa.list_(pa.int64(), 3),
    ),
    "a list for a number": (pa.array([[1]]), pa.int64()),
    "a member beyond its dictionary": (
        pa.DictionaryArray.from_arrays(pa.array([5], pa.int8()), ["a"], safe=False),
        pa.string(),
    ),
    "too many values for the index": (
        pa.array([str(n) for n in range(300)]),
        pa.dictionary(pa.int8(), pa.string()),
    ),
}


@pytest.mark.parametrize(("given", "type"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused_by_name(given: pa.Array, type: pa.DataType) -> None:
    with pytest.raises(
        InvalidInputError, match=r"table s\.t: column 'c' cannot take these"
    ) as told:
        cast(given, type)

    assert "\n" not in str(told.value)


def test_columns_are_found_by_name_and_missing_ones_are_null() -> None:
    source = pa.schema([("b", pa.int64()), ("a", pa.string())])
    target = pa.schema([("a", pa.string()), ("c", pa.float64()), ("b", pa.int8())])
    batch = pa.RecordBatch.from_pydict({"b": [1, 2], "a": ["x", "y"]}, schema=source)

    got = SchemaAdapter(source, target, "t")(batch)

    assert got.to_pydict() == {"a": ["x", "y"], "c": [None, None], "b": [1, 2]}
    assert got.schema.equals(target)


def test_a_batch_that_fits_is_not_copied() -> None:
    schema = pa.schema([("a", pa.string())])
    batch = pa.RecordBatch.from_pydict({"a": ["x"]}, schema=schema)

    assert SchemaAdapter(schema, schema, "t")(batch) is batch


def test_marks_of_the_target_are_kept() -> None:
    target = pa.schema([pa.field("rowid", pa.int64(), metadata={"is_rowid": "1"})])
    batch = pa.record_batch({"rowid": [1]})

    got = SchemaAdapter(batch.schema, target, "t")(batch)

    assert got.schema.field(0).metadata == {b"is_rowid": b"1"}


@pytest.mark.parametrize(
    ("given", "type", "values"),
    [
        (pa.array([1, 2], pa.int32()), pa.int64(), [1, 2]),
        (pa.array([1.5], pa.float32()), pa.float64(), [1.5]),
        (pa.array([Decimal("1.5")]), pa.decimal128(10, 3), [Decimal("1.500")]),
        (pa.array([None, None]), pa.int64(), [None, None]),
        (pa.array([None, None]), pa.uuid(), [None, None]),
        (pa.array(["a", "b"]).dictionary_encode(), pa.large_string(), ["a", "b"]),
        (pa.array([[1, 2]], pa.list_(pa.int64(), 2)), pa.list_(pa.int64(), 2), [[1, 2]]),
    ],
)
def test_ordinary_casts_are_left_to_arrow(
    given: pa.Array, type: pa.DataType, values: list[Any]
) -> None:
    assert cast(given, type).to_pylist() == values

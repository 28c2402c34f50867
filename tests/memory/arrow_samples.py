"""Values of every Arrow type that DuckDB sends or reads, three of each and a null."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

__all__ = ["SAMPLES", "Sample"]

_UTC = dt.UTC


@dataclass(frozen=True)
class Sample:
    """A type with four values, the last one null."""

    name: str
    values: pa.Array
    same_as: tuple[pa.Array, ...] = ()
    """The same values in other layouts that clients send."""

    @property
    def type(self) -> pa.DataType:
        return self.values.type


def _opaque(storage: pa.Array, name: str) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.opaque(storage.type, name, "DuckDB"), storage)


def _bytes(width: int, *values: int) -> pa.Array:
    return pa.array(
        [v.to_bytes(width, "little", signed=True) for v in values] + [None], pa.binary(width)
    )


def _union() -> pa.Array:
    return pa.UnionArray.from_sparse(
        pa.array([0, 1, 0, 0], pa.int8()),
        [pa.array([1, None, 3, None], pa.int32()), pa.array([None, "b", None, None])],
        ["num", "str"],
    )


_UUIDS = ["00000000-0000-0000-0000-000000000001", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]
_UUIDS.append("ffffffff-ffff-ffff-ffff-ffffffffffff")
_UUID = pa.ExtensionArray.from_storage(
    pa.uuid(), pa.array([*(bytes.fromhex(u.replace("-", "")) for u in _UUIDS), None], pa.binary(16))
)
_TEXTS = pa.array(["a", "é", "", None])
_BLOBS = pa.array([b"a", b"\x00\xff", b"", None])
_BOOLS = pa.array([True, False, True, None])
_MOMENTS = [dt.datetime(2024, 1, day, 1, 2, 3) for day in (1, 2, 3)]
_INSTANTS = pa.array([m.replace(tzinfo=_UTC) for m in _MOMENTS] + [None], pa.timestamp("us", "UTC"))
_LISTS = [[1, None], [], [3], None]
_STRUCTS = [{"a": 1, "b": ["x"]}, {"a": None, "b": None}, {"a": 3, "b": []}, None]
_COLOURS = pa.array(["red", "green", "red", None])


def _plain(name: str, type: pa.DataType, *values: Any) -> Sample:
    return Sample(name, pa.array([*values, None], type))


SAMPLES = [
    Sample("bool", _BOOLS, (pa.ExtensionArray.from_storage(pa.bool8(), _BOOLS.cast(pa.int8())),)),
    Sample("bool8", pa.ExtensionArray.from_storage(pa.bool8(), _BOOLS.cast(pa.int8())), (_BOOLS,)),
    *[_plain(str(t), t, -100, 0, 100) for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64())],
    *[_plain(str(t), t, 200, 0, 1) for t in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())],
    _plain("float", pa.float32(), 1.5, -0.0, float("inf")),
    _plain("double", pa.float64(), 1.5, -1e300, float("-inf")),
    _plain("decimal", pa.decimal128(9, 2), Decimal("1.25"), Decimal("-3.00"), Decimal("0.01")),
    _plain("small_decimal", pa.decimal32(9, 2), Decimal("1.25"), Decimal("-3.00"), Decimal("0.01")),
    _plain("hugeint_as_decimal", pa.decimal128(38, 0), 10**37, -1, 0),
    Sample(
        "hugeint",
        _opaque(_bytes(16, 2**100, -1, 0), "hugeint"),
        (pa.array([2**100, -1, 0, None], pa.decimal128(38, 0)),),
    ),
    Sample("uuid", _UUID, (pa.array([*_UUIDS, None]),)),
    Sample("varchar", _TEXTS, tuple(_TEXTS.cast(t) for t in (pa.large_string(), pa.string_view()))),
    Sample("large_varchar", _TEXTS.cast(pa.large_string()), (_TEXTS,)),
    Sample(
        "json",
        pa.ExtensionArray.from_storage(
            pa.json_(), pa.array([json.dumps({"a": 1}), "[]", "null", None])
        ),
        (pa.array([json.dumps({"a": 1}), "[]", "null", None]),),
    ),
    Sample("blob", _BLOBS, tuple(_BLOBS.cast(t) for t in (pa.large_binary(), pa.binary_view()))),
    _plain("fixed_blob", pa.binary(3), b"abc", b"\x00\x00\x00", b"zzz"),
    Sample("bit", _opaque(pa.array([b"\x03\xf5", b"\x00\x01", b"\x07\x80", None]), "bit")),
    Sample(
        "bignum",
        _opaque(pa.array([b"\x80\x00\x01\x05", b"\x80\x00\x01\x06", None, None]), "bignum"),
    ),
    _plain("date", pa.date32(), *(m.date() for m in _MOMENTS)),
    _plain("time", pa.time64("us"), *(dt.time(m.day, 2, 3) for m in _MOMENTS)),
    _plain("time_ns", pa.time64("ns"), 1, 2, 86_399_999_999_999),
    Sample("time_tz", _opaque(_bytes(8, 1 << 24, 5 << 24, 7), "time_tz")),
    *[_plain(f"timestamp_{u}", pa.timestamp(u), *_MOMENTS) for u in ("s", "ms", "us")],
    _plain("timestamp_ns", pa.timestamp("ns"), 1, 2, 1_700_000_000_000_000_001),
    Sample("timestamptz", _INSTANTS, (_INSTANTS.cast(pa.timestamp("us", "America/New_York")),)),
    _plain("interval", pa.month_day_nano_interval(), (1, 2, 3), (0, 0, 0), (-1, 0, 5)),
    _plain("duration", pa.duration("us"), 1, 2, -3),
    Sample(
        "enum",
        _COLOURS.dictionary_encode().cast(pa.dictionary(pa.uint8(), pa.string())),
        (_COLOURS,),
    ),
    Sample(
        "list",
        pa.array(_LISTS, pa.list_(pa.int32())),
        tuple(
            pa.array(_LISTS, t)
            for t in (
                pa.list_(pa.field("l", pa.int32())),
                pa.large_list(pa.int32()),
                pa.list_view(pa.int32()),
            )
        ),
    ),
    _plain("array", pa.list_(pa.int32(), 2), [1, 2], [3, None], [5, 6]),
    Sample(
        "struct",
        pa.array(_STRUCTS, pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])),
        (
            pa.array(
                _STRUCTS,
                pa.struct([("a", pa.int32()), ("b", pa.list_(pa.field("l", pa.string_view())))]),
            ),
        ),
    ),
    _plain("map", pa.map_(pa.string(), pa.int32()), [("a", 1)], [], [("b", None)]),
    Sample("union", _union()),
    Sample(
        "list_of_union",
        pa.ListArray.from_arrays(pa.array([0, 1, 2, None, 4], pa.int32()), _union(), mask=None),
    ),
    Sample(
        "struct_of_enum",
        pa.StructArray.from_arrays(
            [_COLOURS.dictionary_encode()], ["e"], mask=pa.array([False, False, False, True])
        ),
    ),
]

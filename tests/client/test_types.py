"""Every Arrow type that DuckDB reads: scanned, filtered, inserted, updated, returned, unchanged."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakeport.catalog import CatalogBuilder, geometry_column
from lakeport.filters import col
from lakeport.memory import MemoryCatalog
from tests.client.conftest import Attach

NOON = dt.datetime(2024, 5, 6, 12, 0, 0, 123456)

VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.bool_(), [True, False]),
    *((type, [1, 2]) for type in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *((type, [1, 255]) for type in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    (pa.float32(), [1.5, float("inf")]),
    (pa.float64(), [0.1, -2.5]),
    *((type, ["a", "größe"]) for type in (pa.string(), pa.large_string())),
    *((type, [b"", b"\xff\0"]) for type in (pa.binary(), pa.large_binary())),
    (pa.binary(3), [b"abc", b"xyz"]),
    (pa.date32(), [dt.date(2024, 1, 2), dt.date(1, 1, 1)]),
    (pa.date64(), [dt.date(2024, 1, 2), dt.date(1970, 1, 1)]),
    (pa.time32("s"), [dt.time(1, 2, 3), dt.time(0, 0)]),
    (pa.time32("ms"), [dt.time(1, 2, 3), dt.time(0, 0)]),
    (pa.time64("us"), [dt.time(1, 2, 3, 4), dt.time(0, 0)]),
    *(
        (pa.timestamp(unit), [NOON.replace(microsecond=0), dt.datetime(1970, 1, 1)])
        for unit in ("s", "ms", "us")
    ),
    (pa.timestamp("us", tz="UTC"), [NOON.replace(tzinfo=dt.UTC)]),
    (pa.duration("us"), [dt.timedelta(days=1, microseconds=5)]),
    (pa.month_day_nano_interval(), [pa.MonthDayNano([1, 2, 3000])]),
    (pa.decimal128(9, 2), [Decimal("1.25"), Decimal("-99.99")]),
    (pa.decimal128(38, 0), [Decimal(10) ** 37]),
    (pa.list_(pa.int32()), [[1, None], []]),
    (pa.large_list(pa.string()), [["a"], []]),
    (pa.list_(pa.int32(), 2), [[1, 2], [3, 4]]),
    (pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]), [{"a": 1, "b": ["x"]}]),
    (pa.map_(pa.string(), pa.int32()), [[("k", 1)], []]),
    (pa.dictionary(pa.int32(), pa.string()), ["a", "b"]),
    (pa.uuid(), [uuid.UUID(int=5).bytes, uuid.UUID(int=2**127).bytes]),
    (pa.json_(), ['{"a": 1}', "null"]),
    (pa.bool8(), [1, 0]),
    (pa.opaque(pa.binary(16), "hugeint", "DuckDB"), [b"\1" + b"\0" * 15]),
    (pa.opaque(pa.binary(), "bit", "DuckDB"), [b"\x03\xf5"]),
]

# The catalog in memory keeps these as plain texts and blobs.
VIEWS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string_view(), ["a", "größe, longer than an inlined view"]),
    (pa.binary_view(), [b"", b"\xff\0"]),
]


def _array(type: pa.DataType, values: list[Any]) -> pa.Array:
    if isinstance(type, pa.BaseExtensionType):
        storage = pa.array([*values, None], type.storage_type)
        return pa.ExtensionArray.from_storage(type, storage)
    if pa.types.is_dictionary(type):
        return pa.array([*values, None]).dictionary_encode()
    return pa.array([*values, None], type)


@pytest.mark.parametrize(("type", "values"), VALUES + VIEWS, ids=lambda value: str(value)[:40])
def test_a_scan_keeps_the_type(attach_client: Attach, type: pa.DataType, values: list[Any]) -> None:
    data = pa.table({"n": range(len(values) + 1), "v": _array(type, values)})
    table = attach_client(CatalogBuilder().schema("s").table("t", data).build()).table("s.t")
    assert table.scan().to_arrow().equals(data)
    nulls = table.scan(["n"], filter=col("v").is_null()).to_arrow()
    assert nulls.to_pydict() == {"n": [len(values)]}
    others = table.scan(["v"], filter=col("v").is_not_null()).to_arrow()
    assert others.equals(data.select(["v"]).slice(0, len(values)))


@pytest.mark.parametrize(("type", "values"), VALUES, ids=lambda value: str(value)[:40])
def test_changes_keep_the_type(attach_client: Attach, type: pa.DataType, values: list[Any]) -> None:
    data = pa.table({"n": pa.array(range(len(values) + 1), pa.int64()), "v": _array(type, values)})
    client = attach_client(MemoryCatalog())
    client.create_schema("s")
    table = client.create_table_as("s", "t", data)
    assert table.schema.field("v").type == type
    assert table.scan().to_arrow().sort_by("n").equals(data)

    inserted = table.insert(data, returning=True)
    assert inserted.returning is not None
    assert inserted.returning.equals(data)
    rows = table.scan(["v", "rowid"], filter=col("n") == 0).to_arrow()
    updated = table.update(rows, returning=True)
    assert updated.returning is not None
    assert updated.returning.column("v").equals(rows.column("v"))
    deleted = table.delete(rows.column("rowid"), returning=True)
    assert deleted.returning is not None
    assert deleted.returning.column("v").to_pylist() == [data.column("v")[0].as_py()] * 2
    assert table.scan().count() == 2 * data.num_rows - 2


def test_geometry_is_known_as_such(attach_client: Attach) -> None:
    field = geometry_column("g", crs="EPSG:4326")
    point = bytes.fromhex("0101000000000000000000f03f0000000000000040")
    data = pa.table([pa.array([point], field.type)], schema=pa.schema([field]))
    table = attach_client(CatalogBuilder().schema("s").table("t", data).build()).table("s.t")
    assert table.schema.field("g").metadata == field.metadata
    assert table.scan().to_arrow().column("g").to_pylist() == [point]

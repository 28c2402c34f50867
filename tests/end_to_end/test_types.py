"""Every DuckDB type through a served table: insert, scan, filter, update, RETURNING, statistics."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import lakeport
from lakeport.arrow.conversion import convert
from lakeport.filters import Filter, col

UTC = dt.UTC


def opaque(storage: pa.DataType, name: str) -> pa.DataType:
    return pa.opaque(storage, name, "DuckDB")


@dataclass(frozen=True)
class Case:
    """A type, and two values of it as Python or storage values."""

    type: pa.DataType
    first: Any
    second: Any
    metadata: dict[str, str] | None = None
    plain: pa.DataType | None = None
    """The type to make the values of, where Arrow cannot make them directly."""
    stored: pa.DataType | None = None
    """The layout that the table keeps, where it is not the one that was asked for."""

    @property
    def field(self) -> pa.Field:
        return pa.field("v", self.type, metadata=self.metadata)

    def array(self, *values: Any) -> pa.Array:
        if isinstance(self.type, pa.BaseExtensionType):
            storage = pa.array(values, self.type.storage_type)
            return pa.ExtensionArray.from_storage(self.type, storage)
        if pa.types.is_union(self.type):
            return sparse_union(values)
        if self.plain is not None:
            return convert(pa.array(values, self.plain), self.type, "v")
        return pa.array(values, self.type)


def sparse_union(values: tuple[Any, ...]) -> pa.Array:
    tags = pa.array([0 if isinstance(value, int) else 1 for value in values], pa.int8())
    numbers = pa.array([v if isinstance(v, int) else None for v in values], pa.int32())
    texts = pa.array([v if isinstance(v, str) else None for v in values], pa.string())
    return pa.UnionArray.from_sparse(tags, [numbers, texts], ["num", "str"])


WKB_POINT = bytes.fromhex("0101000000000000000000f03f0000000000000040")
WKB_OTHER = bytes.fromhex("01010000000000000000000840000000000000f03f")

CASES = {
    "BOOLEAN": Case(pa.bool_(), False, True),
    "BOOLEAN lossless": Case(pa.bool8(), 0, 1),
    "TINYINT": Case(pa.int8(), -128, 127),
    "SMALLINT": Case(pa.int16(), -(2**15), 2**15 - 1),
    "INTEGER": Case(pa.int32(), -(2**31), 2**31 - 1),
    "BIGINT": Case(pa.int64(), -(2**63), 2**63 - 1),
    "UTINYINT": Case(pa.uint8(), 0, 255),
    "USMALLINT": Case(pa.uint16(), 0, 2**16 - 1),
    "UINTEGER": Case(pa.uint32(), 0, 2**32 - 1),
    "UBIGINT": Case(pa.uint64(), 0, 2**64 - 1),
    "HUGEINT": Case(pa.decimal128(38, 0), decimal.Decimal(-5), decimal.Decimal(10**37)),
    "HUGEINT lossless": Case(
        opaque(pa.binary(16), "hugeint"), b"\x01" + bytes(15), b"\x02" + bytes(15)
    ),
    "UHUGEINT lossless": Case(opaque(pa.binary(16), "uhugeint"), bytes(16), b"\xff" * 16),
    "FLOAT": Case(pa.float32(), -1.5, 2.25),
    "DOUBLE": Case(pa.float64(), -1e300, 0.1),
    "DECIMAL": Case(pa.decimal128(9, 2), decimal.Decimal("-1.25"), decimal.Decimal("99.99")),
    "VARCHAR": Case(pa.string(), "", "naïve ✈ 'x' \\"),
    "VARCHAR large": Case(pa.large_string(), "a", "b"),
    "VARCHAR view": Case(pa.string_view(), "short", "longer than twelve bytes", stored=pa.string()),
    "JSON lossless": Case(pa.json_(), '{"a": 1}', "[]"),
    "BLOB": Case(pa.binary(), b"", b"\x00\xff'"),
    "BIT lossless": Case(opaque(pa.binary(), "bit"), b"\x03\xf5", b"\x00\xff"),
    "BIGNUM": Case(opaque(pa.binary(), "bignum"), b"\x80\x00\x01\x05", b"\x80\x00\x01\x06"),
    "DATE": Case(pa.date32(), dt.date(1, 1, 1), dt.date(9999, 12, 31)),
    "TIME": Case(pa.time64("us"), dt.time(0, 0), dt.time(23, 59, 59, 999999)),
    "TIME_NS": Case(pa.time64("ns"), 1, 86_399_999_999_999),
    "TIMETZ lossless": Case(opaque(pa.binary(8), "time_tz"), bytes(8), b"\x01" + bytes(7)),
    "TIMESTAMP_S": Case(pa.timestamp("s"), 0, 2_000_000_000),
    "TIMESTAMP_MS": Case(pa.timestamp("ms"), 0, 2_000_000_000_001),
    "TIMESTAMP": Case(pa.timestamp("us"), 0, 2_000_000_000_000_001),
    "TIMESTAMP_NS": Case(pa.timestamp("ns"), 0, 2_000_000_000_000_000_001),
    "TIMESTAMPTZ": Case(pa.timestamp("us", tz="UTC"), 0, 2_000_000_000_000_001),
    "INTERVAL": Case(pa.month_day_nano_interval(), (1, 2, 3000), (0, -1, 0)),
    "UUID": Case(pa.string(), str(uuid.UUID(int=1)), str(uuid.UUID(int=2))),
    "UUID lossless": Case(pa.uuid(), uuid.UUID(int=1).bytes, uuid.UUID(int=2**127).bytes),
    "ENUM": Case(pa.dictionary(pa.uint8(), pa.string()), "small", "large"),
    "LIST": Case(pa.list_(pa.field("l", pa.int32())), [1, None], []),
    "LIST view": Case(pa.list_view(pa.int32()), [1, 2], [3], stored=pa.list_(pa.int32())),
    "ARRAY": Case(pa.list_(pa.int32(), 3), [1, 2, 3], [4, None, 6]),
    "STRUCT": Case(
        pa.struct([("x", pa.int32()), ("y", pa.string())]), {"x": 1, "y": "a"}, {"x": None, "y": ""}
    ),
    "MAP": Case(pa.map_(pa.string(), pa.int32()), [("k", 1)], []),
    "UNION": Case(
        pa.sparse_union([pa.field("num", pa.int32()), pa.field("str", pa.string())]), 7, "seven"
    ),
    "GEOMETRY": Case(
        pa.binary(),
        WKB_POINT,
        WKB_OTHER,
        {"ARROW:extension:name": "geoarrow.wkb", "ARROW:extension:metadata": "{}"},
    ),
    "nested lossless": Case(
        pa.struct([("u", pa.json_()), ("l", pa.list_(pa.field("l", pa.int32())))]),
        {"u": "{}", "l": [1]},
        {"u": None, "l": []},
        plain=pa.struct([("u", pa.string()), ("l", pa.list_(pa.int32()))]),
    ),
}


@pytest.fixture(scope="module")
def client() -> Iterator[lakeport.Client]:
    catalog = lakeport.MemoryCatalog()
    with (
        lakeport.Server(catalog) as server,
        lakeport.connect(server.location, catalog="types") as client,
    ):
        client.create_schema("s")
        yield client


@pytest.fixture(params=sorted(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture
def rows(case: Case) -> pa.Table:
    values = case.array(case.first, case.second)
    if not pa.types.is_union(case.type):
        values = pa.concat_arrays([values, pa.nulls(1, case.type)])
    if case.stored is not None:
        values = convert(values, case.stored, "v")
    field = case.field.with_type(case.stored or case.type)
    schema = pa.schema([pa.field("id", pa.int64()), field])
    return pa.table([pa.array(range(1, len(values) + 1)), values], schema=schema)


@pytest.fixture
def table(client: lakeport.Client, rows: pa.Table, case: Case) -> Any:
    name = f"t{uuid.uuid4().hex}"
    client.create_table("s", name, pa.schema([pa.field("id", pa.int64()), case.field]))
    return client.table(f"s.{name}")


def same(left: pa.Table, right: pa.Table) -> bool:
    """Whether two tables hold the same rows and types; dictionaries may be numbered anew."""
    return bool(left.schema.types == right.schema.types and left.to_pylist() == right.to_pylist())


def by_id(table: pa.Table) -> pa.Table:
    order = sorted(range(table.num_rows), key=lambda row: table["id"][row].as_py())
    return pa.Table.from_batches(
        [table.slice(row, 1).combine_chunks().to_batches()[0] for row in order], table.schema
    )


def test_rows_come_back_as_they_went(table: Any, rows: pa.Table) -> None:
    result = table.insert(rows, returning=True)

    assert result.affected_rows == rows.num_rows
    assert same(result.returning, rows)
    assert same(by_id(table.scan().to_arrow()), rows)


def test_a_filter_on_the_rows_key_keeps_every_value(table: Any, rows: pa.Table) -> None:
    table.insert(rows)

    kept = table.scan(filter=col("id") == 2).to_arrow()

    assert same(kept, rows.slice(1, 1))


def test_null_and_not_null_filters_are_right_for_every_type(table: Any, rows: pa.Table) -> None:
    if pa.types.is_union(rows.schema.field("v").type):
        pytest.skip("an Arrow union has no nulls of its own")
    table.insert(rows)

    nulls = table.scan(filter=Filter.of(col("v").is_null())).to_arrow()
    values = table.scan(filter=Filter.of(col("v").is_not_null())).to_arrow()

    assert nulls["id"].to_pylist() == [3]
    assert sorted(values["id"].to_pylist()) == [1, 2]


def test_an_update_sets_the_value_and_returns_it(table: Any, rows: pa.Table) -> None:
    table.insert(rows)
    stored = table.scan(columns=["id", "v", "rowid"]).to_arrow()
    target = stored.filter(pa.compute.equal(stored["id"], 1))
    new = pa.table({"v": rows["v"].slice(1, 1), "rowid": target["rowid"]})

    result = table.update(new, returning=True)

    assert result.affected_rows == 1
    assert same(result.returning.select(["v"]), rows.select(["v"]).slice(1, 1))
    first = by_id(table.scan().to_arrow()).slice(0, 1)
    assert same(first.select(["v"]), rows.select(["v"]).slice(1, 1))


def test_a_delete_returns_the_rows_it_deleted(table: Any, rows: pa.Table) -> None:
    table.insert(rows)
    stored = table.scan(columns=["id", "rowid"]).to_arrow()
    target = stored.filter(pa.compute.equal(stored["id"], 2))

    result = table.delete(target["rowid"], returning=True)

    assert same(result.returning, rows.slice(1, 1))
    assert table.scan().count() == rows.num_rows - 1


def test_statistics_of_a_type_are_true_or_not_offered(table: Any, rows: pa.Table) -> None:
    table.insert(rows)
    if not table.has_statistics:
        return

    statistics = table.statistics("v")

    assert statistics.has_not_null is True
    assert statistics.has_null is not False

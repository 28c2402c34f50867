"""`column_statistics`: one row with true bounds, or bounds so wide that they cannot be wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from lakeport.airport.protocol.statistics import encode_statistics
from lakeport.catalog import CatalogBuilder, ColumnStats, ScanOptions, geometry_column, rowid_field
from tests.airport.flight_client import RawFlightClient, Serving, path

CAN = b"can_produce_statistics"


def decode(blob: bytes) -> dict[str, Any]:
    with pa.ipc.open_stream(blob) as stream:
        (batch,) = list(stream)
    (row,) = batch.to_pylist()
    found: dict[str, Any] = row
    return found


def batch_of(stats: ColumnStats, type: pa.DataType) -> pa.RecordBatch:
    with pa.ipc.open_stream(encode_statistics(stats, type)) as stream:
        return stream.read_next_batch()


class Known:
    """A table that answers with given statistics."""

    name = "t"
    comment = ""

    def __init__(self, columns: pa.Schema, stats: ColumnStats) -> None:
        self._columns = columns
        self._stats = stats
        self.asked: list[tuple[str, str]] = []

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        return self._columns

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        return self._columns.empty_table().to_reader()

    def column_statistics(self, column: str, duckdb_type: str) -> ColumnStats:
        self.asked.append((column, duckdb_type))
        return self._stats


def ask(flight_client: RawFlightClient, column: str = "x", type: str = "BIGINT") -> dict[str, Any]:
    return decode(
        flight_client.call(
            "column_statistics",
            flight_descriptor=path("s", "t").serialize(),
            column_name=column,
            type=type,
        )
    )


def test_known_statistics_are_told_as_they_are(start_server: Serving) -> None:
    stats = ColumnStats(True, False, 7, 1, 9)
    table = Known(pa.schema([("x", pa.int64())]), stats)
    flight_client = start_server(CatalogBuilder().schema("s").table(table).build())

    assert ask(flight_client) == {
        "min": 1,
        "max": 9,
        "has_not_null": True,
        "has_null": False,
        "distinct_count": 7,
    }
    assert table.asked == [("x", "BIGINT")]


def test_a_declared_table_tells_its_exact_statistics(start_server: Serving) -> None:
    data = pa.table({"x": [3, 1, None], "y": ["b", "é", "a"], "z": [b"1", b"22", None]})
    flight_client = start_server(
        CatalogBuilder().schema("s").table("t", data, statistics=True).build()
    )

    assert ask(flight_client) == {
        "min": 1,
        "max": 3,
        "has_not_null": True,
        "has_null": True,
        "distinct_count": 0,
    }
    text = ask(flight_client, "y", "VARCHAR")
    assert (text["min"], text["max"], text["has_null"]) == ("a", "é", False)
    assert (text["max_string_length"], text["contains_unicode"]) == (2, True)
    blob = ask(flight_client, "z", "BLOB")
    assert blob["max_string_length"] == 2
    assert "contains_unicode" not in blob


@pytest.mark.parametrize(
    "type",
    [
        pa.int64(),
        pa.float32(),
        pa.bool_(),
        pa.decimal128(9, 2),
        pa.date32(),
        pa.time64("us"),
        pa.timestamp("us", tz="UTC"),
        pa.uuid(),
    ],
    ids=str,
)
def test_unknown_bounds_of_numbers_and_times_are_null(type: pa.DataType) -> None:
    batch = batch_of(ColumnStats(), type)

    assert batch.schema.field("min").type == batch.schema.field("max").type == type
    assert batch.column("min").to_pylist() == batch.column("max").to_pylist() == [None]
    assert batch.column("has_null").to_pylist() == [True]
    assert batch.column("has_not_null").to_pylist() == [True]
    assert batch.column("distinct_count").to_pylist() == [0]


@pytest.mark.parametrize("type", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_unknown_bounds_of_text_are_real_and_wide(type: pa.DataType) -> None:
    # The client would read a null as the text NULL.
    batch = batch_of(ColumnStats(), type)
    least, greatest = (batch.column(name).to_pylist()[0] for name in ("min", "max"))

    assert batch.schema.field("min").type == type
    assert least == ""
    assert all(greatest.encode() >= text.encode() for text in ("zzz", "\U0010ffff", "ÿ", "名"))
    assert "max_string_length" not in batch.schema.names
    assert "contains_unicode" not in batch.schema.names


def test_unknown_bounds_of_json_are_those_of_text() -> None:
    batch = batch_of(ColumnStats(), pa.json_())

    assert batch.schema.field("min").type == pa.json_()
    assert batch.column("min").null_count == 0


@pytest.mark.parametrize(
    "type", [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3), pa.binary(16)], ids=str
)
def test_unknown_bounds_of_blobs_are_real_and_wide(type: pa.DataType) -> None:
    batch = batch_of(ColumnStats(), type)
    least, greatest = (batch.column(name).to_pylist()[0] for name in ("min", "max"))

    assert batch.schema.field("min").type == type
    assert least <= b"\x00" * 16
    assert greatest >= b"\xff" * min(8, len(greatest))
    assert len(greatest) >= min(8, type.byte_width if pa.types.is_fixed_size_binary(type) else 8)


@pytest.mark.parametrize(
    "type",
    [pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.map_(pa.string(), pa.int64())],
    ids=str,
)
def test_nested_columns_have_the_five_columns_all_the_same(type: pa.DataType) -> None:
    batch = batch_of(ColumnStats(min=[1], has_null=False), type)

    assert batch.schema.names == ["min", "max", "has_not_null", "has_null", "distinct_count"]
    assert batch.column("min").to_pylist() == [None]
    assert batch.column("has_null").to_pylist() == [False]


def test_bounds_may_be_arrow_values_of_another_width() -> None:
    stats = ColumnStats(min=pa.scalar(1, pa.int8()), max=pa.scalar(None, pa.int64()))
    batch = batch_of(stats, pa.int32())

    assert batch.column("min").to_pylist() == [1]
    assert batch.column("max").to_pylist() == [None]
    assert batch.schema.field("min").type == pa.int32()


def test_nanoseconds_of_bounds_are_kept() -> None:
    data = pa.table({"x": pa.array([1_000_000_001, 5], pa.timestamp("ns"))})
    table = CatalogBuilder().schema("s").table("t", data, statistics=True).build()
    stats = table.schemas()[0].tables()[0].column_statistics("x", "TIMESTAMP_NS")  # type: ignore[attr-defined]

    batch = batch_of(stats, pa.timestamp("ns"))

    assert batch.column("min").cast(pa.int64()).to_pylist() == [5]
    assert batch.column("max").cast(pa.int64()).to_pylist() == [1_000_000_001]


ADVERTISED = [
    pa.bool_(),
    pa.int8(),
    pa.uint64(),
    pa.float64(),
    pa.decimal128(38, 0),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.time64("us"),
    pa.timestamp("ns"),
    pa.list_(pa.int64()),
    pa.struct([("a", pa.int64())]),
    pa.uuid(),
    pa.json_(),
    pa.bool8(),
    pa.opaque(pa.binary(16), "hugeint", "DuckDB"),
    pa.opaque(pa.binary(16), "uhugeint", "DuckDB"),
    pa.opaque(pa.binary(8), "time_tz", "DuckDB"),
    pa.large_string(),
    pa.string_view(),
    pa.large_binary(),
    pa.binary_view(),
    pa.binary(16),
    pa.date64(),
    pa.time32("s"),
    pa.timestamp("us", "UTC"),
    pa.large_list(pa.int64()),
    pa.list_(pa.int64(), 3),
    pa.list_view(pa.int64()),
    pa.map_(pa.string(), pa.int64()),
    pa.list_(pa.opaque(pa.binary(), "bignum", "DuckDB")),
]

WITHHELD = [
    pa.month_day_nano_interval(),
    pa.duration("us"),
    pa.dictionary(pa.int8(), pa.string()),
    pa.sparse_union([pa.field("i", pa.int64())]),
    pa.null(),
    pa.opaque(pa.binary(), "bit", "DuckDB"),
    pa.opaque(pa.binary(), "bignum", "DuckDB"),
    pa.opaque(pa.binary(), "type_of_tomorrow", "DuckDB"),
    pa.run_end_encoded(pa.int32(), pa.int64()),
]


def advertises(start_server: Serving, columns: pa.Schema) -> bool:
    flight_client = start_server(
        CatalogBuilder().schema("s").table(Known(columns, ColumnStats())).build()
    )
    return bool((flight_client.items("s")["t"].schema.metadata or {}).get(CAN))


def test_statistics_are_advertised_for_types_that_the_client_handles(start_server: Serving) -> None:
    columns = [pa.field(str(n), type) for n, type in enumerate(ADVERTISED)]

    assert advertises(start_server, pa.schema([*columns, rowid_field()]))


@pytest.mark.parametrize("type", WITHHELD, ids=str)
def test_one_column_without_statistics_withholds_those_of_the_table(
    start_server: Serving, type: pa.DataType
) -> None:
    assert not advertises(start_server, pa.schema([("x", pa.int64()), ("y", type)]))


def test_a_geometry_withholds_the_statistics(start_server: Serving) -> None:
    assert not advertises(start_server, pa.schema([("x", pa.int64()), geometry_column("g")]))


def test_a_rowid_that_is_not_last_withholds_the_statistics(start_server: Serving) -> None:
    # The client would ask for the wrong column.
    assert not advertises(start_server, pa.schema([rowid_field(), ("x", pa.int64())]))


def test_a_table_without_statistics_does_not_pretend(start_server: Serving) -> None:
    columns = pa.schema([("x", pa.int64())], metadata={CAN: b"1"})
    catalog = CatalogBuilder().schema("s").table("t", columns.empty_table).build()
    flight_client = start_server(catalog)

    assert not (flight_client.items("s")["t"].schema.metadata or {}).get(CAN)
    with pytest.raises(pa.ArrowNotImplementedError, match=r"table s\.t has no statistics"):
        ask(flight_client)


def test_a_column_that_the_table_no_longer_has_is_answered_widely(start_server: Serving) -> None:
    # A query AT an earlier time asks by the name and type that the column had then.
    catalog = CatalogBuilder().schema("s").table("t", pa.table({"x": [1]}), statistics=True).build()
    flight_client = start_server(catalog)

    for answer in (ask(flight_client, "y", "BIGINT"), ask(flight_client, "x", "DOUBLE")):
        assert answer["min"] is answer["max"] is None
        assert answer["has_null"] is answer["has_not_null"] is True
    assert ask(flight_client, "y", "VARCHAR")["min"] == ""


@pytest.mark.parametrize(("type", "error"), [("", KeyError), ("NO_SUCH_TYPE", pa.ArrowInvalid)])
def test_a_column_that_nobody_knows_is_refused(
    start_server: Serving, type: str, error: type[Exception]
) -> None:
    catalog = CatalogBuilder().schema("s").table("t", pa.table({"x": [1]}), statistics=True).build()

    with pytest.raises(error):
        ask(start_server(catalog), "y", type)

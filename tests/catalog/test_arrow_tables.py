"""Tables in memory: projection, filters, parts that are read in parallel, exact statistics."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakeport.catalog import (
    ArrowTable,
    ColumnStats,
    EndpointTable,
    Partition,
    ScanOptions,
    SizedTable,
    TableSize,
)
from lakeport.catalog.tables import StatisticsArrowTable, statistics_of
from lakeport.errors import DefinitionError, NotFoundError
from lakeport.filters import Filter, Unsupported, parse_filter
from tests.catalog.reading import greater_than, rows_of


@pytest.fixture
def numbers() -> pa.Table:
    return pa.table({"n": range(100_000), "m": range(100_000, 200_000)})


def test_a_scan_reads_only_the_wanted_columns(numbers: pa.Table) -> None:
    reader = ArrowTable("t", numbers).scan(ScanOptions(columns=("m",)))

    assert reader.schema.names == ["m"]
    assert reader.read_all().num_rows == 100_000


def test_a_filter_is_applied_with_the_columns_it_needs(numbers: pa.Table) -> None:
    options = ScanOptions(columns=("m",), filter=parse_filter(greater_than("n", 99_997)))

    rows = rows_of(ArrowTable("t", numbers), options)

    assert [row["m"] for row in rows] == [199_998, 199_999]


@pytest.mark.parametrize(
    "type", [pa.string_view(), pa.list_view(pa.int64()), pa.binary_view()], ids=str
)
def test_a_filter_beside_a_column_that_arrow_cannot_filter_keeps_the_rows(
    type: pa.DataType,
) -> None:
    table = ArrowTable("t", pa.table({"n": [1, 2, 3], "v": pa.nulls(3, type)}))
    options = ScanOptions(filter=parse_filter(greater_than("n", 1)))

    assert {row["n"] for row in rows_of(table, options)} >= {2, 3}


def test_a_limit_stops_the_scan(numbers: pa.Table) -> None:
    assert len(rows_of(ArrowTable("t", numbers), ScanOptions(limit=7))) == 7


def test_a_limit_waits_for_a_filter_that_could_not_be_applied() -> None:
    table = ArrowTable("t", pa.table({"n": range(10), "v": pa.nulls(10, pa.string_view())}))
    unknown = Filter.of(Unsupported("a function of DuckDB's"))
    beside_views = parse_filter(greater_than("n", 8))

    for filter in (unknown, beside_views):
        rows = rows_of(table, ScanOptions(filter=filter, limit=1))
        assert {"n": 9, "v": None} in rows


def test_batches_have_the_wanted_size(numbers: pa.Table) -> None:
    reader = ArrowTable("t", numbers).scan(ScanOptions(batch_size=30_000))

    assert [batch.num_rows for batch in reader] == [30_000, 30_000, 30_000, 10_000]


def test_the_parts_of_a_table_are_its_rows_exactly_once(numbers: pa.Table) -> None:
    table = ArrowTable("t", numbers, endpoints=4)
    parts = table.endpoints(ScanOptions())

    read = [rows_of(table, ScanOptions(partition=part.token)) for part in parts]  # type: ignore[union-attr]

    assert len(parts) == 4
    assert [row["n"] for part in read for row in part] == list(range(100_000))


def test_a_large_table_has_several_parts_by_default() -> None:
    large = pa.table({"n": pa.arange(0, 1_000_000)})
    table = ArrowTable("t", large)
    parts = table.endpoints(ScanOptions())

    read = [table.scan(ScanOptions(partition=part.token)).read_all() for part in parts]  # type: ignore[union-attr]

    assert len(parts) == 7
    assert pa.concat_tables(read).column("n").equals(large.column("n"))
    assert len(ArrowTable("t", large.slice(0, 262_143)).endpoints(ScanOptions())) == 1
    assert len(ArrowTable("t", large, endpoints=1).endpoints(ScanOptions())) == 1


def test_the_size_of_a_part_is_that_of_its_rows(numbers: pa.Table) -> None:
    table = ArrowTable("t", numbers, endpoints=4)
    part = table.endpoints(ScanOptions())[1]

    assert table.size(ScanOptions(partition=part.token)).rows == 25_000  # type: ignore[union-attr]


def test_a_small_table_is_not_split(numbers: pa.Table) -> None:
    small = ArrowTable("t", numbers.slice(0, 1000), endpoints=8)

    assert small.endpoints(ScanOptions()) == [Partition(b"0:1000")]


def test_an_empty_table_has_one_part_without_rows(numbers: pa.Table) -> None:
    empty = ArrowTable("t", numbers.slice(0, 0), endpoints=8)
    (part,) = empty.endpoints(ScanOptions())

    assert isinstance(part, Partition)
    assert rows_of(empty, ScanOptions(partition=part.token)) == []


def test_no_endpoint_at_all_is_refused(numbers: pa.Table) -> None:
    with pytest.raises(DefinitionError, match="table 't': endpoints must be at least 1, not 0"):
        ArrowTable("t", numbers, endpoints=0)


def test_the_size_of_a_table_is_exact(numbers: pa.Table) -> None:
    table = ArrowTable("t", numbers)

    assert isinstance(table, SizedTable)
    assert isinstance(table, EndpointTable)
    assert table.size(ScanOptions()) == TableSize(rows=100_000, bytes=numbers.nbytes)


def _bounds(stats: ColumnStats) -> tuple[Any, Any]:
    least, greatest = (b.as_py() if isinstance(b, pa.Scalar) else b for b in (stats.min, stats.max))
    return least, greatest


@pytest.mark.parametrize(
    ("values", "least", "greatest"),
    [
        (pa.array([3, None, 1], pa.int8()), 1, 3),
        (pa.array([2**64 - 1, 0], pa.uint64()), 0, 2**64 - 1),
        (pa.array([1.5, -2.0], pa.float32()), -2.0, 1.5),
        (pa.array([True, False]), False, True),
        (pa.array([Decimal("1.25"), Decimal("-1.50")]), Decimal("-1.50"), Decimal("1.25")),
        (pa.array(["b", "a"]), "a", "b"),
        (pa.array([b"b", b"a"]), b"a", b"b"),
        (
            pa.array([dt.date(2024, 1, 2)]),
            dt.date(2024, 1, 2),
            dt.date(2024, 1, 2),
        ),
    ],
    ids=str,
)
def test_statistics_are_exact(values: pa.Array, least: Any, greatest: Any) -> None:
    stats = statistics_of(pa.chunked_array([values]))

    assert _bounds(stats) == (least, greatest)
    assert (stats.has_null, stats.has_not_null) == (values.null_count > 0, True)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, 2], pa.time64("ns")),
        pa.array([1, 2], pa.timestamp("ns")),
        pa.array([253402300800, 253402300801], pa.timestamp("s")),
        pa.array([2932897, 2932898], pa.date32()),
    ],
    ids=["nanoseconds of a day", "nanoseconds", "year 10000", "date in the year 10000"],
)
def test_statistics_keep_bounds_that_python_cannot_express(values: pa.Array) -> None:
    stats = statistics_of(pa.chunked_array([values]))

    assert pa.repeat(stats.min, 1).equals(values.slice(0, 1))
    assert pa.repeat(stats.max, 1).equals(values.slice(1, 1))


def test_a_column_with_nan_has_no_bounds() -> None:
    # NaN is the greatest value for DuckDB, but Arrow leaves it out.
    stats = statistics_of(pa.chunked_array([[1.0, float("nan")]]))

    assert _bounds(stats) == (None, None)


@pytest.mark.parametrize("type", [pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.uuid()])
def test_a_type_without_an_order_has_no_bounds(type: pa.DataType) -> None:
    stats = statistics_of(pa.chunked_array([pa.nulls(2, type)]))

    assert _bounds(stats) == (None, None)
    assert (stats.has_null, stats.has_not_null) == (True, False)


def test_statistics_see_the_nulls_of_run_end_encoded_columns() -> None:
    encoded = pc.run_end_encode(pa.array([1, 1, None, None, 2]))
    stats = statistics_of(pa.chunked_array([encoded]))

    assert (stats.has_null, stats.has_not_null) == (True, True)
    assert _bounds(stats) == (1, 2)


def test_run_end_encoded_columns_that_arrow_cannot_decode_have_unknown_statistics() -> None:
    views = pa.array(["a", None], pa.string_view())
    encoded = pa.RunEndEncodedArray.from_arrays([1, 2], views)

    assert statistics_of(pa.chunked_array([encoded])) == ColumnStats()


def test_text_statistics_count_bytes_and_see_unicode() -> None:
    plain = statistics_of(pa.chunked_array([["abc", None]]))
    wide = statistics_of(pa.chunked_array([["é", ""]]))

    assert (plain.max_string_length, plain.contains_unicode) == (3, False)
    assert (wide.max_string_length, wide.contains_unicode) == (2, True)


def test_an_empty_column_has_neither_nulls_nor_values() -> None:
    stats = statistics_of(pa.chunked_array([], pa.string()))

    assert (stats.has_null, stats.has_not_null) == (False, False)
    assert _bounds(stats) == (None, None)


def test_the_statistics_of_a_column_are_computed_once(numbers: pa.Table) -> None:
    table = StatisticsArrowTable("t", numbers)

    assert table.column_statistics("n", "BIGINT") is table.column_statistics("n", "BIGINT")


def test_statistics_of_an_unknown_column_are_refused(numbers: pa.Table) -> None:
    with pytest.raises(NotFoundError, match="table 't' has no column 'x'"):
        StatisticsArrowTable("t", numbers).column_statistics("x", "BIGINT")

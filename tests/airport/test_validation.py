"""Batches that lie about where their values are: refused before anybody reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from lakeport.airport.protocol.codec import read_one_row
from lakeport.airport.protocol.validation import ContentCheck, check_layout
from lakeport.catalog import CatalogBuilder
from lakeport.errors import InvalidArgumentError
from tests.airport.flight_client import RawFlightClient, Serving, ipc, one_row, opening, path
from tests.airport.mutable_catalog import MutableCatalog, MutableTable

BEYOND = 60_000


def _numbers(type: pa.DataType, *values: int) -> pa.Buffer:
    return pa.array(values, type).buffers()[1]


def _bad_text() -> pa.Array:
    offsets = _numbers(pa.int32(), 0, BEYOND, 64)
    return pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"A" * 64)])


def _bad_list() -> pa.Array:
    offsets = _numbers(pa.int32(), 0, BEYOND, 2)
    return pa.Array.from_buffers(
        pa.list_(pa.int64()), 2, [None, offsets], children=[pa.array([1, 2])]
    )


def _bad_dictionary() -> pa.Array:
    indices = pa.array([0, BEYOND], pa.int32())
    return pa.DictionaryArray.from_arrays(indices, pa.array(["red"]), safe=False)


def _bad_struct() -> pa.Array:
    return pa.StructArray.from_arrays([_bad_text()], ["inner"])


def _bad_count() -> pa.Array:
    buffers = [pa.py_buffer(b"\xff"), _numbers(pa.int64(), 1, 2)]
    return pa.Array.from_buffers(pa.int64(), 2, buffers, null_count=1)


def _bad_utf8() -> pa.Array:
    buffers = [None, _numbers(pa.int32(), 0, 1, 2), pa.py_buffer(b"\xff\xff")]
    return pa.Array.from_buffers(pa.string(), 2, buffers)


def _bad_time() -> pa.Array:
    buffers = [pa.py_buffer(b"\xff"), _numbers(pa.int64(), 1, 2)]
    return pa.Array.from_buffers(pa.time64("us"), 2, buffers, null_count=1)


BAD: dict[str, Callable[[], pa.Array]] = {
    "text": _bad_text,
    "list": _bad_list,
    "dictionary": _bad_dictionary,
    "struct": _bad_struct,
    "count": _bad_count,
    "utf8": _bad_utf8,
    "time": _bad_time,
}


@pytest.mark.parametrize("make", BAD.values(), ids=BAD)
def test_a_value_that_lies_elsewhere_is_found(make: Callable[[], pa.Array]) -> None:
    batch = pa.RecordBatch.from_arrays([make()], names=["x"])

    check_layout(batch)
    with pytest.raises(InvalidArgumentError, match="column 'x' of a batch is damaged"):
        ContentCheck(batch.schema)(batch)


@pytest.mark.parametrize("make", BAD.values(), ids=BAD)
def test_a_damaged_batch_among_many_is_found(make: Callable[[], pa.Array]) -> None:
    bad = pa.RecordBatch.from_arrays([make()], names=["x"])
    good = pa.RecordBatch.from_arrays([pa.nulls(3, bad.column(0).type)], names=["x"])

    ContentCheck(bad.schema).check_all([good, good])
    with pytest.raises(InvalidArgumentError, match="column 'x' of a batch is damaged"):
        ContentCheck(bad.schema).check_all([good, bad, good])


def test_midnight_at_the_end_of_a_day_is_a_time_wherever_it_is() -> None:
    late = pa.array([86_400 * 10**6], pa.int64()).view(pa.time64("us"))
    zero, one = pa.array([0], pa.int32()), pa.array([1], pa.int32())
    offsets = pa.array([0, 1], pa.int32())
    columns = {
        "plain": late,
        "struct": pa.StructArray.from_arrays([late], ["t"]),
        "list": pa.ListArray.from_arrays(offsets, late),
        "large": pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), late),
        "view": pa.ListViewArray.from_arrays(zero, one, late),
        "array": pa.FixedSizeListArray.from_arrays(late, 1),
        "map": pa.MapArray.from_arrays(offsets, pa.array(["k"]), late),
        "union": pa.UnionArray.from_sparse(zero.cast(pa.int8()), [late], ["t"]),
        "dictionary": pa.DictionaryArray.from_arrays(zero, late),
    }
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    ContentCheck(batch.schema)(batch)
    ContentCheck(batch.schema).check_all([batch, batch])
    assert read_one_row(ipc(batch), "arguments").equals(batch)


@pytest.mark.parametrize("expression", ["n", "[n]", "{'n': n}", "MAP {n: n}"])
def test_a_huge_number_is_taken_as_duckdb_sends_it(expression: str) -> None:
    with duckdb.connect() as connection:
        numbers = connection.sql("SELECT 170141183460469231731687303715884105727::HUGEINT AS n")
        (batch,) = numbers.project(expression).to_arrow_table().to_batches()

    check_layout(batch)
    ContentCheck(batch.schema)(batch)


def _write(operation: str, *, returning: bool) -> Callable[[RawFlightClient, pa.RecordBatch], Any]:
    return lambda flight_client, batch: flight_client.change(
        operation, path("lake", "s", "t"), [batch], returning=returning
    )


def _call_in_out(flight_client: RawFlightClient, batch: pa.RecordBatch) -> None:
    with flight_client.open_exchange(
        path("functions", "s", "same"), "table_function_in_out", return_chunks="1"
    ) as (writer, reader):
        writer.write_metadata(opening(one_row()))
        writer.begin(batch.schema)
        assert reader.schema
        writer.write_batch(batch)
        reader.read_chunk()


WAYS: dict[str, Callable[[RawFlightClient, pa.RecordBatch], Any]] = {
    "insert": _write("insert", returning=False),
    "insert returning": _write("insert", returning=True),
    "scalar function": lambda flight_client, batch: flight_client.scalar(
        path("functions", "s", "echo"), [batch]
    ),
    "in-out function": _call_in_out,
}


@pytest.mark.parametrize("send", WAYS.values(), ids=WAYS)
def test_nobody_reads_a_damaged_batch(
    start_server: Serving, send: Callable[[RawFlightClient, pa.RecordBatch], Any]
) -> None:
    seen: list[Any] = []

    def echo(x: pa.Array) -> pa.Array:
        seen.append(x)
        return x

    def same(rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
        seen.extend(rows)
        return pa.table({"x": ["a"]}).to_reader()

    columns = pa.schema([("x", pa.string())])
    lake = MutableCatalog()
    lake.with_table(MutableTable("t", columns, []))
    builder = CatalogBuilder().schema("s")
    builder.scalar_function("echo", echo, parameters={"x": pa.string()}, returns=pa.string())
    builder.table_function_in_out("same", same, schema=columns)
    flight_client = start_server({"lake": lake, "functions": builder.build()})

    with pytest.raises(pa.ArrowInvalid, match="column 'x' of a batch is damaged"):
        send(flight_client, pa.RecordBatch.from_arrays([_bad_text()], schema=columns))

    assert seen == []
    assert flight_client.scan(path("lake", "s", "t")).num_rows == 0

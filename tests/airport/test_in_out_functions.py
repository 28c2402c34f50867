"""In-out functions over DoExchange: rows in, rows out, with markers that the client waits for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.airport.protocol.limits import DEFAULT_LIMITS
from lakeport.catalog import CatalogBuilder, ScanOptions, StaticCatalog, current_request
from tests.airport.flight_client import (
    CHUNK_CONTINUES,
    CHUNK_FINISHED,
    RawFlightClient,
    Serving,
    ipc,
    one_row,
    opening,
    path,
)

COLUMNS = pa.schema([("x", pa.int64())])


@pytest.fixture
def catalog() -> StaticCatalog:
    schema = CatalogBuilder().schema("s")

    @schema.table_function_in_out(schema=lambda rows: rows)
    def echo(rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
        return rows

    @schema.table_function_in_out(parameters={"times": pa.int64()}, schema=COLUMNS)
    def repeat(rows: pa.RecordBatchReader, times: int = 2) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            for _ in range(times):
                yield batch

    @schema.table_function_in_out(schema=COLUMNS)
    def total(rows: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        total = 0
        for batch in rows:
            total += sum(batch.column(0).to_pylist())
        yield pa.record_batch({"x": [total]})

    @schema.table_function_in_out(schema=COLUMNS)
    def first(rows: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        yield next(iter(rows))

    @schema.table_function_in_out(schema=COLUMNS)
    def whoami(rows: pa.RecordBatchReader, options: ScanOptions) -> Iterator[pa.RecordBatch]:
        for _ in rows:
            assert options.batch_size
            yield pa.record_batch({"x": [int(current_request().session_id or 0)]})

    @schema.table_function_in_out(schema=COLUMNS)
    def broken(rows: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        yield next(iter(rows))
        raise ValueError("it broke")

    @schema.table_function_in_out(schema=COLUMNS)
    def narrow(rows: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            yield pa.record_batch({"x": batch.column(0).cast(pa.int8())})

    schema.table_function("plain", COLUMNS.empty_table, parameters={}, schema=COLUMNS)
    return schema.build()


@pytest.fixture
def flight_client(start_server: Serving, catalog: StaticCatalog) -> RawFlightClient:
    return start_server(catalog)


class Conversation:
    """The client's side: after every batch it reads until the finished marker."""

    def __init__(self, writer: Any, reader: Any, schema: pa.Schema) -> None:
        self._writer = writer
        self._reader = reader
        self._schema = schema
        writer.begin(schema)
        self.output = reader.schema

    def send(self, values: Sequence[int]) -> list[pa.RecordBatch]:
        array = pa.array(values, self._schema.field(0).type)
        self._writer.write_batch(pa.RecordBatch.from_arrays([array], schema=self._schema))
        return self._read_answer()

    def finish(self) -> list[pa.RecordBatch]:
        """End the input; the rows that come after it."""
        self._writer.done_writing()
        answer = self._read_answer()
        assert list(self._reader) == []
        return answer

    def _read_answer(self) -> list[pa.RecordBatch]:
        answer: list[pa.RecordBatch] = []
        while True:
            chunk = self._reader.read_chunk()
            assert chunk.data is not None
            if chunk.app_metadata.to_pybytes() == CHUNK_FINISHED:
                # A finished batch of 2048 rows would hang the client, an empty one never does.
                assert chunk.data.num_rows == 0
                return answer
            assert chunk.app_metadata.to_pybytes() == CHUNK_CONTINUES
            answer.append(chunk.data)


def talk(
    flight_client: RawFlightClient,
    name: str,
    batches: Sequence[Sequence[int]],
    *,
    arguments: bytes | None = None,
    schema: pa.Schema = COLUMNS,
    filters: str = "",
) -> tuple[list[list[list[int]]], list[list[int]]]:
    """The answers to each batch, and the rows after the last one."""
    with flight_client.open_exchange(
        path("s", name), "table_function_in_out", return_chunks="1"
    ) as (
        writer,
        reader,
    ):
        given = one_row() if arguments is None else arguments
        writer.write_metadata(opening(given, filters=filters))
        conversation = Conversation(writer, reader, schema)
        answers = [conversation.send(batch) for batch in batches]
        trailing = conversation.finish()
    plain = [[piece.column(0).to_pylist() for piece in answer] for answer in answers]
    return plain, [piece.column(0).to_pylist() for piece in trailing]


def test_every_input_batch_is_answered_before_the_next(flight_client: RawFlightClient) -> None:
    answers, trailing = talk(flight_client, "echo", [[1, 2], [3]])

    assert answers == [[[1, 2]], [[3]]]
    assert trailing == []


def test_an_input_may_become_several_batches(flight_client: RawFlightClient) -> None:
    answers, _ = talk(flight_client, "repeat", [[1], [2]], arguments=one_row(times=3))

    assert answers == [[[1]] * 3, [[2]] * 3]


def test_defaults_are_filled_in(flight_client: RawFlightClient) -> None:
    answers, _ = talk(flight_client, "repeat", [[1]])

    assert answers == [[[1], [1]]]


def test_an_input_may_become_nothing(flight_client: RawFlightClient) -> None:
    answers, _ = talk(flight_client, "repeat", [[1], [2]], arguments=one_row(times=0))

    assert answers == [[], []]


def test_rows_may_come_after_the_last_input(flight_client: RawFlightClient) -> None:
    answers, trailing = talk(flight_client, "total", [[1, 2], [3]])

    assert answers == [[], []]
    assert trailing == [[6]]


def test_a_function_that_stops_early_answers_the_rest_with_nothing(
    flight_client: RawFlightClient,
) -> None:
    answers, trailing = talk(flight_client, "first", [[1], [2], [3]])

    assert answers == [[[1]], [], []]
    assert trailing == []


def test_a_filter_beyond_the_bounds_is_left_out(flight_client: RawFlightClient) -> None:
    filters = " " * (DEFAULT_LIMITS.json_bytes + 1)

    assert talk(flight_client, "echo", [[1]], filters=filters) == ([[[1]]], [])


def test_no_input_at_all_has_an_answer(flight_client: RawFlightClient) -> None:
    assert talk(flight_client, "echo", []) == ([], [])
    assert talk(flight_client, "total", []) == ([], [[0]])


@pytest.mark.parametrize("rows", [2047, 2048, 2049, 4096])
def test_outputs_of_any_size_end_with_an_empty_batch(
    flight_client: RawFlightClient, rows: int
) -> None:
    answers, _ = talk(flight_client, "echo", [[7] * rows, [8] * rows])

    assert answers == [[[7] * rows], [[8] * rows]]


def test_large_outputs_are_split(start_server: Serving, catalog: StaticCatalog) -> None:
    answers, _ = talk(start_server(catalog, batch_rows=100), "echo", [list(range(250))])

    assert [len(piece) for piece in answers[0]] == [100, 100, 50]


def test_the_columns_follow_the_input(flight_client: RawFlightClient) -> None:
    with flight_client.open_exchange(
        path("s", "echo"), "table_function_in_out", return_chunks="1"
    ) as (
        writer,
        reader,
    ):
        writer.write_metadata(opening(one_row()))
        schema = pa.schema([("a", pa.int8())])
        conversation = Conversation(writer, reader, schema)

        assert conversation.output.equals(schema)
        assert conversation.send([1])[0].to_pydict() == {"a": [1]}
        conversation.finish()


def test_outputs_are_cast_to_the_declared_columns(flight_client: RawFlightClient) -> None:
    answers, _ = talk(flight_client, "narrow", [[1, 2]])

    assert answers == [[[1, 2]]]


def test_the_function_knows_who_is_calling(flight_client: RawFlightClient) -> None:
    answers, _ = talk(flight_client.with_headers(airport_client_session_id="42"), "whoami", [[1]])

    assert answers == [[[42]]]


def test_an_error_reaches_the_client_while_it_reads(flight_client: RawFlightClient) -> None:
    with pytest.raises(flight.FlightInternalError, match="ValueError: it broke"):
        talk(flight_client, "broken", [[1], [2]])


def test_an_exchange_must_begin_with_its_parameters(flight_client: RawFlightClient) -> None:
    with pytest.raises(pa.ArrowInvalid, match="the exchange must begin with its parameters"):
        with flight_client.open_exchange(path("s", "echo"), "table_function_in_out") as (
            writer,
            reader,
        ):
            writer.begin(COLUMNS)
            writer.write_batch(pa.record_batch({"x": [1]}))
            reader.read_chunk()


def test_an_exchange_that_ends_at_once_is_refused(flight_client: RawFlightClient) -> None:
    with pytest.raises(pa.ArrowInvalid, match="ended before its parameters came"):
        with flight_client.open_exchange(path("s", "echo"), "table_function_in_out") as (
            writer,
            reader,
        ):
            writer.done_writing()
            reader.read_chunk()


@pytest.mark.parametrize(
    ("name", "metadata", "message"),
    [
        ("plain", opening(one_row()), "does not take a table"),
        ("echo", b"\xc1", "parameters: the body is not valid msgpack"),
        ("echo", b"\x80", "parameters: field 'parameters' is missing"),
        ("repeat", opening(one_row(times="x")), "'times' must be int64, not string"),
        ("echo", opening(b"nonsense"), "arguments of echo: not an Arrow stream"),
        ("repeat", opening(ipc(pa.record_batch({"times": [1, 2]}))), "expected one row, not 2"),
    ],
)
def test_wrong_parameters_are_refused(
    flight_client: RawFlightClient, name: str, metadata: bytes, message: str
) -> None:
    # The client meets the error while it writes or while it reads.
    with pytest.raises((pa.ArrowInvalid, flight.FlightServerError), match=message):
        with flight_client.open_exchange(path("s", name), "table_function_in_out") as (
            writer,
            reader,
        ):
            writer.write_metadata(metadata)
            writer.begin(COLUMNS)
            reader.read_chunk()

"""Scalar functions over DoExchange: one batch in, one batch of as many rows out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import flight

from lakeport.arrow.conversion import convert
from lakeport.catalog import (
    ANY,
    CatalogBuilder,
    FunctionSignature,
    Parameter,
    Stability,
    StaticCatalog,
    current_request,
)
from tests.airport.flight_client import RawFlightClient, Serving, path


class Careless:
    """A function that does not keep its promises."""

    name = "careless"
    comment = ""
    signature = FunctionSignature((Parameter("x", pa.int64()),), pa.int64())
    stability = Stability.VOLATILE

    def execute(self, rows: pa.RecordBatch) -> pa.Array:
        return pa.array([0])


class Chunked(Careless):
    """A function that answers in chunks of another type."""

    name = "chunked"

    def execute(self, rows: pa.RecordBatch) -> Any:
        return pa.chunked_array([rows.column(0).cast(pa.int8())])


@pytest.fixture
def catalog() -> StaticCatalog:
    schema = CatalogBuilder().schema("s")

    @schema.scalar_function(parameters={"a": pa.int64(), "b": pa.int64()}, returns=pa.int64())
    def plus(a: Any, b: Any = 100) -> Any:
        return pc.add(a, b)

    @schema.scalar_function(parameters={"x": pa.string()}, returns=pa.string())
    def shout(x: Any) -> Any:
        return pc.utf8_upper(x)

    @schema.scalar_function("shout", parameters={"x": pa.int64()}, returns=pa.string())
    def shout_number(x: Any) -> str:
        return "NUMBER"

    @schema.scalar_function(parameters={"x": ANY, "y": ANY}, returns=pa.string())
    def kinds(x: Any, y: Any) -> str:
        return f"{x.type} {y.type}"

    @schema.scalar_function(parameters={}, returns=pa.int64())
    def row_number(num_rows: int) -> Any:
        return pa.array(range(num_rows))

    @schema.scalar_function(parameters={}, returns=pa.string())
    def whoami() -> str:
        return current_request().transaction_id or ""

    return schema.function(Careless()).function(Chunked()).build()


@pytest.fixture
def flight_client(start_server: Serving, catalog: StaticCatalog) -> RawFlightClient:
    return start_server(catalog)


def numbers(**columns: list[int]) -> pa.RecordBatch:
    return pa.record_batch({name: pa.array(values, pa.int64()) for name, values in columns.items()})


def test_every_batch_is_answered_by_one_of_as_many_rows(flight_client: RawFlightClient) -> None:
    descriptor = flight_client.items("s")["plus"].descriptor

    schema, replies = flight_client.scalar(
        descriptor, [numbers(a=[1, 2], b=[10, 20]), numbers(a=[], b=[]), numbers(a=[3], b=[30])]
    )

    assert [reply.column(0).to_pylist() for reply in replies] == [[11, 22], [], [33]]
    assert schema.equals(flight_client.items("s")["plus"].schema)


def test_an_argument_with_a_default_can_be_left_out(flight_client: RawFlightClient) -> None:
    descriptor = flight_client.items("s")["plus#2"].descriptor

    _, (reply,) = flight_client.scalar(descriptor, [numbers(a=[1])])

    assert reply.column(0).to_pylist() == [101]


def test_overloads_are_told_apart_by_their_descriptors(flight_client: RawFlightClient) -> None:
    items = flight_client.items("s")

    _, (text,) = flight_client.scalar(
        items["shout"].descriptor, [pa.record_batch({"x": ["a", None]})]
    )
    _, (number,) = flight_client.scalar(items["shout#2"].descriptor, [numbers(x=[1])])

    assert text.column(0).to_pylist() == ["A", None]
    assert number.column(0).to_pylist() == ["NUMBER"]


def test_an_overload_for_any_type_is_told_from_one_for_texts(start_server: Serving) -> None:
    schema = CatalogBuilder().schema("s")
    schema.scalar_function(
        "f", lambda x: "text", parameters={"x": pa.string()}, returns=pa.string()
    )
    schema.scalar_function("f", lambda x: "any", parameters={"x": ANY}, returns=pa.string())
    flight_client = start_server(schema.build())
    items = flight_client.items("s")

    _, (text,) = flight_client.scalar(items["f"].descriptor, [pa.record_batch({"x": ["a"]})])
    _, (number,) = flight_client.scalar(items["f#2"].descriptor, [numbers(x=[1])])

    assert text.column(0).to_pylist() == ["text"]
    assert number.column(0).to_pylist() == ["any"]


COLOR = pa.dictionary(pa.int32(), pa.string())


@pytest.mark.parametrize(
    ("type", "plain", "value"),
    [
        (COLOR, pa.string(), "red"),
        (pa.list_(COLOR), pa.list_(pa.string()), ["red", None]),
        (pa.list_(COLOR, 2), pa.list_(pa.string(), 2), ["red", "blue"]),
        (pa.struct([("c", COLOR)]), pa.struct([("c", pa.string())]), {"c": "red"}),
        (pa.map_(pa.int64(), COLOR), pa.map_(pa.int64(), pa.string()), [(1, "red")]),
    ],
)
def test_a_dictionary_is_decoded_since_the_client_would_read_its_numbers(
    type: pa.DataType, plain: pa.DataType, value: object, start_server: Serving
) -> None:
    schema = CatalogBuilder().schema("s")
    schema.scalar_function(
        "color",
        lambda x: convert(pa.array([value], plain), type, "the color"),
        parameters={"x": pa.int64()},
        returns=type,
    )
    flight_client = start_server(schema.build())

    published = flight_client.items("s")["color"].schema
    answered, (reply,) = flight_client.scalar(path("s", "color"), [numbers(x=[1])])

    assert published.types == answered.types == [plain]
    assert reply.column(0).to_pylist() == [value]


def test_an_ambiguous_name_is_refused(flight_client: RawFlightClient) -> None:
    with pytest.raises(pa.ArrowInvalid, match="use the descriptor in the listing"):
        flight_client.scalar(path("s", "shout"), [numbers(x=[1])])


def test_an_any_argument_keeps_the_type_that_was_sent(flight_client: RawFlightClient) -> None:
    batch = pa.record_batch({"x": pa.array([1], pa.int8()), "y": pa.array([[True]])})

    _, (reply,) = flight_client.scalar(path("s", "kinds"), [batch])

    assert reply.column(0).to_pylist() == ["int8 list<item: bool>"]


def test_a_function_without_arguments_gets_batches_without_columns(
    flight_client: RawFlightClient,
) -> None:
    batch = pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([])))

    _, (reply,) = flight_client.scalar(path("s", "row_number"), [batch])

    assert reply.column(0).to_pylist() == [0, 1, 2]


def test_a_function_knows_its_transaction(flight_client: RawFlightClient) -> None:
    batch = pa.RecordBatch.from_struct_array(pa.array([{}], pa.struct([])))

    _, (reply,) = flight_client.with_headers(airport_transaction_id="t7").scalar(
        path("s", "whoami"), [batch]
    )

    assert reply.column(0).to_pylist() == ["t7"]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_wrong_number_of_arguments_is_refused(
    flight_client: RawFlightClient, count: int
) -> None:
    batch = numbers(**{f"c{n}": [1] for n in range(count)})
    if not count:
        batch = pa.RecordBatch.from_struct_array(pa.array([{}], pa.struct([])))
    descriptor = flight_client.items("s")["plus"].descriptor

    with pytest.raises(pa.ArrowInvalid, match=f"takes 2 arguments, not {count}"):
        flight_client.scalar(descriptor, [batch])


def test_a_function_that_loses_rows_is_an_error_and_not_garbage(
    flight_client: RawFlightClient,
) -> None:
    with pytest.raises(
        flight.FlightInternalError, match="function 'careless' returned 1 value for 2 rows"
    ):
        flight_client.scalar(path("s", "careless"), [numbers(x=[1, 2])])


def test_a_result_of_another_type_is_cast(flight_client: RawFlightClient) -> None:
    schema, (reply,) = flight_client.scalar(path("s", "chunked"), [numbers(x=[1, 2])])

    assert schema.types == [pa.int64()]
    assert reply.column(0).to_pylist() == [1, 2]


def test_an_unknown_function_is_not_found(flight_client: RawFlightClient) -> None:
    with pytest.raises(KeyError, match=r"there is no function s\.nope"):
        flight_client.scalar(path("s", "nope"), [numbers(x=[1])])


def test_an_exchange_needs_an_operation(flight_client: RawFlightClient) -> None:
    with pytest.raises(pa.ArrowInvalid, match="no airport-operation header"):
        with flight_client.open_exchange(path("s", "plus"), "") as (writer, reader):
            writer.begin(pa.schema([]))
            reader.read_chunk()


def test_an_unknown_operation_is_not_supported(flight_client: RawFlightClient) -> None:
    with pytest.raises(pa.ArrowNotImplementedError, match="operation 'upsert' is not supported"):
        with flight_client.open_exchange(path("s", "plus"), "upsert") as (writer, reader):
            writer.begin(pa.schema([]))
            reader.read_chunk()


def test_the_rows_of_an_exchange_are_bounded(start_server: Serving, catalog: StaticCatalog) -> None:
    flight_client = start_server(catalog, max_message_size=1000)

    with pytest.raises(pa.ArrowInvalid, match="this server takes 1000"):
        flight_client.scalar(path("s", "chunked"), [numbers(x=[1] * 1000)])


def test_results_can_be_compressed(start_server: Serving, catalog: StaticCatalog) -> None:
    flight_client = start_server(catalog, compression="zstd")

    _, (reply,) = flight_client.scalar(path("s", "chunked"), [numbers(x=[5] * 1000)])

    assert reply.column(0).to_pylist() == [5] * 1000

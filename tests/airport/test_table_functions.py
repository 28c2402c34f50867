"""Table functions: bound with their arguments, scanned like a table."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.catalog import ANY, CatalogBuilder, ScanOptions, StaticCatalog
from tests.airport.flight_client import RawFlightClient, Serving, ipc, one_row, path

NUMBERS = pa.schema([("n", pa.int64()), ("label", pa.string())])


@pytest.fixture
def recorded_options() -> list[Any]:
    return []


@pytest.fixture
def catalog(recorded_options: list[Any]) -> StaticCatalog:
    schema = CatalogBuilder().schema("s")

    @schema.table_function(
        parameters={"stop": pa.int64(), "label": pa.string()}, schema=NUMBERS, comment="Counts"
    )
    def series(stop: int, label: str = "none", options: ScanOptions | None = None) -> pa.Table:
        recorded_options.append((stop, label, options))
        return pa.table({"n": range(stop), "label": [label] * stop}, schema=NUMBERS)

    @schema.table_function(
        parameters={"width": pa.int64()},
        schema=lambda width: pa.schema([(f"c{n}", pa.int64()) for n in range(width)]),
    )
    def wide(width: int) -> pa.Table:
        return pa.table({f"c{n}": [n] for n in range(width)})

    @schema.table_function(parameters={"value": ANY}, schema=pa.schema([("kind", pa.string())]))
    def kind(value: Any) -> pa.Table:
        return pa.table({"kind": [type(value).__name__]})

    @schema.table_function(
        "kind", parameters={"a": ANY, "b": ANY}, schema=pa.schema([("kind", pa.string())])
    )
    def kinds(a: Any, b: Any) -> pa.Table:
        return pa.table({"kind": [f"{type(a).__name__} {type(b).__name__}"]})

    @schema.table_function(parameters={}, schema=pa.schema([("one", pa.int64())]))
    def one() -> pa.Table:
        return pa.table({"one": [1]})

    schema.table_function_in_out("echo", lambda rows: rows, schema=lambda rows: rows)
    return schema.build()


@pytest.fixture
def flight_client(start_server: Serving, catalog: StaticCatalog) -> RawFlightClient:
    return start_server(catalog)


def bind(
    flight_client: RawFlightClient,
    descriptor: flight.FlightDescriptor,
    arguments: bytes,
    rows: bytes = b"",
) -> flight.FlightInfo:
    reply = flight_client.call(
        "table_function_flight_info",
        descriptor=descriptor.serialize(),
        parameters=arguments,
        table_input_schema=rows,
        at_unit="",
        at_value="",
    )
    return flight.FlightInfo.deserialize(reply)


def test_a_bind_tells_the_columns_and_echoes_the_descriptor(flight_client: RawFlightClient) -> None:
    descriptor = flight_client.items("s")["series"].descriptor

    info = bind(flight_client, descriptor, one_row(stop=3, label="a"))

    assert info.descriptor == descriptor
    assert info.schema.equals(NUMBERS)
    assert info.total_records == -1


def test_a_scan_runs_the_function_with_its_arguments(
    flight_client: RawFlightClient, recorded_options: list[Any]
) -> None:
    descriptor = flight_client.items("s")["series"].descriptor

    read = flight_client.scan(descriptor, arguments=one_row(stop=3, label="a"), column_ids=[0])

    assert read.to_pydict() == {"n": [0, 1, 2], "label": [None] * 3}
    ((stop, label, options),) = recorded_options
    assert (stop, label, options.columns) == (3, "a", ("n",))


@pytest.mark.parametrize("label", [pa.nulls(1, pa.string()), None])
def test_a_named_parameter_that_is_left_out_has_its_default(
    flight_client: RawFlightClient, recorded_options: list[Any], label: pa.Array | None
) -> None:
    given = {"stop": 1} if label is None else {"stop": 1, "label": label}

    flight_client.scan(path("s", "series"), arguments=one_row(**given))

    assert recorded_options[0][:2] == (1, "none")


def test_the_columns_may_depend_on_the_arguments(flight_client: RawFlightClient) -> None:
    for width in (1, 3):
        arguments = one_row(width=width)
        assert bind(flight_client, path("s", "wide"), arguments).schema.names == [
            f"c{n}" for n in range(width)
        ]
        read = flight_client.scan(path("s", "wide"), arguments=arguments)
        assert read.to_pydict() == {f"c{n}": [n] for n in range(width)}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (pa.array([1], pa.int8()), "int"),
        (pa.array(["a"]), "str"),
        (pa.array([dt.date(2024, 1, 1)]), "date"),
        (pa.nulls(1, pa.int32()), "NoneType"),
        (pa.array([[1, 2]]), "list"),
    ],
)
def test_an_any_parameter_takes_every_type(
    flight_client: RawFlightClient, value: pa.Array, kind: str
) -> None:
    descriptor = flight_client.items("s")["kind"].descriptor

    assert flight_client.scan(descriptor, arguments=one_row(value=value)).to_pydict() == {
        "kind": [kind]
    }


HUGEINT = pa.opaque(pa.binary(16), "hugeint", "DuckDB")
IDENTITY = uuid.UUID(int=7)


@pytest.mark.parametrize(
    ("declared", "sent", "value"),
    [
        (pa.uuid(), pa.array([str(IDENTITY)]), IDENTITY),
        (pa.string(), pa.array([IDENTITY.bytes], pa.uuid()), str(IDENTITY)),
        (
            pa.decimal128(38, 0),
            pa.ExtensionArray.from_storage(
                HUGEINT, pa.array([(5).to_bytes(16, "little")], pa.binary(16))
            ),
            Decimal(5),
        ),
        (pa.bool_(), pa.array([1], pa.int8()).cast(pa.bool8()), True),
        (pa.list_(pa.int32()), pa.array([[1]], pa.list_view(pa.int32())), [1]),
    ],
    ids=["text for uuid", "uuid for text", "hugeint", "bool8", "list view"],
)
def test_an_argument_is_taken_in_every_layout_of_its_type(
    start_server: Serving,
    recorded_options: list[Any],
    declared: pa.DataType,
    sent: pa.Array,
    value: Any,
) -> None:
    def note(p: Any) -> pa.Table:
        recorded_options.append(p)
        return pa.table({"one": [1]})

    columns = pa.schema([("one", pa.int64())])
    schema = CatalogBuilder().schema("s")
    schema.table_function("note", note, parameters={"p": declared}, schema=columns)
    flight_client = start_server(schema.build())

    flight_client.scan(path("s", "note"), arguments=one_row(p=sent))

    assert recorded_options == [value]


TWICE = pa.schema([("a", pa.int64()), ("A", pa.int64())])


def test_columns_that_duckdb_could_not_bind_are_refused(start_server: Serving) -> None:
    schema = CatalogBuilder().schema("s")
    schema.table_function("twice", TWICE.empty_table, parameters={}, schema=lambda: TWICE)
    schema.table_function_in_out("both", lambda rows: rows, schema=lambda rows: TWICE)
    flight_client = start_server(schema.build())
    told = "has two columns named 'A'"

    with pytest.raises(pa.ArrowInvalid, match=told):
        bind(flight_client, path("s", "twice"), one_row())
    with pytest.raises(pa.ArrowInvalid, match=told):
        flight_client.scan(path("s", "twice"), arguments=one_row())
    with pytest.raises(pa.ArrowInvalid, match=told):
        bind(flight_client, path("s", "both"), one_row(), NUMBERS.serialize().to_pybytes())


def test_overloads_are_told_apart_by_their_descriptors(flight_client: RawFlightClient) -> None:
    items = flight_client.items("s")

    read = flight_client.scan(items["kind#2"].descriptor, arguments=one_row(a=1, b="x"))

    assert read.to_pydict() == {"kind": ["int str"]}
    with pytest.raises(pa.ArrowInvalid, match=r"there are several functions s\.kind"):
        flight_client.scan(path("s", "kind"), arguments=one_row(value=1))


@pytest.mark.parametrize("rows", [0, 1])
def test_a_function_without_parameters_does_not_count_rows(
    flight_client: RawFlightClient, rows: int
) -> None:
    no_columns = pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))

    read = flight_client.scan(path("s", "one"), arguments=ipc(no_columns))

    assert read.to_pydict() == {"one": [1]}


def test_arguments_are_cast_to_the_declared_type(
    flight_client: RawFlightClient, recorded_options: list[Any]
) -> None:
    flight_client.scan(path("s", "series"), arguments=one_row(stop=pa.array([2], pa.int8())))

    assert recorded_options[0][0] == 2


def test_positional_arguments_may_have_other_names(
    flight_client: RawFlightClient, recorded_options: list[Any]
) -> None:
    flight_client.scan(path("s", "series"), arguments=one_row(col0=2))

    assert recorded_options[0][0] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (one_row(stop="x"), "arguments of series: 'stop' must be int64, not string"),
        (one_row(), "arguments of series: 'stop' is missing"),
        (b"", "arguments of series: not an Arrow stream"),
        (b"nonsense", "arguments of series: not an Arrow stream"),
        (
            ipc(pa.record_batch({"stop": [1, 2]})),
            "arguments of series: expected one row, not 2",
        ),
    ],
    ids=["type", "missing", "empty", "nonsense", "two rows"],
)
def test_wrong_arguments_are_refused_at_bind(
    flight_client: RawFlightClient, arguments: bytes, message: str
) -> None:
    with pytest.raises(pa.ArrowInvalid, match=message):
        bind(flight_client, path("s", "series"), arguments)


def test_an_unknown_function_is_not_found(flight_client: RawFlightClient) -> None:
    with pytest.raises(KeyError, match=r"there is no function s\.nope"):
        bind(flight_client, path("s", "nope"), one_row())


def test_an_in_out_function_is_bound_with_the_columns_of_its_input(
    flight_client: RawFlightClient,
) -> None:
    rows = pa.schema([("a", pa.int8()), ("b", pa.string())])

    info = bind(flight_client, path("s", "echo"), one_row(), rows.serialize().to_pybytes())

    assert info.schema.equals(rows)


def test_an_in_out_function_needs_a_table(flight_client: RawFlightClient) -> None:
    with pytest.raises(pa.ArrowInvalid, match=r"function s\.echo needs a table"):
        bind(flight_client, path("s", "echo"), one_row())
    with pytest.raises(pa.ArrowInvalid, match="takes a table and is called by an exchange"):
        flight_client.endpoints(path("s", "echo"), arguments=one_row())
    with pytest.raises(pa.ArrowInvalid, match="the input table is not an Arrow schema"):
        bind(flight_client, path("s", "echo"), one_row(), b"nonsense")


def test_a_function_is_not_a_table(flight_client: RawFlightClient) -> None:
    with pytest.raises(KeyError, match=r"there is no table s\.series"):
        flight_client.endpoints(path("s", "series"))


def test_functions_are_found_whatever_their_case(flight_client: RawFlightClient) -> None:
    assert flight_client.scan(path("s", "ONE"), arguments=one_row()).to_pydict() == {"one": [1]}

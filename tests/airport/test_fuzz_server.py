"""A running server answers whatever comes with a result or a clean status, and goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import flight

from lakeport.airport.protocol.addresses import Address
from lakeport.airport.protocol.tickets import ScanTicket
from lakeport.catalog import CatalogBuilder
from tests.airport.flight_client import RawFlightClient, path, started
from tests.airport.mutable_catalog import ByIdTable, MutableCatalog, MutableTable
from tests.airport.transactional_catalog import TransactionalCatalog

COLUMNS = pa.schema([("x", pa.int64()), ("name", pa.string())])
ROWS = [{"x": 1, "name": "a"}]

# What a clean status becomes in pyarrow: INVALID_ARGUMENT, NOT_FOUND, UNIMPLEMENTED, and so on.
CLEAN = (pa.ArrowInvalid, KeyError, pa.ArrowNotImplementedError, flight.FlightError)


@pytest.fixture(scope="module")
def flight_client() -> Iterator[RawFlightClient]:
    catalog = MutableCatalog()
    catalog.with_table(MutableTable("t", COLUMNS, ROWS, calls=[]))
    catalog.with_table(ByIdTable("by_id", COLUMNS, ROWS))
    counted = CatalogBuilder().schema("s").table("t", pa.table({"x": [1]}), statistics=True)
    with started() as start:
        yield start(
            {"lake": catalog, "staging": TransactionalCatalog(), "counted": counted.build()},
            headers={"airport-catalog": "lake"},
        )


@pytest.fixture(scope="module")
def actions(flight_client: RawFlightClient) -> list[str]:
    return [action.type for action in flight_client.client.list_actions(flight_client.options())]


def assert_clean(error: BaseException) -> None:
    assert "Traceback" not in str(error)
    assert not isinstance(error, flight.FlightInternalError), str(error)


def alive(flight_client: RawFlightClient) -> None:
    assert flight_client.call("catalog_version")


def attempt(call: Any) -> None:
    try:
        call()
    except CLEAN as error:
        assert_clean(error)


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.binary(max_size=20)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
    | st.sampled_from(["s", "t", "lake", "x", "error", "VERSION", path("s", "t").serialize()])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=6,
)
FIELDS = [
    "catalog_name",
    "catalog",
    "schema",
    "schema_name",
    "name",
    "table_name",
    "new_name",
    "old_name",
    "new_table_name",
    "column_name",
    "removed_column",
    "expression",
    "descriptor",
    "flight_descriptor",
    "parameters",
    "arrow_schema",
    "column_schema",
    "column_path",
    "on_conflict",
    "not_null_constraints",
    "extra_constraints",
    "transaction_id",
    "explicit",
    "ignore_not_found",
    "tags",
    "row_ids",
    "column",
    "fields",
    "ts",
    "ts_ns",
    "function_name",
    "if_exists",
    "table_name_pattern",
    "type",
]


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_any_body_of_any_action_gets_a_clean_answer(
    flight_client: RawFlightClient, actions: list[str], data: st.DataObject
) -> None:
    action = data.draw(st.sampled_from(actions))
    body = data.draw(st.binary(max_size=100))

    attempt(lambda: flight_client.action(action, body))


@settings(max_examples=250, deadline=None)
@given(data=st.data())
def test_any_fields_of_any_action_get_a_clean_answer(
    flight_client: RawFlightClient, actions: list[str], data: st.DataObject
) -> None:
    action = data.draw(st.sampled_from([a for a in actions if a != "drop_schema"]))
    fields = data.draw(st.dictionaries(st.sampled_from(FIELDS), values, max_size=8))

    attempt(lambda: flight_client.action(action, msgpack.packb(fields)))
    attempt(lambda: flight_client.action(action, json.dumps(fields, default=repr).encode()))


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), st.sampled_from(["x", "y"]))
def test_any_type_of_a_column_gets_a_clean_answer(
    flight_client: RawFlightClient, type: str, column: str
) -> None:
    counted = flight_client.with_headers(airport_catalog="counted")
    descriptor = path("s", "t").serialize()

    attempt(
        lambda: counted.call(
            "column_statistics", flight_descriptor=descriptor, column_name=column, type=type
        )
    )


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=100))
def test_any_ticket_gets_a_clean_answer(flight_client: RawFlightClient, ticket: bytes) -> None:
    attempt(lambda: flight_client.read(ticket))


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_forged_ticket_gets_a_clean_answer(
    flight_client: RawFlightClient, data: st.DataObject
) -> None:
    real = ScanTicket(Address("s", "t", catalog="lake"), columns=("x",))
    fields = msgpack.unpackb(real.to_bytes())
    fields[data.draw(st.sampled_from(sorted(fields)))] = data.draw(values)

    attempt(lambda: flight_client.read(msgpack.packb(fields)))


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60) | st.text("{}[]:,\"'tsn0123456789", max_size=40).map(str.encode))
def test_any_command_gets_a_clean_answer(flight_client: RawFlightClient, command: bytes) -> None:
    descriptor = flight.FlightDescriptor.for_command(command)

    attempt(lambda: flight_client.info(descriptor))
    attempt(lambda: flight_client.endpoints(descriptor))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["", "s", "t", "lake", "nope", "__databases", "é"]), max_size=6))
def test_any_path_gets_a_clean_answer(flight_client: RawFlightClient, parts: list[str]) -> None:
    attempt(lambda: flight_client.info(path(*parts)))
    attempt(lambda: flight_client.endpoints(path(*parts)))


@settings(max_examples=60, deadline=None)
@given(
    operation=st.sampled_from(
        ["insert", "update", "delete", "scalar_function", "table_function_in_out", "x"]
    ),
    names=st.lists(st.sampled_from(["x", "name", "rowid", "y", ""]), max_size=4),
    types=st.lists(
        st.sampled_from([pa.int64(), pa.string(), pa.bool_(), pa.list_(pa.int8()), pa.uuid()]),
        min_size=4,
        max_size=4,
    ),
    rows=st.integers(0, 3),
    metadata=st.none() | st.binary(max_size=30),
)
def test_any_exchange_gets_a_clean_answer(
    flight_client: RawFlightClient,
    operation: str,
    names: list[str],
    types: list[pa.DataType],
    rows: int,
    metadata: bytes | None,
) -> None:
    schema = pa.schema(list(zip(names, types, strict=False)))
    arrays = [pa.nulls(rows, field.type) for field in schema]

    def exchange() -> None:
        with flight_client.open_exchange(path("s", "t"), operation, return_chunks="1") as (
            writer,
            reader,
        ):
            if metadata is not None:
                writer.write_metadata(metadata)
            writer.begin(schema)
            if arrays:
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
            writer.done_writing()
            list(reader)

    attempt(exchange)


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(
        [
            "airport-catalog",
            "airport-operation",
            "airport-transaction-id",
            "airport-client-session-id",
            "airport-trace-id",
            "airport-list-flights-filter-catalog",
            "airport-list-flights-filter-schema",
            "authorization",
            "return-chunks",
        ]
    ),
    value=st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=200),
)
def test_any_header_gets_a_clean_answer(
    flight_client: RawFlightClient, name: str, value: str
) -> None:
    bare = RawFlightClient(flight_client.server, flight_client.client, {name: value})

    attempt(lambda: list(bare.client.list_flights(b"", bare.options())))
    attempt(lambda: bare.scan(path("s", "t")))


def test_oversized_messages_are_refused(flight_client: RawFlightClient) -> None:
    huge = b"\x80" + b"x" * (17 * 1024 * 1024)
    wide = pa.schema([(str(n), pa.int8()) for n in range(100_000)])
    ids = {"column_ids": [0] * 50_000}

    with pytest.raises(pa.ArrowInvalid, match="list_schemas is too large"):
        flight_client.action("list_schemas", huge)
    with pytest.raises(pa.ArrowInvalid, match="the ticket is too large"):
        flight_client.read(b"x" * (5 * 1024 * 1024))
    with pytest.raises(pa.ArrowInvalid, match="the descriptor is too large"):
        flight_client.info(flight.FlightDescriptor.for_command(b"{" + b" " * (5 * 1024 * 1024)))
    with pytest.raises(pa.ArrowInvalid, match="the number of columns of the table is too large"):
        flight_client.call(
            "create_table",
            schema_name="s",
            table_name="wide",
            arrow_schema=wide.serialize().to_pybytes(),
        )
    with pytest.raises(pa.ArrowInvalid, match="the number of columns is too large"):
        flight_client.call("endpoints", descriptor=path("s", "t").serialize(), parameters=ids)
    with pytest.raises(pa.ArrowInvalid, match="the number of columns is too large"):
        flight_client.change("insert", path("s", "t"), [], schema=wide)
    alive(flight_client)


def test_deep_messages_are_refused(flight_client: RawFlightClient) -> None:
    deep = b'{"a":' * 100_000

    with pytest.raises(pa.ArrowInvalid, match="nested too deeply"):
        flight_client.action("GetSchemas", deep)
    with pytest.raises(pa.ArrowInvalid, match="nested too deeply"):
        flight_client.read(deep)
    with pytest.raises(pa.ArrowInvalid, match="not valid msgpack"):
        flight_client.action("list_schemas", b"\x81\xa1a" * 40_000)
    deep_filter = '{"filters":' + "[" * 100_000
    with pytest.raises(pa.ArrowInvalid, match="nested too deeply"):
        flight_client.read(
            ScanTicket(Address("s", "t", catalog="lake"), filters=deep_filter).to_bytes()
        )
    # As a hint it is left out.
    assert flight_client.endpoints(path("s", "t"), filters=deep_filter) == flight_client.endpoints(
        path("s", "t")
    )
    alive(flight_client)

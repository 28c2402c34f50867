"""The JSON actions of the endpoint-discovery contract that only read."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.catalog import ANY, CatalogBuilder, StaticCatalog, rowid_field
from tests.airport.flight_client import RawFlightClient, Serving

COLUMNS = pa.schema([("n", pa.int64())])


@pytest.fixture
def catalog() -> StaticCatalog:
    builder = CatalogBuilder("lake")
    analytics = builder.schema("analytics", comment="Numbers")
    for name in ("events_2023", "events_2024", "users", "a[b"):
        analytics.table(name, pa.table({"x": [1], "y": [2]}), comment=name.title())
    with_rowid = pa.schema([("x", pa.int64()), rowid_field()])
    analytics.table("keyed", with_rowid.empty_table())

    @analytics.table_function(parameters={"start": pa.int64(), "stop": pa.int64()}, schema=COLUMNS)
    def generate_series(start: int, stop: int = 3) -> pa.Table:
        return pa.table({"n": range(start, stop)})

    other = builder.schema("other")
    other.table_function(
        "generate_series",
        lambda text: pa.table({"n": [len(text)]}),
        parameters={"text": pa.string()},
        schema=COLUMNS,
    )
    other.table_function(
        "kind",
        lambda value: pa.table({"n": [len(str(value))]}),
        parameters={"value": ANY},
        schema=COLUMNS,
    )
    return builder.build()


@pytest.fixture
def flight_client(start_server: Serving, catalog: StaticCatalog) -> RawFlightClient:
    return start_server(catalog)


def ask(flight_client: RawFlightClient, action: str, **request: Any) -> Any:
    (reply,) = flight_client.action(action, json.dumps(request).encode())
    return json.loads(reply)


@pytest.mark.parametrize("body", [b"{}", b"", b"  ", b'{"catalog_name": "lake"}'])
def test_all_schemas_are_listed(flight_client: RawFlightClient, body: bytes) -> None:
    (reply,) = flight_client.action("GetSchemas", body)

    assert json.loads(reply) == {
        "schemas": [
            {"schema_name": "analytics", "comment": "Numbers"},
            {"schema_name": "other"},
        ]
    }


def test_schemas_of_an_unknown_catalog_are_not_found(flight_client: RawFlightClient) -> None:
    with pytest.raises(KeyError, match="there is no catalog 'nope'"):
        ask(flight_client, "GetSchemas", catalog_name="nope")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (None, ["events_2023", "events_2024", "users", "a[b", "keyed"]),
        ("*", ["events_2023", "events_2024", "users", "a[b", "keyed"]),
        ("events_*", ["events_2023", "events_2024"]),
        ("events_202?", ["events_2023", "events_2024"]),
        ("events_202[4-9]", ["events_2024"]),
        ("users", ["users"]),
        ("USERS", []),
        ("nope*", []),
        ("", []),
    ],
)
def test_tables_are_listed_by_glob(
    flight_client: RawFlightClient, pattern: str | None, names: list[str]
) -> None:
    request = {} if pattern is None else {"table_name_pattern": pattern}

    reply = ask(flight_client, "GetTables", schema_name="analytics", **request)

    assert [table["table_name"] for table in reply["tables"]] == names


def test_a_table_entry_counts_the_columns_that_a_user_sees(flight_client: RawFlightClient) -> None:
    reply = ask(flight_client, "GetTables", schema_name="analytics")

    by_name = {table["table_name"]: table for table in reply["tables"]}
    assert by_name["users"] == {"table_name": "users", "comment": "Users", "column_count": 2}
    assert by_name["keyed"] == {"table_name": "keyed", "column_count": 1}


@pytest.mark.parametrize(
    ("action", "body", "message"),
    [
        ("GetTables", b"{}", "schema_name is missing"),
        ("GetTables", b'{"schema_name": 1}', "schema_name must be text"),
        ("GetTables", b'{"schema_name": "other", "table_name_pattern": 1}', "must be text"),
        ("GetSchemas", b"[]", "GetSchemas: expected a JSON object"),
        ("GetSchemas", b"{", "GetSchemas: not valid JSON"),
        ("GetSchemas", b"\xff", "GetSchemas: not valid JSON"),
        ("GetSchemas", b'{"catalog_name": []}', "catalog_name must be text"),
        ("GetFlightInfo", b"{}", "schema_name is missing"),
        ("GetFlightInfo", b'{"schema_name": "other", "table_name": "t", "ts": -1}', "negative"),
        ("GetTableFunctionFlightInfo", b"{}", "function_name is missing"),
        (
            "GetTableFunctionFlightInfo",
            b'{"function_name": "kind", "parameters": [{}]}',
            "parameters must be an object",
        ),
    ],
)
def test_a_malformed_request_is_an_invalid_argument(
    flight_client: RawFlightClient, action: str, body: bytes, message: str
) -> None:
    with pytest.raises(pa.ArrowInvalid, match=message):
        flight_client.action(action, body)


def test_tables_of_an_unknown_schema_are_not_found(flight_client: RawFlightClient) -> None:
    with pytest.raises(KeyError, match="there is no schema 'nope'"):
        ask(flight_client, "GetTables", schema_name="nope")


def test_the_action_getflightinfo_answers_like_the_call(flight_client: RawFlightClient) -> None:
    request = {"schema_name": "analytics", "table_name": "users"}
    (reply,) = flight_client.action("GetFlightInfo", json.dumps(request).encode())

    info = flight.FlightInfo.deserialize(reply)

    assert json.loads(info.descriptor.command) == request
    assert info.total_records == 1
    assert flight_client.read(info.endpoints[0].ticket).to_pydict() == {"x": [1], "y": [2]}


def call_function(flight_client: RawFlightClient, **request: Any) -> pa.Table:
    (reply,) = flight_client.action("GetTableFunctionFlightInfo", json.dumps(request).encode())
    info = flight.FlightInfo.deserialize(reply)
    assert json.loads(info.descriptor.command) == request
    assert info.schema.equals(COLUMNS)
    return pa.concat_tables([flight_client.read(endpoint.ticket) for endpoint in info.endpoints])


@pytest.mark.parametrize(
    ("request_", "numbers"),
    [
        ({"parameters": {"start": 1, "stop": 3}}, [1, 2]),
        ({"parameters": {"start": 1}}, [1, 2]),
        ({"schema_name": "analytics", "parameters": {"start": 2}}, [2]),
        ({"function_name": "analytics.generate_series", "parameters": {"start": 2}}, [2]),
        ({"parameters": {"text": "four"}}, [4]),
        ({"function_name": "GENERATE_SERIES", "parameters": {"text": "x"}}, [1]),
        ({"function_name": "kind", "parameters": {"value": [1, 2]}}, [6]),
    ],
)
def test_a_table_function_is_described_and_read(
    flight_client: RawFlightClient, request_: dict[str, Any], numbers: list[int]
) -> None:
    read = call_function(flight_client, **{"function_name": "generate_series", **request_})

    assert read.column("n").to_pylist() == numbers


def test_an_unknown_table_function_is_not_found(flight_client: RawFlightClient) -> None:
    with pytest.raises(KeyError, match="there is no table function 'nope'"):
        call_function(flight_client, function_name="nope")


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"parameters": {"bogus": 1}}, "0 of 2 functions 'generate_series' take these parameters"),
        ({}, "2 of 2 functions 'generate_series' take these parameters"),
        ({"parameters": {"start": "x"}}, "parameter 'start' must be int64"),
        ({"parameters": {"stop": 3}}, "parameter 'start' is missing"),
        ({"parameters": {"start": 2**70}}, "parameter 'start' must be int64"),
    ],
)
def test_wrong_parameters_are_an_invalid_argument(
    flight_client: RawFlightClient, request_: dict[str, Any], message: str
) -> None:
    with pytest.raises(pa.ArrowInvalid, match=message):
        call_function(flight_client, function_name="generate_series", **request_)


@pytest.mark.parametrize("value", [[1, "a"], {"a": [1, {}]}, 2**70, None])
def test_a_value_of_any_type_is_taken_or_refused_clearly(
    flight_client: RawFlightClient, value: Any
) -> None:
    try:
        call_function(flight_client, function_name="kind", parameters={"value": value})
    except pa.ArrowInvalid as error:
        assert "function kind: parameter 'value' must be one value" in str(error)

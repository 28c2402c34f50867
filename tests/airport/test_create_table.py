"""CREATE TABLE: columns, constraints, conflicts, and the reply that the client binds."""

from __future__ import annotations

from typing import Any

import msgpack
import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.catalog import CatalogBuilder, CreateTableOptions, OnConflict
from tests.airport.flight_client import RawFlightClient, Serving, path
from tests.airport.mutable_catalog import MutableCatalog, MutableTable

COLUMNS = pa.schema([("x", pa.int64()), ("name", pa.string())])


@pytest.fixture
def catalog() -> MutableCatalog:
    catalog = MutableCatalog()
    catalog.with_table(MutableTable("t", COLUMNS, calls=catalog.calls))
    return catalog


@pytest.fixture
def flight_client(start_server: Serving, catalog: MutableCatalog) -> RawFlightClient:
    return start_server(catalog)


def create(flight_client: RawFlightClient, **request: Any) -> flight.FlightInfo:
    schema = pa.schema([("a", pa.int32()), ("b c", pa.string()), ("d", pa.int64())])
    full = {
        "catalog_name": "",
        "schema_name": "s",
        "table_name": "new",
        "arrow_schema": schema.serialize().to_pybytes(),
        "on_conflict": "error",
        "not_null_constraints": [],
        "unique_constraints": [],
        "check_constraints": [],
        "primary_key_columns": [],
        "unique_columns": [],
        "multi_key_primary_keys": [],
        "extra_constraints": [],
    }
    return flight.FlightInfo.deserialize(flight_client.call("create_table", **{**full, **request}))


def test_a_table_is_created_with_the_columns_of_the_request(
    flight_client: RawFlightClient, catalog: MutableCatalog
) -> None:
    info = create(flight_client)

    assert info.schema.names == ["a", "b c", "d", "rowid"]
    assert msgpack.unpackb(info.app_metadata)["name"] == "new"
    assert msgpack.unpackb(info.app_metadata)["type"] == "table"
    ((_, name, schema, options),) = catalog.calls
    assert (name, schema.names, options) == ("new", ["a", "b c", "d"], CreateTableOptions())


def test_a_created_table_can_be_filled_at_once(flight_client: RawFlightClient) -> None:
    descriptor = create(flight_client).descriptor

    done = flight_client.change("insert", descriptor, pa.table({"a": [1], "b c": ["x"], "d": [2]}))

    assert done.total_changed == 1
    assert flight_client.scan(descriptor).num_rows == 1


CONSTRAINTS: dict[str, tuple[dict[str, Any], CreateTableOptions]] = {
    "not null": (
        {"not_null_constraints": [0, 2]},
        CreateTableOptions(not_null_columns=("a", "d")),
    ),
    "check": (
        {"check_constraints": ["(a > 1)", "(d < 9)"]},
        CreateTableOptions(check_constraints=("(a > 1)", "(d < 9)")),
    ),
    "primary key": ({"primary_key_columns": ["a"]}, CreateTableOptions(primary_key=("a",))),
    "composite primary key": (
        {"multi_key_primary_keys": ["a", "d"]},
        CreateTableOptions(primary_key=("a", "d")),
    ),
    "unique": (
        {"unique_columns": ["a", "d"]},
        CreateTableOptions(unique_constraints=(("a",), ("d",))),
    ),
    "unique by position": (
        {"unique_constraints": [1]},
        CreateTableOptions(unique_constraints=(("b c",),)),
    ),
    "composite unique": (
        {"extra_constraints": ['UNIQUE(a, "b c")', "unique ( d )", 'UNIQUE("x""y", z)']},
        CreateTableOptions(unique_constraints=(("a", "b c"), ("d",), ('x"y', "z"))),
    ),
    "ignore": ({"on_conflict": "ignore"}, CreateTableOptions(on_conflict=OnConflict.IGNORE)),
    "replace": ({"on_conflict": "replace"}, CreateTableOptions(on_conflict=OnConflict.REPLACE)),
}


@pytest.mark.parametrize(("request_", "options"), CONSTRAINTS.values(), ids=CONSTRAINTS)
def test_the_constraints_of_a_table_reach_the_catalog(
    flight_client: RawFlightClient,
    catalog: MutableCatalog,
    request_: dict[str, Any],
    options: CreateTableOptions,
) -> None:
    create(flight_client, **request_)

    assert catalog.calls[0][-1] == options


def test_an_existing_table_is_answered_where_it_may_exist(flight_client: RawFlightClient) -> None:
    info = create(flight_client, table_name="t", on_conflict="ignore")

    assert info.schema.names == ["x", "name", "rowid"]
    with pytest.raises(pa.ArrowInvalid, match="there is a table 't' already"):
        create(flight_client, table_name="t")


HALF = pa.schema([("h", pa.float16())]).serialize().to_pybytes()
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no schema": ({"arrow_schema": b"x"}, "the table is not an Arrow schema"),
    "no columns": (
        {"arrow_schema": pa.schema([]).serialize().to_pybytes()},
        r"table s\.new has no columns",
    ),
    "unusable type": ({"arrow_schema": HALF}, "DuckDB has no type for halffloat"),
    "empty table name": ({"table_name": ""}, "must not be empty"),
    "control characters": ({"table_name": "a\x00"}, "control characters"),
    "conflict": ({"on_conflict": "explode"}, "must be error, ignore or replace"),
    "position": ({"not_null_constraints": [9]}, "there is no column number 9"),
    "position type": ({"unique_constraints": ["a"]}, "must hold integers"),
    "constraint": ({"extra_constraints": ["UNIQUE(a b)"]}, "cannot be read"),
}


@pytest.mark.parametrize(("request_", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_request_creates_nothing(
    flight_client: RawFlightClient, catalog: MutableCatalog, request_: dict[str, Any], message: str
) -> None:
    with pytest.raises(pa.ArrowInvalid, match=message):
        create(flight_client, **request_)

    assert catalog.calls == []


def test_an_unreadable_constraint_is_not_supported(flight_client: RawFlightClient) -> None:
    with pytest.raises(pa.ArrowNotImplementedError, match="'FOREIGN KEY' is not supported"):
        create(flight_client, extra_constraints=["FOREIGN KEY"])


def test_a_schema_that_cannot_change_says_so(start_server: Serving) -> None:
    flight_client = start_server(
        CatalogBuilder().schema("s").table("t", pa.table({"x": [1]})).build()
    )

    with pytest.raises(pa.ArrowNotImplementedError, match="the tables of schema 's' cannot be"):
        create(flight_client)


def test_a_reply_finds_the_table_by_path_too(flight_client: RawFlightClient) -> None:
    create(flight_client)

    assert flight_client.scan(path("s", "new")).num_rows == 0

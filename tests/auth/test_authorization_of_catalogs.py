"""A catalog that a caller may not see is like one that does not exist."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.auth import AccessRequest
from tests.airport.flight_client import RawFlightClient, Serving, path
from tests.auth.shop import Shop


def test_a_catalog_that_may_not_be_seen_is_not_listed(start_server: Serving, shop: Shop) -> None:
    flight_client = start_server(
        {"shop": shop, "vault": shop}, authorize=lambda access: access.catalog != "vault"
    )

    assert flight_client.scan(path("__databases")).column("name").to_pylist() == ["shop"]
    for call in (
        lambda: flight_client.list_schemas("vault"),
        lambda: flight_client.action("GetSchemas", b'{"catalog_name": "vault"}'),
        lambda: flight_client.endpoints(path("vault", "public", "open")),
        lambda: flight_client.call("create_transaction", catalog_name="vault"),
        lambda: flight_client.call("catalog_version", catalog_name="vault"),
    ):
        with pytest.raises(flight.FlightUnauthorizedError, match="you may not"):
            call()


@pytest.mark.parametrize("spelled", ["", "vault"])
def test_leaving_out_the_name_of_a_catalog_does_not_hide_it_from_the_hook(
    start_server: Serving, shop: Shop, spelled: str
) -> None:
    asked: list[AccessRequest] = []

    def authorize(access: AccessRequest) -> bool:
        asked.append(access)
        return access.catalog != "vault"

    flight_client = start_server({"vault": shop}, authorize=authorize)

    with pytest.raises(flight.FlightUnauthorizedError):
        flight_client.list_schemas(spelled)
    assert {access.catalog for access in asked} == {"vault"}


ROADS: dict[str, Callable[[RawFlightClient, str], Any]] = {
    "list_schemas": lambda flight_client, name: flight_client.list_schemas(name),
    "catalog_version": lambda flight_client, name: flight_client.call(
        "catalog_version", catalog_name=name
    ),
    "create_transaction": lambda flight_client, name: flight_client.call(
        "create_transaction", catalog_name=name
    ),
    "endpoints": lambda flight_client, name: flight_client.endpoints(path(name, "public", "open")),
    "endpoints of nothing": lambda flight_client, name: flight_client.endpoints(
        path(name, "no", "where")
    ),
    "header": lambda flight_client, name: flight_client.with_headers(
        airport_catalog=name
    ).endpoints(path("public", "t")),
    "GetFlightInfo": lambda flight_client, name: flight_client.info(path(name, "public", "open")),
    "DoGet": lambda flight_client, name: flight_client.read(
        json.dumps({"catalog_name": name, "schema_name": "public", "table_name": "open"}).encode()
    ),
    "column_statistics": lambda flight_client, name: flight_client.call(
        "column_statistics",
        flight_descriptor=path(name, "public", "open").serialize(),
        column_name="x",
        type="BIGINT",
    ),
    "GetSchemas": lambda flight_client, name: flight_client.action(
        "GetSchemas", json.dumps({"catalog_name": name}).encode()
    ),
    "GetTables": lambda flight_client, name: flight_client.action(
        "GetTables", json.dumps({"catalog_name": name, "schema_name": "public"}).encode()
    ),
    "scalar function": lambda flight_client, name: flight_client.scalar(
        path(name, "public", "f"), [pa.record_batch({"x": [1]})]
    ),
    "insert": lambda flight_client, name: flight_client.change(
        "insert", path(name, "public", "t"), pa.table({"x": [2]})
    ),
    "create_schema": lambda flight_client, name: flight_client.call(
        "create_schema", catalog_name=name, schema="n"
    ),
    "drop_table": lambda flight_client, name: flight_client.call(
        "drop_table", catalog_name=name, schema_name="public", name="open"
    ),
    "ListFlights": lambda flight_client, name: list(
        flight_client.client.list_flights(
            b"", flight_client.options(airport_list_flights_filter_catalog=name)
        )
    ),
    "ListFlights by header": lambda flight_client, name: list(
        flight_client.client.list_flights(b"", flight_client.options(airport_catalog=name))
    ),
    "ListActions": lambda flight_client, name: [
        action.type
        for action in flight_client.client.list_actions(flight_client.options(airport_catalog=name))
    ],
    "an action": lambda flight_client, name: flight_client.with_headers(
        airport_catalog=name
    ).action("restock"),
    "GetSchema": lambda flight_client, name: flight_client.client.get_schema(
        path(name, "public", "open"), flight_client.options()
    ),
}


@pytest.mark.parametrize("road", ROADS.values(), ids=ROADS)
def test_a_denied_catalog_is_like_one_that_there_is_not(
    start_server: Serving, shop: Shop, road: Callable[[RawFlightClient, str], Any]
) -> None:
    flight_client = start_server(
        {"shop": shop, "vault": shop}, authorize=lambda access: access.catalog == "shop"
    )

    def answer(name: str) -> tuple[str, str]:
        try:
            return "OK", repr(road(flight_client, name))
        except (pa.ArrowException, OSError, KeyError) as error:
            told = re.sub(r"gRPC client debug context:.*", "", str(error), flags=re.DOTALL)
            return type(error).__name__, told.replace(name, "NAME")

    denied, missing = answer("vault"), answer("nowhere")

    assert denied == missing
    assert "shop" not in denied[1]


def test_an_error_names_the_catalogs_only_that_the_caller_may_see(
    start_server: Serving, shop: Shop
) -> None:
    def authorize(access: AccessRequest) -> bool:
        return access.catalog != "vault"

    flight_client = start_server({"shop": shop, "vault": shop}, authorize=authorize)

    with pytest.raises(KeyError, match="there is no catalog 'nowhere'; this server has: 'shop'"):
        flight_client.list_schemas("nowhere")
    with pytest.raises(KeyError, match="name the catalog to use; this server has: 'shop'") as told:
        flight_client.list_schemas()
    assert "vault" not in str(told.value)

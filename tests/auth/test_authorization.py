"""One hook decides who may list, read and call: for every catalog, schema, table and function."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.auth import AccessRequest, Operation
from lakeport.catalog import Action, CatalogBuilder, current_request
from tests.airport.flight_client import RawFlightClient, Serving, extra_info, one_row, path
from tests.auth.shop import COLUMNS, Shop, deny

TOKENS = {"a": "ada", "g": "grace"}


def names_in(flight_client: RawFlightClient) -> dict[str, list[str]]:
    return {
        s["name"]: list(flight_client.items(s["name"]))
        for s in flight_client.list_schemas()["schemas"]
    }


def test_a_listing_shows_what_a_caller_may_see(start_server: Serving, shop: Shop) -> None:
    hidden = deny(
        (Operation.LIST, "private", None),
        (Operation.LIST, "public", "closed"),
        (Operation.LIST, "public", "g"),
    )
    flight_client = start_server(shop, authorize=hidden)

    assert names_in(flight_client) == {"public": ["open", "f", "h"]}


def test_every_way_to_list_hides_the_same(start_server: Serving, shop: Shop) -> None:
    hidden = deny(
        (Operation.LIST, "private", None),
        *((Operation.LIST, "public", name) for name in ("closed", "f", "g", "h")),
    )
    flight_client = start_server(shop, authorize=hidden)

    (schemas,) = flight_client.action("GetSchemas", b"{}")
    (tables,) = flight_client.action("GetTables", b'{"schema_name": "public"}')
    flights = [
        msgpack.unpackb(i.app_metadata)["name"]
        for i in flight_client.client.list_flights(b"", flight_client.options())
    ]
    packed = flight_client.info(flight.FlightDescriptor.for_command(b"")).app_metadata
    whole = msgpack.unpackb(pa.CompressedInputStream(pa.py_buffer(packed), "zstd").read())

    assert [s["schema_name"] for s in json.loads(schemas)["schemas"]] == ["public"]
    assert [t["table_name"] for t in json.loads(tables)["tables"]] == ["open"]
    assert flights == ["open"]
    assert [s["name"] for s in whole["schemas"]] == ["public"]
    assert [t["name"] for t in whole["schemas"][0]["tables"]] == ["open"]
    assert set(whole["schemas"][0]) == {"name", "tables"}


def test_listings_are_made_for_each_identity(start_server: Serving, shop: Shop) -> None:
    def authorize(access: AccessRequest) -> bool:
        return access.identity == "ada" or access.schema != "private"

    flight_client = start_server(shop, auth=TOKENS, authorize=authorize)
    ada = flight_client.with_headers(authorization="Bearer a")
    grace = flight_client.with_headers(authorization="Bearer g")

    for _ in range(2):
        assert [s["name"] for s in ada.list_schemas()["schemas"]] == ["public", "private"]
        assert [s["name"] for s in grace.list_schemas()["schemas"]] == ["public"]


def test_a_schema_of_one_s_own_listing_must_be_visible(start_server: Serving, shop: Shop) -> None:
    flight_client = start_server(shop, authorize=deny((Operation.LIST, "private", None)))
    asked = flight_client.options(
        airport_list_flights_filter_catalog="shop", airport_list_flights_filter_schema="private"
    )

    with pytest.raises(flight.FlightUnauthorizedError, match=r"you may not list shop\.private"):
        list(flight_client.client.list_flights(b"", asked))
    with pytest.raises(flight.FlightUnauthorizedError, match=r"you may not list shop\.private"):
        flight_client.action("GetTables", b'{"schema_name": "private"}')


READS: dict[str, Callable[[RawFlightClient, flight.FlightDescriptor], Any]] = {
    "GetFlightInfo": lambda flight_client, table: flight_client.info(table),
    "flight_info": lambda flight_client, table: flight_client.call(
        "flight_info", descriptor=table.serialize()
    ),
    "endpoints": lambda flight_client, table: flight_client.endpoints(table),
    "DoGet": lambda flight_client, table: flight_client.read(
        json.dumps(
            {"schema_name": table.path[0].decode(), "table_name": table.path[1].decode()}
        ).encode()
    ),
    "column_statistics": lambda flight_client, table: flight_client.call(
        "column_statistics", flight_descriptor=table.serialize(), column_name="x", type="BIGINT"
    ),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_table_is_read_only_by_those_who_may(
    start_server: Serving,
    shop: Shop,
    read: Callable[[RawFlightClient, flight.FlightDescriptor], Any],
) -> None:
    flight_client = start_server(shop, authorize=deny((Operation.READ, "public", "closed")))

    read(flight_client, path("public", "open"))
    with pytest.raises(
        flight.FlightUnauthorizedError, match=r"you may not read shop\.public\.closed"
    ):
        read(flight_client, path("public", "closed"))


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("spelled", [("PUBLIC", "closed"), ("public", "Closed")])
def test_another_spelling_of_a_name_is_no_way_around(
    start_server: Serving,
    shop: Shop,
    read: Callable[[RawFlightClient, flight.FlightDescriptor], Any],
    spelled: tuple[str, str],
) -> None:
    flight_client = start_server(shop, authorize=deny((Operation.READ, "public", "closed")))

    # In the spelling of the request, since that of the table would tell that there is one.
    told = re.escape(f"you may not read shop.{'.'.join(spelled)}")
    with pytest.raises(flight.FlightUnauthorizedError, match=told):
        read(flight_client, path(*spelled))


def test_a_schema_in_another_spelling_is_the_same_schema(start_server: Serving, shop: Shop) -> None:
    flight_client = start_server(shop, authorize=lambda access: access.schema != "private")
    asked = flight_client.options(airport_list_flights_filter_schema="PRIVATE")

    with pytest.raises(flight.FlightUnauthorizedError):
        list(flight_client.client.list_flights(b"", asked))
    with pytest.raises(flight.FlightUnauthorizedError):
        flight_client.action("GetTables", b'{"schema_name": "Private"}')
    with pytest.raises(flight.FlightUnauthorizedError):
        flight_client.endpoints(path("PRIVATE", "missing"))


def test_a_denied_scan_is_a_permission_error_for_duckdb(start_server: Serving, shop: Shop) -> None:
    flight_client = start_server(shop, authorize=deny((Operation.READ, "public", "closed")))

    with pytest.raises(flight.FlightUnauthorizedError) as denied:
        flight_client.read(b'{"schema_name": "public", "table_name": "closed"}')

    assert extra_info(denied.value) == {
        "exception_type": "PermissionException",
        "message": "you may not read shop.public.closed",
    }


def test_a_ticket_grants_nothing(start_server: Serving, shop: Shop) -> None:
    def authorize(access: AccessRequest) -> bool:
        return access.identity == "ada" or access.operation is not Operation.READ

    flight_client = start_server(shop, auth=TOKENS, authorize=authorize)
    (endpoint,) = flight_client.with_headers(authorization="Bearer a").endpoints(
        path("public", "open")
    )

    with pytest.raises(flight.FlightUnauthorizedError):
        flight_client.with_headers(authorization="Bearer g").read(endpoint.ticket)


def test_a_denied_name_does_not_tell_whether_it_exists(start_server: Serving, shop: Shop) -> None:
    flight_client = start_server(
        shop, authorize=lambda access: access.operation is not Operation.READ
    )

    for name in ("closed", "missing"):
        with pytest.raises(flight.FlightUnauthorizedError, match="you may not read"):
            flight_client.endpoints(path("public", name))


def _call_scalar(flight_client: RawFlightClient, schema: str, spell: Callable[[str], str]) -> Any:
    return flight_client.scalar(path(schema, spell("f")), [pa.record_batch({"x": [1]})])


def _call_in_out(flight_client: RawFlightClient, schema: str, spell: Callable[[str], str]) -> Any:
    options = flight_client.options(airport_operation="table_function_in_out", return_chunks="1")
    writer, reader = flight_client.client.do_exchange(path(schema, spell("h")), options)
    with writer:
        writer.write_metadata(msgpack.packb({"parameters": b""}))
        writer.begin(COLUMNS)
        return reader.schema


def _call_table(flight_client: RawFlightClient, schema: str, spell: Callable[[str], str]) -> Any:
    request = {"schema_name": schema, "function_name": spell("g"), "parameters": {}}
    return flight_client.action("GetTableFunctionFlightInfo", json.dumps(request).encode())


CALLS: dict[str, Callable[[RawFlightClient, str, Callable[[str], str]], Any]] = {
    "scalar": _call_scalar,
    "table": _call_table,
    "in-out": _call_in_out,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("schema", ["public", "Public"])
@pytest.mark.parametrize("spell", [str.lower, str.upper])
def test_a_function_is_called_only_by_those_who_may(
    start_server: Serving,
    shop: Shop,
    call: Callable[[RawFlightClient, str, Callable[[str], str]], Any],
    schema: str,
    spell: Callable[[str], str],
) -> None:
    denied = deny(*((Operation.CALL, "public", name) for name in ("f", "g", "h")))
    flight_client = start_server(shop, authorize=denied)

    with pytest.raises(flight.FlightUnauthorizedError, match=rf"you may not call shop\.{schema}\."):
        call(flight_client, schema, spell)


def test_a_function_found_without_its_schema_is_one_that_the_caller_may_call(
    start_server: Serving, shop: Shop
) -> None:
    flight_client = start_server(shop, authorize=deny((Operation.CALL, "private", "g")))

    (info,) = flight_client.action("GetTableFunctionFlightInfo", b'{"function_name": "G"}')

    assert flight.FlightInfo.deserialize(info).schema == COLUMNS


def test_an_action_of_a_catalog_is_called_only_by_those_who_may(
    start_server: Serving, shop: Shop
) -> None:
    allowed = start_server(shop)
    denied = start_server(shop, authorize=deny((Operation.CALL, None, "restock")))

    assert allowed.action("restock") == [b"done"]
    assert "restock" in [a.type for a in allowed.client.list_actions(allowed.options())]
    with pytest.raises(pa.ArrowNotImplementedError, match="there is no action 'restock'"):
        denied.action("restock")
    assert "restock" not in [a.type for a in denied.client.list_actions(denied.options())]


def test_the_hook_hears_who_asks_and_for_what(start_server: Serving, shop: Shop) -> None:
    asked: list[AccessRequest] = []

    def authorize(access: AccessRequest) -> bool:
        asked.append(access)
        return True

    flight_client = start_server(shop, auth=TOKENS, authorize=authorize)
    flight_client.with_headers(authorization="Bearer g").endpoints(path("shop", "public", "open"))

    assert asked == [AccessRequest("grace", Operation.READ, "shop", "public", "open")]


def test_an_action_of_the_server_is_asked_for_without_a_catalog(start_server: Serving) -> None:
    asked: list[AccessRequest] = []

    def authorize(access: AccessRequest) -> bool:
        asked.append(access)
        return access.name != "forbidden"

    catalog = CatalogBuilder().schema("s").build()
    actions = [Action("allowed", lambda body: b"yes"), Action("forbidden", lambda body: b"no")]
    flight_client = start_server(catalog, authorize=authorize, actions=actions)

    assert flight_client.action("allowed", b"") == [b"yes"]
    with pytest.raises(pa.ArrowNotImplementedError, match="there is no action 'forbidden'"):
        flight_client.action("forbidden", b"")
    assert ("", "allowed") in [(access.catalog, access.name) for access in asked]


def test_a_catalog_asks_the_hook_about_any_object(start_server: Serving) -> None:
    asked: list[AccessRequest] = []

    def authorize(access: AccessRequest) -> bool:
        asked.append(access)
        return access.name != "hidden"

    def visible() -> pa.Table:
        may = current_request().may
        # A thread without the request, and so without its identity, gets the same answers.
        with ThreadPoolExecutor(1) as thread:
            names = [
                name
                for name in ("hidden", "shown")
                if thread.submit(may, Operation.READ, "s", name).result()
            ]
        return pa.table({"name": names})

    columns = pa.schema([("name", pa.string())])
    builder = CatalogBuilder("shop")
    builder.schema("s").table_function("visible", visible, parameters={}, schema=columns)
    flight_client = start_server(builder.build(), auth=TOKENS, authorize=authorize).with_headers(
        authorization="Bearer g"
    )
    (endpoint,) = flight_client.endpoints(path("s", "visible"), arguments=one_row())

    assert flight_client.read(endpoint.ticket).column("name").to_pylist() == ["shown"]
    assert AccessRequest("grace", Operation.READ, "shop", "s", "hidden") in asked


def test_an_action_of_the_server_asks_about_objects_of_no_catalog(start_server: Serving) -> None:
    def look(body: bytes) -> bytes:
        return str(current_request().may(Operation.READ, "s", body.decode())).encode()

    catalogs = {name: CatalogBuilder().schema("s").build() for name in ("one", "two")}

    def authorize(access: AccessRequest) -> bool:
        return (access.catalog, access.name) != ("", "hidden")

    flight_client = start_server(catalogs, authorize=authorize, actions=[Action("look", look)])

    assert flight_client.action("look", b"hidden") == [b"False"]
    assert flight_client.action("look", b"shown") == [b"True"]

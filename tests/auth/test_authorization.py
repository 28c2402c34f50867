"""One hook decides per catalog, schema and table, for everything that a caller can do."""

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
from lakeport.catalog import Action, CatalogBuilder, StaticCatalog, current_request
from lakeport.memory import MemoryCatalog
from tests.airport.flight_client import RawFlightClient, Serving, extra_info, one_row, path
from tests.airport.mutable_catalog import MutableCatalog, MutableTable

TOKENS = {"a": "ada", "g": "grace"}
COLUMNS = pa.schema([("x", pa.int64())])


class Shop(StaticCatalog):
    """A catalog with an action of its own."""

    def actions(self) -> list[Action]:
        return [Action("restock", lambda body: b"done", "Fill the shelves")]


@pytest.fixture
def shop() -> Shop:
    """Two schemas, each with a table `open` and one `closed`, and functions of each kind."""
    builder = CatalogBuilder("shop")
    for name in ("public", "private"):
        schema = builder.schema(name)
        for table in ("open", "closed"):
            schema.table(table, pa.table({"x": [1]}), statistics=True)
        schema.scalar_function("f", lambda x: x, parameters={"x": pa.int64()}, returns=pa.int64())
        schema.table_function("g", COLUMNS.empty_table, parameters={}, schema=COLUMNS)
        schema.table_function_in_out("h", lambda rows: rows, schema=COLUMNS)
    return Shop(builder.build().schemas(), name="shop")


def deny(*denied: tuple[Operation, str | None, str | None]) -> Callable[[AccessRequest], bool]:
    return lambda access: (access.operation, access.schema, access.name) not in denied


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

    with pytest.raises(flight.FlightUnauthorizedError, match=r"you may not see shop\.private"):
        list(flight_client.client.list_flights(b"", asked))
    with pytest.raises(flight.FlightUnauthorizedError, match=r"you may not see shop\.private"):
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


@pytest.fixture
def mutable() -> MutableCatalog:
    catalog = MutableCatalog()
    catalog.name = "lake"
    catalog.with_table(MutableTable("t", COLUMNS, [{"x": 1}]))
    return catalog


WRITES: dict[str, Callable[[RawFlightClient], Any]] = {
    "insert": lambda flight_client: flight_client.change(
        "insert", path("s", "t"), pa.table({"x": [2]})
    ),
    "update": lambda flight_client: flight_client.change(
        "update", path("s", "t"), pa.table({"x": [2], "rowid": [0]})
    ),
    "delete": lambda flight_client: flight_client.change(
        "delete", path("s", "t"), pa.table({"rowid": [0]})
    ),
    "Delete": lambda flight_client: flight_client.action(
        "Delete", b'{"schema_name": "s", "table_name": "t", "row_ids": [0]}'
    ),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_rows_are_changed_only_by_those_who_may(
    start_server: Serving, mutable: MutableCatalog, write: Callable[[RawFlightClient], Any]
) -> None:
    flight_client = start_server(mutable, authorize=deny((Operation.WRITE, "s", "t")))

    with pytest.raises(flight.FlightUnauthorizedError, match=r"you may not write lake\.s\.t"):
        write(flight_client)
    assert flight_client.scan(path("s", "t")).column("x").to_pylist() == [1]


def _json(name: str, **request: Any) -> Callable[[RawFlightClient], Any]:
    return lambda flight_client: flight_client.action(name, json.dumps(request).encode())


COLUMN = pa.schema([("y", pa.int64())]).serialize().to_pybytes()
TABLE = {"catalog": "lake", "schema": "s", "name": "t", "ignore_not_found": False}
CHANGES: dict[str, tuple[Callable[[RawFlightClient], Any], str]] = {
    "create_schema": (lambda w: w.call("create_schema", schema="new"), "lake.new"),
    "drop_schema": (lambda w: w.call("drop_schema", name="s"), "lake.s"),
    "create_table": (
        lambda w: w.call("create_table", schema_name="s", table_name="u", arrow_schema=COLUMN),
        "lake.s.u",
    ),
    "drop_table": (lambda w: w.call("drop_table", schema_name="s", name="t"), "lake.s.t"),
    "add_column": (lambda w: w.call("add_column", **TABLE, column_schema=COLUMN), "lake.s.t"),
    "rename_table": (lambda w: w.call("rename_table", **TABLE, new_table_name="u"), "lake.s.t"),
    "CreateSchema": (_json("CreateSchema", schema_name="new"), "lake.new"),
    "DropSchema": (_json("DropSchema", schema_name="s"), "lake.s"),
    "CreateTable": (
        _json(
            "CreateTable",
            schema_name="s",
            table_name="u",
            schema={"fields": [{"name": "x", "type": "BIGINT"}]},
        ),
        "lake.s.u",
    ),
    "DropTable": (_json("DropTable", schema_name="s", table_name="t"), "lake.s.t"),
    "AlterTableAddColumn": (
        _json(
            "AlterTableAddColumn",
            schema_name="s",
            table_name="t",
            column={"name": "y", "type": "BIGINT"},
        ),
        "lake.s.t",
    ),
    "AlterTableDropColumn": (
        _json("AlterTableDropColumn", schema_name="s", table_name="t", column_name="x"),
        "lake.s.t",
    ),
}


@pytest.mark.parametrize(("change", "what"), CHANGES.values(), ids=CHANGES)
def test_a_catalog_is_changed_only_by_those_who_may(
    start_server: Serving,
    mutable: MutableCatalog,
    change: Callable[[RawFlightClient], Any],
    what: str,
) -> None:
    flight_client = start_server(
        mutable, authorize=lambda access: access.operation is not Operation.ALTER
    )

    with pytest.raises(flight.FlightUnauthorizedError, match=f"you may not change {what}"):
        change(flight_client)
    assert mutable.calls == []


OTHER_SPELLINGS: dict[str, Callable[[RawFlightClient], Any]] = {
    "insert": lambda w: w.change("insert", path("S", "T"), pa.table({"x": [2]})),
    "Delete": _json("Delete", schema_name="S", table_name="T", row_ids=[0]),
    "create_table": lambda w: w.call(
        "create_table",
        schema_name="S",
        table_name="T",
        arrow_schema=COLUMN,
        on_conflict="replace",
    ),
    "drop_table": lambda w: w.call("drop_table", schema_name="s", name="T"),
    "drop_schema": lambda w: w.call("drop_schema", name="S"),
    "create_schema": lambda w: w.call("create_schema", schema="S", if_not_exists=True),
    "add_column": lambda w: w.call(
        "add_column", schema="S", name="t", ignore_not_found=False, column_schema=COLUMN
    ),
    "rename_table": lambda w: w.call("rename_table", schema="S", name="T", new_table_name="u"),
    "rename to it": lambda w: w.call("rename_table", schema="s", name="u", new_table_name="T"),
    "DropTable": _json("DropTable", schema_name="S", table_name="T"),
}


@pytest.mark.parametrize("change", OTHER_SPELLINGS.values(), ids=OTHER_SPELLINGS)
def test_what_may_not_be_changed_may_not_be_changed_by_another_name(
    start_server: Serving, change: Callable[[RawFlightClient], Any]
) -> None:
    rows = pa.table({"x": [1]})
    catalog = MemoryCatalog.from_tables({"s": {"t": rows, "u": rows}})
    denied = deny(
        (Operation.WRITE, "s", "t"), (Operation.ALTER, "s", "t"), (Operation.ALTER, "s", None)
    )
    flight_client = start_server(catalog, authorize=denied)

    with pytest.raises(flight.FlightUnauthorizedError, match=r"you may not (write|change)"):
        change(flight_client)
    assert flight_client.scan(path("s", "t")).column("x").to_pylist() == [1]


def test_a_table_is_renamed_only_to_a_name_that_the_caller_may_change(
    start_server: Serving, mutable: MutableCatalog
) -> None:
    flight_client = start_server(mutable, authorize=deny((Operation.ALTER, "s", "reserved")))

    with pytest.raises(
        flight.FlightUnauthorizedError, match=r"you may not change lake\.s\.reserved"
    ):
        flight_client.call("rename_table", **TABLE, new_table_name="reserved")
    assert mutable.calls == []


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

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
from tests.airport.mutable import MutableCatalog, MutableTable
from tests.airport.rig import Serving, Wire, extra_info, one_row, path

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


def names_in(wire: Wire) -> dict[str, list[str]]:
    return {s["name"]: list(wire.items(s["name"])) for s in wire.list_schemas()["schemas"]}


def test_a_listing_shows_what_a_caller_may_see(serving: Serving, shop: Shop) -> None:
    hidden = deny(
        (Operation.LIST, "private", None),
        (Operation.LIST, "public", "closed"),
        (Operation.LIST, "public", "g"),
    )
    wire = serving(shop, authorize=hidden)

    assert names_in(wire) == {"public": ["open", "f", "h"]}


def test_every_way_to_list_hides_the_same(serving: Serving, shop: Shop) -> None:
    hidden = deny(
        (Operation.LIST, "private", None),
        *((Operation.LIST, "public", name) for name in ("closed", "f", "g", "h")),
    )
    wire = serving(shop, authorize=hidden)

    (schemas,) = wire.action("GetSchemas", b"{}")
    (tables,) = wire.action("GetTables", b'{"schema_name": "public"}')
    flights = [
        msgpack.unpackb(i.app_metadata)["name"]
        for i in wire.client.list_flights(b"", wire.options())
    ]
    packed = wire.info(flight.FlightDescriptor.for_command(b"")).app_metadata
    whole = msgpack.unpackb(pa.CompressedInputStream(pa.py_buffer(packed), "zstd").read())

    assert [s["schema_name"] for s in json.loads(schemas)["schemas"]] == ["public"]
    assert [t["table_name"] for t in json.loads(tables)["tables"]] == ["open"]
    assert flights == ["open"]
    assert [s["name"] for s in whole["schemas"]] == ["public"]
    assert [t["name"] for t in whole["schemas"][0]["tables"]] == ["open"]
    assert set(whole["schemas"][0]) == {"name", "tables"}


def test_listings_are_made_for_each_identity(serving: Serving, shop: Shop) -> None:
    def authorize(access: AccessRequest) -> bool:
        return access.identity == "ada" or access.schema != "private"

    wire = serving(shop, auth=TOKENS, authorize=authorize)
    ada = wire.with_headers(authorization="Bearer a")
    grace = wire.with_headers(authorization="Bearer g")

    for _ in range(2):
        assert [s["name"] for s in ada.list_schemas()["schemas"]] == ["public", "private"]
        assert [s["name"] for s in grace.list_schemas()["schemas"]] == ["public"]


def test_a_schema_of_one_s_own_listing_must_be_visible(serving: Serving, shop: Shop) -> None:
    wire = serving(shop, authorize=deny((Operation.LIST, "private", None)))
    asked = wire.options(
        airport_list_flights_filter_catalog="shop", airport_list_flights_filter_schema="private"
    )

    with pytest.raises(flight.FlightUnauthorizedError, match=r"you may not list shop\.private"):
        list(wire.client.list_flights(b"", asked))
    with pytest.raises(flight.FlightUnauthorizedError, match=r"you may not list shop\.private"):
        wire.action("GetTables", b'{"schema_name": "private"}')


READS: dict[str, Callable[[Wire, flight.FlightDescriptor], Any]] = {
    "GetFlightInfo": lambda wire, table: wire.info(table),
    "flight_info": lambda wire, table: wire.call("flight_info", descriptor=table.serialize()),
    "endpoints": lambda wire, table: wire.endpoints(table),
    "DoGet": lambda wire, table: wire.read(
        json.dumps(
            {"schema_name": table.path[0].decode(), "table_name": table.path[1].decode()}
        ).encode()
    ),
    "column_statistics": lambda wire, table: wire.call(
        "column_statistics", flight_descriptor=table.serialize(), column_name="x", type="BIGINT"
    ),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_table_is_read_only_by_those_who_may(
    serving: Serving, shop: Shop, read: Callable[[Wire, flight.FlightDescriptor], Any]
) -> None:
    wire = serving(shop, authorize=deny((Operation.READ, "public", "closed")))

    read(wire, path("public", "open"))
    with pytest.raises(
        flight.FlightUnauthorizedError, match=r"you may not read shop\.public\.closed"
    ):
        read(wire, path("public", "closed"))


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("spelled", [("PUBLIC", "closed"), ("public", "Closed")])
def test_another_spelling_of_a_name_is_no_way_around(
    serving: Serving,
    shop: Shop,
    read: Callable[[Wire, flight.FlightDescriptor], Any],
    spelled: tuple[str, str],
) -> None:
    wire = serving(shop, authorize=deny((Operation.READ, "public", "closed")))

    # In the spelling of the request, since that of the table would tell that there is one.
    told = re.escape(f"you may not read shop.{'.'.join(spelled)}")
    with pytest.raises(flight.FlightUnauthorizedError, match=told):
        read(wire, path(*spelled))


def test_a_schema_in_another_spelling_is_the_same_schema(serving: Serving, shop: Shop) -> None:
    wire = serving(shop, authorize=lambda access: access.schema != "private")
    asked = wire.options(airport_list_flights_filter_schema="PRIVATE")

    with pytest.raises(flight.FlightUnauthorizedError):
        list(wire.client.list_flights(b"", asked))
    with pytest.raises(flight.FlightUnauthorizedError):
        wire.action("GetTables", b'{"schema_name": "Private"}')
    with pytest.raises(flight.FlightUnauthorizedError):
        wire.endpoints(path("PRIVATE", "missing"))


def test_a_denied_scan_is_a_permission_error_for_duckdb(serving: Serving, shop: Shop) -> None:
    wire = serving(shop, authorize=deny((Operation.READ, "public", "closed")))

    with pytest.raises(flight.FlightUnauthorizedError) as denied:
        wire.read(b'{"schema_name": "public", "table_name": "closed"}')

    assert extra_info(denied.value) == {
        "exception_type": "PermissionException",
        "message": "you may not read shop.public.closed",
    }


def test_a_ticket_grants_nothing(serving: Serving, shop: Shop) -> None:
    def authorize(access: AccessRequest) -> bool:
        return access.identity == "ada" or access.operation is not Operation.READ

    wire = serving(shop, auth=TOKENS, authorize=authorize)
    (endpoint,) = wire.with_headers(authorization="Bearer a").endpoints(path("public", "open"))

    with pytest.raises(flight.FlightUnauthorizedError):
        wire.with_headers(authorization="Bearer g").read(endpoint.ticket)


def test_a_denied_name_does_not_tell_whether_it_exists(serving: Serving, shop: Shop) -> None:
    wire = serving(shop, authorize=lambda access: access.operation is not Operation.READ)

    for name in ("closed", "missing"):
        with pytest.raises(flight.FlightUnauthorizedError, match="you may not read"):
            wire.endpoints(path("public", name))


def _call_scalar(wire: Wire, schema: str, spell: Callable[[str], str]) -> Any:
    return wire.scalar(path(schema, spell("f")), [pa.record_batch({"x": [1]})])


def _call_in_out(wire: Wire, schema: str, spell: Callable[[str], str]) -> Any:
    options = wire.options(airport_operation="table_function_in_out", return_chunks="1")
    writer, reader = wire.client.do_exchange(path(schema, spell("h")), options)
    with writer:
        writer.write_metadata(msgpack.packb({"parameters": b""}))
        writer.begin(COLUMNS)
        return reader.schema


def _call_table(wire: Wire, schema: str, spell: Callable[[str], str]) -> Any:
    request = {"schema_name": schema, "function_name": spell("g"), "parameters": {}}
    return wire.action("GetTableFunctionFlightInfo", json.dumps(request).encode())


CALLS: dict[str, Callable[[Wire, str, Callable[[str], str]], Any]] = {
    "scalar": _call_scalar,
    "table": _call_table,
    "in-out": _call_in_out,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("schema", ["public", "Public"])
@pytest.mark.parametrize("spell", [str.lower, str.upper])
def test_a_function_is_called_only_by_those_who_may(
    serving: Serving,
    shop: Shop,
    call: Callable[[Wire, str, Callable[[str], str]], Any],
    schema: str,
    spell: Callable[[str], str],
) -> None:
    denied = deny(*((Operation.CALL, "public", name) for name in ("f", "g", "h")))
    wire = serving(shop, authorize=denied)

    with pytest.raises(flight.FlightUnauthorizedError, match=rf"you may not call shop\.{schema}\."):
        call(wire, schema, spell)


def test_a_function_found_without_its_schema_is_one_that_the_caller_may_call(
    serving: Serving, shop: Shop
) -> None:
    wire = serving(shop, authorize=deny((Operation.CALL, "private", "g")))

    (info,) = wire.action("GetTableFunctionFlightInfo", b'{"function_name": "G"}')

    assert flight.FlightInfo.deserialize(info).schema == COLUMNS


def test_an_action_of_a_catalog_is_called_only_by_those_who_may(
    serving: Serving, shop: Shop
) -> None:
    allowed = serving(shop)
    denied = serving(shop, authorize=deny((Operation.CALL, None, "restock")))

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


WRITES: dict[str, Callable[[Wire], Any]] = {
    "insert": lambda wire: wire.change("insert", path("s", "t"), pa.table({"x": [2]})),
    "update": lambda wire: wire.change(
        "update", path("s", "t"), pa.table({"x": [2], "rowid": [0]})
    ),
    "delete": lambda wire: wire.change("delete", path("s", "t"), pa.table({"rowid": [0]})),
    "Delete": lambda wire: wire.action(
        "Delete", b'{"schema_name": "s", "table_name": "t", "row_ids": [0]}'
    ),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_rows_are_changed_only_by_those_who_may(
    serving: Serving, mutable: MutableCatalog, write: Callable[[Wire], Any]
) -> None:
    wire = serving(mutable, authorize=deny((Operation.WRITE, "s", "t")))

    with pytest.raises(flight.FlightUnauthorizedError, match=r"you may not write lake\.s\.t"):
        write(wire)
    assert wire.scan(path("s", "t")).column("x").to_pylist() == [1]


def _json(name: str, **request: Any) -> Callable[[Wire], Any]:
    return lambda wire: wire.action(name, json.dumps(request).encode())


COLUMN = pa.schema([("y", pa.int64())]).serialize().to_pybytes()
TABLE = {"catalog": "lake", "schema": "s", "name": "t", "ignore_not_found": False}
CHANGES: dict[str, tuple[Callable[[Wire], Any], str]] = {
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
    serving: Serving, mutable: MutableCatalog, change: Callable[[Wire], Any], what: str
) -> None:
    wire = serving(mutable, authorize=lambda access: access.operation is not Operation.ALTER)

    with pytest.raises(flight.FlightUnauthorizedError, match=f"you may not alter {what}"):
        change(wire)
    assert mutable.calls == []


OTHER_SPELLINGS: dict[str, Callable[[Wire], Any]] = {
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
    serving: Serving, change: Callable[[Wire], Any]
) -> None:
    rows = pa.table({"x": [1]})
    catalog = MemoryCatalog.from_tables({"s": {"t": rows, "u": rows}})
    denied = deny(
        (Operation.WRITE, "s", "t"), (Operation.ALTER, "s", "t"), (Operation.ALTER, "s", None)
    )
    wire = serving(catalog, authorize=denied)

    with pytest.raises(flight.FlightUnauthorizedError, match=r"you may not (write|alter)"):
        change(wire)
    assert wire.scan(path("s", "t")).column("x").to_pylist() == [1]


def test_a_table_is_renamed_only_to_a_name_that_the_caller_may_change(
    serving: Serving, mutable: MutableCatalog
) -> None:
    wire = serving(mutable, authorize=deny((Operation.ALTER, "s", "reserved")))

    with pytest.raises(
        flight.FlightUnauthorizedError, match=r"you may not alter lake\.s\.reserved"
    ):
        wire.call("rename_table", **TABLE, new_table_name="reserved")
    assert mutable.calls == []


def test_a_catalog_that_may_not_be_seen_is_not_listed(serving: Serving, shop: Shop) -> None:
    wire = serving(
        {"shop": shop, "vault": shop}, authorize=lambda access: access.catalog != "vault"
    )

    assert wire.scan(path("__databases")).column("name").to_pylist() == ["shop"]
    for call in (
        lambda: wire.list_schemas("vault"),
        lambda: wire.action("GetSchemas", b'{"catalog_name": "vault"}'),
        lambda: wire.endpoints(path("vault", "public", "open")),
        lambda: wire.call("create_transaction", catalog_name="vault"),
        lambda: wire.call("catalog_version", catalog_name="vault"),
    ):
        with pytest.raises(flight.FlightUnauthorizedError, match="you may not"):
            call()


@pytest.mark.parametrize("spelled", ["", "vault"])
def test_leaving_out_the_name_of_a_catalog_does_not_hide_it_from_the_hook(
    serving: Serving, shop: Shop, spelled: str
) -> None:
    asked: list[AccessRequest] = []

    def authorize(access: AccessRequest) -> bool:
        asked.append(access)
        return access.catalog != "vault"

    wire = serving({"vault": shop}, authorize=authorize)

    with pytest.raises(flight.FlightUnauthorizedError):
        wire.list_schemas(spelled)
    assert {access.catalog for access in asked} == {"vault"}


def test_the_hook_hears_who_asks_and_for_what(serving: Serving, shop: Shop) -> None:
    asked: list[AccessRequest] = []

    def authorize(access: AccessRequest) -> bool:
        asked.append(access)
        return True

    wire = serving(shop, auth=TOKENS, authorize=authorize)
    wire.with_headers(authorization="Bearer g").endpoints(path("shop", "public", "open"))

    assert asked == [AccessRequest("grace", Operation.READ, "shop", "public", "open")]


def test_an_action_of_the_server_is_asked_for_without_a_catalog(serving: Serving) -> None:
    asked: list[AccessRequest] = []

    def authorize(access: AccessRequest) -> bool:
        asked.append(access)
        return access.name != "forbidden"

    catalog = CatalogBuilder().schema("s").build()
    actions = [Action("allowed", lambda body: b"yes"), Action("forbidden", lambda body: b"no")]
    wire = serving(catalog, authorize=authorize, actions=actions)

    assert wire.action("allowed", b"") == [b"yes"]
    with pytest.raises(pa.ArrowNotImplementedError, match="there is no action 'forbidden'"):
        wire.action("forbidden", b"")
    assert ("", "allowed") in [(access.catalog, access.name) for access in asked]


def test_a_catalog_asks_the_hook_about_any_object(serving: Serving) -> None:
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
    wire = serving(builder.build(), auth=TOKENS, authorize=authorize).with_headers(
        authorization="Bearer g"
    )
    (endpoint,) = wire.endpoints(path("s", "visible"), arguments=one_row())

    assert wire.read(endpoint.ticket).column("name").to_pylist() == ["shown"]
    assert AccessRequest("grace", Operation.READ, "shop", "s", "hidden") in asked


def test_an_action_of_the_server_asks_about_objects_of_no_catalog(serving: Serving) -> None:
    def look(body: bytes) -> bytes:
        return str(current_request().may(Operation.READ, "s", body.decode())).encode()

    catalogs = {name: CatalogBuilder().schema("s").build() for name in ("one", "two")}

    def authorize(access: AccessRequest) -> bool:
        return (access.catalog, access.name) != ("", "hidden")

    wire = serving(catalogs, authorize=authorize, actions=[Action("look", look)])

    assert wire.action("look", b"hidden") == [b"False"]
    assert wire.action("look", b"shown") == [b"True"]


ROADS: dict[str, Callable[[Wire, str], Any]] = {
    "list_schemas": lambda wire, name: wire.list_schemas(name),
    "catalog_version": lambda wire, name: wire.call("catalog_version", catalog_name=name),
    "create_transaction": lambda wire, name: wire.call("create_transaction", catalog_name=name),
    "endpoints": lambda wire, name: wire.endpoints(path(name, "public", "open")),
    "endpoints of nothing": lambda wire, name: wire.endpoints(path(name, "no", "where")),
    "header": lambda wire, name: wire.with_headers(airport_catalog=name).endpoints(
        path("public", "t")
    ),
    "GetFlightInfo": lambda wire, name: wire.info(path(name, "public", "open")),
    "DoGet": lambda wire, name: wire.read(
        json.dumps({"catalog_name": name, "schema_name": "public", "table_name": "open"}).encode()
    ),
    "column_statistics": lambda wire, name: wire.call(
        "column_statistics",
        flight_descriptor=path(name, "public", "open").serialize(),
        column_name="x",
        type="BIGINT",
    ),
    "GetSchemas": lambda wire, name: wire.action(
        "GetSchemas", json.dumps({"catalog_name": name}).encode()
    ),
    "GetTables": lambda wire, name: wire.action(
        "GetTables", json.dumps({"catalog_name": name, "schema_name": "public"}).encode()
    ),
    "scalar function": lambda wire, name: wire.scalar(
        path(name, "public", "f"), [pa.record_batch({"x": [1]})]
    ),
    "insert": lambda wire, name: wire.change(
        "insert", path(name, "public", "t"), pa.table({"x": [2]})
    ),
    "create_schema": lambda wire, name: wire.call("create_schema", catalog_name=name, schema="n"),
    "drop_table": lambda wire, name: wire.call(
        "drop_table", catalog_name=name, schema_name="public", name="open"
    ),
    "ListFlights": lambda wire, name: list(
        wire.client.list_flights(b"", wire.options(airport_list_flights_filter_catalog=name))
    ),
    "ListFlights by header": lambda wire, name: list(
        wire.client.list_flights(b"", wire.options(airport_catalog=name))
    ),
    "ListActions": lambda wire, name: [
        action.type for action in wire.client.list_actions(wire.options(airport_catalog=name))
    ],
    "an action": lambda wire, name: wire.with_headers(airport_catalog=name).action("restock"),
    "GetSchema": lambda wire, name: wire.client.get_schema(
        path(name, "public", "open"), wire.options()
    ),
}


@pytest.mark.parametrize("road", ROADS.values(), ids=ROADS)
def test_a_denied_catalog_is_like_one_that_there_is_not(
    serving: Serving, shop: Shop, road: Callable[[Wire, str], Any]
) -> None:
    wire = serving({"shop": shop, "vault": shop}, authorize=lambda access: access.catalog == "shop")

    def answer(name: str) -> tuple[str, str]:
        try:
            return "OK", repr(road(wire, name))
        except (pa.ArrowException, OSError, KeyError) as error:
            told = re.sub(r"gRPC client debug context:.*", "", str(error), flags=re.DOTALL)
            return type(error).__name__, told.replace(name, "NAME")

    denied, missing = answer("vault"), answer("nowhere")

    assert denied == missing
    assert "shop" not in denied[1]


def test_an_error_names_the_catalogs_only_that_the_caller_may_see(
    serving: Serving, shop: Shop
) -> None:
    def authorize(access: AccessRequest) -> bool:
        return access.catalog != "vault"

    wire = serving({"shop": shop, "vault": shop}, authorize=authorize)

    with pytest.raises(KeyError, match="there is no catalog 'nowhere'; this server has: 'shop'"):
        wire.list_schemas("nowhere")
    with pytest.raises(KeyError, match="name the catalog to use; this server has: 'shop'") as told:
        wire.list_schemas()
    assert "vault" not in str(told.value)

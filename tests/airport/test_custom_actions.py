"""Actions: the built-in ones, and those that a server or catalog adds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.airport import Limits
from lakeport.catalog import Action, CatalogBuilder, StaticCatalog, current_request
from tests.airport.flight_client import RawFlightClient, Serving

AIRPORT = {
    "list_schemas",
    "catalog_version",
    "flight_info",
    "endpoints",
    "table_function_flight_info",
    "column_statistics",
    "create_transaction",
    "get_transaction_status",
    "begin_transaction",
    "commit_transaction",
    "rollback_transaction",
    "create_schema",
    "drop_schema",
    "create_table",
    "drop_table",
    "rename_table",
    "add_column",
    "remove_column",
    "rename_column",
    "change_column_type",
    "set_default",
    "set_not_null",
    "drop_not_null",
    "add_field",
    "remove_field",
    "rename_field",
}

CONTRACT = {
    "CreateSchema": "Create a new schema",
    "DropSchema": "Drop an existing schema",
    "CreateTable": "Create a new table with Arrow schema",
    "DropTable": "Drop an existing table",
    "AlterTableAddColumn": "Add a column to a table",
    "AlterTableDropColumn": "Drop a column from a table",
    "Delete": "Delete rows by rowid",
    "GetFlightInfo": "Get table metadata and endpoints",
    "GetSchemas": "List all schemas in catalog",
    "GetTables": "List all tables in a schema",
}


class Acting(StaticCatalog):
    """A catalog with an action that tells its name."""

    def actions(self) -> list[Action]:
        def tell(body: bytes) -> str:
            return f"{self.name}: {body.decode()}"

        return [Action("tell", tell, "Tell the name")]


@pytest.fixture
def empty() -> StaticCatalog:
    return CatalogBuilder().build()


def listed(flight_client: RawFlightClient) -> dict[str, str]:
    return {
        a.type: a.description for a in flight_client.client.list_actions(flight_client.options())
    }


def test_every_action_is_listed_with_a_line(start_server: Serving, empty: StaticCatalog) -> None:
    actions = listed(start_server(empty))

    assert set(actions) >= AIRPORT
    assert all(actions.values())


def test_the_actions_of_the_discovery_contract_are_listed_as_it_says(
    start_server: Serving, empty: StaticCatalog
) -> None:
    actions = listed(start_server(empty))

    assert {name: actions.get(name) for name in CONTRACT} == CONTRACT
    assert "GetTableFunctionFlightInfo" in actions


def test_no_action_is_listed_twice(start_server: Serving, empty: StaticCatalog) -> None:
    flight_client = start_server(empty)
    names = [action.type for action in flight_client.client.list_actions(flight_client.options())]

    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("reply", "results"),
    [
        (None, []),
        (b"bytes", [b"bytes"]),
        ("text", [b"text"]),
        ([b"a", "b"], [b"a", b"b"]),
        ((part for part in ("x", "y")), [b"x", b"y"]),
        (bytearray(b"ab"), [b"ab"]),
        (b"", [b""]),
    ],
    ids=["nothing", "bytes", "text", "several", "generator", "bytearray", "empty"],
)
def test_a_server_action_may_return_no_result_one_or_several(
    start_server: Serving, empty: StaticCatalog, reply: Any, results: list[bytes]
) -> None:
    flight_client = start_server(
        empty, actions=[Action("custom", lambda body: reply, "A custom action")]
    )

    assert flight_client.action("custom", b"x") == results
    assert listed(flight_client)["custom"] == "A custom action"


def test_an_action_that_returns_something_else_is_an_error(
    start_server: Serving, empty: StaticCatalog
) -> None:
    flight_client = start_server(empty, actions=[Action("custom", lambda body: [7])])  # type: ignore[list-item]

    with pytest.raises(flight.FlightInternalError, match="custom failed: TypeError"):
        flight_client.action("custom")


def test_an_action_gets_the_body_and_the_caller(
    start_server: Serving, empty: StaticCatalog
) -> None:
    def echo(body: bytes) -> Iterable[bytes | str]:
        return [body, current_request().identity]

    flight_client = start_server(
        empty,
        actions=[Action("echo", echo)],
        auth={"t": "ada"},
        headers={"authorization": "Bearer t"},
    )

    assert flight_client.action("echo", b"\x00\xff") == [b"\x00\xff", b"ada"]
    assert flight_client.action("echo") == [b"", b"ada"]


def test_actions_of_catalogs_are_found_by_name_and_catalog(start_server: Serving) -> None:
    flight_client = start_server([Acting([], name="red"), Acting([], name="blue")])

    assert listed(flight_client)["tell"] == "Tell the name"
    assert flight_client.with_headers(airport_catalog="blue").action("tell", b"hi") == [b"blue: hi"]
    assert flight_client.with_headers(airport_catalog="red").action("tell", b"hi") == [b"red: hi"]


def test_a_server_action_wins_over_one_of_a_catalog(start_server: Serving) -> None:
    flight_client = start_server(
        Acting([], name="red"), actions=[Action("tell", lambda body: b"server")]
    )

    assert flight_client.action("tell") == [b"server"]


@pytest.mark.parametrize("name", ["no_such_action", "", "List_Schemas", "x" * 1000])
def test_an_unknown_action_is_unimplemented(
    start_server: Serving, empty: StaticCatalog, name: str
) -> None:
    with pytest.raises(pa.ArrowNotImplementedError, match="there is no action") as told:
        start_server(empty).action(name)

    assert len(str(told.value)) < 300


def test_a_built_in_action_cannot_be_replaced(start_server: Serving, empty: StaticCatalog) -> None:
    flight_client = start_server(empty, actions=[Action("catalog_version", lambda body: b"mine")])

    assert flight_client.action("catalog_version") != [b"mine"]


def test_a_body_beyond_the_limit_is_refused(start_server: Serving, empty: StaticCatalog) -> None:
    flight_client = start_server(
        empty,
        actions=[Action("custom", lambda body: b"called")],
        limits=Limits(action_bytes=1000),
    )

    assert flight_client.action("custom", b"x" * 1000) == [b"called"]
    for name in ("custom", "list_schemas", "GetSchemas"):
        with pytest.raises(pa.ArrowInvalid, match=f"{name} is too large: 1001 of at most 1000"):
            flight_client.action(name, b"x" * 1001)


def test_an_unknown_catalog_does_not_hide_the_actions_of_the_server(start_server: Serving) -> None:
    flight_client = start_server(
        Acting([], name="red"), actions=[Action("ping", lambda body: b"pong")]
    )

    assert flight_client.with_headers(airport_catalog="nope").action("ping") == [b"pong"]
    with pytest.raises((KeyError, flight.FlightError), match="there is no catalog 'nope'"):
        flight_client.with_headers(airport_catalog="nope").action("tell")

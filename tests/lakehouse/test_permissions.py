"""The authorizer is asked about every object that an answer about a lake is made of."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pyarrow import flight

from lakeport import AccessRequest, Operation, ScanOptions, connect
from lakeport.catalog import ParameterKind, TableFunction
from lakeport.errors import PermissionDeniedError
from tests.airport.flight_client import RawFlightClient, one_row, path
from tests.lakehouse.conftest import Serve, Served

MakeLake = Callable[..., Any]

SECRETS = ("secret", "hidden", "password", "hunter2")
"""Names and values that a caller who is denied them finds nowhere."""


@pytest.fixture
def lake(make_lake: MakeLake) -> Any:
    lake = make_lake(options="DATA_INLINING_ROW_LIMIT 2")
    lake.execute(
        "CREATE TABLE shown AS SELECT i AS id FROM range(10) r(i)",
        "CREATE TABLE secret AS SELECT 'hunter2' AS password FROM range(10)",
        "INSERT INTO secret VALUES ('hunter2')",
        "DELETE FROM secret",
        "COMMENT ON TABLE secret IS 'a secret comment'",
        "CREATE SCHEMA hidden",
        "CREATE TABLE hidden.t AS SELECT 'hunter2' AS password FROM range(10)",
        "CREATE VIEW over_shown AS SELECT * FROM shown",
        "CREATE VIEW over_both AS SELECT id, password AS p FROM shown, hidden.t AS x",
        "CREATE VIEW over_view AS SELECT p FROM over_both",
        "CREATE MACRO hidden.m(x) AS x + 1",
        "DROP TABLE secret",
        "CREATE TABLE secret AS SELECT 'hunter2' AS password FROM range(10)",
    )
    return lake


def hide(access: AccessRequest) -> bool:
    """Deny the schema `hidden` and the table `public.secret`."""
    return access.schema != "hidden" and access.name != "secret"


def wire_of(served: Served) -> RawFlightClient:
    return RawFlightClient(served.server, served.flight, {})


def rows_of(served: Served, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        served.client.table(f"lakeport.{name}").scan().to_arrow().to_pylist()
    )
    return rows


def call(served: Served, name: str, *arguments: Any, **named: Any) -> list[dict[str, Any]]:
    found = served.client.call_table(f"lakeport.{name}", *arguments, **named).to_arrow().to_pylist()
    rows: list[dict[str, Any]] = found
    return rows


def arguments_of(function: TableFunction, table: str) -> dict[str, Any]:
    """Arguments that fit any function about the lake."""
    values: dict[str, Any] = {}
    for parameter in function.signature.parameters:
        if parameter.name == "table_name":
            values[parameter.name] = table
        elif parameter.name == "identity":
            values[parameter.name] = "ada"
        elif parameter.name in ("start", "end"):
            by_time = str(parameter.type).startswith("timestamp")
            moments = {"start": datetime(2000, 1, 1, tzinfo=UTC), "end": datetime.now(UTC)}
            bounds = {"start": 0, "end": 13}
            values[parameter.name] = (moments if by_time else bounds)[parameter.name]
        elif parameter.is_required:
            raise AssertionError(f"the test does not know {function.name}({parameter.name})")
    return values


def test_no_table_about_the_lake_shows_what_is_denied(lake: Any, serve: Serve) -> None:
    everything = serve(lake)
    schema = everything.catalog.schema("lakeport")
    assert schema is not None
    names = [table.name for table in schema.tables()]
    told = {name: repr(rows_of(everything, name)) for name in names}
    # The names are there to be found by those who may.
    for name in ("tables", "columns", "schemas", "snapshots", "names", "files"):
        assert any(secret in told[name] for secret in SECRETS), name

    served = serve(lake, authorize=hide)

    for name in names:
        rows = repr(rows_of(served, name))
        assert [secret for secret in SECRETS if secret in rows] == [], name
    assert [row["table_name"] for row in rows_of(served, "tables")] == [
        "shown",
        "over_both",
        "over_shown",
        "over_view",
    ]
    assert {row["column_name"] for row in rows_of(served, "columns")} == {"id"}
    assert [row["schema_name"] for row in rows_of(served, "schemas")] == ["public"]


def test_no_function_about_the_lake_reads_what_is_denied(lake: Any, serve: Serve) -> None:
    served = serve(lake, authorize=hide)
    schema = served.catalog.schema("lakeport")
    assert schema is not None
    spellings = ("secret", "SECRET", "main.secret", 'public."Secret"', "hidden.t", '"HIDDEN".T')
    count = 0

    # It takes the id of a query instead of a table: see test_activity.py.
    functions = [function for function in schema.table_functions() if function.name != "kill"]
    for function, table in itertools.product(functions, spellings):
        values = arguments_of(function, table)
        named = {
            p.name: values.pop(p.name)
            for p in function.signature.parameters
            if p.name in values and p.kind is ParameterKind.NAMED
        }
        if "table_name" not in {*values, *named}:
            if table != spellings[0]:
                continue
            rows = repr(call(served, function.name, *values.values(), **named))
            assert [secret for secret in SECRETS if secret in rows] == [], function.name
            continue
        count += 1
        with pytest.raises(PermissionDeniedError, match="you may not read") as denied:
            call(served, function.name, *values.values(), **named)
        # In the words of the caller: the table's own spelling would show that there is one.
        assert table in str(denied.value)
        (named if "table_name" in named else values)["table_name"] = "shown"
        call(served, function.name, *values.values(), **named)
    assert count == 12 * len(spellings)


def test_a_missing_table_is_denied_as_an_existing_one_is(lake: Any, serve: Serve) -> None:
    def deny_all(access: AccessRequest) -> bool:
        return access.operation is not Operation.READ or access.name == "shown"

    served = serve(lake, authorize=deny_all)

    for name in ("secret", "missing", "hidden.missing", "nowhere.t"):
        with pytest.raises(PermissionDeniedError, match=f"^you may not read {name}$"):
            call(served, "list_files", name)
    call(served, "list_files", "shown")


def test_tickets_of_functions_grant_nothing(lake: Any, serve: Serve) -> None:
    allowed = True
    served = serve(lake, authorize=lambda access: allowed or hide(access))
    wire = wire_of(served)
    (function,) = [info for name, info in wire.items("lakeport").items() if name == "list_files"]
    (endpoint,) = wire.endpoints(function.descriptor, arguments=one_row(table_name="secret"))
    assert wire.read(endpoint.ticket).num_rows == 1

    allowed = False

    with pytest.raises(flight.FlightUnauthorizedError, match="you may not read secret"):
        wire.read(endpoint.ticket)


def test_a_view_is_read_by_those_who_may_read_what_it_reads(lake: Any, serve: Serve) -> None:
    served = serve(lake, authorize=hide)

    assert served.client.table("public.over_shown").scan().count() == 10
    for name in ("over_both", "over_view"):
        with pytest.raises(PermissionDeniedError) as denied:
            served.client.table(f"public.{name}").scan().to_arrow()
        assert str(denied.value) == (
            f"you may not read everything that the view public.{name} reads"
        )


def test_a_ticket_of_a_view_grants_nothing(lake: Any, serve: Serve) -> None:
    allowed = True
    served = serve(lake, authorize=lambda access: allowed or hide(access))
    wire = wire_of(served)
    (endpoint,) = wire.endpoints(path("public", "over_both"))

    allowed = False

    with pytest.raises(flight.FlightUnauthorizedError, match="everything that the view"):
        wire.read(endpoint.ticket)


def test_the_sql_of_a_view_is_shown_to_those_who_may_see_what_it_reads(
    lake: Any, serve: Serve
) -> None:
    definitions = {
        row["table_name"]: row["view_definition"]
        for row in rows_of(serve(lake, authorize=hide), "tables")
        if row["table_type"] == "VIEW"
    }

    assert definitions["over_both"] is None
    assert definitions["over_view"] is None
    assert "shown" in definitions["over_shown"]


def test_the_changes_of_snapshots_are_those_of_what_may_be_seen(lake: Any, serve: Serve) -> None:
    everything = rows_of(serve(lake), "snapshots")
    shown = rows_of(serve(lake, authorize=hide), "snapshots")

    assert [row["snapshot_id"] for row in shown] == [row["snapshot_id"] for row in everything]
    changes = [change for row in shown for change in row["changes"]]
    assert ("tables_created", ["main.shown"]) in changes
    # Ids, too, would show that there is a table.
    assert not any(kind == "tables_dropped" for kind, _ in changes)
    assert any(kind == "tables_dropped" for row in everything for kind, _ in row["changes"])


@pytest.fixture
def renamed(make_lake: MakeLake) -> Any:
    """A lake whose table `secret` was called `shown` at snapshots 1 and 2."""
    lake = make_lake(options="DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        "CREATE TABLE shown AS SELECT 'hunter2' AS v",
        "INSERT INTO shown VALUES ('hunter2')",
        "ALTER TABLE shown RENAME TO secret",
        "CREATE TABLE shown AS SELECT 'harmless' AS v",
    )
    return lake


def test_a_renamed_table_is_not_read_by_its_former_name(renamed: Any, serve: Serve) -> None:
    assert serve(renamed).client.table("public.shown").scan(version=2).count() == 2
    served = serve(renamed, authorize=hide)
    wire = wire_of(served)
    shown = served.client.table("public.shown")

    assert shown.scan().to_arrow().to_pydict() == {"v": ["harmless"]}
    for read in (
        lambda: shown.scan(version=2).to_arrow(),
        lambda: call(served, "list_files", "shown", snapshot_version=2),
        lambda: call(served, "table_changes", "shown", 0, 2),
        lambda: wire.call(
            "flight_info",
            descriptor=path("public", "shown").serialize(),
            at_unit="VERSION",
            at_value="2",
        ),
    ):
        with pytest.raises((PermissionDeniedError, flight.FlightUnauthorizedError)):
            read()


def test_a_transaction_of_an_earlier_snapshot_is_no_way_around(renamed: Any, serve: Serve) -> None:
    served = serve(renamed, authorize=hide)
    # Any replica takes the identifier of a transaction, so a client can make one up.
    wire = wire_of(served).with_headers(airport_transaction_id=f"2-{'0' * 32}")

    with pytest.raises(flight.FlightUnauthorizedError, match=r"you may not read public\.shown"):
        wire.scan(path("public", "shown"))
    with pytest.raises(flight.FlightUnauthorizedError, match=r"you may not read public\.shown"):
        statistics_of(wire, "shown")
    assert wire.scan(path("lakeport", "files")).num_rows == 0
    assert wire.scan(path("lakeport", "tables")).num_rows == 0


def test_nothing_that_is_cached_is_returned_after_a_permission_was_withdrawn(
    renamed: Any, serve: Serve
) -> None:
    allowed = [True]
    served = serve(renamed, authorize=lambda access: allowed[0] or access.name != "secret")
    wire = wire_of(served)
    secret = path("public", "secret")
    # Everything about the table is in the caches: its listing, statistics, plan and schema.
    assert "secret" in [table.name for table in served.client.tables("public")]
    assert statistics_of(wire, "secret")
    assert wire.scan(secret).num_rows == 2
    ticket = wire.endpoints(secret)[0].ticket

    allowed[0] = False

    with connect(served.server.location) as newcomer:
        assert [table.name for table in newcomer.tables("public")] == ["shown"]
    for read in (
        lambda: statistics_of(wire, "secret"),
        lambda: wire.endpoints(secret),
        lambda: served.flight.do_get(ticket).read_all(),
    ):
        with pytest.raises(
            flight.FlightUnauthorizedError, match=r"you may not read public\.secret"
        ):
            read()


def statistics_of(wire: Any, table: str) -> Any:
    return wire.call(
        "column_statistics",
        flight_descriptor=path("public", table).serialize(),
        column_name="v",
        type="VARCHAR",
    )


def test_the_schema_main_is_not_explained_to_those_who_may_not_see_it(
    lake: Any, serve: Serve
) -> None:
    wire = wire_of(serve(lake, authorize=lambda access: access.schema in (None, "lakeport")))

    for schema in ("main", "nowhere", "public"):
        with pytest.raises(
            flight.FlightUnauthorizedError, match=rf"you may not read {schema}\.shown"
        ):
            wire.endpoints(path(schema, "shown"))


def test_without_a_server_everything_is_allowed(lake: Any, serve: Serve) -> None:
    schema = serve(lake, authorize=lambda access: False).catalog.schema("lakeport")
    assert schema is not None

    (tables,) = [table for table in schema.tables() if table.name == "tables"]

    names = tables.scan(ScanOptions()).read_all().column("table_name").to_pylist()
    assert {"secret", "t", "shown"} <= set(names)

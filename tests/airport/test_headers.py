"""The headers of a call: what is kept of them, and what catalogs get to see."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.airport.server.calls import Calls
from lakeport.airport.server.headers import Call, HeaderMiddlewareFactory
from lakeport.auth import Identity, TokenTable
from lakeport.catalog import CatalogBuilder, RequestContext, current_request
from tests.airport.flight_client import Serving, path


def started_call(headers: dict[str, list[Any]], **tokens: str) -> Call:
    authenticator = TokenTable(tokens) if tokens else None
    info = SimpleNamespace(method=flight.FlightMethod.DO_ACTION)
    return HeaderMiddlewareFactory(authenticator, Calls()).start_call(info, headers).call


def test_the_first_value_of_a_header_counts() -> None:
    # The client sends some headers twice.
    call = started_call({"airport-action-name": ["a", "a"], "airport-catalog": ["x", "y"]})

    assert call.header("airport-action-name") == "a"
    assert call.catalog == "x"


def test_an_empty_header_is_none() -> None:
    call = started_call({"airport-catalog": [""], "airport-transaction-id": []})

    assert call.catalog == ""
    assert call.header("airport-catalog") is None
    assert call.header("airport-transaction-id") is None
    assert call.header("missing") is None


def test_the_token_is_not_kept() -> None:
    call = started_call({"authorization": ["Bearer secret"], "x": ["y"]}, secret="ada")

    assert call.identity == "ada"
    assert dict(call.headers) == {"x": ["y"]}
    assert "secret" not in repr(call)


def test_binary_headers_are_left_out() -> None:
    call = started_call({"trace-bin": [b"\xff"], "x": ["y", b"\x00"]})

    assert call.header("trace-bin") is None
    assert list(call.headers["x"]) == ["y"]


def test_an_oversized_header_is_refused() -> None:
    with pytest.raises(ValueError, match="header 'x' is too long"):
        started_call({"x": ["y" * 16385]})


@pytest.mark.parametrize("size", [20_000, 1_000_000])
def test_a_server_survives_oversized_headers(start_server: Serving, size: int) -> None:
    flight_client = start_server(
        CatalogBuilder().schema("s").table("t", pa.table({"x": [1]})).build()
    )

    with pytest.raises((pa.ArrowException, OSError)) as told:
        flight_client.with_headers(x="y" * size).scan(path("s", "t"))

    assert "Traceback" not in str(told.value)
    assert flight_client.scan(path("s", "t")).num_rows == 1


def test_an_owner_is_a_session_of_an_identity() -> None:
    def owner(identity: str, session: str) -> str | None:
        return Call({"airport-client-session-id": [session]}, Identity(identity)).owner

    assert owner("ada", "") is None
    assert owner("ada", "1") == owner("ada", "1")
    assert len({owner("ada", "1"), owner("ada", "2"), owner("grace", "1")}) == 3


def test_a_catalog_sees_the_whole_request(start_server: Serving) -> None:
    seen: list[RequestContext] = []

    def look() -> pa.Table:
        seen.append(current_request())
        return pa.table({"x": [1]})

    columns = pa.schema([("x", pa.int64())])
    catalog = CatalogBuilder("lake").schema("s").table("t", look, schema=columns).build()
    flight_client = start_server(catalog, auth={"t": "ada"}, headers={"authorization": "Bearer t"})

    flight_client.with_headers(
        airport_catalog="lake",
        airport_transaction_id="tx",
        airport_client_session_id="session",
        airport_trace_id="trace",
    ).scan(path("s", "t"))
    flight_client.scan(path("s", "t"))

    assert seen == [
        RequestContext("ada", "lake", "tx", "session", "trace"),
        RequestContext("ada", "", None, None, seen[1].trace_id),
    ]
    # A call without a trace gets one, by which the log of the server names it.
    assert len(seen[1].trace_id or "") == 32

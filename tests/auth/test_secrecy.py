"""Secrets stay secret: never in an error, a representation or a log."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.airport import Server
from lakeport.auth import AuthSource, BearerAuth, TlsConfig, TokenTable
from lakeport.catalog import CatalogBuilder, StaticCatalog, current_request
from tests.airport.flight_client import Serving, path
from tests.auth.certificates import Authority

TOKEN = "correct-horse-battery-staple"


@pytest.mark.parametrize("presented", [TOKEN, "wrong-horse-battery-staple"])
def test_a_token_is_in_no_error_and_no_log(
    start_server: Serving, caplog: pytest.LogCaptureFixture, presented: str
) -> None:
    def fail() -> pa.Table:
        raise RuntimeError("the disk is gone")

    columns = pa.schema([("x", pa.int64())])
    catalog = CatalogBuilder().schema("s").table("t", fail, schema=columns).build()
    flight_client = start_server(
        catalog,
        auth={TOKEN: "ada"},
        log_level="DEBUG",
        headers={"authorization": f"Bearer {presented}"},
    )

    with caplog.at_level(logging.DEBUG), pytest.raises(flight.FlightError) as told:
        flight_client.scan(path("s", "t"))

    assert presented not in str(told.value)
    assert presented not in caplog.text
    assert presented not in repr([vars(record) for record in caplog.records])


class FailingAuth:
    def authenticate(self, token: str) -> str:
        raise RuntimeError(f"no such token: {token}")


@pytest.mark.parametrize("auth", [FailingAuth(), FailingAuth().authenticate])
def test_a_failing_authenticator_does_not_tell_the_token(
    start_server: Serving,
    catalog: StaticCatalog,
    caplog: pytest.LogCaptureFixture,
    auth: AuthSource,
) -> None:
    flight_client = start_server(catalog, auth=auth, headers={"authorization": f"Bearer {TOKEN}"})

    with caplog.at_level(logging.DEBUG), pytest.raises(flight.FlightUnauthenticatedError) as told:
        flight_client.list_schemas()

    assert TOKEN not in str(told.value)
    assert TOKEN not in caplog.text


def test_a_token_is_not_in_what_a_catalog_sees(start_server: Serving) -> None:
    seen: list[str] = []

    def look() -> pa.Table:
        seen.append(repr(current_request()))
        return pa.table({"x": [1]})

    columns = pa.schema([("x", pa.int64())])
    catalog = CatalogBuilder().schema("s").table("t", look, schema=columns).build()
    flight_client = start_server(
        catalog, auth={TOKEN: "ada"}, headers={"authorization": f"Bearer {TOKEN}"}
    )

    flight_client.scan(path("s", "t"))

    assert "ada" in seen[0]
    assert TOKEN not in seen[0]


def test_a_ticket_holds_no_token(start_server: Serving, catalog: StaticCatalog) -> None:
    flight_client = start_server(
        catalog, auth={TOKEN: "ada"}, headers={"authorization": f"Bearer {TOKEN}"}
    )

    (endpoint,) = flight_client.endpoints(path("s", "t"))

    assert TOKEN.encode() not in endpoint.serialize()


def test_nothing_that_holds_a_secret_shows_it(catalog: StaticCatalog, authority: Authority) -> None:
    pair = authority.sign("server")
    secret_lines = [line for line in pair.key.decode().splitlines() if "-----" not in line]
    tls = TlsConfig(pair.certificate, pair.key)
    server = Server(catalog, auth={TOKEN: "ada"}, tls=tls)

    for shown in map(
        repr, (TokenTable({TOKEN: "ada"}), BearerAuth({TOKEN: "ada"}.get), tls, server)
    ):
        assert TOKEN not in shown
        assert not any(line in shown for line in secret_lines)


def test_a_wrong_key_is_not_quoted(catalog: StaticCatalog, authority: Authority) -> None:
    pair, other = authority.sign("server"), authority.sign("other")

    with pytest.raises(Exception, match="not a pair") as refused:
        Server(catalog, tls=TlsConfig(pair.certificate, other.key))

    assert other.key.decode().splitlines()[1] not in str(refused.value)

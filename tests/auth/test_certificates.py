"""Certificates of clients as identities, with mutual TLS, beside bearer tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.airport import Server
from lakeport.auth import CertificateAuth, Identity, TlsConfig
from lakeport.catalog import CatalogBuilder, StaticCatalog, current_request
from lakeport.errors import DefinitionError, UnauthenticatedError
from tests.airport.flight_client import RawFlightClient, path
from tests.auth.certificates import Authority, Pair


def whoami_catalog() -> StaticCatalog:
    def whoami() -> pa.Table:
        caller = current_request().caller
        return pa.table({"me": [f"{caller.user} {sorted(caller.groups)} {caller.method}"]})

    columns = pa.schema([("me", pa.string())])
    return CatalogBuilder().schema("s").table("whoami", whoami, schema=columns).build()


@pytest.fixture
def tls(authority: Authority) -> TlsConfig:
    pair = authority.sign("server")
    return TlsConfig(pair.certificate, pair.key, client_ca=authority.certificate)


@pytest.fixture
def connect(authority: Authority) -> Iterator[Any]:
    opened: list[flight.FlightClient] = []

    def connect(server: Server, pair: Pair, **headers: str) -> RawFlightClient:
        client = flight.FlightClient(
            server.location,
            tls_root_certs=authority.certificate,
            cert_chain=pair.certificate,
            private_key=pair.key,
        )
        opened.append(client)
        return RawFlightClient(server, client, headers)

    yield connect
    for client in opened:
        client.close()


def test_the_subject_of_a_certificate_is_an_identity(
    authority: Authority, tls: TlsConfig, connect: Any
) -> None:
    known = CertificateAuth({"etl": Identity("loader", frozenset({"writers"}))})

    with Server(whoami_catalog(), tls=tls, certificates=known) as server:
        ours = connect(server, authority.sign("etl", address=False))
        other = connect(server, authority.sign("mallory", address=False))

        assert ours.scan(path("s", "whoami")).to_pydict() == {
            "me": ["loader ['writers'] certificate"]
        }
        with pytest.raises(flight.FlightUnauthenticatedError, match="belongs to no user"):
            other.scan(path("s", "whoami"))


def test_an_alternative_name_comes_before_the_common_name(
    authority: Authority, tls: TlsConfig, connect: Any
) -> None:
    known = CertificateAuth({"127.0.0.1": Identity("machine"), "etl": Identity("loader")})

    with Server(whoami_catalog(), tls=tls, certificates=known) as server:
        client = connect(server, authority.sign("etl"))

        assert client.scan(path("s", "whoami")).to_pydict() == {"me": ["machine [] certificate"]}


def test_a_token_decides_before_the_certificate(
    authority: Authority, tls: TlsConfig, connect: Any
) -> None:
    known = CertificateAuth({"*": Identity("*", frozenset({"machines"}))})
    auth = {"token-of-ada-0123": "ada"}

    with Server(whoami_catalog(), tls=tls, certificates=known, auth=auth) as server:
        pair = authority.sign("etl", address=False)
        ada = connect(server, pair, authorization="Bearer token-of-ada-0123")
        etl = connect(server, pair)
        forged = connect(server, pair, authorization="Bearer token-of-eve-0123")

        assert ada.scan(path("s", "whoami")).to_pydict() == {"me": ["ada [] token"]}
        assert etl.scan(path("s", "whoami")).to_pydict() == {"me": ["etl ['machines'] certificate"]}
        with pytest.raises(flight.FlightUnauthenticatedError, match="not valid"):
            forged.scan(path("s", "whoami"))


def test_every_verb_is_refused_to_a_certificate_without_a_user(
    authority: Authority, tls: TlsConfig, connect: Any
) -> None:
    known = CertificateAuth({"etl": Identity("loader")})

    with Server(whoami_catalog(), tls=tls, certificates=known) as server:
        client = connect(server, authority.sign("mallory", address=False)).client
        calls: list[Callable[[], object]] = [
            lambda: list(client.list_flights()),
            lambda: client.get_flight_info(flight.FlightDescriptor.for_path("s", "whoami")),
            lambda: client.get_schema(flight.FlightDescriptor.for_path("s", "whoami")),
            lambda: client.do_get(flight.Ticket(b"x")).read_all(),
            lambda: list(client.do_action("list_schemas")),
            lambda: list(client.list_actions()),
        ]
        for call in calls:
            with pytest.raises(pa.ArrowException, match="belongs to no user"):
                call()


def test_certificates_without_mutual_tls_are_a_wrong_definition(authority: Authority) -> None:
    pair = authority.sign("server")
    known = CertificateAuth({"etl": Identity("loader")})

    with pytest.raises(DefinitionError, match="mutual TLS"):
        Server(whoami_catalog(), certificates=known)
    with pytest.raises(DefinitionError, match="mutual TLS"):
        Server(whoami_catalog(), tls=TlsConfig(pair.certificate, pair.key), certificates=known)


@pytest.mark.parametrize("subject", ["", "*", "other", "etl\0"])
def test_a_subject_without_an_entry_is_refused(subject: str) -> None:
    with pytest.raises(UnauthenticatedError):
        CertificateAuth({"etl": Identity("loader")}).authenticate_subject(subject)
    with pytest.raises(DefinitionError):
        CertificateAuth({})

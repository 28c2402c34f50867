"""TLS and mutual TLS, end to end, and the refusal of every half configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyarrow import flight

from lakeport.airport import Server
from lakeport.auth import TlsConfig
from lakeport.catalog import StaticCatalog
from lakeport.errors import DefinitionError
from tests.airport.flight_client import RawFlightClient, path
from tests.auth.certificates import Authority, Pair


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.sign("server")


def connect(server: Server, **options: Any) -> RawFlightClient:
    return RawFlightClient(server, flight.FlightClient(server.location, **options), {})


def test_a_client_that_trusts_the_authority_reads_over_tls(
    catalog: StaticCatalog, authority: Authority, pair: Pair
) -> None:
    with Server(catalog, tls=TlsConfig(pair.certificate, pair.key)) as server:
        flight_client = connect(server, tls_root_certs=authority.certificate)

        assert server.location.startswith("grpc+tls://127.0.0.1:")
        assert flight_client.scan(path("s", "t")).num_rows == 3


def test_certificates_are_read_from_files_or_text(
    catalog: StaticCatalog, authority: Authority, pair: Pair, tmp_path: Path
) -> None:
    certificate, key = tmp_path / "server.pem", tmp_path / "server.key"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    forms = [
        TlsConfig(certificate, key),
        TlsConfig(str(certificate), str(key)),
        TlsConfig(pair.certificate.decode(), pair.key.decode()),
    ]

    for tls in forms:
        with Server(catalog, tls=tls, location="grpc+tls://127.0.0.1:0") as server:
            flight_client = connect(server, tls_root_certs=authority.certificate)
            assert flight_client.scan(path("s", "t")).num_rows == 3


def test_a_client_that_trusts_another_authority_is_not_connected(
    catalog: StaticCatalog, pair: Pair
) -> None:
    with Server(catalog, tls=TlsConfig(pair.certificate, pair.key)) as server:
        flight_client = connect(server, tls_root_certs=Authority("Somebody else").certificate)

        with pytest.raises(flight.FlightUnavailableError):
            flight_client.list_schemas()


def test_a_client_without_tls_is_not_connected(catalog: StaticCatalog, pair: Pair) -> None:
    with Server(catalog, tls=TlsConfig(pair.certificate, pair.key)) as server:
        plain = flight.FlightClient(f"grpc://127.0.0.1:{server.port}")

        with pytest.raises(flight.FlightUnavailableError):
            RawFlightClient(server, plain, {}).list_schemas()


def test_mutual_tls_lets_in_clients_of_the_authority_only(
    catalog: StaticCatalog, authority: Authority, pair: Pair
) -> None:
    tls = TlsConfig(pair.certificate, pair.key, client_ca=authority.certificate)
    known, stranger = authority.sign("client"), Authority("Somebody else").sign("client")

    with Server(catalog, tls=tls) as server:
        trusting = {"tls_root_certs": authority.certificate}
        let_in = connect(server, cert_chain=known.certificate, private_key=known.key, **trusting)
        assert let_in.scan(path("s", "t")).num_rows == 3

        for identity in (
            {},
            {"cert_chain": stranger.certificate, "private_key": stranger.key},
        ):
            refused = connect(server, **identity, **trusting)
            with pytest.raises(flight.FlightUnavailableError):
                refused.list_schemas()


def test_tls_and_tokens_work_together(
    catalog: StaticCatalog, authority: Authority, pair: Pair
) -> None:
    tls = TlsConfig(pair.certificate, pair.key)
    with Server(catalog, tls=tls, auth={"t": "ada"}) as server:
        flight_client = connect(server, tls_root_certs=authority.certificate)

        assert (
            flight_client.with_headers(authorization="Bearer t").scan(path("s", "t")).num_rows == 3
        )
        with pytest.raises(flight.FlightUnauthenticatedError):
            flight_client.list_schemas()


@pytest.mark.parametrize("missing", ["certificate", "key"])
@pytest.mark.parametrize("value", ["", b"", None])
def test_half_a_pair_is_refused(pair: Pair, missing: str, value: Any) -> None:
    parts: dict[str, Any] = {"certificate": pair.certificate, "key": pair.key, missing: value}

    with pytest.raises(DefinitionError, match=f"both a certificate and a key; the {missing} is"):
        TlsConfig(**parts)


def test_a_client_authority_without_a_pair_is_refused(authority: Authority) -> None:
    with pytest.raises(DefinitionError, match="both a certificate and a key"):
        TlsConfig("", "", client_ca=authority.certificate)


def test_a_key_of_another_certificate_is_refused(
    catalog: StaticCatalog, authority: Authority, pair: Pair
) -> None:
    other = authority.sign("other")

    with pytest.raises(DefinitionError, match="certificate and key are not a pair, or not PEM"):
        Server(catalog, tls=TlsConfig(pair.certificate, other.key))


@pytest.mark.parametrize("part", ["certificate", "key"])
def test_what_is_not_pem_is_refused(catalog: StaticCatalog, pair: Pair, part: str) -> None:
    parts = {"certificate": pair.certificate, "key": pair.key, part: b"not PEM"}

    with pytest.raises(DefinitionError, match="not a pair, or not PEM"):
        Server(catalog, tls=TlsConfig(**parts))


def test_an_encrypted_key_is_refused_without_asking_for_its_password(
    catalog: StaticCatalog, authority: Authority
) -> None:
    locked = authority.sign("server", password=b"open sesame")

    with pytest.raises(DefinitionError, match="the TLS key is encrypted"):
        Server(catalog, tls=TlsConfig(locked.certificate, locked.key))


@pytest.mark.parametrize("client_ca", [b"", b"not PEM", b"\xff", "-----BEGIN CERTIFICATE-----"])
def test_a_client_authority_that_is_not_pem_is_refused(
    catalog: StaticCatalog, pair: Pair, client_ca: str | bytes
) -> None:
    with pytest.raises(DefinitionError, match="the TLS client CA is not a PEM certificate"):
        Server(catalog, tls=TlsConfig(pair.certificate, pair.key, client_ca=client_ca))


@pytest.mark.parametrize(
    ("part", "word"), [("certificate", "certificate"), ("key", "key"), ("client_ca", "client CA")]
)
def test_a_file_that_cannot_be_read_is_named_by_its_role(
    catalog: StaticCatalog, pair: Pair, tmp_path: Path, part: str, word: str
) -> None:
    parts: dict[str, Any] = {"certificate": pair.certificate, "key": pair.key}

    with pytest.raises(DefinitionError, match=f"the TLS {word} cannot be read: No such file"):
        Server(catalog, tls=TlsConfig(**{**parts, part: tmp_path / "missing.pem"}))


def test_a_plain_location_with_certificates_is_refused(catalog: StaticCatalog, pair: Pair) -> None:
    for location in ("grpc://127.0.0.1:0", "grpc+tcp://127.0.0.1:0"):
        with pytest.raises(DefinitionError, match=r"must start with grpc\+tls://"):
            Server(catalog, location=location, tls=TlsConfig(pair.certificate, pair.key))


def test_a_tls_location_without_certificates_is_refused(catalog: StaticCatalog) -> None:
    with pytest.raises(DefinitionError, match="needs tls=TlsConfig"):
        Server(catalog, location="grpc+tls://127.0.0.1:0")


def test_the_key_is_never_shown(pair: Pair) -> None:
    tls = TlsConfig(pair.certificate, pair.key, client_ca=pair.certificate)

    for shown in (repr(tls), str(tls), repr(tls.load())):
        assert "PRIVATE" not in shown
        assert pair.key.decode().splitlines()[1] not in shown

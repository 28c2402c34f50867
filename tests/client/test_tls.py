"""TLS, mutual or not, and connections elsewhere."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakeport.airport import Server
from lakeport.airport.client import connect
from lakeport.auth import TlsConfig
from lakeport.catalog import CatalogBuilder, StaticCatalog
from lakeport.errors import UnavailableError
from tests.auth.certificates import Authority
from tests.wait import TIMEOUT_SECONDS

AUTHORITY = Authority("Lakeport")


@pytest.fixture(scope="module")
def identity() -> tuple[bytes, bytes]:
    """A certificate for 127.0.0.1, and its key."""
    pair = AUTHORITY.sign("localhost")
    return pair.certificate, pair.key


@pytest.fixture
def catalog() -> StaticCatalog:
    return CatalogBuilder().schema("s").table("t", pa.table({"x": [1, 2]})).build()


@pytest.fixture
def files(identity: tuple[bytes, bytes], tmp_path: Path) -> tuple[Path, Path]:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate.write_bytes(identity[0])
    key.write_bytes(identity[1])
    return certificate, key


def test_tls(catalog: StaticCatalog, files: tuple[Path, Path]) -> None:
    tls = TlsConfig(certificate=files[0], key=files[1])
    with Server(catalog, tls=tls, auth={"good": "ada"}) as server:
        with connect(server.location, token="good", tls_root_certs=AUTHORITY.certificate) as client:
            assert client.table("s.t").scan().count() == 2
        with connect(server.location, token="good", disable_server_verification=True) as client:
            assert client.table("s.t").scan().count() == 2
        with connect(server.location, token="good") as client, pytest.raises(UnavailableError):
            client.schemas()


def test_mutual_tls(
    catalog: StaticCatalog, identity: tuple[bytes, bytes], files: tuple[Path, Path]
) -> None:
    tls = TlsConfig(certificate=files[0], key=files[1], client_ca=AUTHORITY.certificate)
    certificate, key = identity
    trusted = AUTHORITY.certificate
    with Server(catalog, tls=tls) as server:
        with connect(
            server.location, tls_root_certs=trusted, cert_chain=certificate, private_key=key
        ) as client:
            assert client.table("s.t").scan().count() == 2
        with (
            connect(server.location, tls_root_certs=trusted, timeout=TIMEOUT_SECONDS) as stranger,
            pytest.raises(UnavailableError),
        ):
            stranger.schemas()

"""TLS, mutual or not, and connections elsewhere."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path

import pyarrow as pa
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lakeport.airport import Server
from lakeport.airport.client import connect
from lakeport.auth import TlsConfig
from lakeport.catalog import CatalogBuilder, StaticCatalog
from lakeport.errors import UnavailableError


@pytest.fixture(scope="module")
def identity() -> tuple[bytes, bytes]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    addresses = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(addresses, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private


@pytest.fixture
def catalog() -> StaticCatalog:
    return CatalogBuilder().schema("s").table("t", pa.table({"x": [1, 2]})).build()


@pytest.fixture
def files(identity: tuple[bytes, bytes], tmp_path: Path) -> tuple[Path, Path]:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate.write_bytes(identity[0])
    key.write_bytes(identity[1])
    return certificate, key


def test_tls(
    catalog: StaticCatalog, identity: tuple[bytes, bytes], files: tuple[Path, Path]
) -> None:
    tls = TlsConfig(certificate=files[0], key=files[1])
    with Server(catalog, tls=tls, auth={"good": "ada"}) as server:
        with connect(server.location, token="good", tls_root_certs=identity[0]) as client:
            assert client.table("s.t").scan().count() == 2
        with connect(server.location, token="good", disable_server_verification=True) as client:
            assert client.table("s.t").scan().count() == 2
        with connect(server.location, token="good") as client, pytest.raises(UnavailableError):
            client.schemas()


def test_mutual_tls(
    catalog: StaticCatalog, identity: tuple[bytes, bytes], files: tuple[Path, Path]
) -> None:
    tls = TlsConfig(certificate=files[0], key=files[1], client_ca=files[0])
    certificate, key = identity
    with Server(catalog, tls=tls) as server:
        with connect(
            server.location, tls_root_certs=certificate, cert_chain=certificate, private_key=key
        ) as client:
            assert client.table("s.t").scan().count() == 2
        with (
            connect(server.location, tls_root_certs=certificate, timeout=30) as stranger,
            pytest.raises(UnavailableError),
        ):
            stranger.schemas()

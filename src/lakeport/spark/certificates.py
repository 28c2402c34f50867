"""The certificate of a driver's endpoint, created with the endpoint.

Executors receive it with their tasks and trust no other, so no certificate authority is needed.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass, field
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["DriverCertificate", "make_certificate"]

# Clocks of executors may differ; sessions may run for years.
_EARLIER: Final = dt.timedelta(days=1)
_LATER: Final = dt.timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class DriverCertificate:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


def make_certificate(host: str) -> DriverCertificate:
    """Return a new certificate for the name or address by which executors reach the driver."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lakeport driver")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + _LATER)
        .add_extension(x509.SubjectAlternativeName([_general_name(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    return DriverCertificate(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return x509.DNSName(host)

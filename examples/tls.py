"""TLS, and mutual TLS, with certificates made on the spot.

Run it with `--serve` and type, in DuckDB:

    ATTACH 'vault' AS vault (TYPE airport, LOCATION 'grpc+tls://localhost:8815');

The authority below is made anew each time; a real server has its own files:
`TlsConfig("server.pem", "server.key")`, signed by an authority that its clients trust.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import lakeport
from lakeport.errors import UnavailableError


class Authority:
    """A certificate authority of our own."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Example CA")])
        signed = self._builder(self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.certificate = _pem(signed.sign(self._key, hashes.SHA256()))

    def issue(self, host: str) -> tuple[bytes, bytes]:
        """Return a certificate for a host or a client, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
        signed = self._builder(name, key).add_extension(
            x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False
        )
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return _pem(signed.sign(self._key, hashes.SHA256())), private

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        now = datetime.now(tz=UTC)
        return (
            x509.CertificateBuilder(issuer_name=self._name, subject_name=subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(days=1))
        )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def main() -> None:
    authority = Authority()
    certificate, key = authority.issue("localhost")
    catalog = lakeport.CatalogBuilder("vault").schema("s").table("t", pa.table({"a": [1]})).build()
    tls = lakeport.TlsConfig(certificate, key)
    if "--serve" in sys.argv:
        lakeport.serve(catalog, location="grpc+tls://localhost:8815", tls=tls)
        return
    trust = authority.certificate
    with lakeport.Server(catalog, location="grpc+tls://localhost:0", tls=tls) as server:
        print(server.location.partition(":")[0])
        with lakeport.connect(server.location, tls_root_certs=trust) as client:
            print(client.table("s.t").scan().count(), "row over TLS")

    mutual = lakeport.TlsConfig(certificate, key, client_ca=trust)
    with lakeport.Server(catalog, location="grpc+tls://localhost:0", tls=mutual) as server:
        with lakeport.connect(server.location, tls_root_certs=trust, timeout=10) as nobody:
            try:
                nobody.schemas()
            except UnavailableError:
                print("refused without a certificate")
        own, own_key = authority.issue("ada")
        with lakeport.connect(
            server.location, tls_root_certs=trust, cert_chain=own, private_key=own_key
        ) as ada:
            print(ada.table("s.t").scan().count(), "row over mutual TLS")


if __name__ == "__main__":
    main()

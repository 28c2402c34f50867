"""TLS and mutual TLS: certificates, checked before a server starts."""

from __future__ import annotations

import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from lakeport.errors import DefinitionError

__all__ = ["LoadedTls", "TlsConfig"]


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """The certificates of a server, as PEM text or as paths of PEM files."""

    certificate: str | bytes | Path
    """The server's certificate chain."""
    key: str | bytes | Path = field(repr=False)
    """The private key of the certificate."""
    client_ca: str | bytes | Path | None = None
    """If set, clients need a certificate of this authority (mutual TLS)."""

    def __post_init__(self) -> None:
        """Raise DefinitionError if the certificate or the key is missing."""
        for name in ("certificate", "key"):
            if not getattr(self, name):
                raise DefinitionError(
                    f"TLS needs both a certificate and a key; the {name} is missing"
                )

    def load(self) -> LoadedTls:
        """Read the files and check that the key belongs to the certificate."""
        loaded = LoadedTls(
            certificate=_read(self.certificate, "certificate"),
            key=_read(self.key, "key"),
            client_ca=None if self.client_ca is None else _read(self.client_ca, "client CA"),
        )
        _check_pair(loaded)
        return loaded


@dataclass(frozen=True, slots=True)
class LoadedTls:
    """Certificates as PEM bytes."""

    certificate: bytes
    key: bytes = field(repr=False)
    client_ca: bytes | None = None


def _read(source: str | bytes | Path, label: str) -> bytes:
    if isinstance(source, str) and "-----BEGIN" in source:
        return source.encode()
    if isinstance(source, bytes):
        return source
    try:
        return Path(source).read_bytes()
    except OSError as error:
        raise DefinitionError(f"the TLS {label} cannot be read: {error.strerror}") from None


def _check_pair(tls: LoadedTls) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder, "certificate.pem"), Path(folder, "key.pem")
        certificate.write_bytes(tls.certificate)
        key.touch(mode=0o600)
        key.write_bytes(tls.key)
        try:
            context.load_cert_chain(certificate, key, password=_refuse_password)
        except (ssl.SSLError, OSError):
            raise DefinitionError(
                "the TLS certificate and key are not a pair, or not PEM"
            ) from None
    if tls.client_ca is not None:
        try:
            context.load_verify_locations(cadata=tls.client_ca.decode("ascii"))
        except (ssl.SSLError, ValueError):
            raise DefinitionError("the TLS client CA is not a PEM certificate") from None


def _refuse_password() -> str:
    # Without this, OpenSSL prompts for the password on the terminal and waits.
    raise DefinitionError("the TLS key is encrypted; use a key without a password")

"""Where a server listens, and why it cannot: Flight itself does not say."""

from __future__ import annotations

import errno
import socket
from urllib.parse import urlsplit

from lakeport.auth import TlsConfig
from lakeport.errors import DefinitionError, UnavailableError

__all__ = ["check_listening", "check_location"]


def check_location(location: str | None, tls: TlsConfig | None = None) -> str:
    """The location itself; a free port of this machine by default."""
    if location is None:
        return f"{'grpc' if tls is None else 'grpc+tls'}://127.0.0.1:0"
    try:
        parts = urlsplit(location)
        port = parts.port
    except ValueError:
        raise DefinitionError(f"{location!r} is not a location") from None
    if parts.scheme not in {"grpc", "grpc+tcp", "grpc+tls"} or not parts.hostname or port is None:
        raise DefinitionError(f"{location!r} is not a location such as grpc://127.0.0.1:8815")
    if parts.scheme == "grpc+tls" and tls is None:
        raise DefinitionError(f"{location} needs tls=TlsConfig(certificate=…, key=…)")
    if parts.scheme != "grpc+tls" and tls is not None:
        raise DefinitionError(
            f"with tls=… the location must start with grpc+tls://, not {location}"
        )
    return location


def check_listening(location: str) -> None:
    """Refuse a location whose port is in use, or whose address is not of this machine."""
    parts = urlsplit(location)
    try:
        found = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as probe:
            # As gRPC does: a port whose last connections are still closing is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        in_use = error.errno == errno.EADDRINUSE
        reason = "the port is in use" if in_use else error.strerror
        raise UnavailableError(f"cannot listen on {location}: {reason}") from None

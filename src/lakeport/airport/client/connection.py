"""The connections of a client: one for each location, with its headers and the verbs of Flight.

Replies are returned undecoded, within a largest size. This module does not depend on catalogs.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import msgpack
import pyarrow as pa
from pyarrow import flight, ipc

from lakeport._version import __version__
from lakeport.airport.client.replies import REPLY_LIMITS
from lakeport.airport.protocol.addresses import is_header_text
from lakeport.airport.protocol.constants import NULL_COLUMNS_HEADER
from lakeport.airport.protocol.errors import translating_errors
from lakeport.errors import (
    InternalError,
    InvalidArgumentError,
    PermissionDeniedError,
    UnavailableError,
)

__all__ = ["USER_AGENT", "Connection", "Headers", "Security", "flight_path", "pack"]

Headers: TypeAlias = Sequence[tuple[str, str]]

USER_AGENT: Final = f"lakeport/{__version__}"
REUSE_CONNECTION: Final = "arrow-flight-reuse-connection://"

_SESSION_ID: Final = str(uuid.uuid4())
_MAX_RESULTS = 100_000
_MAX_FLIGHTS = 1_000_000
_MAX_MESSAGE_BYTES = 1024 * 1024 * 1024
# gRPC returns buffers that are not aligned, which Arrow's compute functions warn about.
_READ_OPTIONS: Final = ipc.IpcReadOptions(ensure_alignment=ipc.Alignment.DataTypeSpecific)
_SCHEMES = {"grpc", "grpc+tcp", "grpc+tls", "grpc+unix"}


@dataclass(frozen=True, slots=True)
class Security:
    """How the client verifies the server and authenticates itself."""

    token: str | None = None
    """The bearer token that is sent with every call."""
    tls_root_certs: bytes | None = None
    """Certificates to trust, in PEM; None means those of the system."""
    cert_chain: bytes | None = None
    """The client's own certificate, for mutual TLS."""
    private_key: bytes | None = None
    """The key of that certificate."""
    disable_server_verification: bool = False
    """Accept any certificate. For experiments only."""

    def check(self) -> None:
        """Raise InvalidArgumentError if the settings contradict each other."""
        if (self.cert_chain is None) != (self.private_key is None):
            raise InvalidArgumentError("cert_chain and private_key belong together")
        if self.token is not None and not is_header_text(self.token):
            raise InvalidArgumentError(
                "the token contains characters that are not allowed in a header"
            )


class Connection:
    """Connections to a server and to the servers that its endpoints name. Thread-safe."""

    def __init__(self, location: str, *, security: Security, timeout: float | None = None) -> None:
        security.check()
        _check_location(location)
        self.location = location
        self._security = security
        self._timeout = timeout
        self._lock = threading.Lock()
        self._clients: dict[str, flight.FlightClient] = {}
        self._closed = False

    def action(self, name: str, body: bytes, headers: Headers = ()) -> list[bytes]:
        """Run an action and return all results."""
        options = self._options([*headers, ("airport-action-name", name)])
        results: list[bytes] = []
        size = 0
        with translating_errors(name):
            for result in self._client().do_action(flight.Action(name, body), options):
                size += len(result.body)
                REPLY_LIMITS.check(size, REPLY_LIMITS.action_bytes, f"the reply to {name}")
                REPLY_LIMITS.check(len(results), _MAX_RESULTS, f"the number of results of {name}")
                results.append(result.body.to_pybytes())
        return results

    def request(self, name: str, fields: Mapping[str, Any], headers: Headers = ()) -> bytes:
        """Run an action whose body is a msgpack map, and return its one result."""
        results = self.action(name, pack(fields), headers)
        if not results:
            raise InternalError(f"the server did not reply to {name}")
        return results[0]

    def list_actions(self) -> list[tuple[str, str]]:
        """Return the names and descriptions of the server's actions."""
        with translating_errors("ListActions"):
            actions = self._client().list_actions(self._options(()))
            return [(action.type, action.description) for action in actions]

    def list_flights(self, headers: Headers) -> list[flight.FlightInfo]:
        """Return everything that the server lists."""
        flights: list[flight.FlightInfo] = []
        with translating_errors("ListFlights"):
            for info in self._client().list_flights(b"", self._options(headers)):
                REPLY_LIMITS.check(len(flights), _MAX_FLIGHTS, "the number of flights")
                flights.append(info)
        return flights

    def flight_info(
        self, descriptor: flight.FlightDescriptor, headers: Headers
    ) -> flight.FlightInfo:
        """Return the reply to GetFlightInfo."""
        with translating_errors("GetFlightInfo"):
            return self._client().get_flight_info(descriptor, self._options(headers))

    def do_get(
        self, location: str, ticket: flight.Ticket, headers: Headers
    ) -> flight.FlightStreamReader:
        """Open the stream of a ticket, on this server or on the one at the location."""
        other_server = None if location.startswith(REUSE_CONNECTION) else location
        with translating_errors("DoGet"):
            return self._client(other_server).do_get(ticket, self._options(headers, other_server))

    def do_exchange(self, descriptor: flight.FlightDescriptor, headers: Headers) -> tuple[Any, Any]:
        """Start an exchange and return its writer and its reader."""
        with translating_errors("DoExchange"):
            pair: tuple[Any, Any] = self._client().do_exchange(descriptor, self._options(headers))
            return pair

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            self._closed = True
            clients = list(self._clients.values())
            self._clients.clear()
        for client in clients:
            with suppress(pa.ArrowException):
                client.close()

    def _client(self, location: str | None = None) -> flight.FlightClient:
        target = location or self.location
        with self._lock:
            if self._closed:
                raise UnavailableError("the client is closed")
            client = self._clients.get(target)
            if client is None:
                if location is not None:
                    self._check_other_server(location)
                client = self._clients[target] = self._connect(target)
            return client

    def _connect(self, location: str) -> flight.FlightClient:
        security = self._security
        options: dict[str, Any] = {}
        if location.startswith("grpc+tls:"):
            options = {
                "tls_root_certs": security.tls_root_certs,
                "cert_chain": security.cert_chain,
                "private_key": security.private_key,
                "disable_server_verification": security.disable_server_verification,
            }
        with translating_errors(f"connecting to {location}"):
            return flight.FlightClient(
                location,
                generic_options=[("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES)],
                **options,
            )

    def _check_other_server(self, location: str) -> None:
        _check_location(location)
        is_downgrade = self.location.startswith("grpc+tls:") and not location.startswith(
            "grpc+tls:"
        )
        if is_downgrade and self._security.token is not None:
            raise PermissionDeniedError(
                f"the server refers to {location[:200]}, which is not encrypted; "
                "the token is not sent there"
            )

    def _options(self, headers: Headers, location: str | None = None) -> flight.FlightCallOptions:
        all_headers = [
            ("airport-user-agent", USER_AGENT),
            ("authority", location or self.location),
            (NULL_COLUMNS_HEADER, "1"),
            ("airport-client-session-id", _SESSION_ID),
            *headers,
        ]
        if self._security.token:
            all_headers.append(("authorization", f"Bearer {self._security.token}"))
        return flight.FlightCallOptions(
            timeout=self._timeout, headers=list(_encoded(all_headers)), read_options=_READ_OPTIONS
        )


def pack(fields: Any) -> bytes:
    """Encode a request as DuckDB's C++ client does: raw bytes, too, are msgpack strings."""
    packed: bytes = msgpack.packb(fields, use_bin_type=False)
    return packed


def flight_path(descriptor: flight.FlightDescriptor) -> Headers:
    """Return the header that repeats the path of a descriptor; none for a command."""
    if descriptor.descriptor_type != flight.DescriptorType.PATH:
        return ()
    path = b"/".join(descriptor.path).decode(errors="replace")
    return [("airport-flight-path", path)]


def _encoded(headers: Iterable[tuple[str, str]]) -> Iterator[tuple[bytes, bytes]]:
    # gRPC rejects a call with a value that is not ASCII. Every such value is in the body, too.
    for name, value in headers:
        if is_header_text(value):
            yield name.encode(), value.encode()


def _check_location(location: str) -> None:
    try:
        scheme = urlsplit(location).scheme
    except ValueError:
        scheme = ""
    if scheme not in _SCHEMES:
        raise InvalidArgumentError(
            f"{location[:200]!r} is not a location such as grpc://127.0.0.1:8815"
        )

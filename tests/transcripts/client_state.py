"""What the client knows while it plays a theme: listings, columns, transactions, addresses."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgpack
import pyarrow as pa
from pyarrow import flight

from tests.transcripts.recording import Rpc
from tests.transcripts.reply_checks import Entry, Listing

__all__ = ["Descriptors", "Knowledge", "Path", "texts"]

Path = tuple[str, ...]


class Descriptors(enum.Enum):
    """Whose descriptors a replay sends."""

    RECORDED = "recorded"
    PUBLISHED = "published"


@dataclass(repr=False)
class Knowledge:
    """Turns recorded requests into ours, with what the replies so far have told."""

    descriptors: Descriptors
    default_catalog: str
    """The catalog of requests that do not say."""
    first_version: int
    """The number of the first version of a table on this server; the recordings count from 0."""
    transactions: dict[str, str | None] = field(default_factory=dict)
    """Our transaction for each recorded one."""
    bound: dict[tuple[bytes, ...], pa.Schema] = field(default_factory=dict)
    """Columns told by a reply, by descriptor, time and arguments."""
    _listings: dict[str, dict[tuple[Any, ...], Entry]] = field(default_factory=dict)
    _published: dict[tuple[str, Path], flight.FlightDescriptor] = field(default_factory=dict)

    def learn_listing(self, catalog: str, ours: Listing, recorded: Listing) -> None:
        """Remember a listing, and which of our objects stands for which recorded one."""
        known = ours.entries
        for key, entry in recorded.entries.items():
            self.learn(catalog, known[key], entry)

    def learn(self, catalog: str, entry: Entry, recorded: Entry) -> None:
        """Remember a table or function."""
        self._listings.setdefault(catalog, {})[entry.key] = entry
        self._published[catalog, parts(recorded.descriptor)] = entry.descriptor

    def table(self, catalog: str, path: Path) -> Entry | None:
        """A table as it was listed or last changed."""
        return self._listings.get(catalog, {}).get(("table", *path[:2], ()))

    def scalar_function(self, rpc: Rpc) -> Entry | None:
        """The function that an exchange calls, as it was listed."""
        recorded = flight.FlightDescriptor.deserialize(rpc.descriptor)
        sent = self.address(self.catalog(rpc), recorded).serialize()
        known = self._listings.get(self.catalog(rpc), {}).values()
        named = [
            entry
            for entry in known
            if entry.kind == "scalar_function" and (entry.schema_name, entry.name) == rpc.path[:2]
        ]
        exact = [entry for entry in named if entry.descriptor.serialize() == sent]
        return next(iter(exact or named), None)

    def address(self, catalog: str, recorded: flight.FlightDescriptor) -> flight.FlightDescriptor:
        """The descriptor to send for a recorded one."""
        path = parts(recorded)
        # A path of the recording tells overloads apart by a number that means nothing to us.
        if self.descriptors is Descriptors.RECORDED and len(path) < 3:
            return recorded
        return self._published.get((catalog, path), recorded)

    def request(self, rpc: Rpc) -> dict[bytes, Any]:
        """The fields of a request with our descriptors and versions."""
        request: dict[bytes, Any] = msgpack.unpackb(rpc.body, raw=True)
        for name in (b"descriptor", b"flight_descriptor"):
            if name in request:
                recorded = flight.FlightDescriptor.deserialize(request[name])
                request[name] = self.address(self.catalog(rpc), recorded).serialize()
        for fields in (request, request.get(b"parameters")):
            if isinstance(fields, dict) and fields.get(b"at_unit") == b"VERSION":
                fields[b"at_value"] = str(int(fields[b"at_value"]) + self.first_version).encode()
        return request

    def body(self, rpc: Rpc) -> bytes:
        """The body of a request: the recorded one, unless it names things by other names."""
        if b"descriptor" not in rpc.body:
            return rpc.body
        request = self.request(rpc)
        if request == msgpack.unpackb(rpc.body, raw=True):
            return rpc.body
        # As the client packs: every string, raw bytes included, is msgpack text.
        packed: bytes = msgpack.packb(request, use_bin_type=False)
        return packed

    def headers(self, rpc: Rpc) -> Mapping[str, Sequence[str]]:
        """The headers of a request, in our transaction."""
        headers = dict(rpc.headers)
        recorded = rpc.header("airport-transaction-id")
        if recorded:
            ours = self.transactions.get(recorded)
            headers["airport-transaction-id"] = [ours] if ours else []
        return headers

    def catalog(self, rpc: Rpc) -> str:
        """The catalog that a request is about."""
        return rpc.header("airport-catalog") or self.default_catalog

    def path(self, rpc: Rpc) -> Path:
        """The recorded path of the object that an action is about."""
        request = msgpack.unpackb(rpc.body, raw=True)
        raw = request.get(b"descriptor") or request[b"flight_descriptor"]
        return parts(flight.FlightDescriptor.deserialize(raw))

    def bound_schema(self, rpc: Rpc) -> pa.Schema:
        """What the client has bound for a scan: from a reply about it, else from the listing."""
        request = self.request(rpc)
        parameters, descriptor = request[b"parameters"], request[b"descriptor"]
        at = (parameters[b"at_unit"], parameters[b"at_value"])
        arguments = parameters[b"table_function_parameters"]
        for key in ((descriptor, *at, arguments), (descriptor, b"", b"", b"")):
            if key in self.bound:
                return self.bound[key]
        entry = self.table(self.catalog(rpc), self.path(rpc))
        assert entry is not None, f"{self.path(rpc)} was not listed"
        return entry.schema


def texts(fields: Mapping[bytes, Any]) -> dict[str, Any]:
    """The fields of a request, as text where they are text."""
    decoded: dict[str, Any] = {}
    for name, value in fields.items():
        decoded[name.decode()] = value
        if isinstance(value, bytes):
            with suppress(UnicodeDecodeError):
                decoded[name.decode()] = value.decode()
    return decoded


def parts(descriptor: flight.FlightDescriptor) -> Path:
    """The path of a descriptor; empty for a command."""
    if descriptor.descriptor_type != flight.DescriptorType.PATH:
        return ()
    return tuple(part.decode() for part in descriptor.path)

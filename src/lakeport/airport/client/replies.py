"""Decode the replies of a server within limits; raise InternalError for an invalid reply."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import msgpack
import pyarrow as pa
from pyarrow import flight

from lakeport.airport.protocol.codec import Struct, decompress_container
from lakeport.airport.protocol.limits import MIB, Limits
from lakeport.catalog import CatalogVersion
from lakeport.errors import InternalError, InvalidArgumentError, first_line

__all__ = [
    "REPLY_LIMITS",
    "CatalogRoot",
    "ContentsRef",
    "FlightDescription",
    "Reply",
    "SchemaRef",
    "decoding_reply",
    "flight_description",
    "read_bundle",
    "read_catalog_root",
    "read_contents",
    "read_contents_ref",
    "read_endpoints",
    "read_flight_description",
    "read_map",
    "read_transaction",
    "read_version",
]

REPLY_LIMITS: Final = Limits(action_bytes=256 * MIB, decompressed_bytes=1024 * MIB)
_MAX_ENDPOINTS = 100_000


@dataclass(frozen=True, slots=True)
class ContentsRef:
    """The location of a schema's contents: inline, at a URL, or in the bundle by digest."""

    sha256: str = ""
    url: str | None = None
    serialized: bytes | None = None


@dataclass(frozen=True, slots=True)
class SchemaRef:
    """A schema of a listing."""

    name: str
    description: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    contents: ContentsRef = field(default_factory=ContentsRef)
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class CatalogRoot:
    """Decode the reply to `list_schemas`."""

    contents: ContentsRef
    schemas: tuple[SchemaRef, ...]
    version: CatalogVersion


@dataclass(frozen=True, slots=True)
class FlightDescription:
    """The parts of a FlightInfo that the client uses."""

    descriptor: flight.FlightDescriptor
    schema: pa.Schema
    app_metadata: bytes


class Reply(Struct):
    """A msgpack map of a reply."""

    __slots__ = ()

    def unsigned(self, name: str) -> int:
        """Return a field that must be a non-negative integer."""
        value = self._get(name, int, None)
        if isinstance(value, bool) or value < 0:
            raise InvalidArgumentError(f"{self._subject}: field {name!r} has the wrong type")
        return int(value)

    def optional_text(self, name: str) -> str | None:
        """Return a text, or None for nil."""
        return self.text(name) if name in self else None

    def optional_blob(self, name: str) -> bytes | None:
        """Return raw bytes, or None for nil."""
        return self.blob(name) if name in self else None

    def reply(self, name: str) -> Reply:
        """Return a field that is itself a map."""
        return _reply(self._get(name, dict, None), f"{self._subject}.{name}")

    def replies(self, name: str) -> list[Reply]:
        """Return a field that is an array of maps."""
        items = self._get(name, list, None)
        return [_reply(item, f"{self._subject}.{name}[{i}]") for i, item in enumerate(items)]

    def text_pairs(self, name: str) -> dict[str, str]:
        """Return a map from text to text; empty for nil."""
        if name not in self:
            return {}
        tags = self.reply(name)
        return {key: tags.text(key) for key in tags.names()}

    def names(self) -> list[str]:
        """Return the names of all fields."""
        return list(self._fields)


@contextmanager
def decoding_reply(subject: str) -> Iterator[None]:
    """Raise InternalError if the block cannot decode a reply. Also usable as a decorator."""
    try:
        yield
    except (
        InvalidArgumentError,
        pa.ArrowException,
        OSError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        RecursionError,
        MemoryError,
        msgpack.UnpackException,
    ) as error:
        reason = first_line(error)[:500]
        raise InternalError(f"the server's {subject} cannot be decoded: {reason}") from None


@decoding_reply("reply to create_transaction")
def read_transaction(body: bytes) -> str | None:
    """Return the identifier of a new transaction; None if the server has no transactions."""
    return read_map(body, "transaction").optional_text("identifier") or None


@decoding_reply("catalog version")
def read_version(body: bytes) -> CatalogVersion:
    """Decode the reply to `catalog_version`."""
    return _version(read_map(body, "version"))


@decoding_reply("list of schemas")
def read_catalog_root(body: bytes) -> CatalogRoot:
    """Decode the reply to `list_schemas`."""
    root = read_map(decompress_container(body, limits=REPLY_LIMITS), "catalog")
    return CatalogRoot(
        contents=_contents_ref(root.reply("contents")),
        schemas=tuple(
            SchemaRef(
                name=schema.text("name"),
                description=schema.text("description", ""),
                tags=schema.text_pairs("tags"),
                contents=_contents_ref(schema.reply("contents")),
                is_default=schema.flag("is_default", default=False),
            )
            for schema in root.replies("schemas")
        ),
        version=_version(root.reply("version_info")),
    )


@decoding_reply("reply to create_schema")
def read_contents_ref(body: bytes) -> ContentsRef:
    """Decode the contents of a new schema."""
    return _contents_ref(read_map(body, "contents"))


@decoding_reply("bundle of schemas")
def read_bundle(blob: bytes) -> list[tuple[str, bytes]]:
    """Decode the digests and contents of a whole-catalog bundle."""
    pairs = [(digest.decode(), content) for digest, content in _unpack(blob)]
    if not all(isinstance(content, bytes) for _, content in pairs):
        raise InvalidArgumentError("an item is not binary")
    return pairs


@decoding_reply("contents of a schema")
def read_contents(blob: bytes) -> list[FlightDescription]:
    """Decode the FlightInfos of everything in a schema."""
    infos = _unpack(decompress_container(blob, limits=REPLY_LIMITS))
    if not isinstance(infos, list):
        raise InvalidArgumentError("not an array")
    return [_deserialized_description(info) for info in infos]


@decoding_reply("description of a flight")
def read_flight_description(body: bytes) -> FlightDescription:
    """Decode a FlightInfo that is the reply to an action."""
    return _deserialized_description(body)


@decoding_reply("description of a flight")
def flight_description(info: flight.FlightInfo) -> FlightDescription:
    """Return the parts of a FlightInfo that ListFlights or GetFlightInfo returned."""
    schema = info.schema
    REPLY_LIMITS.check(len(schema), REPLY_LIMITS.columns, "the number of columns")
    return FlightDescription(info.descriptor, schema, info.app_metadata)


@decoding_reply("list of endpoints")
def read_endpoints(body: bytes) -> list[flight.FlightEndpoint]:
    """Decode the reply to `endpoints`."""
    blobs = _unpack(body)
    if not isinstance(blobs, list):
        raise InvalidArgumentError("not an array")
    REPLY_LIMITS.check(len(blobs), _MAX_ENDPOINTS, "the number of endpoints")
    return [flight.FlightEndpoint.deserialize(blob) for blob in blobs]


def read_map(body: bytes, subject: str) -> Reply:
    """Decode a msgpack map."""
    return _reply(_unpack(body), subject)


def _unpack(body: bytes) -> Any:
    unpacker = msgpack.Unpacker(raw=True, strict_map_key=False, max_buffer_size=max(len(body), 1))
    unpacker.feed(body)
    return unpacker.unpack()


def _reply(value: Any, subject: str) -> Reply:
    if not isinstance(value, dict):
        raise InvalidArgumentError(f"{subject} is not a map")
    if not all(isinstance(key, bytes) for key in value):
        raise InvalidArgumentError(f"{subject}: the keys of a map must be text")
    return Reply({key.decode(): item for key, item in value.items()}, subject)


def _contents_ref(contents: Reply) -> ContentsRef:
    return ContentsRef(
        sha256=contents.text("sha256", ""),
        url=contents.optional_text("url"),
        serialized=contents.optional_blob("serialized"),
    )


def _version(version: Reply) -> CatalogVersion:
    return CatalogVersion(version.unsigned("catalog_version"), is_fixed=version.flag("is_fixed"))


def _deserialized_description(blob: bytes) -> FlightDescription:
    return flight_description(flight.FlightInfo.deserialize(blob))

"""Addresses of tables and functions: flight descriptors to addresses and back.

The client sends descriptors back unchanged, so they contain everything needed to find the object:

    [schema, name]                     written by a user
    [catalog, schema, name]            with the catalog, for servers with several
    [catalog, schema, name, tag]       published in listings
    [catalog, schema, name, tag, percent-encoded]   published for names that are not ASCII

The tag is a digest. For a function it identifies the overload. For a table it identifies the
columns that the client has bound: if another client has altered the table, the call fails instead
of returning batches that the client would misread. A command descriptor is JSON:
`{"schema_name": …, "table_name": …, "ts": …}`.

DuckDB's client repeats a path in the header `airport-flight-path`. gRPC fails every call with a
header that is not printable ASCII, so other names are published with percent signs.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote, unquote

import pyarrow as pa
from pyarrow import flight

from lakeport._cache import cached_by_identity
from lakeport._wording import counted
from lakeport.airport.protocol.codec import decode_json
from lakeport.airport.protocol.limits import DEFAULT_LIMITS, Limits
from lakeport.catalog import TimePoint, TimeUnit
from lakeport.errors import InvalidArgumentError, UnsupportedError

__all__ = [
    "ACTIONS",
    "DATABASES",
    "Address",
    "address_from_json",
    "check_not_flight_sql",
    "flight_sql_error",
    "function_tag",
    "is_header_text",
    "json_text",
    "parse_descriptor",
    "table_tag",
]

DATABASES = "__databases"
"""The path of the flight that lists the catalogs of a server."""

_PERCENT_ENCODED: Final = "percent-encoded"
"""The last part of a path whose names are percent-encoded."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a table or function on a server."""

    schema: str
    name: str
    catalog: str = ""
    """Empty if the descriptor does not name it."""
    tag: str = ""
    """Empty if the descriptor was written by a user."""
    time_point: TimePoint | None = None
    """Set by the `ts` or `ts_ns` of a JSON descriptor."""
    in_future: bool = False
    """Whether that time is in the future: then there are no rows."""

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    def descriptor(self) -> flight.FlightDescriptor:
        """Return the descriptor to publish for this address."""
        names = (self.catalog, self.schema, self.name)
        if not all(map(is_header_text, names)):
            encoded = [quote(name, safe="") for name in names]
            return flight.FlightDescriptor.for_path(*encoded, self.tag, _PERCENT_ENCODED)
        if self.tag:
            return flight.FlightDescriptor.for_path(self.catalog, self.schema, self.name, self.tag)
        if self.catalog:
            return flight.FlightDescriptor.for_path(self.catalog, self.schema, self.name)
        return flight.FlightDescriptor.for_path(self.schema, self.name)

    def with_tag(self, tag: str) -> Address:
        """Return the same address with another tag."""
        return replace(self, tag=tag)


def parse_descriptor(
    descriptor: flight.FlightDescriptor, *, limits: Limits = DEFAULT_LIMITS
) -> Address:
    """Return the address that a descriptor names."""
    if descriptor.descriptor_type == flight.DescriptorType.CMD:
        return address_from_json(bytes(descriptor.command), limits=limits)
    parts = _texts(descriptor.path)
    match parts:
        case [name] if name == DATABASES:
            return Address("", DATABASES)
        case [schema, name]:
            return Address(schema, name)
        case [catalog, schema, name]:
            return Address(schema, name, catalog=catalog)
        case [catalog, schema, name, tag]:
            return Address(schema, name, catalog=catalog, tag=tag)
        case [catalog, schema, name, tag, encoding] if encoding == _PERCENT_ENCODED:
            return Address(unquote(schema), unquote(name), catalog=unquote(catalog), tag=tag)
    raise InvalidArgumentError(
        "a table is addressed by [schema, table] or [catalog, schema, table], "
        f"not by {counted(len(parts), 'part')}"
    )


def address_from_json(text: bytes, *, limits: Limits = DEFAULT_LIMITS) -> Address:
    """Return the address in a JSON command descriptor or ticket."""
    check_not_flight_sql(text)
    limits.check(len(text), limits.ticket_bytes, "the descriptor")
    request = decode_json(text, "descriptor", limits=limits)
    time_point, in_future = _time_point(request)
    return Address(
        json_text(request, "schema_name"),
        json_text(request, "table_name"),
        catalog=json_text(request, "catalog_name", default=""),
        time_point=time_point,
        in_future=in_future,
    )


def is_header_text(text: str) -> bool:
    """Return whether gRPC sends a text in a header: printable ASCII."""
    return text.isascii() and text.isprintable()


def json_text(request: dict[str, Any], name: str, *, default: str | None = None) -> str:
    """Return a text field of a JSON request."""
    value = request.get(name)
    if value is None:
        if default is None:
            raise InvalidArgumentError(f"{name} is missing")
        return default
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{name} must be text")
    return value


@cached_by_identity
def table_tag(schema: pa.Schema) -> str:
    """Return a digest of the columns that a client has bound."""
    pairs = zip(schema.names, schema.types, strict=True)
    return _digest(*[f"{name}\0{_PLAIN_TYPES.get(type.id) or type}" for name, type in pairs])


# Arrow takes a microsecond for the text of a type.
_PLAIN_TYPES: Final = {
    type.id: str(type)
    for type in (
        *(pa.bool_(), pa.string(), pa.binary(), pa.date32(), pa.float32(), pa.float64()),
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    )
}


def function_tag(kind: str, input_schema: pa.Schema) -> str:
    """Return a digest of the parameters, which identifies an overload."""
    return _digest(kind, *(_parameter(field) for field in input_schema))


def _parameter(field: pa.Field) -> str:
    # The metadata marks, for example, a parameter of any type, which has no Arrow type.
    marks = sorted(key.decode() for key in field.metadata or ())
    return "\0".join([field.name, str(field.type), *marks])


def _digest(*parts: str) -> str:
    return hashlib.sha256("\1".join(parts).encode()).hexdigest()[:12]


def _texts(path: Sequence[bytes]) -> list[str]:
    try:
        return [part.decode() for part in path]
    except UnicodeDecodeError:
        raise InvalidArgumentError("the descriptor's path is not UTF-8 text") from None


def _time_point(request: dict[str, Any]) -> tuple[TimePoint | None, bool]:
    seconds, nanoseconds = request.get("ts"), request.get("ts_ns")
    if seconds is None and nanoseconds is None:
        return None, False
    if seconds is not None and nanoseconds is not None:
        raise InvalidArgumentError("give one of ts and ts_ns, not both")
    value, name, unit = (seconds, "ts", 10**9) if seconds is not None else (nanoseconds, "ts_ns", 1)
    if type(value) is not int:
        raise InvalidArgumentError(f"{name} must be an integer")
    if value < 0:
        raise InvalidArgumentError(f"{name} must not be negative")
    instant = value * unit
    if instant > time.time_ns():
        return TimePoint(TimeUnit.TIMESTAMP, ""), True
    timestamp = _EPOCH + timedelta(microseconds=instant // 1000)
    return TimePoint(TimeUnit.TIMESTAMP, timestamp.strftime("%Y-%m-%d %H:%M:%S.%f+00")), False


ACTIONS: Final = frozenset(
    {
        "BeginSavepoint",
        "BeginTransaction",
        "CancelQuery",
        "ClosePreparedStatement",
        "CreatePreparedStatement",
        "CreatePreparedSubstraitPlan",
        "EndSavepoint",
        "EndTransaction",
    }
)
"""The actions of Flight SQL. Names of this server's msgpack actions are in lower case."""

_TYPE: Final = b"type.googleapis.com/arrow.flight.protocol.sql."
_HEAD: Final = 16
"""The tag and the length of the first protobuf field come before the type."""


def check_not_flight_sql(message: bytes) -> None:
    """Raise `UnsupportedError` for the command or ticket of a Flight SQL client."""
    if _TYPE in message[: _HEAD + len(_TYPE)]:
        raise flight_sql_error()


def flight_sql_error() -> UnsupportedError:
    """Return the error for a Flight SQL client."""
    return UnsupportedError(
        "Flight SQL is not supported, this server implements the Airport protocol: use DuckDB's "
        "airport extension, lakeport.connect, or a plain Flight client with the path of a table"
    )

"""What the client accepts: its own reading of every reply, with each requirement checked.

Written from the protocol, not from the server: nothing here uses the server's encoders. Every
function returns what the client would have learned, or raises `UnacceptableError`.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgpack
import pyarrow as pa
import pyarrow.types as pt
from pyarrow import flight

__all__ = [
    "CHUNK_ROWS",
    "Entry",
    "Listing",
    "SchemaEntry",
    "Stream",
    "UnacceptableError",
    "check_advertised_statistics",
    "check_catalog_version",
    "check_contents",
    "check_endpoints",
    "check_flight_info",
    "check_list_schemas",
    "check_one_result",
    "check_statistics",
    "check_stream",
    "check_total_changed",
    "check_transaction",
    "data_reference",
    "flight_entries",
    "require",
]

REUSE_CONNECTION = "arrow-flight-reuse-connection://?"
CHUNK_ROWS = 2048
"""The most rows in a chunk of DuckDB."""

_STABILITIES = {"consistent", "volatile", "consistent_within_query"}
_TYPES = {"table", "scalar_function", "table_function"}


class UnacceptableError(AssertionError):
    """A reply that the client would refuse, misread, or crash on."""


def require(condition: object, message: str) -> None:
    """Refuse a reply unless the condition holds."""
    if not condition:
        raise UnacceptableError(message)


@dataclass(frozen=True, slots=True)
class Entry:
    """A table or function, as the client knows it from discovery."""

    kind: str
    catalog: str
    schema_name: str
    name: str
    comment: str | None
    description: str | None
    schema: pa.Schema
    descriptor: flight.FlightDescriptor
    input_schema: pa.Schema | None = None
    stability: str = "volatile"

    @property
    def signature(self) -> tuple[str, ...]:
        """What tells overloads apart."""
        if self.input_schema is None:
            return ()
        return tuple(
            "table"
            if _marked(field, b"is_table_type")
            else "any"
            if _marked(field, b"is_any_type")
            else str(field.type)
            for field in self.input_schema
        )

    @property
    def key(self) -> tuple[str, str, str, tuple[str, ...]]:
        """The identity of the object within its catalog."""
        return (self.kind, self.schema_name, self.name, self.signature)


@dataclass(frozen=True, slots=True)
class SchemaEntry:
    """A schema, as the client knows it."""

    name: str
    description: str
    tags: Mapping[str, str]
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """A catalog, as the client knows it."""

    schemas: tuple[SchemaEntry, ...]
    version: int
    is_fixed: bool

    @property
    def entries(self) -> dict[tuple[str, str, str, tuple[str, ...]], Entry]:
        """Every table and function by identity."""
        return {entry.key: entry for schema in self.schemas for entry in schema.entries}

    def table(self, schema: str, name: str) -> Entry | None:
        """A table by name."""
        return self.entries.get(("table", schema, name, ()))


@dataclass(frozen=True, slots=True)
class Stream:
    """The messages of a stream, as the client read them."""

    schema: pa.Schema
    batches: tuple[pa.RecordBatch, ...]
    metadata: tuple[bytes | None, ...]

    @property
    def table(self) -> pa.Table:
        """All rows."""
        return pa.Table.from_batches(self.batches, self.schema)


def check_one_result(results: Sequence[bytes], action: str) -> bytes:
    """The first result. The client dereferences it without looking."""
    require(results, f"{action}: no result; the client crashes")
    return results[0]


def check_transaction(body: bytes) -> str | None:
    """The identifier of `create_transaction`; None for no transactions."""
    reply = _map(_unpack(body), "create_transaction")
    require("identifier" in reply, "create_transaction: no identifier")
    identifier = reply["identifier"]
    require(identifier is None or isinstance(identifier, str | bytes), "identifier is not text")
    return _text(identifier) if identifier else None


def check_catalog_version(body: bytes | Mapping[str, Any]) -> tuple[int, bool]:
    """The version of a catalog and whether it is fixed. Missing fields are uninitialised memory."""
    reply = body if isinstance(body, Mapping) else _map(_unpack(body), "catalog_version")
    version, is_fixed = reply.get("catalog_version"), reply.get("is_fixed")
    require(_is_uint(version), f"catalog_version: {version!r} is not an unsigned integer")
    require(isinstance(is_fixed, bool), f"catalog_version: is_fixed is {is_fixed!r}")
    return int(version or 0), bool(is_fixed)


def check_list_schemas(body: bytes, catalog: str) -> Listing:
    """The contents of a catalog. Digests are checked as the client checks them."""
    root = _map(_unpack(_container(body)), "CatalogRoot")
    bundle = _bundle(_map(root["contents"], "contents"))
    version, is_fixed = check_catalog_version(_map(root["version_info"], "version_info"))
    schemas = tuple(_schema_entry(_map(s, "schema"), catalog, bundle) for s in root["schemas"])
    names = [schema.name.lower() for schema in schemas]
    require(all(names) and len(set(names)) == len(names), "schema names are empty or repeat")
    return Listing(schemas, version, is_fixed)


def check_contents(
    contents: Any, schema: str, catalog: str, bundle: Mapping[str, bytes]
) -> list[Entry]:
    """The contents of one schema: inline or out of the bundle, never by URL here."""
    reference = _map(contents, "contents")
    digest, blob = _text(reference["sha256"]), reference.get("serialized")
    if blob is None and digest in bundle:
        blob = bundle[digest]
    if blob is None:
        require(not digest or reference.get("url"), f"schema {schema}: contents are nowhere")
        return []
    require(isinstance(blob, bytes), f"schema {schema}: serialized is not bytes")
    if digest:
        require(hashlib.sha256(blob).hexdigest() == digest, f"schema {schema}: wrong digest")
    infos = _unpack(_container(blob))
    require(isinstance(infos, list), f"schema {schema}: contents are not an array")
    return flight_entries((flight.FlightInfo.deserialize(i) for i in infos), schema, catalog)


def flight_entries(infos: Iterable[flight.FlightInfo], schema: str, catalog: str) -> list[Entry]:
    """Tables and functions from their FlightInfos; those without metadata are skipped."""
    return [_entry(info, schema, catalog) for info in infos if info.app_metadata]


def check_advertised_statistics(entry: Entry) -> None:
    """Statistics are offered only where the client asks for the right column and knows the type."""
    if not (entry.schema.metadata or {}).get(b"can_produce_statistics"):
        return
    where = f"{entry.schema_name}.{entry.name}"
    for position, field in enumerate(entry.schema):
        last = position == len(entry.schema) - 1
        require(last or not _marked(field, b"is_rowid"), f"{where}: rowid is not the last column")
        unknown = (
            pt.is_interval(field.type) or pt.is_dictionary(field.type) or pt.is_union(field.type)
        )
        require(not unknown, f"{where}: the client has no statistics for {field.type}")


def check_endpoints(body: bytes) -> list[flight.FlightEndpoint]:
    """The endpoints of a scan; the first location of each is what counts."""
    reply = _unpack(body)
    require(isinstance(reply, list), "endpoints: not an array")
    require(all(isinstance(item, bytes) for item in reply), "endpoints: not an array of bytes")
    endpoints = [flight.FlightEndpoint.deserialize(item) for item in reply]
    for endpoint in endpoints:
        require(endpoint.locations, "endpoints: an endpoint without location")
        uri = endpoint.locations[0].uri.decode()
        known = (REUSE_CONNECTION, "grpc://", "grpc+tcp://", "grpc+tls://", "data:application/")
        require(uri.startswith(known), f"endpoints: unknown location {uri[:60]}")
    return endpoints


def data_reference(uri: str) -> tuple[str, Mapping[str, Any], pa.RecordBatch | None]:
    """A `data:` URI: its media type, its content, and the arguments of a function call."""
    require(uri.startswith("data:") and not uri.startswith("data://"), f"bad URI {uri[:40]}")
    media_type, _, text = uri.removeprefix("data:").partition(",")
    content = _map(_unpack(base64.b64decode(text, validate=True)), "data URI")
    if media_type == "application/msgpack;base64":
        require(content["format"] in {"parquet", "ipc-stream", "ipc-file"}, "unknown file format")
        require(isinstance(content["uri"], str | bytes), "the URI of a file is not text")
        return media_type, content, None
    require(media_type == "application/x-msgpack-duckdb-function-call;base64", "media type")
    with pa.ipc.open_stream(content["data"]) as stream:
        batch = stream.read_next_batch()
    require(batch.num_rows == 1, "the arguments of a function are not one row")
    positional = [name for name in batch.schema.names if name.startswith("arg_")]
    require(positional == [f"arg_{i}" for i in range(len(positional))], "arguments not contiguous")
    return media_type, {**content, "data": b""}, batch


def check_flight_info(
    body: bytes | flight.FlightInfo, descriptor: bytes, *, as_table: tuple[str, str] | None = None
) -> flight.FlightInfo:
    """A FlightInfo with exactly the descriptor that was asked for.

    With `as_table=(catalog, schema)` it must also describe a table: the lookup needs that.
    """
    info = flight.FlightInfo.deserialize(body) if isinstance(body, bytes) else body
    require(info.descriptor.serialize() == descriptor, "the descriptor is not the one requested")
    require(info.total_records >= -1, "total_records")
    if as_table is not None:
        require(info.app_metadata, "flight_info: no app_metadata; the lookup fails")
        _entry(info, as_table[1], as_table[0])
    return info


def check_statistics(body: bytes, type: pa.DataType) -> dict[str, Any]:
    """The statistics of a column of an Arrow type, as one row."""
    with pa.ipc.open_stream(body) as stream:
        batch = stream.read_next_batch()
    require(batch.num_rows == 1, "statistics: not one row")
    row: dict[str, Any] = batch.to_pylist(maps_as_pydicts=None)[0]
    for bound in ("min", "max"):
        require(bound in row, f"statistics: no {bound}")
        require(batch.schema.field(bound).type == type, f"statistics: {bound} has another type")
        if pt.is_string(type) or pt.is_binary(type):
            require(row[bound] is not None, f"statistics: {bound} is read as the text NULL")
    for flag in ("has_not_null", "has_null"):
        require(isinstance(row.get(flag), bool), f"statistics: {flag}")
    require(_is_uint(row.get("distinct_count")), "statistics: distinct_count")
    if "max_string_length" in row:
        require(_is_uint(row["max_string_length"]), "statistics: max_string_length")
        require(row["max_string_length"] != 0, "statistics: max_string_length of 0 is not unknown")
    if "contains_unicode" in row:
        require(isinstance(row["contains_unicode"], bool), "statistics: contains_unicode")
    return row


def check_stream(stream: Stream, bound: pa.Schema) -> pa.Table:
    """The rows of a DoGet, which the client reads by position with the types it has bound."""
    require(stream.schema.names == bound.names, f"columns {stream.schema.names} != {bound.names}")
    for field, expected in zip(stream.schema, bound, strict=True):
        require(field.type == expected.type, f"{field.name} is {field.type}, not {expected.type}")
    for batch, metadata in zip(stream.batches, stream.metadata, strict=True):
        require(batch is not None, "a message without rows; the client takes it for the end")
        batch.validate(full=True)
        if metadata is not None:
            _check_progress(metadata)
    return stream.table


def check_total_changed(metadata: bytes | None) -> int:
    """The count in the last message of a modification."""
    require(metadata is not None, "the last message has no metadata")
    changed: Any = _map(_unpack(metadata or b""), "total_changed").get("total_changed")
    require(_is_uint(changed), f"total_changed is {changed!r}")
    return int(changed)


def _check_progress(metadata: bytes) -> None:
    progress: Any = _map(_unpack(metadata), "progress").get("progress")
    require(isinstance(progress, int | float), f"progress is {progress!r}")
    require(not isinstance(progress, bool) and 0.0 <= progress <= 1.0, f"progress is {progress!r}")


def _schema_entry(
    schema: Mapping[str, Any], catalog: str, bundle: Mapping[str, bytes]
) -> SchemaEntry:
    name = _text(schema["name"])
    tags = _map(schema["tags"], "tags")
    require(isinstance(schema.get("is_default"), bool | None), "is_default")
    return SchemaEntry(
        name,
        _text(schema["description"]),
        {_text(key): _text(value) for key, value in tags.items()},
        tuple(check_contents(schema["contents"], name, catalog, bundle)),
    )


def _bundle(contents: Mapping[str, Any]) -> dict[str, bytes]:
    digest, blob = _text(contents["sha256"]), contents.get("serialized")
    if not digest or blob is None:
        return {}
    require(hashlib.sha256(blob).hexdigest() == digest, "the bundle has another digest")
    items = {_text(key): value for key, value in _unpack(blob)}
    for key, value in items.items():
        require(hashlib.sha256(value).hexdigest() == key, "an item has another digest")
    return items


def _entry(info: flight.FlightInfo, schema: str, catalog: str) -> Entry:
    metadata = _map(_unpack(info.app_metadata), "app_metadata")
    kind, name = _text(metadata["type"]), _text(metadata["name"])
    where = f"{schema}.{name}"
    require(kind in _TYPES, f"{where}: type {kind!r} fails the whole schema")
    require(name, f"{schema}: an object without name")
    # The client joins the path in a header, and gRPC fails calls with any other character.
    path = b"/".join(info.descriptor.path or ())
    require(all(32 <= byte < 127 for byte in path), f"{where}: no header can contain {path!r}")
    require(_text(metadata["schema"]) == schema, f"{where}: is in schema {metadata['schema']!r}")
    require(_text(metadata["catalog"]) == catalog, f"{where}: catalog {metadata['catalog']!r}")
    for optional in ("comment", "description", "action_name"):
        value = metadata.get(optional)
        require(value is None or isinstance(value, str | bytes), f"{where}: {optional}")
    input_schema, stability = None, "volatile"
    if kind != "table":
        packed = metadata.get("input_schema")
        require(isinstance(packed, bytes), f"{where}: a function without input_schema")
        input_schema = pa.ipc.read_schema(pa.py_buffer(packed))
        _check_parameters(input_schema, where)
    if kind == "scalar_function":
        require(len(info.schema) == 1, f"{where}: a scalar function returns one column")
        if metadata.get("extra_data"):
            extra = _map(_unpack(metadata["extra_data"]), f"{where}: extra_data")
            stability = _text(extra.get("stability", "volatile"))
            require(stability in _STABILITIES, f"{where}: stability {stability!r}")
    else:
        _check_columns(info.schema, where)
    return Entry(
        kind,
        catalog,
        schema,
        name,
        _optional_text(metadata.get("comment")),
        _optional_text(metadata.get("description")),
        info.schema,
        info.descriptor,
        input_schema,
        stability,
    )


def _check_parameters(schema: pa.Schema, where: str) -> None:
    tables = [i for i, field in enumerate(schema) if _marked(field, b"is_table_type")]
    require(tables in ([], [len(schema) - 1]), f"{where}: the table parameter is not the last")
    for field in schema:
        both = _marked(field, b"is_any_type") and _marked(field, b"is_named_parameter")
        require(not both, f"{where}: {field.name} is named and of any type")


def _check_columns(schema: pa.Schema, where: str) -> None:
    rowids = [field.name for field in schema if _marked(field, b"is_rowid")]
    require(len(rowids) <= 1, f"{where}: several row identifiers")
    metadata = schema.metadata or {}
    if metadata.get(b"check_constraints"):
        constraints = _map(_unpack(metadata[b"check_constraints"]), f"{where}: constraints")
        require(
            all(isinstance(text, str | bytes) for text in constraints["constraints"]),
            f"{where}: a constraint is not text",
        )


def _container(blob: bytes) -> bytes:
    container = _unpack(blob)
    require(isinstance(container, list) and len(container) == 2, "not a compressed container")
    length, data = container
    require(_is_uint(length) and length < 2**32, "the length of a container is not a uint32")
    raw: bytes = pa.decompress(data, decompressed_size=length, codec="zstd", asbytes=True)
    require(len(raw) == length, "the length of a container is wrong")
    return raw


def _unpack(body: bytes) -> Any:
    # Trailing bytes are ignored by the client. A map key that is not `str` fails here as there.
    unpacker = msgpack.Unpacker(raw=False, strict_map_key=True, max_buffer_size=0)
    unpacker.feed(body)
    return unpacker.unpack()


def _map(value: Any, what: str) -> dict[str, Any]:
    require(isinstance(value, dict), f"{what} is not a map")
    require(all(isinstance(key, str) for key in value), f"{what}: a key is not text")
    return dict(value)


def _text(value: Any) -> str:
    require(isinstance(value, str | bytes), f"{value!r} is not text; the client refuses nil here")
    return value.decode() if isinstance(value, bytes) else str(value)


def _optional_text(value: Any) -> str | None:
    return None if value is None else _text(value)


def _is_uint(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _marked(field: pa.Field, key: bytes) -> bool:
    return bool((field.metadata or {}).get(key))

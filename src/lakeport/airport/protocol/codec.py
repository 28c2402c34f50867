"""The encodings of the wire: msgpack structs, compressed containers, Arrow blobs, JSON.

The client packs every string, raw bytes included, as msgpack `str`. So requests are decoded to
bytes, and text fields are decoded from UTF-8 when they are read. Sizes are checked before decoding.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping
from typing import Any

import msgpack
import pyarrow as pa

from lakeport.airport.protocol.limits import DEFAULT_LIMITS, Limits
from lakeport.airport.protocol.msgpack_bounds import check_elements
from lakeport.airport.protocol.validation import ContentCheck, check_layout, is_compressed
from lakeport.errors import InvalidArgumentError

__all__ = [
    "Struct",
    "compress_container",
    "decode_json",
    "decode_struct",
    "decompress_container",
    "encode",
    "read_one_row",
    "read_schema",
    "write_schema",
]

# The array, its length and its content.
_CONTAINER_ELEMENTS = 3

# msgpack allows a container at most as many items as the message has bytes, so a short message
# cannot need much memory, whatever lengths it claims.
_SHORT_BYTES = 1024


def encode(value: Any) -> bytes:
    """Pack a value with str keys, as the client expects it."""
    packed: bytes = msgpack.packb(value)
    return packed


class Struct:
    """A decoded msgpack map. Typed access raises `InvalidArgumentError` with the field's name."""

    __slots__ = ("_fields", "_subject")

    def __init__(self, fields: Mapping[str, Any], subject: str) -> None:
        self._fields = fields
        self._subject = subject

    def __contains__(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text field."""
        value = self._get(name, bytes, default)
        if not isinstance(value, bytes):
            return value  # type: ignore[no-any-return]
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise InvalidArgumentError(
                f"{self._subject}: field {name!r} is not UTF-8 text"
            ) from None

    def blob(self, name: str, default: bytes | None = None) -> bytes:
        """Return a field of raw bytes."""
        value: bytes = self._get(name, bytes, default)
        return value

    def flag(self, name: str, *, default: bool | None = None) -> bool:
        """Return a boolean field."""
        value: bool = self._get(name, bool, default)
        return value

    def texts(self, name: str, default: list[str] | None = None) -> list[str]:
        """Return a field that is an array of texts."""
        values = self._get(name, list, default)
        try:
            return [value.decode() if isinstance(value, bytes) else str(value) for value in values]
        except UnicodeDecodeError:
            raise InvalidArgumentError(
                f"{self._subject}: field {name!r} is not UTF-8 text"
            ) from None

    def integers(self, name: str, default: list[int] | None = None) -> list[int]:
        """Return a field that is an array of integers."""
        values: list[int] = self._get(name, list, default)
        if not all(type(value) is int for value in values):
            raise InvalidArgumentError(f"{self._subject}: field {name!r} must contain integers")
        return values

    def text_map(self, name: str) -> dict[str, str]:
        """Return a field that maps texts to texts; an empty map if it is missing."""
        fields = _text_keys(self._get(name, dict, {}), self._subject)
        return {key: Struct(fields, self._subject).text(key) for key in fields}

    def struct(self, name: str) -> Struct:
        """Return a field that is a map."""
        return Struct(
            _text_keys(self._get(name, dict, None), self._subject), f"{self._subject}.{name}"
        )

    def _get(self, name: str, kind: type, default: Any) -> Any:
        value = self._fields.get(name)
        if value is None:
            if default is None:
                raise InvalidArgumentError(f"{self._subject}: field {name!r} is missing")
            return default
        if not isinstance(value, kind):
            raise InvalidArgumentError(f"{self._subject}: field {name!r} has the wrong type")
        return value


def decode_struct(body: bytes, subject: str, *, limits: Limits = DEFAULT_LIMITS) -> Struct:
    """Decode the msgpack map of a request; an empty body is an empty map."""
    limits.check(len(body), limits.action_bytes, subject)
    if not body:
        return Struct({}, subject)
    try:
        if len(body) > min(_SHORT_BYTES, limits.elements):
            check_elements(body, limits.elements, subject)
        unpacker = msgpack.Unpacker(
            raw=True,
            strict_map_key=False,
            max_buffer_size=max(len(body), 1),
            unicode_errors="strict",
        )
        unpacker.feed(body)
        value = unpacker.unpack()
    except (ValueError, msgpack.UnpackException, TypeError, RecursionError, MemoryError):
        raise InvalidArgumentError(f"{subject}: the body is not valid msgpack") from None
    if not isinstance(value, dict):
        raise InvalidArgumentError(f"{subject}: the body is not a msgpack map")
    return Struct(_text_keys(value, subject), subject)


def decode_json(body: bytes, subject: str, *, limits: Limits = DEFAULT_LIMITS) -> dict[str, Any]:
    """Decode the JSON object of a discovery request; an empty text is an empty object."""
    limits.check(len(body), limits.json_bytes, subject)
    if not body.strip():
        return {}
    _check_depth(body, subject, limits)
    _check_count(body, subject, limits)
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidArgumentError(f"{subject}: not valid JSON") from None
    if not isinstance(value, dict):
        raise InvalidArgumentError(f"{subject}: expected a JSON object")
    return value


def compress_container(raw: bytes) -> bytes:
    """Return `[length, data]` with one ZStandard frame, as the client reads catalogs."""
    return encode([len(raw), pa.compress(raw, codec="zstd", asbytes=True)])


def decompress_container(blob: bytes, *, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Return the content of a compressed container."""
    try:
        check_elements(blob, _CONTAINER_ELEMENTS, "the compressed container")
        length, data = msgpack.unpackb(blob, raw=True)
    except (ValueError, TypeError, msgpack.UnpackException):
        raise InvalidArgumentError("not a compressed container") from None
    if type(length) is not int or not isinstance(data, bytes) or length < 0:
        raise InvalidArgumentError("not a compressed container")
    limits.check(length, limits.decompressed_bytes, "the decompressed content")
    try:
        return pa.decompress(data, decompressed_size=length, codec="zstd", asbytes=True)  # type: ignore[no-any-return]
    except (pa.ArrowException, OSError):
        raise InvalidArgumentError("the compressed content is damaged") from None


def write_schema(schema: pa.Schema) -> bytes:
    """Return a schema as one encapsulated IPC message."""
    return schema.serialize().to_pybytes()  # type: ignore[no-any-return]


def read_schema(blob: bytes, subject: str, *, limits: Limits = DEFAULT_LIMITS) -> pa.Schema:
    """Return the schema of one IPC message."""
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(blob))
    except (pa.ArrowException, OSError, ValueError):
        raise InvalidArgumentError(f"{subject} is not an Arrow schema") from None
    limits.check(len(schema), limits.columns, f"the number of columns of {subject}")
    return schema


def read_one_row(blob: bytes, subject: str, *, limits: Limits = DEFAULT_LIMITS) -> pa.RecordBatch:
    """Return the batch of an IPC stream with the arguments of a call, at most one row."""
    source = pa.py_buffer(blob)
    try:
        # An uncompressed batch is no larger than the blob, whose size is limited.
        if is_compressed(source):
            raise InvalidArgumentError(f"{subject}: a compressed Arrow stream is not accepted")
        with pa.ipc.open_stream(source) as stream:
            limits.check(len(stream.schema), limits.columns, f"the number of {subject}")
            batch = stream.read_next_batch()
            check_layout(batch)
            ContentCheck(batch.schema)(batch)
    except StopIteration:
        raise InvalidArgumentError(f"{subject}: no row") from None
    except (pa.ArrowException, OSError, ValueError, struct.error):
        raise InvalidArgumentError(f"{subject}: not an Arrow stream") from None
    if batch.num_columns and batch.num_rows != 1:
        raise InvalidArgumentError(f"{subject}: expected one row, not {batch.num_rows}")
    return batch


def _text_keys(fields: Mapping[Any, Any], subject: str) -> dict[str, Any]:
    try:
        return {key.decode(): value for key, value in fields.items()}
    except (AttributeError, UnicodeDecodeError):
        raise InvalidArgumentError(f"{subject}: the keys of a map must be text") from None


_JSON_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


def _check_depth(raw: bytes, subject: str, limits: Limits) -> None:
    """Raise `InvalidArgumentError` for deep nesting before the parser recurses into it."""
    if raw.count(b"[") + raw.count(b"{") <= limits.json_depth:
        return
    depth = 0
    for byte in _JSON_TEXT.sub(b"", raw):
        if byte in b"[{":
            depth += 1
            if depth > limits.json_depth:
                raise InvalidArgumentError(f"{subject}: the JSON is nested too deeply")
        elif byte in b"]}":
            depth -= 1


def _check_count(raw: bytes, subject: str, limits: Limits) -> None:
    """Raise `MessageTooLargeError` for too many values before the parser creates objects."""
    if raw.count(b",") + raw.count(b"[") + raw.count(b"{") <= limits.elements:
        return
    bare = _JSON_TEXT.sub(b"", raw)
    count = bare.count(b",") + bare.count(b"[") + bare.count(b"{")
    limits.check(count, limits.elements, f"{subject}: the number of values")

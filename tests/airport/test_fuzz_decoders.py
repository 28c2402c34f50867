"""Whatever comes, every decoder returns a value or raises one of our own errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow import flight

from lakeport.airport.protocol.addresses import Address, parse_descriptor
from lakeport.airport.protocol.codec import (
    compress_container,
    decode_json,
    decode_struct,
    decompress_container,
    read_one_row,
    read_schema,
)
from lakeport.airport.protocol.limits import Limits
from lakeport.airport.protocol.tickets import ScanTicket
from lakeport.airport.protocol.type_names import field_from_json, schema_from_json
from lakeport.airport.server.actions.action_table import BoundAction
from lakeport.airport.server.actions.metadata import decode_descriptor
from lakeport.airport.server.actions.transactions import TRANSACTION_ACTIONS
from lakeport.arrow.batches import write_batch
from lakeport.auth import bearer_token
from lakeport.catalog import check_constraints, check_name
from lakeport.errors import LakeportError

BOUNDED = Limits(decompressed_bytes=1_000_000)

Decoder = Callable[[bytes], Any]


def _command(raw: bytes) -> Any:
    return parse_descriptor(flight.FlightDescriptor.for_command(raw))


def _constraints(raw: bytes) -> Any:
    return check_constraints(pa.schema([("a", pa.int8())], metadata={b"check_constraints": raw}))


DECODERS: dict[str, Decoder] = {
    "decode_struct": lambda raw: decode_struct(raw, "x"),
    "decode_json": lambda raw: decode_json(raw, "x"),
    "ScanTicket": ScanTicket.from_bytes,
    "parse_descriptor": _command,
    "decode_descriptor": decode_descriptor,
    "read_schema": lambda raw: read_schema(raw, "x"),
    "read_one_row": lambda raw: read_one_row(raw, "x"),
    "decompress_container": lambda raw: decompress_container(raw, limits=BOUNDED),
    "check_constraints": _constraints,
}

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.list_(pa.string())), ("c", pa.uuid())])
VALID: dict[str, bytes] = {
    "decode_struct": msgpack.packb({"a": 1, "b": [b"x"], "c": {"d": None}}),
    "decode_json": b'{"schema_name": "s", "table_name": "t", "ts": 5, "x": [{"y": "z"}]}',
    "ScanTicket": ScanTicket(Address("s", "t"), columns=("a",), partition=b"x").to_bytes(),
    "parse_descriptor": b'{"schema_name": "s", "table_name": "t", "ts_ns": 5}',
    "decode_descriptor": flight.FlightDescriptor.for_path("c", "s", "t").serialize(),
    "read_schema": SCHEMA.serialize().to_pybytes(),
    "read_one_row": write_batch(
        pa.RecordBatch.from_pydict({"a": [1], "b": [["x"]], "c": [b"0" * 16]}, schema=SCHEMA)
    ),
    "decompress_container": compress_container(b"some content" * 20),
    "check_constraints": msgpack.packb({"constraints": ["a > 0"]}),
}


def survives(decode: Decoder, raw: bytes) -> None:
    try:
        decode(raw)
    except LakeportError as error:
        assert "Traceback" not in str(error)
        assert len(str(error)) < 1000


@pytest.mark.parametrize("name", DECODERS)
def test_what_is_valid_is_decoded(name: str) -> None:
    DECODERS[name](VALID[name])


@pytest.mark.parametrize("name", DECODERS)
@settings(max_examples=150, deadline=None)
@given(raw=st.binary(max_size=300))
@example(raw=b"")
@example(raw=b"\x00" * 300)
@example(raw=b"\xff" * 300)
@example(raw=b"\xdd\xff\xff\xff\xff")
@example(raw=b"\xc6\xff\xff\xff\xff")
@example(raw=b"\x91" * 2000)
@example(raw=b"\x81" * 2000)
@example(raw=b"\xff\xff\xff\xff\xff\xff\xff\x7f")
@example(raw=b"\xff\xff\xff\xff\x00\x00\x00\x00")
@example(raw=b'{"a":' * 5000)
def test_any_bytes_are_decoded_or_refused(name: str, raw: bytes) -> None:
    survives(DECODERS[name], raw)


@pytest.mark.parametrize("name", DECODERS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damaged_messages_are_decoded_or_refused(name: str, data: st.DataObject) -> None:
    raw = bytearray(VALID[name])
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(raw) - 1))
        raw[position] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(raw)))

    survives(DECODERS[name], bytes(raw))
    survives(DECODERS[name], bytes(raw[:cut]))
    survives(DECODERS[name], bytes(raw) + bytes(raw[:cut]))


scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.binary()
packable = st.recursive(
    scalars | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
KNOWN_FIELDS = ["v", "address", "columns", "filters", "at", "arguments", "partition", "explicit"]
KNOWN_FIELDS += ["catalog_name", "transaction_id"]


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(KNOWN_FIELDS) | st.text(), packable, max_size=8))
def test_any_map_is_a_ticket_or_refused(fields: dict[str, Any]) -> None:
    survives(ScanTicket.from_bytes, msgpack.packb({"v": 1, **fields}, unicode_errors="replace"))
    survives(ScanTicket.from_bytes, msgpack.packb(fields, unicode_errors="replace"))


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text(), packable, max_size=6), st.text(), st.sampled_from(range(6)))
def test_any_field_is_read_or_refused(fields: dict[str, Any], name: str, kind: int) -> None:
    struct = decode_struct(msgpack.packb(fields, unicode_errors="replace"), "x")
    for key in (name, *fields):
        readers: list[Callable[[str], Any]] = [
            struct.text,
            struct.blob,
            struct.flag,
            struct.texts,
            struct.integers,
            struct.text_map,
        ]
        try:
            readers[kind](key)
            struct.struct(key)
        except LakeportError:
            continue


def transaction_body(action: BoundAction) -> Decoder:
    """The body of a transaction action, decoded as the action does, without a server."""

    class ReachedError(Exception):
        pass

    class Host:
        limits = Limits()

        def __getattr__(self, name: str) -> Any:
            raise ReachedError

    def decode(raw: bytes) -> None:
        try:
            action.call(Host(), None, raw)  # type: ignore[arg-type]
        except (ReachedError, AttributeError):
            return

    return decode


@pytest.mark.parametrize("action", list(TRANSACTION_ACTIONS), ids=lambda action: action.name)
@settings(max_examples=80, deadline=None)
@given(raw=st.binary(max_size=60))
@example(raw=b"lake")
@example(raw=b"\x80")
@example(raw=b"\xde\xff\xff")
@example(raw=b"\xdf\xff\xff\xff\xff")
@example(raw=b"\xff\xfe")
def test_any_body_of_a_transaction_action_is_read_or_refused(
    action: BoundAction, raw: bytes
) -> None:
    survives(transaction_body(action), raw)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
@example("DECIMAL(99,99)")
@example("DECIMAL(0,0)")
@example("DECIMAL(5,9)")
@example("timestamp[us, tz=UTC]")
def test_any_type_name_is_a_type_or_refused(text: str) -> None:
    survives(lambda _: field_from_json({"name": "x", "type": text}), b"")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=10,
)


@settings(max_examples=200, deadline=None)
@given(json_values)
def test_any_json_is_a_column_list_or_refused(value: Any) -> None:
    survives(lambda _: field_from_json(value), b"")
    survives(lambda _: schema_from_json({"fields": value}), b"")


FIELDS = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        ["schema_name", "table_name", "catalog_name", "ts", "ts_ns"], json_values
    ),
)


@settings(max_examples=100, deadline=None)
@given(FIELDS)
def test_any_json_command_is_an_address_or_refused(request: dict[str, Any]) -> None:
    survives(_command, json.dumps(request).encode())


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(max_size=10), max_size=6))
def test_any_path_is_an_address_or_refused(parts: list[str]) -> None:
    encoded = [part.encode("utf-8", "replace") for part in parts]
    survives(lambda _: parse_descriptor(flight.FlightDescriptor.for_path(*encoded)), b"")


@settings(max_examples=200, deadline=None)
@given(st.text())
@example("\ud800")
def test_any_name_is_a_name_or_refused(name: str) -> None:
    survives(lambda _: check_name(name, "table"), b"")


@settings(max_examples=100, deadline=None)
@given(st.none() | st.text())
def test_any_header_is_a_token_or_none(header: str | None) -> None:
    token = bearer_token(header)
    assert token is None or token.strip() == token != ""

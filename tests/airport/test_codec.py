"""The encodings of the wire, and the bounds on everything that comes from outside."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.airport.protocol.addresses import DATABASES, Address, parse_descriptor, table_tag
from lakeport.airport.protocol.codec import (
    compress_container,
    decode_json,
    decode_struct,
    decompress_container,
    encode,
    read_one_row,
    read_schema,
    write_schema,
)
from lakeport.airport.protocol.limits import Limits
from lakeport.airport.protocol.tickets import ScanTicket
from lakeport.arrow.batches import write_batch
from lakeport.catalog import TimePoint, TimeUnit
from lakeport.errors import InvalidArgumentError, MessageTooLargeError

SMALL = Limits(
    action_bytes=100,
    ticket_bytes=100,
    json_bytes=100,
    json_depth=5,
    columns=3,
    decompressed_bytes=1000,
)


def test_a_struct_is_read_by_field_and_type() -> None:
    body = msgpack.packb(
        {
            "text": "é",
            "blob": b"\xff",
            "flag": True,
            "texts": ["a", b"b"],
            "integers": [1, 2**64 - 1],
            "map": {"k": "v"},
            "struct": {"inner": "x"},
            "nil": None,
        }
    )
    struct = decode_struct(body, "request")

    assert struct.text("text") == "é"
    assert struct.blob("blob") == b"\xff"
    assert struct.flag("flag") is True
    assert struct.texts("texts") == ["a", "b"]
    assert struct.integers("integers") == [1, 2**64 - 1]
    assert struct.text_map("map") == {"k": "v"}
    assert struct.text_map("missing") == {}
    assert struct.struct("struct").text("inner") == "x"
    assert "text" in struct
    assert "nil" not in struct
    assert struct.text("nil", "default") == struct.text("missing", "default") == "default"
    assert struct.flag("missing", default=False) is False
    assert struct.texts("missing", []) == []
    assert struct.integers("missing", [7]) == [7]


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda s: s.text("missing"), "request: field 'missing' is missing"),
        (lambda s: s.text("number"), "request: field 'number' has the wrong type"),
        (lambda s: s.text("bytes"), "request: field 'bytes' is not UTF-8 text"),
        (lambda s: s.blob("number"), "field 'number' has the wrong type"),
        (lambda s: s.flag("number"), "field 'number' has the wrong type"),
        (lambda s: s.texts("texts"), "field 'texts' is not UTF-8 text"),
        (lambda s: s.integers("booleans"), "field 'booleans' must contain integers"),
        (lambda s: s.struct("number"), "field 'number' has the wrong type"),
        (lambda s: s.text_map("number"), "field 'number' has the wrong type"),
    ],
)
def test_a_field_of_another_type_is_refused_by_name(read: Any, message: str) -> None:
    fields = {"number": 1, "bytes": b"\xff", "texts": [b"\xff"], "booleans": [True]}
    struct = decode_struct(msgpack.packb(fields), "request")

    with pytest.raises(InvalidArgumentError, match=message):
        read(struct)


def test_an_empty_body_is_an_empty_map() -> None:
    assert decode_struct(b"", "request").text("x", "d") == "d"
    assert decode_json(b" \n", "request") == {}


def test_bytes_after_the_first_object_are_ignored() -> None:
    assert decode_struct(b"\x80garbage", "request").text("x", "d") == "d"


def test_keys_may_be_bytes_or_text() -> None:
    for key in ("k", b"k"):
        assert decode_struct(msgpack.packb({key: "v"}), "request").text("k") == "v"


@pytest.mark.parametrize(
    "decode",
    [
        lambda: decode_struct(b"\x80" + b"x" * 100, "request", limits=SMALL),
        lambda: decode_json(b'{"a": "' + b"x" * 100 + b'"}', "request", limits=SMALL),
        lambda: ScanTicket.from_bytes(b"x" * 101, limits=SMALL),
        lambda: parse_descriptor(flight.FlightDescriptor.for_command(b" " * 101), limits=SMALL),
        lambda: read_schema(
            pa.schema([(str(n), pa.int8()) for n in range(4)]).serialize().to_pybytes(),
            "the table",
            limits=SMALL,
        ),
        lambda: read_one_row(
            write_batch(pa.record_batch({str(n): [n] for n in range(4)})), "arguments", limits=SMALL
        ),
        lambda: decompress_container(compress_container(b"x" * 1001), limits=SMALL),
    ],
    ids=["struct", "json", "ticket", "descriptor", "schema", "row", "container"],
)
def test_what_exceeds_its_bound_is_refused(decode: Any) -> None:
    with pytest.raises(MessageTooLargeError, match=r"too large: \d+ of at most \d+ allowed"):
        decode()


def test_a_ticket_with_too_many_columns_is_refused() -> None:
    ticket = ScanTicket(Address("s", "t"), columns=("a", "b", "c", "d"))

    with pytest.raises(MessageTooLargeError, match="the number of columns is too large: 4"):
        ScanTicket.from_bytes(ticket.to_bytes(), limits=Limits(columns=3))


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deep_json_is_refused_before_it_is_parsed(opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    deep = '{"a":' + opening * 6 + "1" + closing * 6 + "}"

    with pytest.raises(InvalidArgumentError, match="request: the JSON is nested too deeply"):
        decode_json(deep.encode(), "request", limits=SMALL)


@pytest.mark.parametrize("size", [201, 100_000, 1_000_000])
def test_very_deep_json_is_refused(size: int) -> None:
    with pytest.raises(InvalidArgumentError, match="nested too deeply"):
        decode_json(b'{"a":' + b"[" * size, "request")


def test_brackets_inside_of_text_are_not_depth() -> None:
    text = "[{" * 1000

    assert decode_json(json.dumps({"a": text}).encode(), "request") == {"a": text}


def test_brackets_inside_of_text_do_not_hide_depth() -> None:
    hiding = json.dumps({"a": ["]" * 50, '\\"]]]', "}" * 50]})[:-2]
    deep = hiding + "," + "[" * 10 + "]" * 10 + "]}"

    with pytest.raises(InvalidArgumentError, match="nested too deeply"):
        decode_json(deep.encode(), "request", limits=Limits(json_depth=5))


def test_shallow_json_with_many_brackets_is_fine() -> None:
    wide = {"a": [[n] for n in range(1000)]}

    assert decode_json(json.dumps(wide).encode(), "request") == wide


def test_a_container_unfolds_to_what_was_put_in() -> None:
    for content in (b"", b"x", b"abc" * 10_000):
        assert decompress_container(compress_container(content)) == content


def test_a_container_declares_its_exact_length() -> None:
    length, data = msgpack.unpackb(compress_container(b"abc" * 100))

    assert length == 300
    assert pa.decompress(data, decompressed_size=300, codec="zstd", asbytes=True) == b"abc" * 100


def test_a_container_that_lies_about_its_length_is_refused() -> None:
    _, data = msgpack.unpackb(compress_container(b"abc" * 100))

    for length in (0, 299, 301, 10_000):
        with pytest.raises(InvalidArgumentError, match="damaged"):
            decompress_container(msgpack.packb([length, data]))


def test_a_decompression_bomb_is_refused_by_its_size() -> None:
    bomb = pa.compress(b"\x00" * 50_000_000, codec="zstd", asbytes=True)
    assert len(bomb) < 10_000

    with pytest.raises(MessageTooLargeError, match="the decompressed content is too large"):
        decompress_container(msgpack.packb([2**31, bomb]))
    with pytest.raises(InvalidArgumentError, match="damaged"):
        decompress_container(msgpack.packb([100, bomb]))


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"\xc1",
        encode({}),
        encode([1]),
        encode([1, 2]),
        encode(["1", b"x"]),
        encode([-1, b"x"]),
        encode([1, b"x", 3]),
        encode([True, b"x"]),
        encode([5, b"not zstd"]),
        encode([5, b""]),
        encode(7),
    ],
)
def test_what_is_no_container_is_refused(blob: bytes) -> None:
    with pytest.raises(InvalidArgumentError):
        decompress_container(blob)


def test_a_schema_makes_the_round_trip() -> None:
    schema = pa.schema([pa.field("a", pa.int8(), nullable=False, metadata={"k": "v"})])

    assert read_schema(write_schema(schema), "x").equals(schema, check_metadata=True)


def test_a_row_makes_the_round_trip() -> None:
    batch = pa.record_batch({"a": [1], "b": [["x"]]})

    assert read_one_row(write_batch(batch), "x").equals(batch)


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
@pytest.mark.parametrize("encode", [pa.array, lambda v: pa.array(v).dictionary_encode()])
def test_a_compressed_row_is_refused_before_it_unfolds(
    compression: str, encode: Callable[[list[bytes]], pa.Array]
) -> None:
    batch = pa.RecordBatch.from_arrays([encode([bytes(2**20)])], names=["a"])
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)

    with pytest.raises(InvalidArgumentError, match="x: a compressed Arrow stream is not accepted"):
        read_one_row(sink.getvalue().to_pybytes(), "x")
    assert read_one_row(write_batch(batch), "x").equals(batch)


def test_a_stream_without_a_batch_is_no_row() -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("a", pa.int8())])):
        pass

    with pytest.raises(InvalidArgumentError, match="x: no row"):
        read_one_row(sink.getvalue().to_pybytes(), "x")


TICKETS = [
    ScanTicket(Address("s", "t")),
    ScanTicket(Address("s", "t", catalog="c", tag="0123"), columns=("a", "é")),
    ScanTicket(Address("s", "t"), columns=()),
    ScanTicket(Address("s", "t"), filters='{"filters": []}', at_unit="VERSION", at_value="3"),
    ScanTicket(Address("s", "f"), arguments=b"\x00\xff", partition=b""),
    ScanTicket(Address("s", "t"), arguments=b"", partition=b"\xff"),
]


@pytest.mark.parametrize("ticket", TICKETS, ids=range(len(TICKETS)))
def test_a_ticket_makes_the_round_trip(ticket: ScanTicket) -> None:
    assert ScanTicket.from_bytes(ticket.to_bytes()) == ticket


def test_a_ticket_of_another_version_says_so() -> None:
    fields = msgpack.unpackb(TICKETS[0].to_bytes())
    fields["v"] = 2

    with pytest.raises(InvalidArgumentError, match="another version; run the query again"):
        ScanTicket.from_bytes(msgpack.packb(fields))


@pytest.mark.parametrize(
    "change",
    [{"address": ["a"]}, {"address": []}, {"at": ["VERSION"]}, {"at": "x"}, {"filters": 1}],
)
def test_a_ticket_with_a_wrong_field_is_refused(change: dict[str, Any]) -> None:
    fields = {**msgpack.unpackb(TICKETS[0].to_bytes()), **change}

    with pytest.raises(InvalidArgumentError):
        ScanTicket.from_bytes(msgpack.packb(fields))


def test_a_pinned_ticket_carries_its_catalog_and_time() -> None:
    point = TimePoint(TimeUnit.TIMESTAMP, "2024-01-01")
    pinned = ScanTicket(Address("s", "t", time_point=point)).pinned("lake")

    again = ScanTicket.from_bytes(pinned.to_bytes())

    assert again.address.catalog == "lake"
    assert again.time_point == point
    assert ScanTicket(Address("s", "t")).pinned("lake").time_point is None


@pytest.mark.parametrize(
    ("parts", "address"),
    [
        (("s", "t"), Address("s", "t")),
        (("c", "s", "t"), Address("s", "t", catalog="c")),
        (("", "s", "t"), Address("s", "t")),
        (("c", "s", "t", "tag"), Address("s", "t", catalog="c", tag="tag")),
        ((DATABASES,), Address("", DATABASES)),
    ],
)
def test_a_path_is_an_address(parts: tuple[str, ...], address: Address) -> None:
    assert parse_descriptor(flight.FlightDescriptor.for_path(*parts)) == address


@pytest.mark.parametrize(
    "address",
    [
        Address("s", "t"),
        Address("s", "t", catalog="c"),
        Address("s", "t", tag="x"),
        Address("s", "t", catalog="c", tag="x"),
        Address("a/b", "é", catalog=" "),
    ],
)
def test_a_published_descriptor_is_read_back(address: Address) -> None:
    assert parse_descriptor(address.descriptor()) == address


def test_a_path_that_is_not_text_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="path is not UTF-8 text"):
        parse_descriptor(flight.FlightDescriptor.for_path(b"\xff", b"t"))


def test_a_tag_depends_on_names_and_types_in_order() -> None:
    schemas = [
        pa.schema([("a", pa.int64()), ("b", pa.string())]),
        pa.schema([("b", pa.string()), ("a", pa.int64())]),
        pa.schema([("a", pa.int32()), ("b", pa.string())]),
        pa.schema([("a", pa.int64())]),
        pa.schema([("a", pa.int64()), ("b", pa.large_string())]),
    ]

    assert len({table_tag(schema) for schema in schemas}) == len(schemas)
    assert table_tag(schemas[0]) == table_tag(schemas[0].with_metadata({"k": "v"}))

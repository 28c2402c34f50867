"""No request takes more memory than its bounds allow, whatever it claims to hold.

The peak of the server's process is measured: each of these requests once took gigabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgpack
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.airport.protocol.codec import decode_json, decode_struct
from lakeport.airport.protocol.msgpack_bounds import check_elements
from lakeport.errors import InvalidArgumentError, MessageTooLargeError
from tests.airport.flight_client import RawFlightClient, path
from tests.airport.measured_server import WIDE, MeasuredServer, measured_server

MOST = 400
"""MiB that a refused request may cost; a batch of 64 MiB may be there a few times."""
ZEROS = 1 << 30
CLEAN = (pa.ArrowInvalid, pa.ArrowKeyError, pa.ArrowNotImplementedError, flight.FlightError)


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[MeasuredServer, RawFlightClient]]:
    with measured_server() as (server, client):
        yield server, RawFlightClient(server, client, {"airport-catalog": "memory"})


def _refused(
    server: tuple[MeasuredServer, RawFlightClient],
    attack: Callable[[RawFlightClient], object],
    match: str,
) -> None:
    measured, flight_client = server
    before = measured.peak()
    with pytest.raises(CLEAN, match=match) as raised:
        attack(flight_client)
    assert "Traceback" not in str(raised.value)
    assert measured.peak() - before < MOST
    # The server goes on.
    rows = pa.table({"x": [1], "name": ["a"]})
    assert flight_client.change("insert", path("s", "t"), rows).total_changed == 1


def _compressed_zeros() -> pa.RecordBatch:
    """A gibibyte that zstd makes 32 kB of."""
    column = pa.Array.from_buffers(pa.int64(), ZEROS // 8, [None, pa.py_buffer(bytes(ZEROS))])
    return pa.record_batch({"x": column})


def _send(
    flight_client: RawFlightClient, operation: str, name: str, *batches: pa.RecordBatch, codec: str
) -> None:
    """Write rows at once, without waiting for the server to accept them."""
    with flight_client.open_exchange(path("s", name), operation, return_chunks="0") as (
        writer,
        reader,
    ):
        writer.begin(batches[0].schema, options=pa.ipc.IpcWriteOptions(compression=codec))
        try:
            for batch in batches:
                writer.write_batch(batch)
            writer.done_writing()
        except pa.ArrowException:
            pass
        reader.read_all()


@pytest.mark.parametrize(
    ("catalog", "operation", "name", "match"),
    [
        ("functions", "table_function_in_out", "missing", "no function"),
        ("functions", "table_function_in_out", "forbidden", "may not"),
        ("functions", "scalar_function", "missing", "no function"),
        ("memory", "insert", "missing", "no table"),
        ("memory", "insert", "forbidden", "may not"),
        ("memory", "update", "forbidden", "may not"),
        ("memory", "delete", "forbidden", "may not"),
        ("nowhere", "insert", "t", "no catalog"),
        ("memory", "sing", "t", "not supported"),
    ],
)
def test_rows_are_not_unfolded_for_a_caller_who_may_not_send_them(
    server: tuple[MeasuredServer, RawFlightClient],
    catalog: str,
    operation: str,
    name: str,
    match: str,
) -> None:
    def attack(flight_client: RawFlightClient) -> None:
        to = flight_client.with_headers(airport_catalog=catalog)
        _send(to, operation, name, _compressed_zeros(), codec="zstd")

    _refused(server, attack, match)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("name", ["text", "number", "enum"])
def test_compressed_batches_are_refused(
    server: tuple[MeasuredServer, RawFlightClient], codec: str, name: str
) -> None:
    batch = {
        "text": pa.record_batch({"name": ["a" * 1000]}),
        "number": pa.record_batch({"x": [7]}),
        "enum": pa.record_batch({"name": pa.array(["a" * 1000] * 3).dictionary_encode()}),
    }[name]

    _refused(
        server,
        lambda flight_client: _send(flight_client, "insert", "t", batch, codec=codec),
        "compressed batch is not accepted",
    )


def _nulls(rows: int) -> pa.RecordBatch:
    return pa.record_batch({"x": pa.nulls(rows)})


def _wide_nulls() -> pa.RecordBatch:
    return pa.record_batch({name: pa.nulls(4_000_000) for name in WIDE.names})


def _view_of_one_text() -> pa.RecordBatch:
    text = b"a" * 1_000_000
    view = np.zeros((100_000, 4), np.int32)
    view[:, 0], view[:, 1] = len(text), np.frombuffer(b"aaaa", np.int32)[0]
    buffers = [None, pa.py_buffer(view.tobytes()), pa.py_buffer(text)]
    return pa.record_batch({"name": pa.Array.from_buffers(pa.string_view(), len(view), buffers)})


def _dictionary_of_one_text() -> pa.RecordBatch:
    indices = pa.array(np.zeros(100_000, np.int32))
    return pa.record_batch(
        {"name": pa.DictionaryArray.from_arrays(indices, pa.array(["a" * 1_000_000]))}
    )


def _overlapping_lists() -> pa.RecordBatch:
    items = pa.array(np.zeros(100_000, np.int64))
    starts = pa.array(np.zeros(100_000, np.int32))
    sizes = pa.array(np.full(100_000, 100_000, np.int32))
    return pa.record_batch({"name": pa.ListViewArray.from_arrays(starts, sizes, items)})


def _dense_union_of_one_text() -> pa.RecordBatch:
    kinds = pa.array(np.zeros(100_000, np.int8))
    offsets = pa.array(np.zeros(100_000, np.int32))
    values = pa.array(["a" * 1_000_000])
    return pa.record_batch({"name": pa.UnionArray.from_dense(kinds, offsets, [values])})


def _one_long_run() -> pa.RecordBatch:
    run = pa.RunEndEncodedArray.from_arrays(pa.array([2**30], pa.int64()), pa.array(["a" * 1000]))
    return pa.record_batch({"name": run})


@pytest.mark.parametrize(
    ("name", "make", "match"),
    [
        ("t", lambda: _nulls(2**30), "number of rows of a batch"),
        ("wide", _wide_nulls, "in the types of its table"),
        ("t", _view_of_one_text, "this server takes"),
        ("t", _dictionary_of_one_text, "this server takes"),
        ("t", _overlapping_lists, "share their values"),
        ("t", _dense_union_of_one_text, "share their values"),
        ("t", _one_long_run, "run-end encoded"),
        ("t", lambda: pa.record_batch({"name": ["a" * (70 << 20)]}), "this server takes"),
    ],
)
@pytest.mark.parametrize("returning", [False, True])
def test_rows_that_unfold_to_more_than_a_batch_may_hold_are_refused(
    server: tuple[MeasuredServer, RawFlightClient],
    name: str,
    make: Callable[[], pa.RecordBatch],
    match: str,
    returning: bool,
) -> None:
    _refused(
        server,
        lambda flight_client: flight_client.change(
            "insert", path("s", name), [make()], returning=returning
        ),
        match,
    )


def test_many_batches_without_rows_do_not_pile_up(
    server: tuple[MeasuredServer, RawFlightClient],
) -> None:
    measured, flight_client = server
    empty = pa.RecordBatch.from_pylist([], WIDE)
    before = measured.peak()

    changed = flight_client.change("insert", path("s", "wide"), [empty] * 30_000, schema=WIDE)

    assert changed.total_changed == 0
    assert measured.peak() - before < MOST


def test_views_and_dictionaries_of_a_reasonable_size_are_stored(
    server: tuple[MeasuredServer, RawFlightClient],
) -> None:
    _, flight_client = server
    texts = pa.array(["a long text that is no part of its view", None, "b"])
    for column in (texts.cast(pa.string_view()), texts.dictionary_encode(), texts):
        batch = pa.record_batch({"name": column})
        assert flight_client.change("insert", path("s", "t"), [batch]).total_changed == 3


BODIES = {
    "empty lists": b"\xdd" + (15_000_000).to_bytes(4, "big") + b"\x90" * 15_000_000,
    "claimed lists in lists": b"\xdd\x00\xff\xff\xff" * 1000,
    "claimed maps in maps": b"\xdf\x00\x7f\xff\xff\xa1a" * 500,
    "numbers": b"\x81\xa1a\xdd" + (15_000_000).to_bytes(4, "big") + b"\x01" * 15_000_000,
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_request_of_many_values_is_refused_before_it_is_decoded(
    server: tuple[MeasuredServer, RawFlightClient], body: bytes
) -> None:
    _refused(
        server, lambda flight_client: flight_client.action("list_schemas", body), "too many values"
    )


def test_json_of_many_values_is_refused() -> None:
    with pytest.raises(MessageTooLargeError, match="number of values"):
        decode_json(b'{"a": [' + b"[]," * 500_000 + b"[]]}", "request")
    # Texts may hold whatever they like.
    assert decode_json(b'{"a": "' + b"[,{" * 200_000 + b'"}', "request")


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"a": None, "b": [True, False, -1, -200, -(2**20), 2**7, 2**40, 2**63, 1.5]},
        {"a": "x" * 31, "b": "x" * 200, "c": "x" * 70_000, "d": b"y" * 300},
        {str(number): list(range(20)) for number in range(40)},
        {"a": [[[[{}]]]], "b": [0] * 70_000},
        {"a": msgpack.ExtType(5, b"abcd"), "b": msgpack.ExtType(5, b"z" * 300)},
        {"t": msgpack.Timestamp(1, 2), "b": b"x" * 70_000, "m": {i: i for i in range(20_000)}},
    ],
)
def test_every_kind_of_value_is_counted(value: dict[str, object]) -> None:
    def count(part: object) -> int:
        if isinstance(part, dict):
            return 1 + sum(count(key) + count(inner) for key, inner in part.items())
        return 1 + sum(map(count, part)) if isinstance(part, list) else 1

    packed = msgpack.packb(value)

    check_elements(packed, count(value), "request")
    with pytest.raises(MessageTooLargeError):
        check_elements(packed, count(value) - 1, "request")
    for end in range(min(len(packed), 400)):
        with pytest.raises(InvalidArgumentError):
            decode_struct(packed[:end] or b"\xc1", "request")

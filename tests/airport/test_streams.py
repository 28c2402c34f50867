"""The shape of a stream: bounded batches, progress, compression, dictionaries, cancellation."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import duckdb
import msgpack
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import flight

from lakeport.airport import Server
from lakeport.airport.server.connections import is_loopback
from lakeport.arrow.batches import split
from lakeport.catalog import ArrowTable, CatalogBuilder, ScanOptions, TableSize
from lakeport.errors import DefinitionError
from tests.airport.flight_client import RawFlightClient, Serving, path
from tests.wait import TIMEOUT_SECONDS

INT = pa.schema([("x", pa.int64())])


def chunks_of(flight_client: RawFlightClient, name: str = "t") -> list[Any]:
    (endpoint,) = flight_client.endpoints(path("s", name))
    return list(flight_client.get(endpoint.ticket))


def test_the_first_batches_of_a_stream_are_small(start_server: Serving) -> None:
    rows = pa.table({"x": pa.array(range(200_000), pa.int64())})
    catalog = CatalogBuilder().schema("s").table("t", rows).build()
    client = start_server(catalog)
    (endpoint,) = client.endpoints(path("s", "t"))

    batches = [chunk.data for chunk in client.get(endpoint.ticket)]

    # A client that needs few rows cancels the stream, and most rows are not sent.
    assert [batch.num_rows for batch in batches][:5] == [2048, 2048, 4096, 8192, 16_384]
    assert max(batch.num_rows for batch in batches) == 65_536
    assert pa.Table.from_batches(batches).equals(rows)


def test_no_batch_has_more_rows_than_configured(start_server: Serving) -> None:
    data = pa.table({"x": range(2500)})
    scanned = CatalogBuilder().schema("s").table("t", lambda: data, schema=INT).build()

    sizes = [chunk.data.num_rows for chunk in chunks_of(start_server(scanned, batch_rows=1000))]

    assert sizes == [1000, 1000, 500]


def test_no_batch_has_more_bytes_than_configured(start_server: Serving) -> None:
    # Two large neighbours among small rows: an average row says little about them.
    texts = ["a"] * 50 + ["b" * 4000, "c" * 4000] + ["d"] * 50
    data = pa.table({"x": texts})
    catalog = CatalogBuilder().schema("s").table("t", data).build()

    chunks = [chunk.data for chunk in chunks_of(start_server(catalog, max_message_size=5000))]

    assert max(chunk.nbytes for chunk in chunks) <= 5000
    assert pa.Table.from_batches(chunks).column("x").to_pylist() == texts


def test_a_row_that_is_too_large_is_sent_alone(start_server: Serving) -> None:
    data = pa.table({"x": ["a", "b" * 10_000, "c"]})
    catalog = CatalogBuilder().schema("s").table("t", data).build()

    chunks = [chunk.data for chunk in chunks_of(start_server(catalog, max_message_size=1000))]

    assert [chunk.num_rows for chunk in chunks] == [1, 1, 1]


@settings(max_examples=50)
@given(st.lists(st.integers(0, 400), max_size=60), st.integers(1, 20), st.integers(1, 1000))
def test_pieces_of_a_batch_are_its_rows_within_bounds(
    lengths: list[int], rows: int, size: int
) -> None:
    batch = pa.record_batch({"x": pa.array(["x" * length for length in lengths], pa.string())})

    pieces = list(split(batch, rows=rows, size=size))

    assert [v for piece in pieces for v in piece.column(0).to_pylist()] == batch[0].to_pylist()
    assert all(0 < piece.num_rows <= rows for piece in pieces)
    assert all(piece.nbytes <= size or piece.num_rows == 1 for piece in pieces)


def test_a_large_dictionary_does_not_cut_a_batch_to_shreds() -> None:
    dictionary = pa.array(["x" * 1000 + str(n) for n in range(100)])
    indices = pa.array(range(100), pa.int32())
    batch = pa.record_batch({"d": pa.DictionaryArray.from_arrays(indices, dictionary)})

    assert len(list(split(batch, rows=100, size=50_000))) == 1


@pytest.mark.parametrize("bounds", [{"batch_rows": 0}, {"max_message_size": 0}, {"batch_rows": -1}])
def test_bounds_must_be_positive(bounds: dict[str, int]) -> None:
    with pytest.raises(DefinitionError, match="batch_rows and max_message_size must be positive"):
        Server(CatalogBuilder().build(), **bounds)  # type: ignore[arg-type]


def test_progress_grows_to_one(start_server: Serving) -> None:
    catalog = CatalogBuilder().schema("s").table("t", pa.table({"x": range(1000)})).build()

    chunks = chunks_of(start_server(catalog, batch_rows=250))

    progress = [msgpack.unpackb(chunk.app_metadata.to_pybytes()) for chunk in chunks]
    assert progress == [{"progress": p} for p in (0.25, 0.5, 0.75, 1.0)]
    assert all(type(p["progress"]) is float for p in progress)


def test_progress_never_exceeds_one(start_server: Serving) -> None:
    class Underestimated(ArrowTable):
        def size(self, options: ScanOptions) -> TableSize:
            return TableSize(rows=10)

    table = Underestimated("t", pa.table({"x": range(100)}))
    chunks = chunks_of(
        start_server(CatalogBuilder().schema("s").table(table).build(), batch_rows=50)
    )

    assert [msgpack.unpackb(c.app_metadata.to_pybytes())["progress"] for c in chunks] == [1.0, 1.0]


def test_a_scan_of_unknown_size_tells_no_progress(start_server: Serving) -> None:
    catalog = (
        CatalogBuilder().schema("s").table("t", lambda: pa.table({"x": [1]}), schema=INT).build()
    )

    assert [chunk.app_metadata for chunk in chunks_of(start_server(catalog))] == [None]


def test_no_message_is_without_data(start_server: Serving) -> None:
    # The client takes a metadata-only message for the end of the stream.
    data = pa.table({"x": range(100), "d": pa.array(["a", "b"] * 50).dictionary_encode()})
    catalog = (
        CatalogBuilder()
        .schema("s")
        .table("t", data)
        .table("u", data.select(["x"]))
        .table("empty", data.slice(0, 0))
        .build()
    )
    flight_client = start_server(catalog, batch_rows=10)

    for name in ("t", "u", "empty"):
        assert all(chunk.data is not None for chunk in chunks_of(flight_client, name))


@pytest.mark.parametrize("compression", ["lz4", "zstd", None])
def test_batches_can_be_compressed(start_server: Serving, compression: str | None) -> None:
    data = pa.table(
        {"x": ["the same text"] * 10_000, "d": pa.array([1] * 10_000).dictionary_encode()}
    )
    catalog = CatalogBuilder().schema("s").table("t", data).table("u", data.select(["x"])).build()
    flight_client = start_server(catalog, compression=compression)

    assert flight_client.scan(path("s", "t")).to_pydict() == data.to_pydict()
    assert flight_client.scan(path("s", "u")).to_pydict() == data.select(["x"]).to_pydict()


def test_batches_for_clients_on_this_machine_are_not_compressed_by_auto(
    start_server: Serving,
) -> None:
    data = pa.table({"x": ["the same text"] * 10_000})
    catalog = CatalogBuilder().schema("s").table("t", data).build()
    flight_client = start_server(catalog, compression="auto")

    (chunk,) = chunks_of(flight_client)

    # A buffer that was decompressed is no part of its message.
    assert all(buffer.parent is not None for buffer in chunk.data.column(0).buffers() if buffer)


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        ("ipv4:127.0.0.1:5555", True),
        ("ipv4:127.8.9.1:5555", True),
        ("ipv6:%5B::1%5D:5555", True),
        ("ipv6:%5B::ffff:127.0.0.1%5D:5555", True),
        ("unix:/run/lakeport.sock", True),
        ("ipv4:10.0.0.1:5555", False),
        ("ipv6:%5B2001:db8::1%5D:5555", False),
        ("", False),
    ],
)
def test_a_client_on_this_machine_is_recognised_by_its_address(peer: str, expected: bool) -> None:
    assert is_loopback(peer) is expected


def test_an_unknown_compression_is_refused() -> None:
    with pytest.raises(DefinitionError, match="must be 'lz4', 'zstd' or 'auto', not 'gzip'"):
        Server(CatalogBuilder().build(), compression="gzip")  # type: ignore[arg-type]


def test_dictionaries_arrive_with_their_values(start_server: Serving) -> None:
    values = ["red", "green", None, "blue"] * 25
    data = pa.table(
        {"x": range(100), "color": pa.array(values).dictionary_encode(), "y": range(100)}
    )
    catalog = CatalogBuilder().schema("s").table("t", data).build()
    flight_client = start_server(catalog, batch_rows=30)

    read = flight_client.scan(path("s", "t"))

    assert read.schema.equals(data.schema)
    assert read.column("color").to_pylist() == values
    projected = flight_client.scan(path("s", "t"), column_ids=[0])
    assert projected.column("x").to_pylist() == list(range(100))
    assert projected.column("color").null_count == 100


def test_dictionaries_that_differ_between_batches_arrive_right(start_server: Serving) -> None:
    type = pa.dictionary(pa.int8(), pa.string())
    parts: list[list[str | None]] = [["a", "b"], ["c"], ["b", "a", None], ["d", "c"]]

    def scan(options: ScanOptions) -> Iterator[pa.RecordBatch]:
        for part in parts:
            yield pa.record_batch({"d": pa.array(part).dictionary_encode().cast(type)})

    schema = pa.schema([("d", type)])
    catalog = CatalogBuilder().schema("s").table("t", scan, schema=schema).build()

    read = start_server(catalog).scan(path("s", "t"))

    assert read.column("d").to_pylist() == [value for part in parts for value in part]


def _runs(values: pa.Array) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array([1, len(values)], pa.int32()), values)


COLORS = pa.array(["red", "blue", "red"]).dictionary_encode()
POINTS = pa.array([{"x": 1}, {"x": 2}])
NESTED = {
    "struct": pa.StructArray.from_arrays([COLORS], names=["color"]),
    "list": pa.ListArray.from_arrays([0, 1, 3, 3], COLORS),
    "lists without items": pa.nulls(2, pa.list_(COLORS.type)),
    "large list": pa.nulls(2, pa.large_list(COLORS.type)),
    "array": pa.FixedSizeListArray.from_arrays(COLORS, 3),
    "map": pa.MapArray.from_arrays([0, 2, 3], ["a", "b", "c"], COLORS),
    "dictionary of structs": pa.DictionaryArray.from_arrays([1, 0, None], POINTS),
    "dictionary of dictionaries": pa.DictionaryArray.from_arrays([1, 0, None], COLORS),
    "runs": _runs(pa.array(["red", None])),
    "runs of structs": _runs(POINTS),
    "runs of dictionaries": _runs(COLORS[:2]),
    "lists of runs": pa.ListArray.from_arrays([0, 2], _runs(pa.array(["red", "blue"]))),
}


@pytest.mark.parametrize("kind", NESTED)
def test_nested_dictionaries_and_runs_arrive_as_duckdb_reads_them(
    start_server: Serving, kind: str
) -> None:
    data = pa.table({"c": NESTED[kind]})
    catalog = CatalogBuilder().schema("s").table("t", data, endpoints=1).build()
    flight_client = start_server(catalog)

    sent = flight_client.scan(path("s", "t"))

    assert flight_client.items("s")["t"].schema.types == sent.schema.types
    # DuckDB converts 2,048 rows at a time, so any part of a column may be all that it sees.
    with duckdb.connect() as connection:
        read = [
            row
            for start in range(sent.num_rows)
            for row in connection.from_arrow(sent.slice(start, 1)).fetchall()
        ]
    expected = [value.as_py() for value in data.column("c")]
    if kind == "map":
        expected = [dict(pairs) for pairs in expected]
    assert [list(v) if isinstance(v, tuple) else v for (v,) in read] == expected


def test_a_client_that_goes_away_ends_the_scan(start_server: Serving) -> None:
    ended = threading.Event()

    def scan(options: ScanOptions) -> Iterator[pa.RecordBatch]:
        try:
            while True:
                yield pa.record_batch({"x": [1] * 1000})
        finally:
            ended.set()

    catalog = CatalogBuilder().schema("s").table("t", scan, schema=INT).build()
    flight_client = start_server(catalog)
    (endpoint,) = flight_client.endpoints(path("s", "t"))
    reader = flight_client.get(endpoint.ticket)
    assert reader.read_chunk().data.num_rows == 1000

    reader.cancel()

    assert ended.wait(TIMEOUT_SECONDS)


def test_a_client_that_goes_away_closes_the_reader_of_a_table(start_server: Serving) -> None:
    closed = threading.Event()

    class Endless:
        schema = INT

        def __iter__(self) -> Iterator[pa.RecordBatch]:
            while True:
                yield pa.record_batch({"x": [1] * 1000})

        def close(self) -> None:
            closed.set()

    class EndlessTable:
        name = "t"
        comment = ""

        def arrow_schema(self, columns: Any = None) -> pa.Schema:
            return INT

        def scan(self, options: ScanOptions) -> Any:
            return Endless()

    flight_client = start_server(CatalogBuilder().schema("s").table(EndlessTable()).build())
    (endpoint,) = flight_client.endpoints(path("s", "t"))
    reader = flight_client.get(endpoint.ticket)
    reader.read_chunk()

    reader.cancel()

    assert closed.wait(TIMEOUT_SECONDS)


def test_a_stopping_server_ends_streams_with_a_retriable_error(start_server: Serving) -> None:
    def scan(options: ScanOptions) -> Iterator[pa.RecordBatch]:
        while True:
            yield pa.record_batch({"x": [1] * 1000})

    catalog = CatalogBuilder().schema("s").table("t", scan, schema=INT).build()
    flight_client = start_server(catalog)
    (endpoint,) = flight_client.endpoints(path("s", "t"))
    reader = flight_client.get(endpoint.ticket)
    reader.read_chunk()
    stopper = threading.Thread(target=flight_client.server.stop)
    stopper.start()

    with pytest.raises(
        flight.FlightUnavailableError, match="the server is shutting down; try again"
    ):
        while True:
            reader.read_chunk()
    stopper.join(TIMEOUT_SECONDS)
    assert not stopper.is_alive()

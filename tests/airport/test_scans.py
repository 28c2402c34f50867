"""DoGet: every batch has the columns the client has bound, in their order and layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.catalog import CatalogBuilder, ScanOptions, current_request, rowid_field
from tests.airport.flight_client import ROWID_COLUMN, RawFlightClient, Serving, path

COLUMNS = pa.schema([pa.field("a", pa.int64(), nullable=False), ("b", pa.string()), rowid_field()])
ROWS = pa.table([pa.array([1, 2]), pa.array(["x", None]), pa.array([10, 11])], schema=COLUMNS)

Scan = Callable[[ScanOptions], Any]


@pytest.fixture
def scanned(start_server: Serving) -> Callable[..., RawFlightClient]:
    """Serve one table `s.t` of a scan callable."""

    def start(scan: Scan, schema: pa.Schema = COLUMNS, **options: Any) -> RawFlightClient:
        catalog = CatalogBuilder().schema("s").table("t", scan, schema=schema).build()
        return start_server(catalog, **options)

    return start


def test_a_scan_gives_all_columns(scanned: Callable[..., RawFlightClient]) -> None:
    read = scanned(lambda options: ROWS).scan(path("s", "t"))

    assert read.schema.equals(COLUMNS, check_metadata=False)
    assert read.to_pylist() == ROWS.to_pylist()


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([0], {"a": [1, 2], "b": [None] * 2, "rowid": [None] * 2}),
        ([1], {"a": [None] * 2, "b": ["x", None], "rowid": [None] * 2}),
        ([ROWID_COLUMN], {"a": [None] * 2, "b": [None] * 2, "rowid": [10, 11]}),
        ([1, 0, 1], {"a": [1, 2], "b": ["x", None], "rowid": [None] * 2}),
    ],
)
def test_columns_that_nobody_asked_for_are_nulls_in_their_place(
    scanned: Callable[..., RawFlightClient], ids: list[int], expected: dict[str, Any]
) -> None:
    read = scanned(lambda options: ROWS).scan(path("s", "t"), column_ids=ids)

    assert read.schema.names == ["a", "b", "rowid"]
    assert read.schema.types == COLUMNS.types
    assert read.to_pydict() == expected


def test_a_scan_may_give_only_the_wanted_columns_in_any_order(
    scanned: Callable[..., RawFlightClient],
) -> None:
    def scan(options: ScanOptions) -> pa.Table:
        assert options.columns is not None
        return ROWS.select(sorted(options.columns, reverse=True))

    read = scanned(scan).scan(path("s", "t"), column_ids=[0, 1])

    assert read.to_pydict() == {"a": [1, 2], "b": ["x", None], "rowid": [None, None]}


def test_extra_columns_of_a_scan_are_left_out(scanned: Callable[..., RawFlightClient]) -> None:
    wider = ROWS.append_column("extra", pa.array([0, 0]))

    assert scanned(lambda options: wider).scan(path("s", "t")).schema.names == COLUMNS.names


LAYOUTS = [
    (pa.string(), pa.large_string(), ["a", None]),
    (pa.string(), pa.string_view(), ["a", None]),
    (pa.string(), pa.dictionary(pa.int8(), pa.string()), ["a", None]),
    (pa.large_string(), pa.string(), ["a", None]),
    (pa.int64(), pa.int8(), [1, None]),
    (pa.int8(), pa.int64(), [1, None]),
    (pa.timestamp("us"), pa.timestamp("ns"), [0, None]),
    (pa.list_(pa.string()), pa.large_list(pa.large_string()), [["a"], None]),
    (pa.decimal128(10, 2), pa.decimal128(12, 2), [1, None]),
]


@pytest.mark.parametrize(("declared", "given", "values"), LAYOUTS)
def test_batches_are_cast_to_the_declared_layout(
    scanned: Callable[..., RawFlightClient],
    declared: pa.DataType,
    given: pa.DataType,
    values: list[Any],
) -> None:
    if pa.types.is_dictionary(given):
        array = pa.array(values).dictionary_encode().cast(given)
    else:
        array = pa.array(values, given)
    schema = pa.schema([("x", declared)])

    read = scanned(lambda options: pa.table({"x": array}), schema).scan(path("s", "t"))

    assert read.schema.equals(schema)
    assert read.column("x").to_pylist() == pa.array(values, declared).to_pylist()


def test_a_value_that_does_not_fit_its_column_is_an_error_in_one_sentence(
    scanned: Callable[..., RawFlightClient],
) -> None:
    flight_client = scanned(lambda options: pa.table({"x": [300]}), pa.schema([("x", pa.int8())]))

    with pytest.raises(flight.FlightInternalError) as told:
        flight_client.scan(path("s", "t"))

    assert "the scan of table s.t gives int64 for column 'x', which is declared int8" in str(
        told.value
    )


def test_a_scan_without_a_wanted_column_is_an_error(
    scanned: Callable[..., RawFlightClient],
) -> None:
    flight_client = scanned(lambda options: ROWS.select(["a"]))

    with pytest.raises(
        flight.FlightInternalError, match=r"the scan of table s\.t has no column 'b'"
    ):
        flight_client.scan(path("s", "t"))


def test_a_scan_without_an_unwanted_column_is_fine(scanned: Callable[..., RawFlightClient]) -> None:
    read = scanned(lambda options: ROWS.select(["a"])).scan(path("s", "t"), column_ids=[0])

    assert read.column("a").to_pylist() == [1, 2]


@pytest.mark.parametrize(
    "type",
    [
        pa.dictionary(pa.int8(), pa.string()),
        pa.struct([pa.field("a", pa.int64(), nullable=False)]),
        pa.map_(pa.string(), pa.int64()),
        pa.list_(pa.int64(), 3),
        pa.uuid(),
        pa.binary(16),
        pa.sparse_union([pa.field("i", pa.int64()), pa.field("s", pa.string())]),
        pa.month_day_nano_interval(),
    ],
    ids=str,
)
def test_columns_of_every_type_can_be_left_out(
    scanned: Callable[..., RawFlightClient], type: pa.DataType
) -> None:
    schema = pa.schema([("x", pa.int64()), ("y", type)])

    read = scanned(lambda options: pa.table({"x": [1, 2]}), schema).scan(
        path("s", "t"), column_ids=[0]
    )

    assert read.schema.types == schema.types
    assert read.column("y").to_pylist() == [None, None]


def test_an_empty_table_is_a_schema_without_rows(scanned: Callable[..., RawFlightClient]) -> None:
    read = scanned(lambda options: COLUMNS.empty_table()).scan(path("s", "t"))

    assert read.num_rows == 0
    assert read.schema.equals(COLUMNS)


def test_empty_batches_are_not_sent(scanned: Callable[..., RawFlightClient]) -> None:
    def scan(options: ScanOptions) -> Iterator[pa.RecordBatch]:
        for count in (0, 2, 0, 0, 1):
            yield (
                ROWS.slice(0, count).combine_chunks().to_batches()[0]
                if count
                else (pa.RecordBatch.from_pylist([], schema=COLUMNS))
            )

    flight_client = scanned(scan)
    (endpoint,) = flight_client.endpoints(path("s", "t"))

    assert [chunk.data.num_rows for chunk in flight_client.get(endpoint.ticket)] == [2, 1]


def test_a_scan_knows_who_is_asking_while_it_yields(
    scanned: Callable[..., RawFlightClient],
) -> None:
    seen: list[Any] = []

    def scan(options: ScanOptions) -> Iterator[pa.RecordBatch]:
        for _ in range(3):
            seen.append(current_request())
            yield pa.record_batch({"x": [1]})

    flight_client = scanned(scan, pa.schema([("x", pa.int64())]), auth={"t": "ada"}).with_headers(
        authorization="Bearer t",
        airport_catalog="lake",
        airport_transaction_id="tx",
        airport_client_session_id="session",
        airport_trace_id="trace",
    )
    flight_client.scan(path("s", "t"))

    assert len(seen) == 3
    assert all(
        (r.identity, r.catalog, r.transaction_id, r.session_id, r.trace_id)
        == ("ada", "lake", "tx", "session", "trace")
        for r in seen
    )
    assert all("127.0.0.1" in request.peer for request in seen)


def test_concurrent_scans_have_their_own_requests(scanned: Callable[..., RawFlightClient]) -> None:
    def scan(options: ScanOptions) -> Iterator[pa.RecordBatch]:
        for _ in range(20):
            yield pa.record_batch({"who": [current_request().trace_id]})

    flight_client = scanned(scan, pa.schema([("who", pa.string())]))
    callers = [flight_client.with_headers(airport_trace_id=str(n)) for n in range(8)]
    (endpoint,) = flight_client.endpoints(path("s", "t"))
    readers = [(caller, caller.get(endpoint.ticket)) for caller in callers]

    seen: dict[str, set[str]] = {}
    for _ in range(20):
        for caller, reader in readers:
            chunk = reader.read_chunk().data
            seen.setdefault(caller.headers["airport-trace-id"], set()).update(
                chunk.column("who").to_pylist()
            )

    assert seen == {str(n): {str(n)} for n in range(8)}


@pytest.mark.parametrize(
    "ticket",
    [b"", b"nonsense", b"\x80", b"\x81\xa1v\x01", b"\x81\xa1v\x02", b"\xc0", b"\x01", b"[]"],
)
def test_a_foreign_ticket_is_refused(
    scanned: Callable[..., RawFlightClient], ticket: bytes
) -> None:
    with pytest.raises(pa.ArrowInvalid, match="ticket"):
        scanned(lambda options: ROWS).read(ticket)


def test_a_table_can_be_read_by_many_at_once(start_server: Serving) -> None:
    numbers = pa.table({"n": range(50_000)})
    catalog = CatalogBuilder().schema("s").table("t", numbers).build()
    flight_client = start_server(catalog)

    def read(_: int) -> int:
        total: int = flight_client.scan(path("s", "t")).column("n").to_numpy().sum()
        return int(total)

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(read, range(16))) == {sum(range(50_000))}


class Scanned:
    """A table of which the reader can be watched."""

    name = "t"
    comment = ""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        return self._reader.schema

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        return self._reader


def test_a_read_to_the_end_closes_the_reader(start_server: Serving) -> None:
    class Watched:
        closed = 0
        schema = pa.schema([("x", pa.int64())])

        def __iter__(self) -> Iterator[pa.RecordBatch]:
            return iter([pa.record_batch({"x": [1]})])

        def close(self) -> None:
            self.closed += 1

    watched = Watched()
    flight_client = start_server(CatalogBuilder().schema("s").table(Scanned(watched)).build())

    assert flight_client.scan(path("s", "t")).num_rows == 1
    assert watched.closed == 1

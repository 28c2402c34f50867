"""INSERT over DoExchange: handshake, counts, RETURNING, all rows or none."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.catalog import (
    CatalogBuilder,
    DMLOptions,
    DMLResult,
    ScanOptions,
    column,
    with_check_constraints,
)
from lakeport.errors import ConstraintError
from tests.airport.flight_client import RawFlightClient, Serving, extra_info, path
from tests.airport.mutable_catalog import MutableCatalog, MutableTable
from tests.wait import TIMEOUT_SECONDS

COLUMNS = pa.schema([column("x", pa.int64(), nullable=False, comment="c"), ("name", pa.string())])
SENT = pa.schema([("x", pa.int64()), ("name", pa.string())])
HERE = path("s", "t")


@pytest.fixture
def table() -> MutableTable:
    return MutableTable("t", with_check_constraints(COLUMNS, ["x > 0"]))


@pytest.fixture
def flight_client(start_server: Serving, table: MutableTable) -> RawFlightClient:
    catalog = MutableCatalog()
    catalog.with_table(table)
    return start_server(catalog)


def rows(*names: str | None, start: int = 1) -> pa.Table:
    return pa.table({"x": range(start, start + len(names)), "name": list(names)}, schema=SENT)


def stored(table: MutableTable) -> list[Any]:
    return [row["name"] for row in table.rows.values()]


def test_rows_are_inserted_and_counted(flight_client: RawFlightClient, table: MutableTable) -> None:
    done = flight_client.change("insert", HERE, rows("a", None, "c"))

    assert done.total_changed == 3
    assert done.replies == []
    assert stored(table) == ["a", None, "c"]


def test_the_schema_of_the_answer_comes_before_any_row_is_sent(
    flight_client: RawFlightClient,
) -> None:
    with flight_client.open_exchange(HERE, "insert", return_chunks="1") as (writer, reader):
        writer.begin(SENT)
        assert reader.schema.names == ["x", "name"]
        writer.done_writing()
        reader.read_chunk()


def test_a_statement_without_rows_changes_nothing(
    flight_client: RawFlightClient, table: MutableTable
) -> None:
    done = flight_client.change("insert", HERE, [], schema=SENT)

    assert done.total_changed == 0
    assert stored(table) == []


def test_returning_answers_every_batch_with_what_was_stored(flight_client: RawFlightClient) -> None:
    batches = [*rows("a", "b").to_batches(), *rows().to_batches(), *rows("c", start=3).to_batches()]

    done = flight_client.change("insert", HERE, batches, schema=SENT, returning=True)

    assert [reply.num_rows for reply in done.replies] == [b.num_rows for b in batches]
    assert done.schema.names == ["x", "name"]
    assert [row["name"] for row in done.rows] == ["a", "b", "c"]
    assert done.total_changed == 3


def test_many_batches_arrive_in_order(flight_client: RawFlightClient, table: MutableTable) -> None:
    names = [str(n) for n in range(10_000)]
    done = flight_client.change("insert", HERE, rows(*names).to_batches(max_chunksize=2048))

    assert done.total_changed == 10_000
    assert stored(table) == names


def test_small_batches_are_joined_to_larger_ones(
    start_server: Serving, table: MutableTable
) -> None:
    catalog = MutableCatalog()
    catalog.with_table(table)
    flight_client = start_server(catalog, batch_rows=1000)
    names = [str(n) for n in range(5500)]

    done = flight_client.change("insert", HERE, rows(*names).to_batches(max_chunksize=100))

    assert done.total_changed == 5500
    assert stored(table) == names
    assert [batch.num_rows for batch in table.batches_seen] == [1000] * 5 + [500]


def test_batches_are_not_joined_beyond_the_size_of_a_message(
    start_server: Serving, table: MutableTable
) -> None:
    catalog = MutableCatalog()
    catalog.with_table(table)
    flight_client = start_server(catalog, max_message_size=10_000)

    flight_client.change("insert", HERE, rows(*["x" * 900] * 50).to_batches(max_chunksize=5))

    assert len(table.batches_seen) > 3
    assert stored(table) == ["x" * 900] * 50


@pytest.mark.parametrize("unit", ["us", "ns"])
@pytest.mark.parametrize("returning", [False, True])
def test_a_time_beyond_a_day_is_refused(start_server: Serving, unit: str, returning: bool) -> None:
    # What DuckDB makes of TIMETZ without arrow_lossless_conversion, and cannot read back.
    catalog = MutableCatalog()
    table = catalog.with_table(MutableTable("t", pa.schema([("at", pa.time64(unit))])))
    flight_client = start_server(catalog)
    day = 24 * 60 * 60 * 10 ** (6 if unit == "us" else 9)

    def times(*values: int | None) -> pa.Table:
        return pa.table({"at": pa.array(values, pa.int64()).view(pa.time64(unit))})

    flight_client.change("insert", HERE, times(0, day, None), returning=returning)
    with pytest.raises(flight.FlightServerError, match="a time lies beyond 24:00") as told:
        flight_client.change("insert", HERE, times(0, day + 1), returning=returning)

    assert extra_info(told.value)["exception_type"] == "InvalidInputException"
    assert len(table.batches_seen) == 1


def test_columns_are_found_by_name_and_missing_ones_are_null(
    flight_client: RawFlightClient, table: MutableTable
) -> None:
    flight_client.change("insert", HERE, pa.table({"name": ["a"], "x": [1]}))
    flight_client.change("insert", HERE, pa.table({"name": ["b"]}))

    assert list(table.rows.values()) == [{"x": 1, "name": "a"}, {"x": None, "name": "b"}]


def test_the_table_sees_its_own_types(flight_client: RawFlightClient, table: MutableTable) -> None:
    sent = pa.table({"x": pa.array([1], pa.int8()), "name": pa.array(["a"], pa.string_view())})

    flight_client.change("insert", HERE, sent)

    (batch,) = table.batches_seen
    assert batch.schema.types == SENT.types
    assert not (batch.schema.metadata)
    assert not ({})


@pytest.mark.parametrize(
    "names",
    [
        pa.array(["a", None]),
        pa.array(["a", None], pa.large_string()),
        pa.array(["a", None], pa.string_view()),
        pa.array(["a", None]).dictionary_encode(),
    ],
    ids=lambda names: str(names.type),
)
def test_every_layout_of_a_text_is_taken(
    flight_client: RawFlightClient, table: MutableTable, names: pa.Array
) -> None:
    flight_client.change("insert", HERE, pa.table({"x": [1, 2], "name": names}))

    assert stored(table) == ["a", None]


def test_dictionaries_that_differ_between_batches_are_taken(
    flight_client: RawFlightClient, table: MutableTable
) -> None:
    type = pa.dictionary(pa.uint8(), pa.string())
    parts = [["a", "b"], ["c", "a"]]
    batches = [
        pa.record_batch({"x": [1, 2], "name": pa.array(part).dictionary_encode().cast(type)})
        for part in parts
    ]

    flight_client.change("insert", HERE, batches)

    assert stored(table) == ["a", "b", "c", "a"]


def test_a_uuid_is_taken_as_text_or_bytes(start_server: Serving) -> None:
    key = uuid.uuid4()
    catalog = MutableCatalog()
    table = catalog.with_table(MutableTable("t", pa.schema([("id", pa.uuid())])))
    flight_client = start_server(catalog)

    flight_client.change("insert", HERE, pa.table({"id": [str(key)]}))
    flight_client.change("insert", HERE, pa.table({"id": pa.array([key.bytes], pa.uuid())}))

    assert [row["id"] for row in table.rows.values()] == [key, key]


def test_a_failing_statement_stores_nothing_and_tells_duckdb_the_type(
    flight_client: RawFlightClient, table: MutableTable
) -> None:
    names = ["a"] * 5000 + ["forbidden"] + ["b"] * 5000

    with pytest.raises(flight.FlightServerError, match="'forbidden' is not allowed") as told:
        flight_client.change("insert", HERE, rows(*names).to_batches(max_chunksize=2048))

    assert extra_info(told.value) == {
        "exception_type": "ConstraintException",
        "message": "the name 'forbidden' is not allowed",
    }
    assert stored(table) == []


def test_a_failing_statement_with_returning_ends_at_once(
    flight_client: RawFlightClient, table: MutableTable
) -> None:
    # The client waits for the answer to its batch, and sends nothing more.
    with pytest.raises(flight.FlightServerError, match="'forbidden' is not allowed") as told:
        flight_client.change("insert", HERE, rows("a", "forbidden", "b"), returning=True)

    assert extra_info(told.value)["exception_type"] == "ConstraintException"
    assert stored(table) == []


@pytest.mark.parametrize("returning", [False, True])
def test_a_value_that_does_not_fit_is_an_invalid_input(
    flight_client: RawFlightClient, table: MutableTable, returning: bool
) -> None:
    sent = pa.table({"x": ["many"], "name": ["a"]})

    with pytest.raises(flight.FlightServerError, match="column 'x' cannot take these") as told:
        flight_client.change("insert", HERE, sent, returning=returning)

    assert extra_info(told.value)["exception_type"] == "InvalidInputException"
    assert stored(table) == []


def test_an_unknown_column_is_refused(flight_client: RawFlightClient) -> None:
    with pytest.raises(pa.ArrowInvalid, match=r"table s\.t has no column 'y'"):
        flight_client.change("insert", HERE, pa.table({"x": [1], "y": [2]}))


def test_a_table_that_takes_no_rows_says_so(start_server: Serving) -> None:
    flight_client = start_server(
        CatalogBuilder().schema("s").table("t", pa.table({"x": [1]})).build()
    )

    with pytest.raises(pa.ArrowNotImplementedError, match=r"table s\.t does not take new rows"):
        flight_client.change("insert", HERE, pa.table({"x": [1]}))


def test_an_unknown_table_is_not_found(flight_client: RawFlightClient) -> None:
    with pytest.raises(KeyError, match=r"there is no table s\.nope"):
        flight_client.change("insert", path("s", "nope"), rows("a"))


def test_a_batch_beyond_the_limit_is_refused(start_server: Serving, table: MutableTable) -> None:
    catalog = MutableCatalog()
    catalog.with_table(table)
    flight_client = start_server(catalog, max_message_size=1000)

    with pytest.raises(pa.ArrowInvalid, match="this server takes 1000"):
        flight_client.change("insert", HERE, rows("x" * 2000))
    assert stored(table) == []


class Inserting:
    """A table with an insert of one's own."""

    name = "t"
    comment = ""

    def __init__(self, insert: Any) -> None:
        self.insert = insert

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        return SENT

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        return SENT.empty_table().to_reader()


def serve_insert(start_server: Serving, insert: Any) -> RawFlightClient:
    return start_server(CatalogBuilder().schema("s").table(Inserting(insert)).build())


def test_a_table_that_reads_no_row_is_answered_all_the_same(start_server: Serving) -> None:
    def ignore(rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        return DMLResult(0)

    flight_client = serve_insert(start_server, ignore)

    assert flight_client.change("insert", HERE, rows("a", "b")).total_changed == 0
    done = flight_client.change(
        "insert", HERE, rows("a", "b").to_batches(max_chunksize=1), returning=True
    )
    assert [reply.num_rows for reply in done.replies] == [0, 0]


def test_a_table_is_told_what_to_return(start_server: Serving) -> None:
    seen: list[DMLOptions] = []

    def look(rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        seen.append(options)
        return DMLResult(0)

    flight_client = serve_insert(start_server, look)
    flight_client.change("insert", HERE, rows("a"), returning=True)
    flight_client.change("insert", HERE, rows("a"))

    assert [(o.returning, o.returning_columns) for o in seen] == [
        (True, ("x", "name")),
        (False, ()),
    ]


def test_returned_rows_may_be_fewer_and_in_several_parts(start_server: Serving) -> None:
    def odd_ones(rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        for batch in rows:
            options.emit(batch.slice(0, 1))
            options.emit(batch.slice(2, 1))
        return DMLResult(2)

    flight_client = serve_insert(start_server, odd_ones)

    done = flight_client.change("insert", HERE, rows("a", "b", "c"), returning=True)

    assert [row["name"] for row in done.rows] == ["a", "c"]


def test_rows_that_are_returned_too_late_are_an_error(start_server: Serving) -> None:
    def late(rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        read = rows.read_all()
        options.emit(read.to_batches()[0])
        return DMLResult(read.num_rows)

    flight_client = serve_insert(start_server, late)

    with pytest.raises(flight.FlightInternalError, match="after asking for the next"):
        flight_client.change("insert", HERE, rows("a"), returning=True)


def test_too_many_returned_rows_are_an_error(start_server: Serving) -> None:
    def many(rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        for _ in rows:
            options.emit(pa.record_batch({"x": [1] * 2049, "name": ["a"] * 2049}))
        return DMLResult(1)

    with pytest.raises(flight.FlightInternalError, match="returned 2,049 rows for one batch"):
        serve_insert(start_server, many).change("insert", HERE, rows("a"), returning=True)


def test_an_error_after_the_last_row_is_typed(start_server: Serving) -> None:
    def fail(rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        rows.read_all()
        raise ConstraintError("duplicate key")

    for returning in (False, True):
        with pytest.raises(flight.FlightServerError, match="duplicate key") as told:
            serve_insert(start_server, fail).change("insert", HERE, rows("a"), returning=returning)
        assert extra_info(told.value)["message"] == "duplicate key"


def test_a_connection_that_breaks_stores_nothing(
    flight_client: RawFlightClient, table: MutableTable
) -> None:
    failed = threading.Event()
    insert = table.insert

    def watched(rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        try:
            return insert(rows, options)
        except BaseException:
            failed.set()
            raise

    table.insert = watched  # type: ignore[method-assign]
    options = flight_client.options(airport_operation="insert", return_chunks="1")
    writer, reader = flight_client.client.do_exchange(HERE, options)
    writer.begin(SENT)
    writer.write_batch(rows("a").to_batches()[0])
    reader.read_chunk()

    reader.cancel()

    assert failed.wait(TIMEOUT_SECONDS)
    assert stored(table) == []


def test_a_column_that_is_merely_called_rowid_may_be_null(start_server: Serving) -> None:
    class Keyless(Inserting):
        def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
            return pa.schema([("rowid", pa.int64())])

    def count(rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        return DMLResult(rows.read_all().num_rows)

    flight_client = start_server(CatalogBuilder().schema("s").table(Keyless(count)).build())

    assert flight_client.change("insert", HERE, pa.table({"rowid": [1, None]})).total_changed == 2


class SilentTable(MutableTable):
    """A table whose author forgot to emit."""

    def insert(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        return super().insert(rows, DMLOptions())

    def update_rows(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        return super().update_rows(rows, DMLOptions())

    def delete_rows(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        return super().delete_rows(rows, DMLOptions())


def test_returning_of_a_table_that_never_emits_is_an_error(start_server: Serving) -> None:
    catalog = MutableCatalog()
    catalog.with_table(SilentTable("t", COLUMNS))
    flight_client = start_server(catalog)

    with pytest.raises(
        pa.ArrowNotImplementedError, match="not support RETURNING: it changed 2 rows"
    ):
        flight_client.change("insert", HERE, rows("a", "b"), returning=True)
    for operation, sent in {
        "update": pa.table({"name": ["z"], "rowid": [0]}),
        "delete": pa.table({"rowid": [0]}),
    }.items():
        with pytest.raises(pa.ArrowNotImplementedError, match="RETURNING: it changed 1 row and"):
            flight_client.change(operation, HERE, sent, returning=True)


def test_returning_of_a_statement_that_changes_nothing_gives_no_rows(start_server: Serving) -> None:
    catalog = MutableCatalog()
    catalog.with_table(SilentTable("t", COLUMNS))

    done = start_server(catalog).change("insert", HERE, [], schema=SENT, returning=True)

    assert done.total_changed == 0

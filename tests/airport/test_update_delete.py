"""UPDATE and DELETE over DoExchange: by rowid, in batches or beside them, with RETURNING."""

from __future__ import annotations

import threading
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.catalog import CatalogBuilder, DMLOptions, DMLResult, rowid_field
from tests.airport.flight_client import RawFlightClient, Serving, extra_info, path
from tests.airport.mutable_catalog import ByIdTable, MutableCatalog, MutableTable
from tests.wait import TIMEOUT_SECONDS

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.float64())])
ROWS = [{"id": n, "name": f"n{n}", "amount": float(n)} for n in range(4)]
KINDS = ["batches", "by_id"]


@pytest.fixture
def catalog() -> MutableCatalog:
    catalog = MutableCatalog()
    catalog.with_table(MutableTable("batches", COLUMNS, [dict(row) for row in ROWS]))
    catalog.with_table(ByIdTable("by_id", COLUMNS, [dict(row) for row in ROWS]))
    return catalog


@pytest.fixture
def flight_client(start_server: Serving, catalog: MutableCatalog) -> RawFlightClient:
    return start_server(catalog)


def table_of(catalog: MutableCatalog, kind: str) -> Any:
    schema = catalog.schema("s")
    assert schema is not None
    return schema.table(kind)


def names(catalog: MutableCatalog, kind: str) -> list[str]:
    return [row["name"] for row in table_of(catalog, kind).rows.values()]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_updated_by_their_ids(
    flight_client: RawFlightClient, catalog: MutableCatalog, kind: str
) -> None:
    sent = pa.table({"name": ["x", "y"], "rowid": [2, 0]})

    done = flight_client.change("update", path("s", kind), sent)

    assert done.total_changed == 2
    assert names(catalog, kind) == ["y", "n1", "x", "n3"]


@pytest.mark.parametrize("kind", KINDS)
def test_returning_echoes_the_received_columns_in_their_order(
    flight_client: RawFlightClient, kind: str
) -> None:
    sent = pa.table({"amount": [9.0, 8.0], "name": ["n1", "n3"], "id": [1, 3], "rowid": [1, 3]})

    done = flight_client.change("update", path("s", kind), sent, returning=True)

    assert done.schema.names == ["amount", "name", "id", "rowid"]
    assert done.schema.equals(sent.schema)
    assert done.rows == sent.to_pylist()


@pytest.mark.parametrize("kind", KINDS)
def test_returning_keeps_the_received_layout(flight_client: RawFlightClient, kind: str) -> None:
    sent = pa.table({"name": pa.array(["x"], pa.string_view()), "rowid": pa.array([1], pa.int64())})

    done = flight_client.change("update", path("s", kind), sent, returning=True)

    assert done.schema.field("name").type == pa.string_view()
    assert done.rows == [{"name": "x", "rowid": 1}]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("returning", [False, True])
def test_rows_are_deleted_by_their_ids(
    flight_client: RawFlightClient, catalog: MutableCatalog, kind: str, returning: bool
) -> None:
    done = flight_client.change(
        "delete", path("s", kind), pa.table({"rowid": [3, 1]}), returning=returning
    )

    assert done.total_changed == 2
    assert names(catalog, kind) == ["n0", "n2"]
    if returning:
        assert done.schema.names == ["id", "name", "amount"]
        assert sorted(row["name"] for row in done.rows) == ["n1", "n3"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_id_may_repeat_in_a_delete(
    flight_client: RawFlightClient, catalog: MutableCatalog, kind: str
) -> None:
    done = flight_client.change(
        "delete", path("s", kind), pa.table({"rowid": [1, 1]}), returning=True
    )

    assert done.total_changed == 1
    assert names(catalog, kind) == ["n0", "n2", "n3"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operation", ["update", "delete"])
@pytest.mark.parametrize("returning", [False, True])
def test_a_statement_that_matches_nothing_changes_nothing(
    flight_client: RawFlightClient, kind: str, operation: str, returning: bool
) -> None:
    schema = pa.schema([("rowid", pa.int64())])

    done = flight_client.change(operation, path("s", kind), [], schema=schema, returning=returning)

    assert done.total_changed == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operation", ["update", "delete"])
@pytest.mark.parametrize("returning", [False, True])
def test_a_null_row_id_is_refused(
    flight_client: RawFlightClient,
    catalog: MutableCatalog,
    kind: str,
    operation: str,
    returning: bool,
) -> None:
    columns = {"name": ["x", "y"]} if operation == "update" else {}
    sent = pa.table({**columns, "rowid": pa.array([None, 1], pa.int64())})

    with pytest.raises(flight.FlightServerError, match="null row identifier") as told:
        flight_client.change(operation, path("s", kind), sent, returning=returning)

    assert extra_info(told.value)["exception_type"] == "InvalidInputException"
    assert names(catalog, kind) == ["n0", "n1", "n2", "n3"]


def test_a_failing_update_changes_nothing(
    flight_client: RawFlightClient, catalog: MutableCatalog
) -> None:
    sent = pa.table({"name": ["x", "forbidden"], "rowid": [0, 1]})

    with pytest.raises(flight.FlightServerError, match="not allowed") as told:
        flight_client.change("update", path("s", "batches"), sent)

    assert extra_info(told.value)["exception_type"] == "ConstraintException"
    assert names(catalog, "batches") == ["n0", "n1", "n2", "n3"]


def test_the_rowid_is_marked_in_what_the_table_sees(
    flight_client: RawFlightClient, catalog: MutableCatalog
) -> None:
    flight_client.change("update", path("s", "batches"), pa.table({"name": ["x"], "rowid": [0]}))

    (batch,) = table_of(catalog, "batches").batches_seen
    assert batch.schema.field("rowid").metadata == {b"is_rowid": b"1"}
    assert batch.schema.names == ["name", "rowid"]


def test_batches_with_the_rowid_inside_are_preferred(start_server: Serving) -> None:
    called: list[str] = []

    class Both(MutableTable):
        def update_rows(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
            called.append("update_rows")
            return super().update_rows(rows, options)

        def delete_rows(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
            called.append("delete_rows")
            return super().delete_rows(rows, options)

        def update(self, row_ids: Any, rows: Any, options: Any) -> Any:
            called.append("update")

        def delete(self, row_ids: Any, options: Any) -> Any:
            called.append("delete")

    catalog = MutableCatalog()
    catalog.with_table(Both("t", COLUMNS, [dict(row) for row in ROWS]))
    flight_client = start_server(catalog)

    flight_client.change("update", path("s", "t"), pa.table({"name": ["x"], "rowid": [0]}))
    flight_client.change("delete", path("s", "t"), pa.table({"rowid": [0]}))
    flight_client.action("Delete", b'{"schema_name": "s", "table_name": "t", "row_ids": [1]}')

    assert called == ["update_rows", "delete_rows", "delete_rows"]


@pytest.mark.parametrize("operation", ["update", "delete"])
def test_a_table_of_another_kind_says_what_it_cannot_do(
    start_server: Serving, operation: str
) -> None:
    flight_client = start_server(
        CatalogBuilder().schema("s").table("t", pa.table({"x": [1]})).build()
    )

    with pytest.raises(
        pa.ArrowNotImplementedError, match=rf"the rows of table s\.t cannot be {operation}d"
    ):
        flight_client.change(operation, path("s", "t"), pa.table({"rowid": [1]}))


@pytest.mark.parametrize("operation", ["update", "delete"])
def test_rows_without_a_rowid_cannot_be_found(
    flight_client: RawFlightClient, operation: str
) -> None:
    with pytest.raises(
        pa.ArrowNotImplementedError, match=r"table s\.batches has no row identifier"
    ):
        flight_client.change(operation, path("s", "batches"), pa.table({"name": ["x"]}))


def test_a_table_without_a_rowid_cannot_be_updated(start_server: Serving) -> None:
    class Keyless(MutableTable):
        def arrow_schema(self, columns: Any = None) -> pa.Schema:
            return COLUMNS

    catalog = MutableCatalog()
    catalog.with_table(Keyless("t", COLUMNS))

    with pytest.raises(pa.ArrowNotImplementedError, match="has no row identifier"):
        start_server(catalog).change("update", path("s", "t"), pa.table({"rowid": [1]}))


def test_an_unknown_column_is_refused(flight_client: RawFlightClient) -> None:
    with pytest.raises(pa.ArrowInvalid, match=r"table s\.batches has no column 'y'"):
        flight_client.change("update", path("s", "batches"), pa.table({"y": [1], "rowid": [0]}))


def test_a_rowid_may_have_any_name_and_type(start_server: Serving) -> None:
    class Keyed(MutableTable):
        def arrow_schema(self, columns: Any = None) -> pa.Schema:
            return COLUMNS.append(rowid_field("key", pa.string()))

    catalog = MutableCatalog()
    table = Keyed("t", COLUMNS)
    table.rows = {"k1": {"id": 1, "name": "a", "amount": 1.0}}  # type: ignore[dict-item]
    catalog.with_table(table)
    flight_client = start_server(catalog)

    done = flight_client.change(
        "update", path("s", "t"), pa.table({"name": ["b"], "rowid": ["k1"]})
    )

    assert done.total_changed == 1
    assert [row["name"] for row in table.rows.values()] == ["b"]


def test_returned_rows_of_an_update_must_match_its_rows(start_server: Serving) -> None:
    class Forgetful(MutableTable):
        def update_rows(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
            for _ in rows:
                options.emit(pa.RecordBatch.from_pylist(ROWS[:1], schema=COLUMNS))
            return DMLResult(2)

    catalog = MutableCatalog()
    catalog.with_table(Forgetful("t", COLUMNS, [dict(row) for row in ROWS]))
    sent = pa.table({"name": ["x", "y"], "rowid": [0, 1]})

    with pytest.raises(flight.FlightInternalError, match="returned 1 row without a rowid for 2"):
        start_server(catalog).change("update", path("s", "t"), sent, returning=True)


@pytest.mark.parametrize("operation", ["update", "delete"])
def test_rows_reach_the_table_while_more_arrive(start_server: Serving, operation: str) -> None:
    # A statement of any size is never held in memory as a whole.
    reached = threading.Event()

    class Watched(MutableTable):
        def update_rows(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
            count = 0
            for batch in rows:
                reached.set()
                count += batch.num_rows
            return DMLResult(count)

        delete_rows = update_rows

    catalog = MutableCatalog()
    catalog.with_table(Watched("t", COLUMNS))
    flight_client = start_server(catalog, batch_rows=100)
    batch = pa.record_batch({"rowid": range(100)})

    with flight_client.open_exchange(path("s", "t"), operation, return_chunks="0") as (
        writer,
        reader,
    ):
        writer.begin(batch.schema)
        assert reader.schema is not None
        for _ in range(5):
            writer.write_batch(batch)
        assert reached.wait(TIMEOUT_SECONDS)
        writer.write_batch(batch)
        writer.done_writing()
        last = reader.read_chunk()

    assert msgpack.unpackb(last.app_metadata.to_pybytes()) == {"total_changed": 600}


def test_a_scan_can_run_while_its_rows_are_changed(flight_client: RawFlightClient) -> None:
    # UPDATE opens the exchange first, and reads the same table meanwhile.
    with flight_client.open_exchange(path("s", "batches"), "update", return_chunks="0") as (
        writer,
        reader,
    ):
        schema = pa.schema([("name", pa.string()), ("rowid", pa.int64())])
        writer.begin(schema)
        assert reader.schema is not None
        read = flight_client.scan(path("s", "batches"))
        for rowid in read.column("rowid").to_pylist():
            writer.write_batch(
                pa.RecordBatch.from_pydict({"name": ["new"], "rowid": [rowid]}, schema=schema)
            )
        writer.done_writing()
        reader.read_chunk()

    assert set(flight_client.scan(path("s", "batches")).column("name").to_pylist()) == {"new"}

"""Columns whose extension types are nested: Arrow cannot make empty arrays of them by itself."""

from __future__ import annotations

import json
import uuid
from typing import Any

import msgpack
import pyarrow as pa
import pytest

from lakeport.catalog import CatalogBuilder, DMLOptions, DMLResult, ScanOptions
from lakeport.filters import parse_filter
from tests.airport.flight_client import Serving, one_row, opening, path
from tests.airport.mutable_catalog import MutableCatalog, MutableTable
from tests.catalog.reading import greater_than

KEY = uuid.UUID(int=7)


@pytest.fixture(params=["struct", "list", "map", "array"])
def column(request: pytest.FixtureRequest) -> pa.Array:
    """One value of the type, and a null."""
    keys = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([KEY.bytes], pa.binary(16)))
    made = {
        "struct": lambda: pa.StructArray.from_arrays([keys], names=["u"]),
        "list": lambda: pa.ListArray.from_arrays([0, 1], keys),
        "map": lambda: pa.MapArray.from_arrays([0, 1], ["k"], keys),
        "array": lambda: pa.FixedSizeListArray.from_arrays(keys, 1),
    }[request.param]()
    return pa.concat_arrays([made, pa.nulls(1, made.type)])


def test_a_scan_of_the_future_is_empty(start_server: Serving, column: pa.Array) -> None:
    data = pa.table({"c": column})
    flight_client = start_server(CatalogBuilder().schema("s").table("t", data).build())
    ticket = json.dumps({"schema_name": "s", "table_name": "t", "ts": 10**10}).encode()

    read = flight_client.read(ticket)

    assert read.num_rows == 0
    assert read.schema.equals(data.schema)


def test_statistics_are_answered(start_server: Serving, column: pa.Array) -> None:
    data = pa.table({"c": column})
    flight_client = start_server(
        CatalogBuilder().schema("s").table("t", data, statistics=True).build()
    )

    reply = flight_client.call(
        "column_statistics",
        flight_descriptor=path("s", "t").serialize(),
        column_name="c",
        type="STRUCT(u UUID)",
    )

    with pa.ipc.open_stream(reply) as stream:
        assert stream.read_next_batch().num_rows == 1


def test_a_filter_beside_them_is_applied(column: pa.Array) -> None:
    data = pa.table({"n": [1, 2], "c": column})
    catalog = CatalogBuilder().schema("s").table("t", data).build()
    options = ScanOptions(filter=parse_filter(greater_than("n", 1)))

    read = catalog.schemas()[0].tables()[0].scan(options).read_all()

    assert read.column("n").to_pylist() == [2]


def test_an_in_out_function_passes_them_on(start_server: Serving, column: pa.Array) -> None:
    schema = CatalogBuilder().schema("s")
    schema.table_function_in_out("echo", lambda rows: rows, schema=lambda rows: rows)
    flight_client = start_server(schema.build())
    batch = pa.record_batch({"c": column})

    with flight_client.open_exchange(
        path("s", "echo"), "table_function_in_out", return_chunks="1"
    ) as (
        writer,
        reader,
    ):
        writer.write_metadata(opening(one_row()))
        writer.begin(batch.schema)
        writer.write_batch(batch)
        writer.done_writing()
        chunks = [chunk.data for chunk in reader]

    assert [chunk.num_rows for chunk in chunks] == [2, 0, 0]
    assert chunks[0].equals(batch)


@pytest.mark.parametrize("returning", [False, True])
def test_rows_are_inserted_and_returned(
    start_server: Serving, column: pa.Array, returning: bool
) -> None:
    class Kept(MutableTable):
        def insert(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
            for batch in rows:
                self.batches_seen.append(batch)
                options.emit(batch)
            return DMLResult(sum(batch.num_rows for batch in self.batches_seen))

    catalog = MutableCatalog()
    table = catalog.with_table(Kept("t", pa.schema([("c", column.type)])))
    sent = pa.table({"c": column})

    done = start_server(catalog).change("insert", path("s", "t"), sent, returning=returning)

    assert done.total_changed == 2
    assert pa.Table.from_batches(table.batches_seen).equals(sent)
    assert [reply.num_rows for reply in done.replies] == ([2] if returning else [])


def test_a_schema_with_them_is_listed(start_server: Serving, column: pa.Array) -> None:
    flight_client = start_server(
        CatalogBuilder().schema("s").table("t", pa.table({"c": column})).build()
    )

    info: Any = flight_client.items("s")["t"]

    assert info.schema.field("c").type == column.type
    assert msgpack.unpackb(info.app_metadata)["name"] == "t"

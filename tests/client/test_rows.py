"""Rows that a user hands in, in every form."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakeport.airport.client import Client
from lakeport.arrow.readers import reader_of
from lakeport.errors import InternalError, InvalidArgumentError, InvalidInputError
from tests.client.handwritten_server import HandTable, HandwrittenServer, flight_info


def test_missing_keys_are_null_and_types_come_from_the_table() -> None:
    schema = pa.schema([("a", pa.int8()), ("b", pa.string())])
    rows = reader_of([{"A": 1}, {"b": "x"}], schema).read_all()
    assert rows.to_pydict() == {"A": [1, None], "b": [None, "x"]}
    assert rows.schema.field("A").type == pa.int8()
    assert reader_of([], schema).schema == schema


def test_a_list_must_be_of_one_kind() -> None:
    with pytest.raises(InvalidArgumentError, match="dicts or record batches"):
        reader_of([{"a": 1}, pa.record_batch({"a": [1]})])


def test_batches_of_a_list_belong_together_by_the_names_of_their_columns() -> None:
    batches = [
        pa.record_batch({"a": [1], "b": [10]}),
        pa.record_batch({"b": [20], "a": [2]}),
        pa.record_batch({"a": [3]}),
    ]

    assert reader_of(batches).read_all().to_pydict() == {"a": [1, 2, 3], "b": [10, 20, None]}
    with pytest.raises(InvalidInputError, match="the batches do not fit each other"):
        reader_of([*batches, pa.record_batch({"a": ["x"]})])


@pytest.mark.parametrize(
    "type", [pa.list_(pa.uuid()), pa.sparse_union([pa.field("a", pa.int32())])], ids=str
)
def test_no_rows_have_columns_of_every_type(type: pa.DataType) -> None:
    schema = pa.schema([("c", type)])
    assert reader_of([], schema).read_all().schema == schema


def test_dictionary_columns_are_inserted_and_returned(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    schema = pa.schema([("d", pa.dictionary(pa.int8(), pa.string()))])
    handwritten_server.tables["d"] = HandTable(schema)
    result = client_of_handwritten_server.table("w.d").insert(
        {"d": ["a", "b", "a", None] * 1000}, returning=True
    )
    assert result.returning is not None
    assert result.returning.column("d").to_pylist() == ["a", "b", "a", None] * 1000
    assert [row["d"] for row in handwritten_server.tables["d"].rows[:4]] == ["a", "b", "a", None]


def test_statistics_must_be_complete(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    table = handwritten_server.tables["t"]
    table.schema = table.schema.with_metadata({"can_produce_statistics": "1"})
    sink = pa.BufferOutputStream()
    row = pa.RecordBatch.from_pylist([{"min": 1, "max": 2}])
    with pa.ipc.new_stream(sink, row.schema) as stream:
        stream.write_batch(row)
    handwritten_server.replies["column_statistics"] = sink.getvalue().to_pybytes()
    with pytest.raises(InternalError, match="there is no distinct_count"):
        client_of_handwritten_server.table("w.t").statistics("id")
    seen = handwritten_server.last("column_statistics")
    assert (seen.request["column_name"], seen.request["type"]) == (b"id", b"INTEGER")
    assert seen.headers["airport-action-name"] == ["column_statistics"] * 2
    assert seen.header("airport-flight-path") is None
    assert seen.header("airport-transaction-id") == "tx1"


def test_the_server_must_describe_the_flight_asked_for(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    handwritten_server.replies["GetFlightInfo"] = lambda _: flight_info(
        pa.schema([]), ["other"], None
    )
    with pytest.raises(InternalError, match="another flight"):
        client_of_handwritten_server.take_flight(["w", "t"]).to_arrow()


def test_the_columns_of_a_scan_are_known_without_asking(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    table = client_of_handwritten_server.table("w.t")
    handwritten_server.seen.clear()
    assert table.scan(["rowid", "name"]).schema.names == ["rowid", "name"]
    assert handwritten_server.seen == []

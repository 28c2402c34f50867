"""INSERT, UPDATE and DELETE: what is sent, what comes back, and what happens when it fails."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lakeport.airport.client import Client, RemoteTable
from lakeport.catalog import CatalogBuilder, CreateSchemaOptions, column
from lakeport.errors import (
    ConstraintError,
    InternalError,
    InvalidArgumentError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from lakeport.filters import col
from lakeport.memory import MemoryCatalog
from tests.client.conftest import Attach
from tests.client.handwritten_server import HandTable, HandwrittenServer, packed
from tests.wait import TIMEOUT_SECONDS

# Against the server written by hand


@pytest.fixture
def table(client_of_handwritten_server: Client) -> RemoteTable:
    return client_of_handwritten_server.table("w.t")


def test_an_insert_is_the_exchange_that_duckdb_makes(
    handwritten_server: HandwrittenServer, table: RemoteTable
) -> None:
    handwritten_server.seen.clear()
    result = table.insert([{"id": 4, "name": "d"}])
    assert (result.affected_rows, result.returning) == (1, None)
    assert handwritten_server.calls_seen() == [
        "create_transaction",
        "catalog_version",
        "DoExchange",
    ]
    seen = handwritten_server.last("DoExchange")
    assert seen.header("airport-operation") == "insert"
    assert seen.header("return-chunks") == "0"
    assert seen.header("airport-transaction-id") == "tx1"
    assert seen.header("airport-flight-path") == "w/t"
    assert seen.header("airport-trace-id")
    assert handwritten_server.tables["t"].rows[-1]["name"] == "d"
    assert handwritten_server.outcomes == ["ended"]


def test_inserted_rows_come_back(handwritten_server: HandwrittenServer, table: RemoteTable) -> None:
    result = table.insert({"NAME": ["d", None]}, returning=True)
    assert result.affected_rows == 2
    assert result.returning is not None
    assert result.returning.to_pydict() == {"id": [None, None], "name": ["d", None]}
    assert handwritten_server.last("DoExchange").header("return-chunks") == "1"


@pytest.mark.parametrize("returning", [False, True])
@pytest.mark.parametrize("rows", [0, 1, 2048, 2049, 10_000])
def test_batches_are_cut_as_duckdb_cuts_them(
    handwritten_server: HandwrittenServer, table: RemoteTable, rows: int, returning: bool
) -> None:
    source = pa.table({"id": pa.array(range(rows), pa.int64()), "name": pa.nulls(rows)})
    result = table.insert(source, returning=returning)
    assert result.affected_rows == rows
    assert len(handwritten_server.tables["t"].rows) == rows + 3
    if returning:
        assert result.returning is not None
        assert result.returning.column("id").to_pylist() == list(range(rows))
        assert result.returning.schema.field("id").type == pa.int32()


@pytest.mark.parametrize(
    "rows",
    [
        [{"id": 9, "name": "x"}],
        {"id": [9], "name": ["x"]},
        pd.DataFrame({"id": [9], "name": ["x"]}),
        pl.DataFrame({"name": ["x"], "id": [9]}),
        pa.record_batch({"id": [9], "name": ["x"]}),
        pa.table({"name": pa.array(["x"]).dictionary_encode(), "id": pa.array([9.0])}),
    ],
)
def test_rows_of_every_kind_are_inserted(
    handwritten_server: HandwrittenServer, table: RemoteTable, rows: Any
) -> None:
    assert table.insert(rows).affected_rows == 1
    assert handwritten_server.tables["t"].rows[-1] == {"id": 9, "name": "x", "rowid": 100}


def test_an_update_sends_the_rowid_last(
    handwritten_server: HandwrittenServer, table: RemoteTable
) -> None:
    rows = table.scan(["rowid", "name"], filter=col("id") >= 2).to_arrow()
    changed = rows.set_column(1, "name", pa.array(["B", "C"]))
    result = table.update(changed, returning=True)
    assert result.affected_rows == 2
    assert result.returning is not None
    assert result.returning.to_pydict() == {"name": ["B", "C"], "rowid": [20, 30]}
    assert [row["name"] for row in handwritten_server.tables["t"].rows] == ["a", "B", "C"]
    assert handwritten_server.last("DoExchange").header("airport-operation") == "update"


def test_a_delete_sends_the_rowid_alone(
    handwritten_server: HandwrittenServer, table: RemoteTable
) -> None:
    result = table.delete([10, 30], returning=True)
    assert result.affected_rows == 2
    assert result.returning is not None
    assert result.returning.to_pydict() == {"id": [1, 3], "name": ["a", "c"]}
    assert [row["id"] for row in handwritten_server.tables["t"].rows] == [2]
    assert handwritten_server.last("DoExchange").header("airport-operation") == "delete"


@pytest.mark.parametrize(
    "rowids",
    [
        [10],
        (10,),
        pa.array([10], pa.int32()),
        pa.chunked_array([[10]]),
        pa.table({"rowid": [10]}),
        pa.table({"id": [1], "rowid": [10]}),
        [{"rowid": 10}],
    ],
)
def test_row_identifiers_of_every_kind(
    handwritten_server: HandwrittenServer, table: RemoteTable, rowids: Any
) -> None:
    assert table.delete(rowids).affected_rows == 1
    assert [row["id"] for row in handwritten_server.tables["t"].rows] == [2, 3]


def test_statements_without_rows(table: RemoteTable) -> None:
    assert table.insert([]).affected_rows == 0
    assert table.delete([]).affected_rows == 0
    nothing = pa.table({"rowid": pa.array([], pa.int64()), "name": pa.array([], pa.string())})
    result = table.update(nothing, returning=True)
    assert result.affected_rows == 0
    assert result.returning is not None
    assert result.returning.num_rows == 0


def test_defaults_are_computed_by_the_client(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    schema = pa.schema(
        [
            column("id", pa.int64()),
            column("word", pa.string(), default="'w' || 'ord'"),
            column("number", pa.int16(), default="40 + 2"),
            column("seen", pa.bool_(), default="random() >= 0"),
        ]
    )
    handwritten_server.tables["d"] = HandTable(schema)
    table = client_of_handwritten_server.table("w.d")
    table.insert([{"id": i} for i in range(3000)])
    row = {"word": "word", "number": 42, "seen": True}
    assert all({k: r[k] for k in row} == row for r in handwritten_server.tables["d"].rows)
    table.insert([{"id": 1, "word": "mine", "number": None, "seen": False}])
    assert handwritten_server.tables["d"].rows[-1]["word"] == "mine"
    assert handwritten_server.tables["d"].rows[-1]["number"] is None


@pytest.mark.parametrize(
    "expression",
    [
        "(SELECT content FROM read_text('/etc/hostname'))",
        "1); COPY (SELECT 1) TO '/tmp/x'; --",
        "no_such_function()",
        "'not a number'",
    ],
)
def test_a_default_can_do_no_harm(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client, expression: str
) -> None:
    schema = pa.schema([column("id", pa.int64()), column("x", pa.int64(), default=expression)])
    handwritten_server.tables["d"] = HandTable(schema)
    with pytest.raises(InvalidInputError, match="default of column 'x'"):
        client_of_handwritten_server.table("w.d").insert([{"id": 1}])
    assert not handwritten_server.tables["d"].rows


def test_without_duckdb_a_default_must_be_given(
    handwritten_server: HandwrittenServer,
    client_of_handwritten_server: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schema = pa.schema([column("id", pa.int64()), column("x", pa.int64(), default="1")])
    handwritten_server.tables["d"] = HandTable(schema)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match="install the duckdb package"):
        client_of_handwritten_server.table("w.d").insert([{"id": 1}])
    assert client_of_handwritten_server.table("w.d").insert([{"id": 1, "x": 2}]).affected_rows == 1


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([{"zip": 1}], NotFoundError, "no column 'zip'"),
        ([{"id": "x"}], InvalidInputError, "do not fit"),
        (pa.table({"id": ["x"]}), InvalidInputError, "column 'id' cannot take these values"),
        (pa.table({"id": [2**40]}), InvalidInputError, "column 'id' cannot take these values"),
        (pa.table([[1], [2]], names=["id", "ID"]), InvalidArgumentError, "occurs twice"),
        (5, InvalidArgumentError, "is not rows"),
    ],
)
def test_rows_that_do_not_fit_are_refused(
    handwritten_server: HandwrittenServer,
    table: RemoteTable,
    rows: Any,
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        table.insert(rows)
    assert len(handwritten_server.tables["t"].rows) == 3


def test_a_uuid_may_be_written_as_text(attach_client: Attach) -> None:
    given = uuid.UUID("12345678-1234-5678-1234-567812345678")
    catalog = MemoryCatalog()
    catalog.create_schema("s", CreateSchemaOptions())
    table = attach_client(catalog).create_table("s", "t", pa.schema([("u", pa.uuid())]))

    table.insert(pa.table({"u": [str(given)]}))
    table.insert([{"u": str(given)}])
    table.insert([{"u": given}])
    table.insert({"u": pa.array([given.bytes], pa.binary(16))})

    assert table.scan().to_arrow().column("u").to_pylist() == [given] * 4


def test_changes_need_a_row_identifier(attach_client: Attach, table: RemoteTable) -> None:
    with pytest.raises(InvalidArgumentError, match="need the row identifier"):
        table.update(pa.table({"name": ["x"]}))
    with pytest.raises(InvalidArgumentError, match="need the row identifier"):
        table.delete(pa.table({"name": ["x"]}))
    plain = attach_client(CatalogBuilder().schema("s").table("t", pa.table({"x": [1]})).build())
    with pytest.raises(UnsupportedError, match="has no row identifier"):
        plain.table("s.t").delete([1])
    with pytest.raises(UnsupportedError, match="does not take new rows"):
        plain.table("s.t").insert([{"x": 1}])


def test_a_statement_that_fails_on_the_client_is_cancelled(
    handwritten_server: HandwrittenServer, table: RemoteTable
) -> None:
    def source() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": range(3000)})
        raise RuntimeError("the source broke")

    rows = pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), source())
    with pytest.raises(RuntimeError, match="the source broke"):
        table.insert(rows)
    assert handwritten_server.exchange_over.wait(TIMEOUT_SECONDS)
    assert handwritten_server.outcomes == ["failed"]


# Servers that do not keep to the protocol

T = pa.schema([("id", pa.int32()), ("name", pa.string())])


def _ending_with(*last: bytes | pa.RecordBatch, schema: pa.Schema = T) -> Any:
    def exchange(reader: Any, writer: Any) -> None:
        assert reader.schema is not None
        writer.begin(schema)
        for _ in reader:
            pass
        for message in last:
            if isinstance(message, bytes):
                writer.write_metadata(message)
            else:
                writer.write_batch(message)

    return exchange


@pytest.mark.parametrize(
    ("exchange", "message"),
    [
        (_ending_with(), "did not confirm"),
        (_ending_with(pa.RecordBatch.from_pylist([], schema=T)), "did not confirm"),
        (_ending_with(b"junk"), "cannot be decoded"),
        (_ending_with(packed({})), "'total_changed' is missing"),
        (_ending_with(packed({"total_changed": -1})), "cannot be decoded"),
        (_ending_with(packed({"total_changed": "1"})), "cannot be decoded"),
    ],
)
def test_a_confirmation_that_is_none(
    handwritten_server: HandwrittenServer, table: RemoteTable, exchange: Any, message: str
) -> None:
    handwritten_server.exchange = exchange
    with pytest.raises(InternalError, match=message):
        table.insert([{"id": 1}])


def test_what_comes_after_the_confirmation_is_ignored(
    handwritten_server: HandwrittenServer, table: RemoteTable
) -> None:
    def exchange(reader: Any, writer: Any) -> None:
        _ending_with(packed({"total_changed": 5}))(reader, writer)
        raise RuntimeError("too late")

    handwritten_server.exchange = exchange
    assert table.insert([{"id": 1}]).affected_rows == 5


def test_answers_must_have_the_columns_of_the_table(
    handwritten_server: HandwrittenServer, table: RemoteTable
) -> None:
    handwritten_server.exchange = _ending_with(schema=pa.schema([("id", pa.int32())]))
    with pytest.raises(InternalError, match="lacks column 'name'"):
        table.insert([{"id": 1}], returning=True)


def test_answers_must_have_rows(handwritten_server: HandwrittenServer, table: RemoteTable) -> None:
    def exchange(reader: Any, writer: Any) -> None:
        assert reader.schema is not None
        writer.begin(T)
        writer.write_metadata(b"hello")
        for _ in reader:
            pass

    handwritten_server.exchange = exchange
    with pytest.raises(InternalError, match="without rows"):
        table.insert([{"id": 1}], returning=True)


# Against the real server


@pytest.fixture
def memory(attach_client: Attach) -> Client:
    columns = pa.schema(
        [
            column("id", pa.int64(), nullable=False),
            column("name", pa.string()),
            column("tags", pa.list_(pa.string())),
        ]
    )
    rows = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"], "tags": [["x"], [], None]})
    return attach_client(MemoryCatalog.from_tables({"s": {"t": rows.cast(columns)}}))


def test_a_round_trip_through_a_real_server(memory: Client) -> None:
    table = memory.table("s.t")
    inserted = table.insert([{"id": 4, "name": "d", "tags": ["y", "z"]}], returning=True)
    assert inserted.returning is not None
    assert inserted.returning.to_pylist() == [{"id": 4, "name": "d", "tags": ["y", "z"]}]

    rows = table.scan(["rowid", "name"], filter=col("id") > 2).to_arrow()
    upper = pa.array([name.upper() for name in rows.column("name").to_pylist()])
    updated = table.update(rows.set_column(1, "name", upper), returning=True)
    assert updated.affected_rows == 2
    assert updated.returning is not None
    assert sorted(updated.returning.column("name").to_pylist()) == ["C", "D"]

    gone = table.scan(["rowid"], filter=col("name") == "C").to_arrow()
    deleted = table.delete(gone, returning=True)
    assert deleted.returning is not None
    assert deleted.returning.column("id").to_pylist() == [3]
    left = table.scan(["id", "name"]).to_arrow().sort_by("id")
    assert left.to_pydict() == {"id": [1, 2, 4], "name": ["a", "b", "D"]}


def test_constraints_of_a_real_server(memory: Client) -> None:
    with pytest.raises(ConstraintError, match="id"):
        memory.table("s.t").insert([{"id": None, "name": "x"}])
    with pytest.raises(ConstraintError, match="id"):
        memory.table("s.t").insert([{"name": "x"}], returning=True)
    assert memory.table("s.t").scan().count() == 3


def test_a_large_insert_into_a_real_server(memory: Client) -> None:
    rows = pa.table({"id": pa.array(range(100, 50_100), pa.int64())})
    assert memory.table("s.t").insert(rows).affected_rows == 50_000
    assert memory.table("s.t").scan(filter=col("id") >= 100).count() == 50_000
    ids = memory.table("s.t").scan(["rowid"], filter=col("id") >= 100).to_arrow()
    assert memory.table("s.t").delete(ids).affected_rows == 50_000


def test_a_broken_source_leaves_a_real_server_unchanged(memory: Client) -> None:
    def source() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": pa.array(range(100, 5100), pa.int64())})
        raise RuntimeError("the source broke")

    rows = pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), source())
    with pytest.raises(RuntimeError, match="the source broke"):
        memory.table("s.t").insert(rows)
    assert memory.table("s.t").scan().count() == 3


def test_many_threads_insert_at_once(memory: Client) -> None:
    failures: list[BaseException] = []

    def work(start: int) -> None:
        try:
            memory.table("s.t").insert([{"id": start + i} for i in range(10)])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(1000 * n,)) for n in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert memory.table("s.t").scan().count() == 83

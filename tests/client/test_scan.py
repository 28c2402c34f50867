"""Reading tables: columns, filters, limits, several endpoints, other servers."""

from __future__ import annotations

import sys
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.airport import Limits, Server
from lakeport.airport.client import Client, RemoteTable
from lakeport.catalog import (
    CatalogBuilder,
    Partition,
    ScanOptions,
    StaticCatalog,
    project_schema,
    rowid_field,
)
from lakeport.errors import (
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    UnsupportedError,
)
from lakeport.filters import Filter, FunctionCall, col, lit
from lakeport.types.logical import BOOLEAN
from tests.client.conftest import Attach
from tests.client.handwritten_server import HandwrittenServer, endpoints

ROWS = 100_000


@pytest.fixture
def numbers() -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "Text": pa.array([f"t{i % 10}" for i in range(ROWS)]),
            "even": pa.array([i % 2 == 0 for i in range(ROWS)]),
        }
    )


@pytest.fixture
def table(attach_client: Attach, numbers: pa.Table) -> RemoteTable:
    catalog = CatalogBuilder().schema("s").table("numbers", numbers, endpoints=4).build()
    return attach_client(catalog).table("s.numbers")


def test_a_scan_gives_every_row(table: RemoteTable, numbers: pa.Table) -> None:
    assert table.scan().to_arrow().sort_by("id").equals(numbers)


def test_columns_come_in_the_order_named(table: RemoteTable) -> None:
    scan = table.scan(["even", "TEXT", "even"])
    assert scan.schema.names == ["even", "Text", "even"]
    assert scan.limit(1).to_arrow().column_names == ["even", "Text", "even"]


def test_filters_are_applied_whatever_the_server_does(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    # The hand-written server ignores filters.
    scan = client_of_handwritten_server.table("w.t").scan(["name"], filter=col("ID") >= 2)
    assert scan.to_arrow().to_pydict() == {"name": ["b", "c"]}
    assert scan.count() == 2


@pytest.mark.parametrize(
    ("where", "count"),
    [
        (col("id") < 10, 10),
        ((col("id") < 10) | (col("id") == 50), 11),
        ((col("text") == "t1") & ~col("even"), ROWS // 10),
        (~(col("even")), ROWS // 2),
        (col("even"), ROWS // 2),
        (col("text").starts_with("t9"), ROWS // 10),
        (col("text").is_in(["t1", "t2", None]), ROWS // 5),
        (col("text").is_in([]), 0),
        (col("text").is_not_in([]), ROWS),
        (Filter.of(col("id").between(5, 7), col("id") != 6), 2),
        (Filter.always(), ROWS),
        (None, ROWS),
    ],
)
def test_filters_of_every_kind(table: RemoteTable, where: Any, count: int) -> None:
    assert table.scan(filter=where).count() == count


def test_filters_can_be_added(table: RemoteTable) -> None:
    scan = table.scan(filter=col("id") < 100).filter(col("even")).select("id").limit(3)
    assert scan.to_arrow().to_pydict() == {"id": [0, 2, 4]}


def test_without_duckdb_arrow_applies_the_filter(
    client_of_handwritten_server: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    scan = client_of_handwritten_server.table("w.t").scan(
        ["id"], filter=(col("id") >= 2) & (col("name") != "c")
    )
    assert scan.to_arrow().to_pydict() == {"id": [2]}
    odd = FunctionCall("levenshtein", (lit("a"), lit("b")), BOOLEAN)
    with pytest.raises(UnsupportedError, match="install the duckdb package"):
        client_of_handwritten_server.table("w.t").scan(filter=odd).to_arrow()


def test_a_filter_that_cannot_be_applied_is_refused(client_of_handwritten_server: Client) -> None:
    foreign = FunctionCall("f", (), BOOLEAN, catalog="db", schema="s")
    with pytest.raises(UnsupportedError, match="cannot be applied"):
        client_of_handwritten_server.table("w.t").scan(filter=foreign).to_arrow()


@pytest.mark.parametrize("limit", [0, 1, 2048, ROWS, ROWS + 1])
def test_a_limit_is_kept(table: RemoteTable, limit: int) -> None:
    scan = table.scan(limit=limit)
    assert scan.count() == min(limit, ROWS)
    assert scan.to_arrow().num_rows == min(limit, ROWS)


def test_frames_of_pandas_and_polars(table: RemoteTable) -> None:
    scan = table.scan(["id", "Text"], filter=col("id") < 3)
    assert scan.to_pandas().equals(pd.DataFrame({"id": [0, 1, 2], "Text": ["t0", "t1", "t2"]}))
    assert scan.to_polars().equals(pl.DataFrame({"id": [0, 1, 2], "Text": ["t0", "t1", "t2"]}))


@pytest.mark.parametrize("module", ["pandas", "polars"])
def test_missing_packages_are_named(
    table: RemoteTable, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UnsupportedError, match=rf'pip install "lakeport\[{module}\]"'):
        getattr(table.scan(limit=1), f"to_{module}")()


def test_a_scan_can_be_read_again(table: RemoteTable) -> None:
    scan = table.scan(["id"], limit=5)
    assert scan.to_arrow().num_rows == scan.to_reader().read_all().num_rows == 5


def test_wrong_requests_are_refused(table: RemoteTable) -> None:
    with pytest.raises(NotFoundError, match="no column 'zip'"):
        table.scan(["zip"]).to_arrow()
    with pytest.raises(NotFoundError, match="no column 'zip' to filter by"):
        table.scan(filter=col("zip") == 1).to_arrow()
    with pytest.raises(InvalidArgumentError, match="name at least one column"):
        table.scan([])
    with pytest.raises(InvalidArgumentError, match="must not be negative"):
        table.scan(limit=-1)
    with pytest.raises(InvalidArgumentError, match="is not a filter"):
        table.scan(filter=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("position", [0, 1, 2])
def test_the_row_identifier_may_be_anywhere(attach_client: Attach, position: int) -> None:
    fields = [pa.field("a", pa.int64()), pa.field("b", pa.string())]
    fields.insert(position, rowid_field("key", pa.string()))
    data = pa.table({"a": [1, 2], "b": ["x", "y"], "key": ["k1", "k2"]})
    schema = pa.schema(fields)
    catalog = CatalogBuilder().schema("s").table("t", data.select(schema.names).cast(schema))
    table = attach_client(catalog.build()).table("s.t")
    assert table.scan().to_arrow().to_pydict() == {"a": [1, 2], "b": ["x", "y"]}
    rows = table.scan(["rowid", "b"], filter=col("rowid") == "k2").to_arrow()
    assert rows.to_pydict() == {"rowid": ["k2"], "b": ["y"]}
    assert table.scan().count() == 2


def test_a_column_called_rowid_is_a_column(attach_client: Attach) -> None:
    catalog = CatalogBuilder().schema("s").table("t", pa.table({"rowid": [5]})).build()
    assert attach_client(catalog).table("s.t").scan().to_arrow().to_pydict() == {"rowid": [5]}


def test_no_endpoint_means_no_rows(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    handwritten_server.replies["endpoints"] = endpoints()
    rows = client_of_handwritten_server.table("w.t").scan(["name"]).to_arrow()
    assert rows.schema.names == ["name"]
    assert rows.num_rows == 0


def test_endpoints_on_another_server(attach_client: Attach, numbers: pa.Table) -> None:
    class Elsewhere:
        name = "numbers"
        comment = ""

        def __init__(self, location: str | None) -> None:
            self.location = location

        def arrow_schema(self, columns: Any = None) -> pa.Schema:
            return numbers.schema

        def endpoints(self, options: ScanOptions) -> list[Partition]:
            return [Partition(b"first", self.location), Partition(b"second")]

        def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
            assert options.partition is not None
            start = 0 if options.partition == b"first" else ROWS // 2
            return numbers.slice(start, ROWS // 2).to_reader()

    def catalog(location: str | None) -> StaticCatalog:
        return CatalogBuilder().schema("s").table(Elsewhere(location)).build()

    with Server(catalog(None)) as other:
        rows = attach_client(catalog(other.location)).table("s.numbers").scan(["id"]).to_arrow()
    assert sorted(rows.column("id").to_pylist()) == list(range(ROWS))


def test_many_endpoints_are_read_by_few_threads(attach_client: Attach) -> None:
    def reader(options: ScanOptions) -> pa.Table:
        assert options.partition is not None
        return pa.table({"x": [int(options.partition)]})

    class Parts:
        name = "parts"
        comment = ""

        def arrow_schema(self, columns: Any = None) -> pa.Schema:
            return pa.schema([("x", pa.int64())])

        def endpoints(self, options: ScanOptions) -> list[Partition]:
            return [Partition(str(i).encode()) for i in range(200)]

        def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
            return reader(options).to_reader()

    client = attach_client(CatalogBuilder().schema("s").table(Parts()).build())
    rows = client.table("s.parts").scan().to_arrow()
    assert sorted(rows.column("x").to_pylist()) == list(range(200))


def test_dictionary_columns_survive(attach_client: Attach) -> None:
    data = pa.chunked_array(
        [pa.array(["a", "b", None]).dictionary_encode(), pa.array(["c"]).dictionary_encode()]
    )
    catalog = CatalogBuilder().schema("s").table("t", pa.table({"d": data})).build()
    column = attach_client(catalog).table("s.t").scan(filter=col("d") != "b").to_arrow().column("d")
    assert column.type == data.type
    assert column.to_pylist() == ["a", "c"]


def test_a_stream_without_rows_in_some_messages(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    schema = handwritten_server.tables["t"].full_schema
    batch = pa.RecordBatch.from_pylist(handwritten_server.tables["t"].rows, schema)
    handwritten_server.stream = lambda: flight.GeneratorStream(
        schema, iter([batch.slice(0, 0), (batch, b"\x81\xa8progress\xcb?\xf0\0\0\0\0\0\0")])
    )
    assert client_of_handwritten_server.table("w.t").scan().count() == 3


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (pa.schema([("id", pa.int32())]), "announced 3 columns and sends 1"),
        (
            pa.schema([("id", pa.int32()), ("name", pa.large_string()), ("rowid", pa.int64())]),
            "announced string for column 'name' and sends large_string",
        ),
    ],
)
def test_a_stream_must_have_the_announced_columns(
    handwritten_server: HandwrittenServer,
    client_of_handwritten_server: Client,
    schema: pa.Schema,
    message: str,
) -> None:
    handwritten_server.stream = lambda: flight.RecordBatchStream(schema.empty_table())
    with pytest.raises(InternalError, match=message):
        client_of_handwritten_server.table("w.t").scan().to_arrow()


def test_an_endpoint_needs_a_location(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    handwritten_server.replies["endpoints"] = endpoints(flight.FlightEndpoint(b"t", []))
    with pytest.raises(InternalError, match="without a location"):
        client_of_handwritten_server.table("w.t").scan().to_arrow()


def test_a_location_that_is_none_is_refused(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    handwritten_server.replies["endpoints"] = endpoints(
        flight.FlightEndpoint(b"t", ["http://example.com"])
    )
    with pytest.raises(InvalidArgumentError, match="is not a location"):
        client_of_handwritten_server.table("w.t").scan().to_arrow()


def test_flights_are_taken_by_path_and_by_command(attach_client: Attach, numbers: pa.Table) -> None:
    client = attach_client(CatalogBuilder().schema("s").table("numbers", numbers).build())
    by_path = client.take_flight(["s", "numbers"], columns=["id"])
    by_command = client.take_flight('{"schema_name": "s", "table_name": "numbers"}')
    assert by_path.filter(col("id") < 3).to_arrow().to_pydict() == {"id": [0, 1, 2]}
    assert by_command.count() == ROWS
    with pytest.raises(NotFoundError, match=r"no table s\.nothing"):
        client.take_flight(["s", "nothing"]).to_arrow()


def test_a_token_is_not_sent_where_it_could_be_read() -> None:
    from lakeport.airport.client.connection import Connection, Security

    connection = Connection("grpc+tls://127.0.0.1:1", security=Security(token="t"))
    with pytest.raises(PermissionDeniedError, match="not encrypted"):
        connection.do_get("grpc://127.0.0.1:1", flight.Ticket(b""), ())


def test_sql_text_is_a_filter(table: RemoteTable) -> None:
    assert table.scan(filter="id < 3 AND \"Text\" <> 't1'").to_arrow()["id"].to_pylist() == [0, 2]
    assert table.scan().filter("even").filter(col("id") < 5).count() == 3


def test_a_quoted_constant_has_the_type_of_its_column(table: RemoteTable) -> None:
    assert table.scan(["id"], "id = '5'").to_arrow()["id"].to_pylist() == [5]
    assert table.scan(["id"], "id IN ('5', '6') AND even = 'true'").to_arrow()[
        "id"
    ].to_pylist() == [6]
    with pytest.raises(InvalidArgumentError, match="'five' is not a value of column 'id'"):
        table.scan(filter="id = 'five'").to_arrow()


def test_sql_that_a_filter_cannot_hold_is_refused(table: RemoteTable) -> None:
    with pytest.raises(UnsupportedError, match="the filter cannot contain this"):
        table.scan(filter="id IN (SELECT 1)").to_arrow()
    with pytest.raises(InvalidArgumentError, match="the filter is not SQL"):
        table.scan(filter="id >").to_arrow()


def test_the_row_identifier_can_be_named_in_sql(attach_client: Attach) -> None:
    schema = pa.schema([("x", pa.int64()), rowid_field("key", pa.int64())])
    rows = pa.table({"x": [1, 2], "key": [10, 20]}, schema=schema)
    client = attach_client(CatalogBuilder().schema("s").table("t", rows).build())

    assert client.table("s.t").scan(["x"], "rowid = '20'").to_arrow()["x"].to_pylist() == [2]


class Recorder:
    """A table that keeps the options of its scans."""

    name, comment = "t", ""

    def __init__(self) -> None:
        self.seen: list[ScanOptions] = []

    def arrow_schema(self, columns: Any = None) -> pa.Schema:
        return project_schema(pa.schema([("x", pa.int64())]), columns)

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        self.seen.append(options)
        rows = pa.table({"x": pa.array(range(10), pa.int64())})
        if options.limit is not None and not options.filter:
            rows = rows.slice(0, options.limit)
        return rows.to_reader()


def test_the_limit_reaches_the_table(attach_client: Attach) -> None:
    recorder = Recorder()
    table = attach_client(CatalogBuilder().schema("s").table(recorder).build()).table("s.t")

    assert table.scan(limit=3).count() == 3
    assert table.scan(filter="x > 4", limit=2).to_arrow()["x"].to_pylist() == [5, 6]
    assert table.scan().count() == 10

    assert [options.limit for options in recorder.seen] == [3, 2, None]


def test_a_filter_that_is_left_out_takes_the_limit_with_it(attach_client: Attach) -> None:
    recorder = Recorder()
    catalog = CatalogBuilder().schema("s").table(recorder).build()
    table = attach_client(catalog, limits=Limits(json_bytes=10)).table("s.t")

    assert table.scan(filter=col("x") > 7, limit=2).to_arrow()["x"].to_pylist() == [8, 9]

    (options,) = recorder.seen
    assert (options.limit, bool(options.filter)) == (None, False)


def test_a_scan_is_shown_in_a_few_lines(table: RemoteTable) -> None:
    scan = table.scan(["id"], col("id") > 5, limit=7).filter("even")

    assert repr(scan).splitlines() == [
        "scan of table s.numbers",
        "  columns: id",
        '  filter: ("id" > 5)',
        "  filter: even",
        "  limit: 7",
    ]
    wide = table.scan(filter=col("id").is_in(range(10_000)))
    assert len(repr(wide)) < 500


def test_a_cast_takes_an_arrow_type(table: RemoteTable) -> None:
    scan = table.scan(["id"], col("id").cast(pa.string()) == "42")

    assert scan.to_arrow()["id"].to_pylist() == [42]


def test_instants_in_nanoseconds_are_compared_as_they_are(attach_client: Attach) -> None:
    instants = pa.array([1_577_836_800_000_000_000 + i for i in range(3)], pa.int64())
    rows = pa.table({"t": instants.cast(pa.timestamp("ns", "UTC"))})
    catalog = CatalogBuilder().schema("s").table("t", rows).build()
    table = attach_client(catalog).table("s.t")
    start = rows["t"][0]

    def kept(where: Any) -> list[int]:
        found = table.scan(filter=where).to_arrow()["t"].cast(pa.int64()).to_pylist()
        return [value - instants[0].as_py() for value in found]

    assert kept(col("t") > start) == [1, 2]
    assert kept(col("t") == rows["t"][1]) == [1]
    assert kept(col("t") <= rows["t"][1]) == [0, 1]

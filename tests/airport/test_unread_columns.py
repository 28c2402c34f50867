"""Columns that a client does not read have no bytes, if the client accepts that."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakeport.airport.client import connect
from lakeport.arrow import Alignment
from lakeport.catalog import CatalogBuilder, ScanOptions, rowid_field
from tests.airport.flight_client import ROWID_COLUMN, RawFlightClient, Serving, path

COLUMNS = pa.schema([("a", pa.int64()), ("b", pa.string()), rowid_field()])
ROWS = pa.table([[1, 2], ["x", None], [10, 11]], schema=COLUMNS)
COUNT = 20_000
WIDE = pa.schema([("a", pa.binary(1000)), ("b", pa.string()), rowid_field()])
MANY_BYTES = pa.table([[bytes(1000)] * COUNT, ["x"] * COUNT, range(COUNT)], schema=WIDE)
DUCKDB = "airport/20250723"
NO_COLUMNS = '{"filters":[],"column_binding_names_by_index":[]}'
ROWID_ONLY = '{"filters":[],"column_binding_names_by_index":["rowid"]}'


class Requests(list[ScanOptions]):
    """The options of all scans of the table."""

    def scan(self, options: ScanOptions) -> pa.Table:
        self.append(options)
        return ROWS


@pytest.fixture
def requests() -> Requests:
    return Requests()


@pytest.fixture
def client(start_server: Serving, requests: Requests) -> RawFlightClient:
    schema = CatalogBuilder().schema("s").table("t", requests.scan, schema=COLUMNS)
    return start_server(schema.table("large", MANY_BYTES).build())


def read(
    client: RawFlightClient, ids: list[int], filters: str, table: str = "t", **headers: str
) -> pa.Table:
    return client.with_headers(**headers).scan(path("s", table), column_ids=ids, filters=filters)


@pytest.mark.parametrize(
    "headers", [{"airport_user_agent": DUCKDB}, {"lakeport_null_columns": "1"}]
)
def test_many_bytes_of_columns_that_are_not_read_are_not_sent(
    client: RawFlightClient, headers: dict[str, str]
) -> None:
    names = '{"filters":[],"column_binding_names_by_index":["b"]}'
    rows = read(client, [1], names, "large", **headers)

    assert rows.schema.names == COLUMNS.names
    assert rows.schema.types == [pa.null(), pa.string(), pa.null()]
    assert rows["b"].to_pylist() == ["x"] * COUNT


@pytest.mark.parametrize(
    ("table", "headers"),
    [
        ("large", {}),
        ("large", {"airport_user_agent": "another/1"}),
        ("t", {"airport_user_agent": DUCKDB}),
    ],
)
def test_other_clients_and_small_scans_get_nulls_of_the_declared_types(
    client: RawFlightClient, table: str, headers: dict[str, str]
) -> None:
    rows = read(client, [1], "", table, **headers)

    assert rows.schema.types == (COLUMNS if table == "t" else WIDE).types
    assert rows["a"].null_count == rows.num_rows


def test_all_columns_have_their_types_when_all_are_read(client: RawFlightClient) -> None:
    rows = read(client, [], "", "large", airport_user_agent=DUCKDB)

    assert rows.schema.types == WIDE.types


@pytest.mark.parametrize(
    ("ids", "filters", "headers", "is_counting"),
    [
        ([ROWID_COLUMN], NO_COLUMNS, {"airport_user_agent": DUCKDB}, True),
        ([0], NO_COLUMNS, {"airport_user_agent": DUCKDB}, True),
        ([ROWID_COLUMN], NO_COLUMNS, {}, False),
        ([ROWID_COLUMN], ROWID_ONLY, {"airport_user_agent": DUCKDB}, False),
        ([ROWID_COLUMN], "", {"airport_user_agent": DUCKDB}, False),
        ([0, ROWID_COLUMN], NO_COLUMNS, {"airport_user_agent": DUCKDB}, False),
        ([ROWID_COLUMN], NO_COLUMNS, {"lakeport_rows_only": "1"}, True),
    ],
)
def test_a_count_is_recognised_by_a_statement_that_names_no_column(
    client: RawFlightClient,
    requests: Requests,
    ids: list[int],
    filters: str,
    headers: dict[str, str],
    is_counting: bool,
) -> None:
    rows = read(client, ids, filters, **headers)
    requested = [COLUMNS.names[-1 if number == ROWID_COLUMN else number] for number in ids]

    assert [options.rows_only for options in requests] == [is_counting]
    assert rows.select(requested).equals(ROWS.select(requested))


@pytest.mark.parametrize("count", [COUNT, 2**19, 2**20 + 1])
@pytest.mark.parametrize(("number", "column"), [(ROWID_COLUMN, "rowid"), (0, "a"), (1, "b")])
def test_rows_without_columns_have_the_type_that_the_client_converts(
    start_server: Serving, number: int, column: str, count: int
) -> None:
    counted = pa.table({"row": pa.nulls(count)}).select([])
    catalog = CatalogBuilder().schema("s").table("t", lambda _: counted, schema=COLUMNS).build()
    client = start_server(catalog)

    rows = read(client, [number], NO_COLUMNS, airport_user_agent=DUCKDB)

    assert rows.num_rows == count
    assert rows.schema.names == COLUMNS.names
    assert rows.schema.field(column).type == COLUMNS.field(column).type
    # The client converts the values, so there must be some.
    assert all(len(chunk.to_pylist()) == len(chunk) for chunk in rows[column].chunks)
    # Large batches from the first one on: nothing is read for them.
    full, rest = divmod(count, 2**19)
    sizes = [batch.num_rows for batch in rows.to_batches()]
    assert sizes == [2**19] * full + [rest] * bool(rest)


def test_lakeports_client_counts_without_values_and_reads_row_ids(
    client: RawFlightClient, requests: Requests
) -> None:
    with connect(client.server.location) as own:
        scan: Any = own.table("s.t").scan()
        assert scan.count() == 2
        assert scan.select("rowid").to_arrow()["rowid"].to_pylist() == [10, 11]
        assert scan.filter("a = 2").count() == 1
        assert scan.filter("a = 2").select("b").to_arrow().to_pylist() == [{"b": None}]

    assert [options.rows_only for options in requests] == [True, False, False, False]


def test_the_bytes_of_a_batch_include_columns_of_nulls() -> None:
    """They are reported as sent, and count toward the limits of a caller."""
    target = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.null())])
    rows = pa.record_batch({"a": pa.array([1, 2, None])})
    align = Alignment(target, rows.schema, ("a",), "t")

    for batch in (rows, rows, rows.slice(1), rows):
        aligned = align(batch)
        assert aligned.schema == target
        assert aligned.num_rows == batch.num_rows
        assert aligned["a"].equals(batch["a"])
        assert align.size(aligned) == aligned.nbytes
    assert Alignment(rows.schema, rows.schema, None, "t").size(rows) == rows.nbytes

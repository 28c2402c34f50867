"""How much work a request does: it is routed once, and reads sizes, schemas and versions once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from lakeport.airport.server.routing import CatalogRegistry, CatalogRoute
from lakeport.catalog import (
    ArrowTable,
    CatalogBuilder,
    CatalogVersion,
    ScanOptions,
    StaticCatalog,
    StaticSchema,
    TableSize,
)
from tests.airport.flight_client import Serving, path
from tests.airport.mutable_catalog import MutableCatalog, MutableTable

ROWS = pa.table({"x": [1, 2, 3]})


class CountingTable(ArrowTable):
    """A table that counts the calls of its methods."""

    def __init__(self, name: str) -> None:
        super().__init__(name, ROWS)
        self.calls: Counter[str] = Counter()

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        self.calls["arrow_schema"] += 1
        return super().arrow_schema(columns)

    def size(self, options: ScanOptions) -> TableSize:
        self.calls["size"] += 1
        return super().size(options)

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        self.calls["scan"] += 1
        return super().scan(options)


class OpeningTable(CountingTable):
    """A table that finds the size and the rows of a scan in one step."""

    def open_scan(self, options: ScanOptions) -> tuple[TableSize, pa.RecordBatchReader]:
        self.calls["open_scan"] += 1
        return TableSize(rows=ROWS.num_rows), ArrowTable.scan(self, options)


class CountingCatalog(StaticCatalog):
    """A catalog that counts how often its version and its schemas are read."""

    def __init__(self, *tables: ArrowTable) -> None:
        super().__init__([StaticSchema("s", tables=tables)])
        self.calls: Counter[str] = Counter()

    def schemas(self) -> Any:
        self.calls["schemas"] += 1
        return super().schemas()

    def catalog_version(self) -> CatalogVersion:
        self.calls["catalog_version"] += 1
        return CatalogVersion(version=1, is_fixed=False)


@pytest.fixture
def routed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the catalogs that requests are routed to."""
    names: list[str] = []
    route = CatalogRegistry.route

    def counting(registry: CatalogRegistry, *requested: str) -> CatalogRoute:
        found = route(registry, *requested)
        names.append(found.registered_name)
        return found

    monkeypatch.setattr(CatalogRegistry, "route", counting)
    return names


def test_a_ticket_is_opened_in_one_step_where_the_table_can_do_so(start_server: Serving) -> None:
    table = OpeningTable("t")
    flight_client = start_server(CountingCatalog(table))
    (endpoint,) = flight_client.info(path("s", "t")).endpoints
    table.calls.clear()

    batches = list(flight_client.client.do_get(endpoint.ticket))

    assert pa.Table.from_batches([chunk.data for chunk in batches]) == ROWS
    assert batches[-1].app_metadata is not None, "the size of the scan gives its progress"
    assert table.calls == {"open_scan": 1, "arrow_schema": 1}


def test_a_ticket_of_another_table_asks_once_for_its_size_and_once_for_its_rows(
    start_server: Serving,
) -> None:
    table = CountingTable("t")
    flight_client = start_server(CountingCatalog(table))
    (endpoint,) = flight_client.info(path("s", "t")).endpoints
    table.calls.clear()

    assert flight_client.client.do_get(endpoint.ticket).read_all() == ROWS
    assert (table.calls["size"], table.calls["scan"]) == (1, 1)


def test_a_listing_reads_the_version_once_and_the_schema_of_each_table_once(
    start_server: Serving,
) -> None:
    tables = CountingTable("t"), CountingTable("u")
    catalog = CountingCatalog(*tables)
    flight_client = start_server(catalog)

    flight_client.call("list_schemas", catalog_name="")

    assert catalog.calls == {"catalog_version": 1, "schemas": 1}
    assert [table.calls["arrow_schema"] for table in tables] == [1, 1]


@pytest.mark.parametrize(
    ("operation", "batch", "changed"),
    [
        ("insert", pa.record_batch({"x": [7]}), 1),
        ("update", pa.record_batch({"x": [7], "rowid": [0]}), 1),
        ("delete", pa.record_batch({"rowid": [0]}), 1),
    ],
)
def test_a_statement_is_routed_once_and_reads_the_schema_of_its_table_once(
    start_server: Serving,
    routed: list[str],
    monkeypatch: pytest.MonkeyPatch,
    operation: str,
    batch: pa.RecordBatch,
    changed: int,
) -> None:
    table = MutableTable("t", pa.schema([("x", pa.int64())]), [{"x": 1}])
    catalog = MutableCatalog()
    catalog.with_table(table)
    flight_client = start_server(catalog)
    schemas: list[pa.Schema] = []
    arrow_schema = MutableTable.arrow_schema

    def counting(self: MutableTable, columns: Sequence[str] | None = None) -> pa.Schema:
        schemas.append(arrow_schema(self, columns))
        return schemas[-1]

    monkeypatch.setattr(MutableTable, "arrow_schema", counting)

    assert flight_client.change(operation, path("s", "t"), [batch]).total_changed == changed
    assert routed == [""]
    assert len(schemas) == 1


def test_a_call_of_a_function_is_routed_once(start_server: Serving, routed: list[str]) -> None:
    builder = CatalogBuilder("shop")
    schema = builder.schema("s")

    @schema.table_function(parameters={"n": pa.int64()}, schema=pa.schema([("x", pa.int64())]))
    def numbers(n: int) -> pa.Table:
        return pa.table({"x": list(range(n))})

    flight_client = start_server(builder.build())
    request = {"schema_name": "s", "function_name": "numbers", "parameters": {"n": 2}}

    flight_client.action("GetTableFunctionFlightInfo", json.dumps(request).encode())

    assert routed == ["shop"]

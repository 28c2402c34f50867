"""A table that was altered after it was listed is a clear error, not a misread stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from tests.airport.flight_client import RawFlightClient, Serving
from tests.airport.mutable_catalog import MutableCatalog, MutableTable

COLUMNS = pa.schema([("x", pa.int64()), ("name", pa.string())])
NARROW = pa.schema([("x", pa.int64())])
RETYPED = pa.schema([("x", pa.string()), ("name", pa.string())])

USES: dict[str, Callable[[RawFlightClient, flight.FlightDescriptor], Any]] = {
    "endpoints": lambda flight_client, table: flight_client.endpoints(table),
    "GetFlightInfo": lambda flight_client, table: flight_client.info(table),
    "flight_info": lambda flight_client, table: flight_client.call(
        "flight_info", descriptor=table.serialize()
    ),
    "insert": lambda flight_client, table: flight_client.change(
        "insert", table, pa.table({"x": [1], "name": ["a"]}, schema=COLUMNS)
    ),
    "update": lambda flight_client, table: flight_client.change(
        "update", table, pa.table({"x": [1], "rowid": [0]})
    ),
    "delete": lambda flight_client, table: flight_client.change(
        "delete", table, pa.table({"rowid": [0]})
    ),
}


@pytest.fixture
def table() -> MutableTable:
    return MutableTable("t", COLUMNS, [{"x": 7, "name": "a"}])


@pytest.fixture
def flight_client(start_server: Serving, table: MutableTable) -> RawFlightClient:
    catalog = MutableCatalog()
    catalog.with_table(table)
    return start_server(catalog)


@pytest.mark.parametrize("changed", [NARROW, RETYPED], ids=["narrower", "another type"])
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_client_that_knows_other_columns_is_told_to_attach_again(
    flight_client: RawFlightClient, table: MutableTable, use: Callable[..., Any], changed: pa.Schema
) -> None:
    bound = flight_client.items("s")["t"].descriptor
    table.columns = changed

    with pytest.raises(
        (pa.ArrowInvalid, flight.FlightServerError),
        match=r"the columns of table s\.t have changed since",
    ) as told:
        use(flight_client, bound)

    assert "DETACH it and ATTACH it again" in str(told.value)
    assert table.batches_seen == []


@pytest.mark.parametrize("action", ["endpoints", "flight_info"])
def test_the_client_does_not_ask_again_for_columns_that_have_changed(
    flight_client: RawFlightClient, table: MutableTable, action: str
) -> None:
    bound = flight_client.items("s")["t"].descriptor
    table.columns = NARROW

    # DuckDB's client repeats an action for three seconds when it fails with an I/O error of Arrow,
    # which every Flight error is.
    with pytest.raises(pa.ArrowInvalid) as told:
        USES[action](flight_client, bound)
    assert not isinstance(told.value, OSError | flight.FlightError)


def test_a_ticket_made_before_the_change_is_refused_too(
    flight_client: RawFlightClient, table: MutableTable
) -> None:
    (endpoint,) = flight_client.endpoints(flight_client.items("s")["t"].descriptor)
    table.columns = NARROW

    with pytest.raises(flight.FlightServerError, match="have changed since"):
        flight_client.read(endpoint.ticket)


def test_a_person_s_descriptor_reads_whatever_is_there(
    flight_client: RawFlightClient, table: MutableTable
) -> None:
    table.columns = NARROW

    read = flight_client.scan(flight.FlightDescriptor.for_path("s", "t"))

    assert read.schema.names == ["x", "rowid"]


def test_a_new_comment_or_row_changes_nothing(
    flight_client: RawFlightClient, table: MutableTable
) -> None:
    bound = flight_client.items("s")["t"].descriptor
    table.columns = pa.schema([f.with_metadata({"comment": "new"}) for f in COLUMNS])
    table.rows[9] = {"x": 9, "name": "z"}

    assert flight_client.scan(bound).column("x").to_pylist() == [7, 9]


def test_a_client_that_altered_the_table_itself_goes_on(flight_client: RawFlightClient) -> None:
    field = pa.schema([("y", pa.int64())]).serialize().to_pybytes()
    reply = flight_client.call("add_column", schema="s", name="t", column_schema=field)
    bound = flight.FlightInfo.deserialize(reply).descriptor

    assert flight_client.scan(bound).schema.names == ["x", "name", "y", "rowid"]

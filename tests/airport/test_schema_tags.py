"""A table that was altered after it was listed is a clear error, not a misread stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from tests.airport.mutable import MutableCatalog, MutableTable
from tests.airport.rig import Serving, Wire

COLUMNS = pa.schema([("x", pa.int64()), ("name", pa.string())])
NARROW = pa.schema([("x", pa.int64())])
RETYPED = pa.schema([("x", pa.string()), ("name", pa.string())])

USES: dict[str, Callable[[Wire, flight.FlightDescriptor], Any]] = {
    "endpoints": lambda wire, table: wire.endpoints(table),
    "GetFlightInfo": lambda wire, table: wire.info(table),
    "flight_info": lambda wire, table: wire.call("flight_info", descriptor=table.serialize()),
    "insert": lambda wire, table: wire.change(
        "insert", table, pa.table({"x": [1], "name": ["a"]}, schema=COLUMNS)
    ),
    "update": lambda wire, table: wire.change("update", table, pa.table({"x": [1], "rowid": [0]})),
    "delete": lambda wire, table: wire.change("delete", table, pa.table({"rowid": [0]})),
}


@pytest.fixture
def table() -> MutableTable:
    return MutableTable("t", COLUMNS, [{"x": 7, "name": "a"}])


@pytest.fixture
def wire(serving: Serving, table: MutableTable) -> Wire:
    catalog = MutableCatalog()
    catalog.with_table(table)
    return serving(catalog)


@pytest.mark.parametrize("changed", [NARROW, RETYPED], ids=["narrower", "another type"])
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_client_that_knows_other_columns_is_told_to_attach_again(
    wire: Wire, table: MutableTable, use: Callable[..., Any], changed: pa.Schema
) -> None:
    bound = wire.items("s")["t"].descriptor
    table.columns = changed

    with pytest.raises(
        (pa.ArrowInvalid, flight.FlightServerError),
        match=r"the columns of table s\.t have changed since",
    ) as told:
        use(wire, bound)

    assert "DETACH it and ATTACH it again" in str(told.value)
    assert table.batches_seen == []


@pytest.mark.parametrize("action", ["endpoints", "flight_info"])
def test_the_client_does_not_ask_again_for_columns_that_have_changed(
    wire: Wire, table: MutableTable, action: str
) -> None:
    bound = wire.items("s")["t"].descriptor
    table.columns = NARROW

    # DuckDB's client repeats an action for three seconds when it fails with an I/O error of Arrow,
    # which every Flight error is.
    with pytest.raises(pa.ArrowInvalid) as told:
        USES[action](wire, bound)
    assert not isinstance(told.value, OSError | flight.FlightError)


def test_a_ticket_made_before_the_change_is_refused_too(wire: Wire, table: MutableTable) -> None:
    (endpoint,) = wire.endpoints(wire.items("s")["t"].descriptor)
    table.columns = NARROW

    with pytest.raises(flight.FlightServerError, match="have changed since"):
        wire.read(endpoint.ticket)


def test_a_person_s_descriptor_reads_whatever_is_there(wire: Wire, table: MutableTable) -> None:
    table.columns = NARROW

    read = wire.scan(flight.FlightDescriptor.for_path("s", "t"))

    assert read.schema.names == ["x", "rowid"]


def test_a_new_comment_or_row_changes_nothing(wire: Wire, table: MutableTable) -> None:
    bound = wire.items("s")["t"].descriptor
    table.columns = pa.schema([f.with_metadata({"comment": "new"}) for f in COLUMNS])
    table.rows[9] = {"x": 9, "name": "z"}

    assert wire.scan(bound).column("x").to_pylist() == [7, 9]


def test_a_client_that_altered_the_table_itself_goes_on(wire: Wire) -> None:
    field = pa.schema([("y", pa.int64())]).serialize().to_pybytes()
    reply = wire.call("add_column", schema="s", name="t", column_schema=field)
    bound = flight.FlightInfo.deserialize(reply).descriptor

    assert wire.scan(bound).schema.names == ["x", "name", "y", "rowid"]

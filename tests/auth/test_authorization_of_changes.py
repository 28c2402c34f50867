"""One hook decides who may change rows, tables and schemas, however their names are spelled."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.auth import Operation
from lakeport.memory import MemoryCatalog
from tests.airport.flight_client import RawFlightClient, Serving, path
from tests.airport.mutable_catalog import MutableCatalog, MutableTable
from tests.auth.shop import COLUMNS, deny


@pytest.fixture
def mutable() -> MutableCatalog:
    catalog = MutableCatalog()
    catalog.name = "lake"
    catalog.with_table(MutableTable("t", COLUMNS, [{"x": 1}]))
    return catalog


WRITES: dict[str, Callable[[RawFlightClient], Any]] = {
    "insert": lambda flight_client: flight_client.change(
        "insert", path("s", "t"), pa.table({"x": [2]})
    ),
    "update": lambda flight_client: flight_client.change(
        "update", path("s", "t"), pa.table({"x": [2], "rowid": [0]})
    ),
    "delete": lambda flight_client: flight_client.change(
        "delete", path("s", "t"), pa.table({"rowid": [0]})
    ),
    "Delete": lambda flight_client: flight_client.action(
        "Delete", b'{"schema_name": "s", "table_name": "t", "row_ids": [0]}'
    ),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_rows_are_changed_only_by_those_who_may(
    start_server: Serving, mutable: MutableCatalog, write: Callable[[RawFlightClient], Any]
) -> None:
    flight_client = start_server(mutable, authorize=deny((Operation.WRITE, "s", "t")))

    with pytest.raises(flight.FlightUnauthorizedError, match=r"you may not write lake\.s\.t"):
        write(flight_client)
    assert flight_client.scan(path("s", "t")).column("x").to_pylist() == [1]


def _json(name: str, **request: Any) -> Callable[[RawFlightClient], Any]:
    return lambda flight_client: flight_client.action(name, json.dumps(request).encode())


COLUMN = pa.schema([("y", pa.int64())]).serialize().to_pybytes()
TABLE = {"catalog": "lake", "schema": "s", "name": "t", "ignore_not_found": False}
CHANGES: dict[str, tuple[Callable[[RawFlightClient], Any], str]] = {
    "create_schema": (lambda w: w.call("create_schema", schema="new"), "lake.new"),
    "drop_schema": (lambda w: w.call("drop_schema", name="s"), "lake.s"),
    "create_table": (
        lambda w: w.call("create_table", schema_name="s", table_name="u", arrow_schema=COLUMN),
        "lake.s.u",
    ),
    "drop_table": (lambda w: w.call("drop_table", schema_name="s", name="t"), "lake.s.t"),
    "add_column": (lambda w: w.call("add_column", **TABLE, column_schema=COLUMN), "lake.s.t"),
    "rename_table": (lambda w: w.call("rename_table", **TABLE, new_table_name="u"), "lake.s.t"),
    "CreateSchema": (_json("CreateSchema", schema_name="new"), "lake.new"),
    "DropSchema": (_json("DropSchema", schema_name="s"), "lake.s"),
    "CreateTable": (
        _json(
            "CreateTable",
            schema_name="s",
            table_name="u",
            schema={"fields": [{"name": "x", "type": "BIGINT"}]},
        ),
        "lake.s.u",
    ),
    "DropTable": (_json("DropTable", schema_name="s", table_name="t"), "lake.s.t"),
    "AlterTableAddColumn": (
        _json(
            "AlterTableAddColumn",
            schema_name="s",
            table_name="t",
            column={"name": "y", "type": "BIGINT"},
        ),
        "lake.s.t",
    ),
    "AlterTableDropColumn": (
        _json("AlterTableDropColumn", schema_name="s", table_name="t", column_name="x"),
        "lake.s.t",
    ),
}


@pytest.mark.parametrize(("change", "what"), CHANGES.values(), ids=CHANGES)
def test_a_catalog_is_changed_only_by_those_who_may(
    start_server: Serving,
    mutable: MutableCatalog,
    change: Callable[[RawFlightClient], Any],
    what: str,
) -> None:
    flight_client = start_server(
        mutable, authorize=lambda access: access.operation is not Operation.ALTER
    )

    with pytest.raises(flight.FlightUnauthorizedError, match=f"you may not alter {what}"):
        change(flight_client)
    assert mutable.calls == []


OTHER_SPELLINGS: dict[str, Callable[[RawFlightClient], Any]] = {
    "insert": lambda w: w.change("insert", path("S", "T"), pa.table({"x": [2]})),
    "Delete": _json("Delete", schema_name="S", table_name="T", row_ids=[0]),
    "create_table": lambda w: w.call(
        "create_table",
        schema_name="S",
        table_name="T",
        arrow_schema=COLUMN,
        on_conflict="replace",
    ),
    "drop_table": lambda w: w.call("drop_table", schema_name="s", name="T"),
    "drop_schema": lambda w: w.call("drop_schema", name="S"),
    "create_schema": lambda w: w.call("create_schema", schema="S", if_not_exists=True),
    "add_column": lambda w: w.call(
        "add_column", schema="S", name="t", ignore_not_found=False, column_schema=COLUMN
    ),
    "rename_table": lambda w: w.call("rename_table", schema="S", name="T", new_table_name="u"),
    "rename to it": lambda w: w.call("rename_table", schema="s", name="u", new_table_name="T"),
    "DropTable": _json("DropTable", schema_name="S", table_name="T"),
}


@pytest.mark.parametrize("change", OTHER_SPELLINGS.values(), ids=OTHER_SPELLINGS)
def test_what_may_not_be_changed_may_not_be_changed_by_another_name(
    start_server: Serving, change: Callable[[RawFlightClient], Any]
) -> None:
    rows = pa.table({"x": [1]})
    catalog = MemoryCatalog.from_tables({"s": {"t": rows, "u": rows}})
    denied = deny(
        (Operation.WRITE, "s", "t"), (Operation.ALTER, "s", "t"), (Operation.ALTER, "s", None)
    )
    flight_client = start_server(catalog, authorize=denied)

    with pytest.raises(flight.FlightUnauthorizedError, match=r"you may not (write|alter)"):
        change(flight_client)
    assert flight_client.scan(path("s", "t")).column("x").to_pylist() == [1]


def test_a_table_is_renamed_only_to_a_name_that_the_caller_may_change(
    start_server: Serving, mutable: MutableCatalog
) -> None:
    flight_client = start_server(mutable, authorize=deny((Operation.ALTER, "s", "reserved")))

    with pytest.raises(
        flight.FlightUnauthorizedError, match=r"you may not alter lake\.s\.reserved"
    ):
        flight_client.call("rename_table", **TABLE, new_table_name="reserved")
    assert mutable.calls == []

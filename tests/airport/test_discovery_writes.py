"""The JSON actions of the endpoint-discovery contract that change a catalog."""

from __future__ import annotations

import json
from typing import Any

import msgpack
import pyarrow as pa
import pytest

from lakeport.catalog import (
    AddColumnOptions,
    CatalogBuilder,
    CreateSchemaOptions,
    DropSchemaOptions,
    DropTableOptions,
    OnConflict,
    RemoveColumnOptions,
)
from tests.airport.flight_client import RawFlightClient, Serving, path
from tests.airport.mutable_catalog import ByIdTable, MutableCatalog, MutableTable

COLUMNS = pa.schema([("x", pa.int64()), ("name", pa.string())])
ROWS = [{"x": 1, "name": "a"}, {"x": 2, "name": "b"}, {"x": 3, "name": "c"}]
HERE = {"schema_name": "s", "table_name": "t"}


@pytest.fixture
def catalog() -> MutableCatalog:
    catalog = MutableCatalog()
    catalog.with_table(MutableTable("t", COLUMNS, ROWS, calls=catalog.calls))
    catalog.with_table(ByIdTable("by_id", COLUMNS, ROWS))
    return catalog


@pytest.fixture
def flight_client(start_server: Serving, catalog: MutableCatalog) -> RawFlightClient:
    return start_server(catalog)


def ask(flight_client: RawFlightClient, action: str, **request: Any) -> Any:
    (reply,) = flight_client.action(action, json.dumps(request).encode())
    return json.loads(reply)


def test_a_schema_is_created(flight_client: RawFlightClient, catalog: MutableCatalog) -> None:
    reply = ask(
        flight_client, "CreateSchema", schema_name="new", comment="Fresh", if_not_exists=True
    )

    assert reply == {"schema_name": "new"}
    assert catalog.calls == [
        ("create_schema", "new", CreateSchemaOptions(comment="Fresh", if_not_exists=True))
    ]
    assert ask(flight_client, "GetSchemas")["schemas"][-1] == {
        "schema_name": "new",
        "comment": "Fresh",
    }


@pytest.mark.parametrize("action", ["CreateSchema", "create_schema"])
def test_a_schema_that_duckdb_cannot_use_is_created_with_a_warning(
    flight_client: RawFlightClient,
    catalog: MutableCatalog,
    caplog: pytest.LogCaptureFixture,
    action: str,
) -> None:
    bodies = {
        "CreateSchema": json.dumps({"schema_name": "Main"}).encode(),
        "create_schema": msgpack.packb({"schema": "Main"}),
    }

    flight_client.action(action, bodies[action])

    assert catalog.schema("Main") is not None
    assert "which DuckDB's client lists but cannot use" in caplog.text


def test_a_schema_that_exists_is_refused_unless_it_may_exist(
    flight_client: RawFlightClient,
) -> None:
    with pytest.raises(pa.ArrowInvalid, match="there is a schema 's' already"):
        ask(flight_client, "CreateSchema", schema_name="s")
    assert ask(flight_client, "CreateSchema", schema_name="s", if_not_exists=True) == {
        "schema_name": "s"
    }


def test_a_schema_is_dropped(flight_client: RawFlightClient, catalog: MutableCatalog) -> None:
    with pytest.raises(pa.ArrowInvalid, match="schema 's' still has tables"):
        ask(flight_client, "DropSchema", schema_name="s")

    ask(flight_client, "DropSchema", schema_name="s", cascade=True)
    ask(flight_client, "DropSchema", schema_name="s", if_exists=True)

    assert [call[2] for call in catalog.calls] == [
        DropSchemaOptions(),
        DropSchemaOptions(cascade=True),
        DropSchemaOptions(ignore_not_found=True),
    ]
    with pytest.raises(KeyError, match="there is no schema 's'"):
        ask(flight_client, "DropSchema", schema_name="s")


TYPES = {
    "BIGINT": pa.int64(),
    "integer": pa.int32(),
    "VARCHAR": pa.string(),
    "text": pa.string(),
    "BOOLEAN": pa.bool_(),
    "double": pa.float64(),
    "BLOB": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", tz="UTC"),
    "DECIMAL(10, 2)": pa.decimal128(10, 2),
    "decimal(38,0)": pa.decimal128(38, 0),
    "UUID": pa.uuid(),
    "JSON": pa.json_(),
    "INTERVAL": pa.month_day_nano_interval(),
    "INT": pa.int32(),
    "NUMERIC(9,2)": pa.decimal128(9, 2),
    "DECIMAL": pa.decimal128(18, 3),
    "HUGEINT": pa.opaque(pa.binary(16), "hugeint", "DuckDB"),
    "TIMETZ": pa.opaque(pa.binary(8), "time_tz", "DuckDB"),
    "VARCHAR[]": pa.list_(pa.field("l", pa.string())),
    "STRUCT(a INTEGER, b BOOLEAN)": pa.struct([("a", pa.int32()), ("b", pa.bool_())]),
    "int8": pa.int8(),
    "int64": pa.int64(),
    "timestamp[ms]": pa.timestamp("ms"),
    " string ": pa.string(),
}


def test_a_table_is_created_with_the_names_of_duckdb_or_arrow(
    flight_client: RawFlightClient, catalog: MutableCatalog
) -> None:
    fields: list[dict[str, Any]] = [{"name": f"c{n}", "type": type} for n, type in enumerate(TYPES)]
    fields.append({"name": "last", "type": "BIGINT", "nullable": False})

    reply = ask(
        flight_client,
        "CreateTable",
        schema_name="s",
        table_name="u",
        schema={"fields": fields},
        comment="New",
        if_not_exists=True,
    )

    assert reply == {"schema_name": "s", "table_name": "u"}
    ((_, name, schema, options),) = catalog.calls
    assert name == "u"
    assert schema.types == [*TYPES.values(), pa.int64()]
    assert not schema.field("last").nullable
    assert options.not_null_columns == ("last",)
    assert options.on_conflict is OnConflict.IGNORE
    assert options.comment == "New"
    assert flight_client.scan(path("s", "u")).num_rows == 0


def test_a_table_that_exists_is_refused_unless_it_may_exist(flight_client: RawFlightClient) -> None:
    schema = {"fields": [{"name": "x", "type": "BIGINT"}]}

    with pytest.raises(pa.ArrowInvalid, match="there is a table 't' already"):
        ask(flight_client, "CreateTable", **HERE, schema=schema)
    assert ask(flight_client, "CreateTable", **HERE, schema=schema, if_not_exists=True) == HERE


def test_a_table_is_dropped(flight_client: RawFlightClient, catalog: MutableCatalog) -> None:
    assert ask(flight_client, "DropTable", **HERE) == HERE
    assert ask(flight_client, "DropTable", **HERE, if_exists=True) == HERE
    with pytest.raises(KeyError, match="there is no table 't'"):
        ask(flight_client, "DropTable", **HERE)

    assert [call[2].ignore_not_found for call in catalog.calls] == [False, True, False]
    assert catalog.calls[0] == ("drop_table", "t", DropTableOptions())


def test_columns_are_added_and_dropped(
    flight_client: RawFlightClient, catalog: MutableCatalog
) -> None:
    column = {"name": "y", "type": "DOUBLE", "nullable": False}

    ask(flight_client, "AlterTableAddColumn", **HERE, column=column, if_not_exists=True)
    assert flight_client.scan(path("s", "t")).schema.names == ["x", "name", "y", "rowid"]
    ask(flight_client, "AlterTableDropColumn", **HERE, column_name="x", if_exists=True)
    assert flight_client.scan(path("s", "t")).schema.names == ["name", "y", "rowid"]

    field = pa.schema([pa.field("y", pa.float64(), nullable=False)])
    assert catalog.calls == [
        ("add_column", field, AddColumnOptions(if_column_not_exists=True)),
        ("remove_column", "x", RemoveColumnOptions(if_column_exists=True)),
    ]


@pytest.mark.parametrize("name", ["t", "by_id"])
def test_rows_are_deleted_by_their_ids(flight_client: RawFlightClient, name: str) -> None:
    reply = ask(flight_client, "Delete", schema_name="s", table_name=name, row_ids=[0, 2, 0])

    assert reply == {"affected_rows": 2}
    assert flight_client.scan(path("s", name)).column("x").to_pylist() == [2]


@pytest.mark.parametrize("name", ["t", "by_id"])
def test_no_ids_delete_nothing(flight_client: RawFlightClient, name: str) -> None:
    assert ask(flight_client, "Delete", schema_name="s", table_name=name, row_ids=[]) == {
        "affected_rows": 0
    }


@pytest.mark.parametrize("name", ["t", "by_id"])
def test_a_null_row_id_is_refused(flight_client: RawFlightClient, name: str) -> None:
    with pytest.raises(pa.ArrowInvalid, match="null row identifier"):
        ask(flight_client, "Delete", schema_name="s", table_name=name, row_ids=[0, None])

    assert flight_client.scan(path("s", name)).num_rows == 3


WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "no schema name": ("CreateSchema", {}, "schema_name is missing"),
    "empty name": ("CreateSchema", {"schema_name": ""}, "name of a schema must not be empty"),
    "control characters": ("CreateSchema", {"schema_name": "a\n"}, "control characters"),
    "flag": ("CreateSchema", {"schema_name": "x", "if_not_exists": 1}, "must be true or false"),
    "comment": ("CreateSchema", {"schema_name": "x", "comment": 1}, "comment must be text"),
    "no schema": ("CreateTable", HERE, "schema must be an object with fields"),
    "no fields": ("CreateTable", {**HERE, "schema": {}}, "schema.fields must be a list"),
    "empty fields": ("CreateTable", {**HERE, "schema": {"fields": []}}, "must be a list"),
    "field": ("CreateTable", {**HERE, "schema": {"fields": ["x"]}}, "a column must be an object"),
    "field without type": (
        "CreateTable",
        {**HERE, "schema": {"fields": [{"name": "x"}]}},
        "type is missing",
    ),
    "field without name": (
        "CreateTable",
        {**HERE, "schema": {"fields": [{"name": "", "type": "BIGINT"}]}},
        "must not be empty",
    ),
    "unknown type": (
        "CreateTable",
        {**HERE, "schema": {"fields": [{"name": "x", "type": "POINT"}]}},
        "unknown column type 'POINT'",
    ),
    "type that Arrow lacks": (
        "CreateTable",
        {**HERE, "schema": {"fields": [{"name": "x", "type": "GEOMETRY"}]}},
        "unknown column type 'GEOMETRY'",
    ),
    "long type": (
        "CreateTable",
        {**HERE, "schema": {"fields": [{"name": "x", "type": "INTEGER" + "[]" * 3000}]}},
        "unknown column type",
    ),
    "type that DuckDB lacks": (
        "CreateTable",
        {
            "schema_name": "s",
            "table_name": "u",
            "schema": {"fields": [{"name": "x", "type": "float16"}]},
        },
        "DuckDB has no type for halffloat",
    ),
    "two columns of one name": (
        "CreateTable",
        {
            "schema_name": "s",
            "table_name": "u",
            "schema": {"fields": [{"name": n, "type": "BIGINT"} for n in ("x", "X")]},
        },
        "two columns named 'X'",
    ),
    "wide decimal": (
        "CreateTable",
        {**HERE, "schema": {"fields": [{"name": "x", "type": "DECIMAL(50,2)"}]}},
        "unknown column type",
    ),
    "nullable": (
        "CreateTable",
        {**HERE, "schema": {"fields": [{"name": "x", "type": "BIGINT", "nullable": "no"}]}},
        "nullable must be true or false",
    ),
    "no table name": ("DropTable", {"schema_name": "s"}, "table_name is missing"),
    "no column": ("AlterTableAddColumn", HERE, "a column must be an object"),
    "column that DuckDB lacks": (
        "AlterTableAddColumn",
        {**HERE, "column": {"name": "y", "type": "halffloat"}},
        "DuckDB has no type for halffloat",
    ),
    "no column name": ("AlterTableDropColumn", HERE, "column_name is missing"),
    "no row ids": ("Delete", HERE, "row_ids must be a list"),
    "row ids of another type": ("Delete", {**HERE, "row_ids": ["a"]}, "must be of type int64"),
    "row ids beyond int64": ("Delete", {**HERE, "row_ids": [2**70]}, "must be of type int64"),
}


@pytest.mark.parametrize(("action", "request_", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_request_changes_nothing(
    flight_client: RawFlightClient,
    catalog: MutableCatalog,
    action: str,
    request_: dict[str, Any],
    message: str,
) -> None:
    with pytest.raises(pa.ArrowInvalid, match=message):
        ask(flight_client, action, **request_)

    assert catalog.calls == []


def test_a_catalog_that_cannot_change_says_so(start_server: Serving) -> None:
    flight_client = start_server(
        CatalogBuilder().schema("s").table("t", pa.table({"x": [1]})).build()
    )
    refusals: dict[str, tuple[dict[str, Any], str]] = {
        "CreateSchema": ({"schema_name": "x"}, "the schemas of this catalog cannot be changed"),
        "DropSchema": ({"schema_name": "s"}, "the schemas of this catalog cannot be changed"),
        "DropTable": (HERE, "the tables of schema 's' cannot be changed"),
        "AlterTableDropColumn": (
            {**HERE, "column_name": "x"},
            r"the columns of table s\.t cannot be changed",
        ),
        "Delete": ({**HERE, "row_ids": [1]}, r"the rows of table s\.t cannot be deleted"),
    }

    for action, (request_, message) in refusals.items():
        with pytest.raises(pa.ArrowNotImplementedError, match=message):
            ask(flight_client, action, **request_)


@pytest.mark.parametrize("action", ["AlterTableAddColumn", "AlterTableDropColumn", "Delete"])
def test_a_table_that_is_not_there_is_not_found(
    flight_client: RawFlightClient, action: str
) -> None:
    request_ = {
        "schema_name": "s",
        "table_name": "nope",
        "column": {"name": "y", "type": "BIGINT"},
        "column_name": "x",
        "row_ids": [],
    }

    with pytest.raises(KeyError, match=r"there is no table s\.nope"):
        ask(flight_client, action, **request_)

"""DDL: every action with every option, and the reply that the client makes its new entry of."""

from __future__ import annotations

from typing import Any

import msgpack
import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.catalog import (
    AddColumnOptions,
    AddFieldOptions,
    CatalogBuilder,
    ChangeColumnTypeOptions,
    CreateSchemaOptions,
    DropNotNullOptions,
    DropSchemaOptions,
    DropTableOptions,
    RemoveColumnOptions,
    RemoveFieldOptions,
    RenameColumnOptions,
    RenameFieldOptions,
    RenameTableOptions,
    SetDefaultOptions,
    SetNotNullOptions,
)
from tests.airport.flight_client import RawFlightClient, Serving, open_container, schema_items
from tests.airport.mutable_catalog import MutableCatalog, MutableTable

STRUCT = pa.struct([("a", pa.int64()), ("b", pa.string())])
COLUMNS = pa.schema([("x", pa.int64()), ("name", pa.string()), ("point", STRUCT)])
TABLE = {"catalog": "", "schema": "s", "name": "t", "ignore_not_found": False}
MISSING = {**TABLE, "name": "nope"}


def field(name: str, type: pa.DataType = pa.int32()) -> bytes:  # noqa: B008
    blob: bytes = pa.schema([(name, type)]).serialize().to_pybytes()
    return blob


@pytest.fixture
def catalog() -> MutableCatalog:
    catalog = MutableCatalog()
    catalog.with_table(MutableTable("t", COLUMNS, calls=catalog.calls))
    return catalog


@pytest.fixture
def flight_client(start_server: Serving, catalog: MutableCatalog) -> RawFlightClient:
    return start_server(catalog)


def info_of(reply: bytes) -> flight.FlightInfo:
    info = flight.FlightInfo.deserialize(reply)
    metadata = msgpack.unpackb(info.app_metadata)
    assert metadata["type"] == "table"
    assert metadata["schema"] == "s"
    return info


def name_of(info: flight.FlightInfo) -> str:
    return str(msgpack.unpackb(info.app_metadata)["name"])


# Action, extra fields of the request, and what the catalog is told.
ALTERATIONS: dict[str, tuple[str, dict[str, Any], tuple[Any, ...]]] = {
    "rename_table": (
        "rename_table",
        {"new_table_name": "u"},
        ("rename_table", "t", "u", RenameTableOptions()),
    ),
    "add_column": (
        "add_column",
        {"column_schema": field("y"), "if_column_not_exists": False},
        ("add_column", pa.schema([("y", pa.int32())]), AddColumnOptions()),
    ),
    "add_column if not exists": (
        "add_column",
        {"column_schema": field("x"), "if_column_not_exists": True},
        ("add_column", pa.schema([("x", pa.int32())]), AddColumnOptions(if_column_not_exists=True)),
    ),
    "remove_column": (
        "remove_column",
        {"removed_column": "x", "if_column_exists": False, "cascade": False},
        ("remove_column", "x", RemoveColumnOptions()),
    ),
    "remove_column if exists, cascade": (
        "remove_column",
        {"removed_column": "q", "if_column_exists": True, "cascade": True},
        ("remove_column", "q", RemoveColumnOptions(if_column_exists=True, cascade=True)),
    ),
    "rename_column": (
        "rename_column",
        {"old_name": "x", "new_name": "y"},
        ("rename_column", "x", "y", RenameColumnOptions()),
    ),
    "change_column_type": (
        "change_column_type",
        {"column_schema": field("x", pa.string()), "expression": "CAST(x AS VARCHAR)"},
        (
            "change_column_type",
            pa.schema([("x", pa.string())]),
            "CAST(x AS VARCHAR)",
            ChangeColumnTypeOptions(),
        ),
    ),
    "set_default": (
        "set_default",
        {"column_name": "x", "expression": "1 + 1"},
        ("set_default", "x", "1 + 1", SetDefaultOptions()),
    ),
    "set_not_null": (
        "set_not_null",
        {"column_name": "x"},
        ("set_not_null", "x", SetNotNullOptions()),
    ),
    "drop_not_null": (
        "drop_not_null",
        {"column_name": "x"},
        ("drop_not_null", "x", DropNotNullOptions()),
    ),
    "add_field": (
        "add_field",
        {"column_path": ["point"], "column_schema": field("c"), "if_field_not_exists": True},
        (
            "add_field",
            ["point"],
            pa.schema([("c", pa.int32())]),
            AddFieldOptions(if_field_not_exists=True),
        ),
    ),
    "rename_field": (
        "rename_field",
        {"column_path": ["point", "a"], "new_name": "z"},
        ("rename_field", ["point", "a"], "z", RenameFieldOptions()),
    ),
    "remove_field": (
        "remove_field",
        {"column_path": ["point", "a"], "if_column_exists": True, "cascade": True},
        ("remove_field", ["point", "a"], RemoveFieldOptions(if_field_exists=True, cascade=True)),
    ),
}
ACTIONS = {action: extra for action, extra, _ in ALTERATIONS.values()}


@pytest.mark.parametrize(("action", "extra", "told"), ALTERATIONS.values(), ids=ALTERATIONS)
def test_an_alteration_reaches_the_table_with_its_options(
    flight_client: RawFlightClient,
    catalog: MutableCatalog,
    action: str,
    extra: dict[str, Any],
    told: tuple[Any, ...],
) -> None:
    info = info_of(flight_client.call(action, **TABLE, **extra))

    assert catalog.calls == [told]
    assert name_of(info) == ("u" if action == "rename_table" else "t")


@pytest.mark.parametrize(("action", "extra", "told"), ALTERATIONS.values(), ids=ALTERATIONS)
def test_an_alteration_is_answered_with_the_new_table(
    flight_client: RawFlightClient, action: str, extra: dict[str, Any], told: tuple[Any, ...]
) -> None:
    info = info_of(flight_client.call(action, **TABLE, **extra))

    # The client goes on with the descriptor and the columns of the reply.
    assert flight_client.scan(info.descriptor).schema.equals(info.schema)


@pytest.mark.parametrize(("action", "extra"), ACTIONS.items())
def test_a_missing_table_is_not_found(
    flight_client: RawFlightClient, action: str, extra: dict[str, Any]
) -> None:
    with pytest.raises(KeyError, match="there is no table"):
        flight_client.call(action, **MISSING, **extra)


@pytest.mark.parametrize(("action", "extra"), ACTIONS.items())
def test_a_missing_table_may_be_ignored(
    flight_client: RawFlightClient, catalog: MutableCatalog, action: str, extra: dict[str, Any]
) -> None:
    body = msgpack.packb({**MISSING, "ignore_not_found": True, **extra})

    assert flight_client.action(action, body) == []
    if action == "rename_table":
        assert catalog.calls[0][-1] == RenameTableOptions(ignore_not_found=True)
    else:
        assert catalog.calls == []


@pytest.mark.parametrize(("action", "extra"), ACTIONS.items())
def test_the_table_hears_that_it_might_be_missing(
    flight_client: RawFlightClient, catalog: MutableCatalog, action: str, extra: dict[str, Any]
) -> None:
    flight_client.call(action, **{**TABLE, "ignore_not_found": True}, **extra)

    assert catalog.calls[0][-1].ignore_not_found is True


def test_a_new_struct_field_of_duckdb_is_refused_with_the_reason(
    flight_client: RawFlightClient, catalog: MutableCatalog
) -> None:
    # The client names the field after the column: the real name is lost.
    with pytest.raises(pa.ArrowNotImplementedError, match="does not transmit the name of a new"):
        flight_client.call(
            "add_field", **TABLE, column_path=["point"], column_schema=field("point")
        )
    assert catalog.calls == []


def test_set_not_null_of_duckdb_repeats_a_key(
    flight_client: RawFlightClient, catalog: MutableCatalog
) -> None:
    body = msgpack.packb({**TABLE, "column_name": "x"})
    repeated = bytes([body[0] + 1]) + body[1:] + msgpack.packb("ignore_not_found") + b"\xc3"

    flight_client.action("set_not_null", repeated)

    assert catalog.calls == [("set_not_null", "x", SetNotNullOptions(ignore_not_found=True))]


def test_a_schema_is_created_empty(flight_client: RawFlightClient, catalog: MutableCatalog) -> None:
    reply = flight_client.call(
        "create_schema", catalog_name="", schema="new", comment="Fresh", tags={"a": "b"}
    )
    contents = msgpack.unpackb(reply)

    assert schema_items(contents) == []
    assert open_container(contents["serialized"]) == []
    assert contents["url"] is None
    assert catalog.calls == [
        ("create_schema", "new", CreateSchemaOptions(comment="Fresh", tags={"a": "b"}))
    ]


def test_duckdb_s_request_for_a_schema_has_no_comment(
    flight_client: RawFlightClient, catalog: MutableCatalog
) -> None:
    flight_client.call("create_schema", catalog_name="", schema="new", comment=None, tags={})

    assert catalog.calls == [("create_schema", "new", CreateSchemaOptions())]


def test_a_schema_is_dropped_with_everything_in_it(
    flight_client: RawFlightClient, catalog: MutableCatalog
) -> None:
    request = {"type": "schema", "catalog_name": "", "schema_name": "", "name": "s"}

    assert (
        flight_client.action("drop_schema", msgpack.packb({**request, "ignore_not_found": False}))
        == []
    )
    assert (
        flight_client.action("drop_schema", msgpack.packb({**request, "ignore_not_found": True}))
        == []
    )

    # DuckDB does not send whether CASCADE was written.
    assert catalog.calls == [
        ("drop_schema", "s", DropSchemaOptions(cascade=None)),
        ("drop_schema", "s", DropSchemaOptions(ignore_not_found=True, cascade=None)),
    ]
    with pytest.raises(KeyError, match="there is no schema 's'"):
        flight_client.action("drop_schema", msgpack.packb(request))


def test_a_schema_with_tables_is_kept_without_cascade(flight_client: RawFlightClient) -> None:
    with pytest.raises(pa.ArrowInvalid, match="schema 's' still has tables"):
        flight_client.call("drop_schema", name="s", cascade=False)


def test_a_table_is_dropped(flight_client: RawFlightClient, catalog: MutableCatalog) -> None:
    request = {"type": "table", "catalog_name": "", "schema_name": "s", "name": "t"}

    assert (
        flight_client.action("drop_table", msgpack.packb({**request, "ignore_not_found": False}))
        == []
    )
    assert (
        flight_client.action("drop_table", msgpack.packb({**request, "ignore_not_found": True}))
        == []
    )

    assert catalog.calls == [
        ("drop_table", "t", DropTableOptions()),
        ("drop_table", "t", DropTableOptions(ignore_not_found=True)),
    ]


TWO = pa.schema([("a", pa.int32()), ("b", pa.int32())]).serialize().to_pybytes()
HALF = field("h", pa.float16())
WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "schema name": ("create_schema", {"schema": "x" * 2000}, "2000 bytes long"),
    "new table name": ("rename_table", {**TABLE, "new_table_name": ""}, "must not be empty"),
    "new column name": (
        "rename_column",
        {**TABLE, "old_name": "x", "new_name": "\n"},
        "control characters",
    ),
    "new field name": (
        "rename_field",
        {**TABLE, "column_path": ["point", "a"], "new_name": ""},
        "must not be empty",
    ),
    "two columns": ("add_column", {**TABLE, "column_schema": TWO}, "expected one column, not 2"),
    "no column": ("add_column", TABLE, "add_column: field 'column_schema' is missing"),
    "column without name": ("add_column", {**TABLE, "column_schema": field("")}, "be empty"),
    "unusable column": ("add_column", {**TABLE, "column_schema": HALF}, "no type for halffloat"),
    "unusable new type": (
        "change_column_type",
        {**TABLE, "column_schema": HALF, "expression": ""},
        "no type for halffloat",
    ),
    "flag": ("drop_table", {"schema_name": "s", "name": "t", "ignore_not_found": 1}, "wrong type"),
    "no name": ("drop_schema", {}, "drop_schema: field 'name' is missing"),
    "tags": ("create_schema", {"schema": "x", "tags": {"a": 1}}, "wrong type"),
    "tags that are no map": ("create_schema", {"schema": "x", "tags": [1]}, "wrong type"),
    "path": ("remove_field", {**TABLE, "column_path": "point.a"}, "wrong type"),
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
        flight_client.call(action, **request_)

    assert catalog.calls == []


def test_a_catalog_that_cannot_change_says_so(start_server: Serving) -> None:
    flight_client = start_server(
        CatalogBuilder().schema("s").table("t", pa.table({"x": [1]})).build()
    )
    refusals: dict[str, tuple[dict[str, Any], str]] = {
        "create_schema": ({"schema": "x"}, "the schemas of this catalog cannot be changed"),
        "drop_schema": ({"name": "s"}, "the schemas of this catalog cannot be changed"),
        "drop_table": ({"schema_name": "s", "name": "t"}, "the tables of schema 's' cannot be"),
        "rename_table": ({**TABLE, "new_table_name": "u"}, "the tables of schema 's' cannot be"),
        "set_not_null": ({**TABLE, "column_name": "x"}, r"columns of table s\.t cannot be changed"),
    }

    for action, (request_, message) in refusals.items():
        with pytest.raises(pa.ArrowNotImplementedError, match=message):
            flight_client.call(action, **request_)


def test_a_request_may_name_the_catalog(start_server: Serving, catalog: MutableCatalog) -> None:
    flight_client = start_server({"red": catalog, "blue": MutableCatalog()})

    info = info_of(
        flight_client.call("set_not_null", **{**TABLE, "catalog": "red"}, column_name="x")
    )

    assert msgpack.unpackb(info.app_metadata)["catalog"] == "red"
    assert flight_client.scan(info.descriptor).schema.names == [*COLUMNS.names, "rowid"]
    with pytest.raises(KeyError, match="there is no schema 's'"):
        flight_client.call("set_not_null", **{**TABLE, "catalog": "blue"}, column_name="x")

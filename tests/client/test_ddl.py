"""CREATE, DROP and ALTER: the bodies that are sent, and what the client knows afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lakeport.airport.client import Client, RemoteTable
from lakeport.catalog import OnConflict, column, rowid_field
from lakeport.errors import (
    InternalError,
    InvalidArgumentError,
    LakeportError,
    NotFoundError,
    UnsupportedError,
)
from lakeport.memory import MemoryCatalog
from tests.client.conftest import Attach
from tests.client.handwritten_server import HandwrittenServer, flight_info

COLUMNS = pa.schema(
    [
        column("a", pa.int64(), nullable=False, comment="kept at home"),
        column("b", pa.string(), default="'x'"),
        column("c", pa.struct([("d", pa.int64())])),
        rowid_field(),
    ]
)


def _schema(blob: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(blob))


def test_create_schema(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    client_of_handwritten_server.schemas()
    handwritten_server.seen.clear()
    created = client_of_handwritten_server.create_schema("n", comment="new")
    assert (created.name, created.comment) == ("n", "new")
    assert handwritten_server.actions_seen() == [
        "catalog_version",
        "create_transaction",
        "create_schema",
    ]
    assert handwritten_server.last("create_schema").request == {
        "catalog_name": b"db",
        "schema": b"n",
        "comment": b"new",
        "tags": {},
    }
    assert [schema.name for schema in client_of_handwritten_server.schemas()] == ["w", "n"]
    assert client_of_handwritten_server.tables("n") == []
    assert handwritten_server.actions_seen().count("list_schemas") == 0


def test_drop_schema(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    client_of_handwritten_server.schemas()
    client_of_handwritten_server.drop_schema("w", if_exists=True)
    assert handwritten_server.last("drop_schema").request == {
        "type": b"schema",
        "catalog_name": b"db",
        "schema_name": b"",
        "name": b"w",
        "ignore_not_found": True,
        "cascade": False,
    }
    assert client_of_handwritten_server.schemas() == []


def test_create_table(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    table = client_of_handwritten_server.create_table(
        "W",
        "n",
        COLUMNS,
        on_conflict="ignore",
        not_null=["B"],
        unique=["a", ["a", "b"]],
        primary_key=["a", "b"],
        check=["(a > 1)"],
    )
    request = handwritten_server.last("create_table").request
    sent = _schema(request.pop("arrow_schema"))
    assert sent == pa.schema([("a", pa.int64()), ("b", pa.string()), COLUMNS.field("c")])
    assert not any(field.metadata for field in sent)
    assert request == {
        "catalog_name": b"db",
        "schema_name": b"w",
        "table_name": b"n",
        "on_conflict": b"ignore",
        "not_null_constraints": [0, 1],
        "unique_constraints": [],
        "check_constraints": [b"(a > 1)"],
        "primary_key_columns": [],
        "unique_columns": [b"a"],
        "multi_key_primary_keys": [b"a", b"b"],
        "extra_constraints": [b'UNIQUE("a", "b")'],
    }
    assert table.rowid_type == pa.int64()
    assert client_of_handwritten_server.table("w.n").schema.names == ["a", "b", "c"]


def test_a_primary_key_of_one_column(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    client_of_handwritten_server.create_table("w", "n", COLUMNS, primary_key="a")
    request = handwritten_server.last("create_table").request
    assert request["primary_key_columns"] == [b"a"]
    assert request["multi_key_primary_keys"] == []
    assert request["not_null_constraints"] == [0]
    assert request["on_conflict"] == b"error"


def test_wrong_constraints_are_refused(client_of_handwritten_server: Client) -> None:
    with pytest.raises(NotFoundError, match="no column 'z' to constrain"):
        client_of_handwritten_server.create_table("w", "n", COLUMNS, not_null=["z"])
    with pytest.raises(InvalidArgumentError, match="needs columns"):
        client_of_handwritten_server.create_table("w", "n", COLUMNS, unique=[["a", "b"], []])
    with pytest.raises(InvalidArgumentError, match="maybe"):
        client_of_handwritten_server.create_table("w", "n", COLUMNS, on_conflict="maybe")


def test_create_table_as(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    client_of_handwritten_server.schemas()
    handwritten_server.seen.clear()
    table = client_of_handwritten_server.create_table_as("w", "n", pa.table({"x": range(3000)}))
    assert table.scan().count() == 3000
    calls = handwritten_server.calls_seen()[:4]
    assert calls == ["create_transaction", "catalog_version", "create_table", "DoExchange"]
    assert handwritten_server.last("DoExchange").header("return-chunks") == "0"
    again = client_of_handwritten_server.create_table_as(
        "w", "n", [{"x": 1}], on_conflict=OnConflict.IGNORE
    )
    assert again.scan().count() == 3000


def test_create_table_as_leaves_a_table_of_somebody_else_alone(attach_client: Attach) -> None:
    catalog = MemoryCatalog.from_tables({"s": {}})
    client, other = attach_client(catalog), attach_client(catalog)
    assert client.tables() == []
    other.create_table_as("s", "t", [{"x": 1}])

    kept = client.create_table_as("s", "t", [{"x": 2}], on_conflict="ignore")
    assert kept.scan().to_arrow().to_pylist() == [{"x": 1}]

    other.refresh()
    client.drop_table("s.t")
    made = other.create_table_as("s", "t", [{"x": 3}], on_conflict="ignore")
    assert made.scan().to_arrow().to_pylist() == [{"x": 3}]


def test_create_table_as_leaves_a_table_of_the_open_transaction_alone(
    attach_client: Attach,
) -> None:
    client = attach_client(MemoryCatalog.from_tables({"s": {}}))
    with client.transaction(explicit=True):
        client.create_table_as("s", "t", [{"x": 1}])
        kept = client.create_table_as("s", "t", [{"x": 2}], on_conflict="ignore")
        assert kept.scan().to_arrow().to_pylist() == [{"x": 1}]


def test_drop_table(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    client_of_handwritten_server.drop_table("W.T")
    assert handwritten_server.last("drop_table").request == {
        "type": b"table",
        "catalog_name": b"db",
        "schema_name": b"w",
        "name": b"t",
        "ignore_not_found": False,
    }
    assert client_of_handwritten_server.tables() == []


def test_unknown_tables_are_dropped_locally(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    client_of_handwritten_server.drop_table("nothing", schema="w", if_exists=True)
    with pytest.raises(NotFoundError):
        client_of_handwritten_server.drop_table("w.nothing")
    assert "drop_table" not in handwritten_server.actions_seen()


ALTERATIONS: list[tuple[Callable[[RemoteTable], None], str, dict[str, Any]]] = [
    (lambda t: t.rename("u"), "rename_table", {"new_table_name": b"u"}),
    (
        lambda t: t.rename_column("name", "title"),
        "rename_column",
        {"new_name": b"title", "old_name": b"name"},
    ),
    (
        lambda t: t.add_column("x", pa.float64()),
        "add_column",
        {"if_column_not_exists": False, "column_schema": pa.schema([("x", pa.float64())])},
    ),
    (
        lambda t: t.drop_column("name", cascade=True),
        "remove_column",
        {"removed_column": b"name", "if_column_exists": False, "cascade": True},
    ),
    (
        lambda t: t.change_type("id", pa.decimal128(9, 2)),
        "change_column_type",
        {
            "column_schema": pa.schema([("id", pa.decimal128(9, 2))]),
            "expression": b'CAST("id" AS DECIMAL(9,2))',
        },
    ),
    (
        lambda t: t.change_type("id", pa.string(), using="id || 'x'"),
        "change_column_type",
        {"column_schema": pa.schema([("id", pa.string())]), "expression": b"id || 'x'"},
    ),
    (
        lambda t: t.set_default("id", "1 + 1"),
        "set_default",
        {"column_name": b"id", "expression": b"1 + 1"},
    ),
    (lambda t: t.set_not_null("id"), "set_not_null", {"column_name": b"id"}),
    (lambda t: t.drop_not_null("id"), "drop_not_null", {"column_name": b"id"}),
    (
        lambda t: t.add_field(["s", "inner", "f"], pa.int8(), if_not_exists=True),
        "add_field",
        {
            "if_field_not_exists": True,
            "column_schema": pa.schema([("f", pa.int8())]),
            "column_path": [b"s", b"inner"],
        },
    ),
    (
        lambda t: t.drop_field(["s", "f"], if_exists=True),
        "remove_field",
        {"column_path": [b"s", b"f"], "if_column_exists": True, "cascade": False},
    ),
    (
        lambda t: t.rename_field(["s", "f"], "g"),
        "rename_field",
        {"column_path": [b"s", b"f"], "new_name": b"g"},
    ),
]


@pytest.mark.parametrize(("change", "action", "fields"), ALTERATIONS)
def test_alterations_send_every_field(
    handwritten_server: HandwrittenServer,
    client_of_handwritten_server: Client,
    change: Callable[[RemoteTable], None],
    action: str,
    fields: dict[str, Any],
) -> None:
    table = client_of_handwritten_server.table("w.t")
    handwritten_server.seen.clear()
    change(table)
    request = handwritten_server.last(action).request
    if "column_schema" in request:
        request["column_schema"] = _schema(request["column_schema"])
    common = {"catalog": b"db", "schema": b"w", "name": b"t", "ignore_not_found": False}
    assert request == {**common, **fields}
    assert handwritten_server.actions_seen() == ["create_transaction", "catalog_version", action]


def test_a_handle_follows_its_table(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    table = client_of_handwritten_server.table("w.t")
    other = client_of_handwritten_server.table("w.t")
    table.add_column("x", pa.float64())
    assert other.schema.names == ["id", "name", "x"]
    table.rename("u")
    assert (table.name, table.scan(["id"]).count()) == ("u", 3)
    assert [each.name for each in client_of_handwritten_server.tables()] == ["u"]
    with pytest.raises(NotFoundError):
        _ = other.schema


def test_a_field_needs_a_path(client_of_handwritten_server: Client) -> None:
    with pytest.raises(InvalidArgumentError, match="path"):
        client_of_handwritten_server.table("w.t").add_field(["s"], pa.int64())


def test_the_server_must_describe_what_it_changed(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    handwritten_server.replies["set_not_null"] = flight_info(
        pa.schema([]), ["w", "t"], None
    ).serialize()
    with pytest.raises(InternalError, match="did not describe"):
        client_of_handwritten_server.table("w.t").set_not_null("id")


def test_everything_on_a_real_server(attach_client: Attach) -> None:
    client = attach_client(MemoryCatalog())
    assert client.schemas() == []
    client.create_schema("s", comment="fresh")
    client.create_schema("s", if_not_exists=True)
    with pytest.raises(LakeportError, match="'s'"):
        client.create_schema("s")
    table = client.create_table("s", "t", COLUMNS, unique=["b"], check=["a > 0"])
    assert table.rowid_type is not None
    assert table.columns[0].not_null
    table.insert([{"a": 1, "b": "one", "c": {"d": 1}}])
    with pytest.raises(LakeportError, match="a > 0"):
        table.insert([{"a": 0, "b": "zero"}])

    table.add_column("e", pa.int32())
    table.set_default("e", "7")
    table.insert([{"a": 2, "b": "two"}])
    table.rename_column("b", "word")
    table.change_type("e", pa.string())
    table.rename_field(["c", "d"], "f")
    table.add_field(["c", "g"], pa.bool_())
    table.drop_not_null("a")
    table.rename("u")
    assert table.scan().to_arrow().to_pylist() == [
        {"a": 1, "word": "one", "c": {"f": 1, "g": None}, "e": None},
        {"a": 2, "word": "two", "c": None, "e": "7"},
    ]
    table.drop_field(["c", "g"])
    table.drop_column("e")
    assert client.table("s.u").schema.names == ["a", "word", "c"]
    copy = client.create_table_as("s", "copy", table.scan().to_reader())
    assert copy.scan().count() == 2

    client.refresh()
    assert {each.name for each in client.tables("s")} == {"u", "copy"}
    with pytest.raises(LakeportError):
        client.drop_schema("s")
    client.drop_table("s.copy")
    client.drop_schema("s", cascade=True)
    client.refresh()
    assert client.schemas() == []


def test_a_catalog_that_cannot_change_says_so(attach_client: Attach) -> None:
    from lakeport.catalog import CatalogBuilder

    client = attach_client(CatalogBuilder().schema("s").table("t", pa.table({"x": [1]})).build())
    with pytest.raises(UnsupportedError, match="cannot be changed"):
        client.create_schema("n")
    with pytest.raises(UnsupportedError, match="cannot be changed"):
        client.table("s.t").add_column("y", pa.int64())

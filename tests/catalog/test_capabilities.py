"""Capabilities are protocols: having the methods is enough, lacking one is not."""

from __future__ import annotations

from typing import Any

import pytest

from lakeport import catalog as model

TABLE = ("name", "comment", "arrow_schema", "scan")
SCHEMA = (
    "name",
    "comment",
    "tables",
    "table",
    "scalar_functions",
    "table_functions",
    "table_functions_in_out",
)
CATALOG = ("schemas", "schema")
FUNCTION = ("name", "comment", "signature")

CAPABILITIES: dict[str, tuple[str, ...]] = {
    "Table": TABLE,
    "Schema": SCHEMA,
    "Catalog": CATALOG,
    "InsertableTable": (*TABLE, "insert"),
    "UpdatableTable": (*TABLE, "update"),
    "DeletableTable": (*TABLE, "delete"),
    "UpdatableBatchTable": (*TABLE, "update_rows"),
    "DeletableBatchTable": (*TABLE, "delete_rows"),
    "StatisticsTable": (*TABLE, "column_statistics"),
    "SizedTable": (*TABLE, "size"),
    "OpenScanTable": (*TABLE, "open_scan"),
    "EndpointTable": (*TABLE, "endpoints"),
    "TimeTravelTable": (*TABLE, "schema_at"),
    "DynamicTable": (
        *TABLE,
        "add_column",
        "remove_column",
        "rename_column",
        "change_column_type",
        "set_not_null",
        "drop_not_null",
        "set_default",
        "add_field",
        "rename_field",
        "remove_field",
    ),
    "DynamicSchema": (*SCHEMA, "create_table", "drop_table", "rename_table"),
    "DynamicCatalog": (*CATALOG, "create_schema", "drop_schema"),
    "VersionedCatalog": (*CATALOG, "catalog_version"),
    "ActionCatalog": (*CATALOG, "actions"),
    "TransactionManager": (
        "begin_transaction",
        "commit_transaction",
        "rollback_transaction",
        "transaction_status",
    ),
    "ScalarFunction": (*FUNCTION, "stability", "execute"),
    "TableFunction": (*FUNCTION, "schema_for", "execute_table"),
    "TableFunctionInOut": (*FUNCTION, "schema_for_input", "execute_in_out"),
}


def _object_with(members: tuple[str, ...]) -> Any:
    return type("Made", (), dict.fromkeys(members, lambda self: None))()


@pytest.mark.parametrize(("name", "members"), CAPABILITIES.items())
def test_an_object_with_the_members_has_the_capability(name: str, members: tuple[str, ...]) -> None:
    assert isinstance(_object_with(members), getattr(model, name))


@pytest.mark.parametrize(
    ("name", "missing"),
    [(name, missing) for name, members in CAPABILITIES.items() for missing in members],
)
def test_an_object_without_one_of_the_members_lacks_the_capability(name: str, missing: str) -> None:
    members = tuple(member for member in CAPABILITIES[name] if member != missing)

    assert not isinstance(_object_with(members), getattr(model, name))


def test_every_public_name_can_be_imported_and_is_listed_once() -> None:
    assert len(model.__all__) == len(set(model.__all__))
    assert all(hasattr(model, name) for name in model.__all__)


def test_every_capability_is_a_public_name() -> None:
    assert set(CAPABILITIES) <= set(model.__all__)

"""The catalogs of the recording server with tables that can be changed.

Most are in a `MemoryCatalog`. Tables with a row identifier of their own kind, and tables that fail
or have endpoints of their own, stand beside them in the same schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from lakeport.catalog import (
    CatalogVersion,
    CreateSchemaOptions,
    CreateTableOptions,
    DropSchemaOptions,
    DropTableOptions,
    RenameTableOptions,
    ScalarFunction,
    Schema,
    StaticSchema,
    Table,
    TableFunction,
    TableFunctionInOut,
    TransactionState,
    check_constraints,
    without_rowid,
)
from lakeport.memory import MemoryCatalog, MemorySchema
from tests.transcripts.catalog import build_catalog, initial_rows, recorded_listing
from tests.transcripts.catalog_tables import ERRORS

__all__ = ["MixedCatalog", "TransactionalMixedCatalog"]

# The memory catalog has its own row identifiers and plain layouts; what needs others is a fixture.
IN_MEMORY = {
    "s": {"t", "empty", "constrained", "nested"},
    "static_data": {
        "big_chunk",
        "emp_interval",
        "emp_nested",
        "employees",
        "stat_empty",
        "statnull",
    },
}

# What is done to one table, and so begins with finding it.
TABLE_ACTIONS = (
    "add_column",
    "add_field",
    "change_column_type",
    "column_statistics",
    "drop_not_null",
    "flight_info",
    "remove_column",
    "remove_field",
    "rename_column",
    "rename_field",
    "set_default",
    "set_not_null",
)


class MixedCatalog:
    """A memory catalog, and tables and functions that cannot be in one. No transactions."""

    def __init__(self, name: str = "db1", *, location: Callable[[], str] = lambda: "") -> None:
        self.name = name
        self.comment = f"catalog {name}"
        self.memory = MemoryCatalog(name, comment=self.comment)
        self._faults: dict[str, str] = {}
        self._fixtures = {
            schema.name: schema for schema in build_catalog(name, location=location).schemas()
        }
        for listed in recorded_listing("db1").schemas:
            options = CreateSchemaOptions(comment=listed.description, tags=listed.tags)
            self.memory.create_schema(listed.name, options)
            for entry in listed.entries:
                if entry.name in IN_MEMORY.get(listed.name, ()):
                    rows = initial_rows(entry)
                    self.memory.add_table(
                        listed.name,
                        entry.name,
                        rows.select(without_rowid(rows.schema).names),
                        comment=entry.comment or "",
                        options=CreateTableOptions(
                            check_constraints=check_constraints(rows.schema)
                        ),
                    )

    def schemas(self) -> Sequence[Schema]:
        return [self._mixed(schema) for schema in self.memory.schemas()]

    def schema(self, name: str) -> Schema | None:
        schema = self.memory.schema(name)
        return None if schema is None else self._mixed(schema)

    def create_schema(self, name: str, options: CreateSchemaOptions) -> Schema:
        self.check("create_schema")
        return self._mixed(self.memory.create_schema(name, options))

    def drop_schema(self, name: str, options: DropSchemaOptions) -> None:
        self.check("drop_schema")
        self.memory.drop_schema(name, options)

    def catalog_version(self) -> CatalogVersion:
        self.check("catalog_version")
        return self.memory.catalog_version()

    def fail(self, action: str, kind: str) -> None:
        """Let an action fail from now on, with an error of that kind; no action means none."""
        self._faults = {action: kind} if action else {}

    def check(self, *actions: str) -> None:
        """Fail if one of these actions was told to."""
        for action in actions:
            if action in self._faults:
                raise ERRORS[self._faults[action]]

    def _mixed(self, schema: MemorySchema) -> MixedSchema:
        return MixedSchema(schema, self._fixtures.get(schema.name), self)


class TransactionalMixedCatalog(MixedCatalog):
    """The same with the transactions of the memory catalog."""

    def begin_transaction(self) -> str:
        self.check("create_transaction")
        return self.memory.begin_transaction()

    def commit_transaction(self, transaction_id: str) -> None:
        self.memory.commit_transaction(transaction_id)

    def rollback_transaction(self, transaction_id: str) -> None:
        self.memory.rollback_transaction(transaction_id)

    def transaction_status(self, transaction_id: str) -> TransactionState | None:
        return self.memory.transaction_status(transaction_id)


class MixedSchema:
    """A schema of the memory catalog with the fixtures of the same name."""

    def __init__(
        self, memory: MemorySchema, fixtures: StaticSchema | None, catalog: MixedCatalog
    ) -> None:
        self.name = memory.name
        self.comment = memory.comment
        self.tags = memory.tags
        self._memory = memory
        self._fixtures = fixtures
        self._catalog = catalog

    def tables(self) -> Sequence[Table]:
        fixtures = self._fixtures.tables() if self._fixtures else ()
        return [*self._memory.tables(), *(t for t in fixtures if self._is_fixture(t.name))]

    def table(self, name: str) -> Table | None:
        self._catalog.check(*TABLE_ACTIONS)
        known = self._memory.table(name)
        if known is not None:
            return known
        return self._fixtures.table(name) if self._fixtures and self._is_fixture(name) else None

    def scalar_functions(self) -> Sequence[ScalarFunction]:
        return self._fixtures.scalar_functions() if self._fixtures else ()

    def table_functions(self) -> Sequence[TableFunction]:
        self._catalog.check("table_function_flight_info")
        return self._fixtures.table_functions() if self._fixtures else ()

    def table_functions_in_out(self) -> Sequence[TableFunctionInOut]:
        return self._fixtures.table_functions_in_out() if self._fixtures else ()

    def create_table(self, name: str, schema: pa.Schema, options: CreateTableOptions) -> Table:
        self._catalog.check("create_table")
        return self._memory.create_table(name, schema, options)

    def drop_table(self, name: str, options: DropTableOptions) -> None:
        self._catalog.check("drop_table")
        self._memory.drop_table(name, options)

    def rename_table(self, old_name: str, new_name: str, options: RenameTableOptions) -> None:
        self._catalog.check("rename_table")
        self._memory.rename_table(old_name, new_name, options)

    def _is_fixture(self, name: str) -> bool:
        return name not in IN_MEMORY.get(self.name, ())

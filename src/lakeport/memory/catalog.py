"""A complete catalog in memory: the catalog and its schemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa

from lakeport._wording import counted
from lakeport.catalog import (
    CatalogVersion,
    CreateSchemaOptions,
    CreateTableOptions,
    DMLOptions,
    DropSchemaOptions,
    DropTableOptions,
    OnConflict,
    RenameTableOptions,
    ScalarFunction,
    TableFunction,
    TableFunctionInOut,
    TransactionState,
    check_name,
)
from lakeport.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    NotFoundError,
    SchemaNotEmptyError,
)
from lakeport.memory.changes import Change
from lakeport.memory.constraints import define
from lakeport.memory.rows import Rows
from lakeport.memory.state import (
    CatalogState,
    Definition,
    SchemaState,
    TableState,
    TableVersion,
)
from lakeport.memory.store import Store
from lakeport.memory.table import MemoryTable
from lakeport.memory.writes import prepare_insert
from lakeport.types import fold_name

__all__ = ["MemoryCatalog", "MemorySchema"]


def _now() -> datetime:
    return datetime.now(UTC)


class MemoryCatalog:
    """A catalog whose schemas and tables are in memory. DuckDB can write and alter all of them.

    It begins empty. Every change of a table makes a version. The last `keep_versions` versions are
    kept, or all of them. May be used from many threads. A request may belong to a transaction.

        catalog = MemoryCatalog.from_tables({"shop": {"orders": orders}})
        serve(catalog)
    """

    def __init__(
        self,
        name: str = "",
        *,
        comment: str = "",
        clock: Callable[[], datetime] = _now,
        keep_versions: int | None = None,
    ) -> None:
        if keep_versions is not None and keep_versions < 1:
            raise InvalidArgumentError("keep_versions must be at least 1, or None to keep all")
        self.name = name
        self.comment = comment
        self._store = Store(clock=clock, keep_versions=keep_versions)

    @classmethod
    def from_tables(
        cls, tables: Mapping[str, Mapping[str, pa.Table]], *, name: str = "", comment: str = ""
    ) -> MemoryCatalog:
        """Return a catalog of Arrow tables, by schema and name."""
        catalog = cls(name, comment=comment)
        for schema, members in tables.items():
            catalog.create_schema(schema, CreateSchemaOptions(if_not_exists=True))
            for table, data in members.items():
                catalog.add_table(schema, table, data)
        return catalog

    def add_table(
        self,
        schema: str,
        name: str,
        data: pa.Table,
        *,
        comment: str = "",
        options: CreateTableOptions | None = None,
    ) -> MemoryTable:
        """Create a table with the rows of an Arrow table as its first version.

        The schema is created if it does not exist. `options` declares constraints.
        """
        options = replace(options or CreateTableOptions(), on_conflict=OnConflict.ERROR)
        if comment:
            options = replace(options, comment=comment)
        self.create_schema(schema, CreateSchemaOptions(if_not_exists=True))
        store = self._store
        empty = _new_table(store, schema, name, define(name, data.schema, options), options.comment)
        columns = data.drop_columns([c for c in data.column_names if not _is_column(empty, c)])
        change, _ = prepare_insert(empty, columns.to_reader(), DMLOptions(), store.next_number())

        def apply(state: CatalogState) -> CatalogState:
            return change.apply(_with_new_table(state, empty, schema))

        store.write(Change(apply))
        return MemoryTable(store, empty)

    def schemas(self) -> Sequence[MemorySchema]:
        """Return all schemas."""
        return [MemorySchema(self._store, s) for s in self._store.visible_state().schemas.values()]

    def schema(self, name: str) -> MemorySchema | None:
        """Return the schema of that name, or None. Case is ignored."""
        schema = self._store.visible_state().schema(name)
        return None if schema is None else MemorySchema(self._store, schema)

    def create_schema(self, name: str, options: CreateSchemaOptions) -> MemorySchema:
        """Create a schema."""
        check_name(name, "schema")
        schema = SchemaState(
            name=name,
            comment=options.comment,
            tags=dict(options.tags),
        )

        def apply(state: CatalogState) -> CatalogState:
            existing = state.schema(name)
            if existing is None:
                return state.with_schema(schema).altered()
            if options.if_not_exists:
                return state
            raise AlreadyExistsError(f"schema {existing.name!r} already exists")

        self._store.write(Change(apply))
        return MemorySchema(self._store, self._store.visible_state().require_schema(name))

    def drop_schema(self, name: str, options: DropSchemaOptions) -> None:
        """Drop a schema. One that has tables is not dropped if `cascade` is False."""
        seen = self._store.visible_state().schema(name)

        def apply(state: CatalogState) -> CatalogState:
            existing = state.schema(name)
            if existing is None and options.ignore_not_found:
                return state
            existing = state.require_schema(name)
            if existing.tables and options.cascade is False:
                count = len(existing.tables)
                raise SchemaNotEmptyError(
                    f"schema {existing.name!r} has {counted(count, 'table')}; drop "
                    f"{'it' if count == 1 else 'them'} first, or use CASCADE"
                )
            return state.without_schema(name).altered()

        tables = [] if seen is None else seen.tables.values()
        self._store.write(Change(apply, alters=frozenset(table.id for table in tables)))

    def catalog_version(self) -> CatalogVersion:
        """Return a version that grows with every CREATE, DROP and ALTER."""
        return CatalogVersion(version=self._store.visible_state().ddl_version, is_fixed=False)

    def begin_transaction(self) -> str:
        """Begin a transaction that sees the committed state of now, and its own changes."""
        return self._store.begin()

    def commit_transaction(self, transaction_id: str) -> None:
        """Commit a transaction; UnavailableError if it conflicts with another commit."""
        self._store.commit(transaction_id)

    def rollback_transaction(self, transaction_id: str) -> None:
        """Drop the changes of a transaction."""
        self._store.rollback(transaction_id)

    def transaction_status(self, transaction_id: str) -> TransactionState | None:
        """Return the state of a transaction; None if it is unknown or was evicted."""
        return self._store.status(transaction_id)


class MemorySchema:
    """A schema of a `MemoryCatalog`."""

    def __init__(self, store: Store, schema: SchemaState) -> None:
        self._store = store
        self.name = schema.name
        self.comment = schema.comment
        self.tags = dict(schema.tags)

    def tables(self) -> Sequence[MemoryTable]:
        """Return all tables."""
        schema = self._store.visible_state().schema(self.name)
        return (
            [] if schema is None else [MemoryTable(self._store, t) for t in schema.tables.values()]
        )

    def table(self, name: str) -> MemoryTable | None:
        """Return the table of that name, or None. Case is ignored."""
        schema = self._store.visible_state().schema(self.name)
        table = None if schema is None else schema.tables.get(fold_name(name))
        return None if table is None else MemoryTable(self._store, table)

    def scalar_functions(self) -> Sequence[ScalarFunction]:
        """Return nothing: this catalog has no functions."""
        return ()

    def table_functions(self) -> Sequence[TableFunction]:
        """Return nothing: this catalog has no functions."""
        return ()

    def table_functions_in_out(self) -> Sequence[TableFunctionInOut]:
        """Return nothing: this catalog has no functions."""
        return ()

    def create_table(
        self, name: str, schema: pa.Schema, options: CreateTableOptions
    ) -> MemoryTable:
        """Create a table. With `OnConflict.IGNORE` an existing table is returned unchanged."""
        definition = define(check_name(name, "table"), schema, options)
        new = _new_table(self._store, self.name, name, definition, options.comment)

        def apply(state: CatalogState) -> CatalogState:
            existing = state.require_schema(self.name).tables.get(fold_name(name))
            if existing is not None and options.on_conflict is OnConflict.IGNORE:
                return state
            replaces = options.on_conflict is OnConflict.REPLACE
            return _with_new_table(state, new, self.name, replaces=replaces)

        self._store.write(Change(apply))
        table = self._store.visible_state().require_schema(self.name).tables[fold_name(name)]
        return MemoryTable(self._store, table)

    def drop_table(self, name: str, options: DropTableOptions) -> None:
        """Drop a table and its versions."""
        existing = self.table(name)
        if existing is None:
            if options.ignore_not_found:
                return
            raise NotFoundError(f"there is no table {self.name}.{name}")

        def apply(state: CatalogState) -> CatalogState:
            schema = state.require_schema(self.name)
            _require(schema, name, existing.id)
            return state.with_schema(schema.without_table(name)).altered()

        self._store.write(Change(apply, alters=frozenset({existing.id})))

    def rename_table(self, old_name: str, new_name: str, options: RenameTableOptions) -> None:
        """Rename a table. It keeps its versions."""
        check_name(new_name, "table")
        existing = self.table(old_name)
        if existing is None:
            if options.ignore_not_found:
                return
            raise NotFoundError(f"there is no table {self.name}.{old_name}")

        def apply(state: CatalogState) -> CatalogState:
            schema = state.require_schema(self.name)
            table = _require(schema, old_name, existing.id)
            if fold_name(new_name) in schema.tables and fold_name(new_name) != fold_name(old_name):
                raise AlreadyExistsError(f"table {self.name}.{new_name} already exists")
            schema = schema.without_table(old_name).with_table(replace(table, name=new_name))
            return state.with_schema(schema).altered()

        self._store.write(Change(apply, alters=frozenset({existing.id})))


def _new_table(
    store: Store, schema: str, name: str, definition: Definition, comment: str
) -> TableState:
    return TableState(
        id=store.next_number(),
        schema=schema,
        name=check_name(name, "table"),
        comment=comment,
        current=TableVersion(definition, Rows()),
    )


def _with_new_table(
    state: CatalogState, table: TableState, schema: str, *, replaces: bool = False
) -> CatalogState:
    owner = state.require_schema(schema)
    existing = owner.tables.get(fold_name(table.name))
    if existing is not None and not replaces:
        raise AlreadyExistsError(f"table {existing} already exists")
    return state.with_schema(owner.with_table(replace(table, schema=owner.name))).altered()


def _require(schema: SchemaState, name: str, table_id: int) -> TableState:
    """Return the table of this name, if it is the one that had it when the statement began."""
    table = schema.tables.get(fold_name(name))
    if table is None or table.id != table_id:
        raise NotFoundError(f"there is no table {schema.name}.{name}")
    return table


def _is_column(table: TableState, name: str) -> bool:
    return table.current.definition.index(name) is not None

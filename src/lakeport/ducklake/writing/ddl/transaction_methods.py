"""The DDL statements of a transaction: schemas, tables, views and macros."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from lakeport.ducklake.writing.change_set import (
    MacroChange,
    SchemaChange,
    TableEntry,
    ViewChange,
)
from lakeport.ducklake.writing.ddl.columns import column_rows
from lakeport.ducklake.writing.ddl.defaults import default_of
from lakeport.ducklake.writing.ddl.definitions import (
    MacroDefinition,
    MacroImplementation,
    SchemaDefinition,
    TableDefinition,
    ViewDefinition,
)
from lakeport.ducklake.writing.ddl.expressions import print_expression, print_select
from lakeport.ducklake.writing.ddl.lookup import SchemaContents, find_names, find_schema_contents
from lakeport.ducklake.writing.ddl.names import check_name, directory_name
from lakeport.ducklake.writing.ddl.specs import partition_keys, sort_keys
from lakeport.ducklake.writing.ddl.types import ColumnsLike, columns_of
from lakeport.ducklake.writing.files.names import uuid7
from lakeport.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    NotFoundError,
    SchemaNotEmptyError,
)
from lakeport.types import fold_name

if TYPE_CHECKING:
    from lakeport.ducklake.writing.table_writer import TableWriter
    from lakeport.ducklake.writing.transaction import Transaction

__all__ = ["DdlMethods"]


class DdlMethods:
    """What a transaction can create, rename, comment and drop."""

    schemas: dict[int, SchemaChange]
    tables: dict[int, TableEntry]
    views: dict[int, ViewChange]
    macros: dict[int, MacroChange]

    def schema_id(self, name: str) -> int:
        """Return the id of a schema; for other parts of this package."""
        return self._schema(name).id

    def create_schema(self, name: str, *, if_not_exists: bool = False) -> None:
        """Create a schema."""
        check_name(name, "schema")
        if self._find_schema(name) is not None:
            if if_not_exists:
                return
            raise AlreadyExistsError(f"the schema {name} exists already")
        identifier = str(uuid7())
        schema = SchemaDefinition(
            id=_transaction(self).allocate(),
            uuid=identifier,
            name=name,
            path=directory_name(name, identifier),
        )
        self.schemas[schema.id] = SchemaChange(before=None, after=schema)

    def drop_schema(self, name: str, *, cascade: bool = False, if_exists: bool = False) -> None:
        """Drop a schema, which must be empty unless everything in it is dropped, too."""
        schema = self._find_schema(name)
        if schema is None:
            if if_exists:
                return
            raise NotFoundError(f"there is no schema {name}")
        tables, views, macros = self._contents(schema)
        if (tables or views or macros) and not cascade:
            inside = (*tables, *(view.name for view in views), *(macro.name for macro in macros))
            raise SchemaNotEmptyError(
                f"the schema {name} still has {inside[0]}: drop it with cascade=True"
            )
        for table in tables:
            self.drop_table(table, schema.name)
        for view in views:
            self._drop_view(view)
        for macro in macros:
            self._drop_macro(macro)
        if schema.id < 0:
            del self.schemas[schema.id]
        else:
            self.schemas[schema.id] = SchemaChange(before=schema, after=None)

    def create_table(
        self,
        name: str,
        columns: ColumnsLike,
        schema: str = "main",
        *,
        partition_by: Sequence[str] = (),
        sort_by: Sequence[str] = (),
        comment: str | None = None,
        defaults: Mapping[str, Any] | None = None,
        default_expressions: Mapping[str, str] | None = None,
        or_replace: bool = False,
        if_not_exists: bool = False,
    ) -> TableWriter:
        """Create a table.

        Args:
            name: The name of the table.
            columns: An Arrow schema, or names with Arrow types or DuckDB's SQL types.
            schema: The schema of the lake.
            partition_by: Keys such as `station`, `month(day)` or `bucket(16, station)`.
            sort_by: Keys such as `day` or `lower(name) DESC NULLS FIRST`.
            comment: A comment.
            defaults: Values of columns that an insert leaves out.
            default_expressions: SQL expressions for such values, such as `now()`.
            or_replace: Drop a table of this name first.
            if_not_exists: Return a table of this name if there is one.
        """
        transaction = _transaction(self)
        check_name(name, "table")
        parent = self._schema(schema)
        found = self._relation(parent, name)
        if isinstance(found, int) and if_not_exists:
            return transaction.table(name, schema)
        if isinstance(found, int) and or_replace:
            self.drop_table(name, schema)
        elif found is not None:
            raise AlreadyExistsError(f"{parent.name}.{name} exists already")
        nodes = columns_of(columns)
        texts = {
            column.name: default_of(
                column,
                (defaults or {}).get(column.name),
                (default_expressions or {}).get(column.name),
            )
            for column in nodes
        }
        unknown = {*(defaults or {}), *(default_expressions or {})} - texts.keys()
        if unknown:
            raise NotFoundError(f"the default of {min(unknown)!r} is of no column of the table")
        id, identifier = transaction.allocate(), str(uuid7())
        rows = tuple(column_rows(nodes, id, first_id=1, defaults=texts))
        table = TableDefinition(
            id=id,
            uuid=identifier,
            schema=parent,
            name=name,
            path=directory_name(name, identifier),
            columns=rows,
            next_column_id=len(rows) + 1,
            tags={} if comment is None else {"comment": comment},
        )
        if partition_by:
            keys = partition_keys(partition_by, table.tree, version=transaction.lake.version)
            table = replace(table, partition_id=transaction.allocate(), partition_keys=keys)
        if sort_by:
            order = sort_keys(sort_by, table.tree)
            table = replace(table, sort_id=transaction.allocate(), sort_keys=order)
        transaction.check_columns(table)
        self.tables[id] = TableEntry(None, table)
        return transaction.writer(id)

    def drop_table(self, name: str, schema: str = "main", *, if_exists: bool = False) -> None:
        """Drop a table."""
        parent = self._find_schema(schema)
        found = None if parent is None else self._relation(parent, name)
        if not isinstance(found, int):
            if found is None and if_exists:
                return
            raise NotFoundError(f"there is no table {schema}.{name}")
        transaction = _transaction(self)
        id = transaction.table(name, schema).id
        entry = self.tables[id]
        transaction.delete_files(id)
        if entry.before is None:
            del self.tables[id]
        else:
            self.tables[id] = replace_entry(entry)

    def create_view(
        self,
        name: str,
        sql: str,
        schema: str = "main",
        *,
        column_aliases: Sequence[str] = (),
        comment: str | None = None,
        or_replace: bool = False,
    ) -> None:
        """Create a view from a SELECT in DuckDB's dialect."""
        check_name(name, "view")
        parent = self._schema(schema)
        found = self._relation(parent, name)
        if isinstance(found, ViewDefinition) and or_replace:
            self._drop_view(found)
        elif found is not None:
            raise AlreadyExistsError(f"{parent.name}.{name} exists already")
        view = ViewDefinition(
            id=_transaction(self).allocate(),
            uuid=str(uuid.uuid4()),
            schema=parent,
            name=name,
            sql=print_select(sql),
            column_aliases=",".join('"' + a.replace('"', '""') + '"' for a in column_aliases),
            tags={} if comment is None else {"comment": comment},
        )
        self.views[view.id] = ViewChange(before=None, after=view)

    def rename_view(self, name: str, new_name: str, schema: str = "main") -> None:
        """Rename a view."""
        check_name(new_name, "view")
        view = self._view(name, schema)
        if fold_name(name) != fold_name(new_name):
            self.check_free(view.schema, new_name)
        self._change_view(replace(view, name=new_name), view)

    def comment_on_view(self, name: str, comment: str | None, schema: str = "main") -> None:
        """Set or remove the comment of a view."""
        view = self._view(name, schema)
        self._change_view(replace(view, tags={**view.tags, "comment": comment}), view)

    def drop_view(self, name: str, schema: str = "main", *, if_exists: bool = False) -> None:
        """Drop a view."""
        try:
            view = self._view(name, schema)
        except NotFoundError:
            if if_exists:
                return
            raise
        self._drop_view(view)

    def create_macro(
        self,
        name: str,
        implementations: Sequence[MacroImplementation],
        schema: str = "main",
        *,
        returns_table: bool = False,
    ) -> None:
        """Create a macro with one or more implementations, which differ in their parameters."""
        check_name(name, "macro")
        if not implementations:
            raise InvalidArgumentError(f"the macro {name!r} has no implementation")
        parent = self._schema(schema)
        type = "table" if returns_table else "scalar"
        if self._find_macro(parent, name, type) is not None:
            raise AlreadyExistsError(f"the macro {parent.name}.{name} exists already")
        printed = tuple(
            replace(one, sql=(print_select if returns_table else print_expression)(one.sql))
            for one in implementations
        )
        macro = MacroDefinition(
            id=_transaction(self).allocate(),
            schema=parent,
            name=name,
            type=type,
            implementations=printed,
        )
        self.macros[macro.id] = MacroChange(before=None, after=macro)

    def drop_macro(self, name: str, schema: str = "main", *, returns_table: bool = False) -> None:
        """Drop a macro."""
        type = "table" if returns_table else "scalar"
        macro = self._find_macro(self._schema(schema), name, type)
        if macro is None:
            raise NotFoundError(f"there is no {type} macro {schema}.{name}")
        self._drop_macro(macro)

    def _drop_view(self, view: ViewDefinition) -> None:
        change = self.views.get(view.id)
        before = view if change is None else change.before
        if before is None:
            del self.views[view.id]
        else:
            self.views[view.id] = ViewChange(before=before, after=None)

    def _change_view(self, after: ViewDefinition, current: ViewDefinition) -> None:
        change = self.views.get(after.id)
        before = current if change is None else change.before
        self.views[after.id] = ViewChange(before=before, after=after)

    def _drop_macro(self, macro: MacroDefinition) -> None:
        if macro.id < 0:
            del self.macros[macro.id]
        else:
            self.macros[macro.id] = MacroChange(before=macro, after=None)

    def _schema(self, name: str) -> SchemaDefinition:
        found = self._find_schema(name)
        if found is None:
            raise NotFoundError(f"there is no schema {name}")
        return found

    def _find_schema(self, name: str) -> SchemaDefinition | None:
        """Return a schema as the transaction leaves it."""
        for change in self.schemas.values():
            if change.after is not None and fold_name(change.after.name) == fold_name(name):
                return change.after
        found = self._names(name, "").schema
        is_dropped = found is not None and found.id in self.schemas
        return None if is_dropped else found

    def _relation(self, schema: SchemaDefinition, name: str) -> int | ViewDefinition | None:
        """Return the id of a table, or a view, as the transaction leaves them."""
        folded = fold_name(name)
        for id, entry in self.tables.items():
            after = entry.after
            if after and after.schema.id == schema.id and fold_name(after.name) == folded:
                return id
        for change in self.views.values():
            view = change.after
            if view and view.schema.id == schema.id and fold_name(view.name) == folded:
                return view
        if schema.id < 0:
            return None
        found = self._names(schema.name, name)
        tables = [row.table_id for row in found.tables if row.table_id not in self.tables]
        views = [view for view in found.views if view.id not in self.views]
        return tables[0] if tables else views[0] if views else None

    def _view(self, name: str, schema: str) -> ViewDefinition:
        found = self._relation(self._schema(schema), name)
        if not isinstance(found, ViewDefinition):
            raise NotFoundError(f"there is no view {schema}.{name}")
        return found

    def _find_macro(self, schema: SchemaDefinition, name: str, type: str) -> MacroDefinition | None:
        for change in self.macros.values():
            macro = change.after
            if (
                macro is not None
                and (macro.schema.id, macro.type) == (schema.id, type)
                and fold_name(macro.name) == fold_name(name)
            ):
                return macro
        found = self._names(schema.name, name).macros if schema.id >= 0 else ()
        return next((m for m in found if m.type == type and m.id not in self.macros), None)

    def check_free(self, schema: SchemaDefinition, name: str) -> None:
        """Raise AlreadyExistsError if a table or a view has a name."""
        if self._relation(schema, name) is not None:
            raise AlreadyExistsError(f"{schema.name}.{name} exists already")

    def _contents(
        self, schema: SchemaDefinition
    ) -> tuple[list[str], list[ViewDefinition], list[MacroDefinition]]:
        """Return everything in a schema, as the transaction leaves it."""
        tables = [e.after.name for e in self.tables.values() if e.after and _is_in(e.after, schema)]
        views = [c.after for c in self.views.values() if c.after and _is_in(c.after, schema)]
        macros = [c.after for c in self.macros.values() if c.after and _is_in(c.after, schema)]
        if schema.id >= 0:
            transaction = _transaction(self)
            base, catalog = transaction.base, transaction.lake.catalog
            found = catalog.database.read(
                lambda connection: find_schema_contents(connection, catalog, base, schema.name)
            )
            tables += [row.table_name for row in found.tables if row.table_id not in self.tables]
            views += [view for view in found.views if view.id not in self.views]
            macros += [macro for macro in found.macros if macro.id not in self.macros]
        return tables, views, macros

    def _names(self, schema: str, name: str) -> SchemaContents:
        transaction = _transaction(self)
        base, catalog = transaction.base, transaction.lake.catalog
        return catalog.database.read(
            lambda connection: find_names(connection, catalog, base, schema, name)
        )


def replace_entry(entry: TableEntry) -> TableEntry:
    """Return the entry of a table that is dropped."""
    return TableEntry(entry.before, None, table=entry.table)


def _is_in(
    definition: TableDefinition | ViewDefinition | MacroDefinition, schema: SchemaDefinition
) -> bool:
    return definition.schema.id == schema.id


def _transaction(methods: DdlMethods) -> Transaction:
    """Return the transaction itself: only `Transaction` has these methods."""
    return cast("Transaction", methods)

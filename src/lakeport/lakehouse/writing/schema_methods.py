"""CREATE, DROP and RENAME TABLE in a schema of a lake; CREATE and DROP SCHEMA of a catalog."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.catalog import (
    CreateSchemaOptions,
    CreateTableOptions,
    DropSchemaOptions,
    DropTableOptions,
    OnConflict,
    RenameTableOptions,
    Schema,
    Table,
)
from lakeport.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    NotFoundError,
    SchemaNotEmptyError,
    UnsupportedError,
)
from lakeport.lakehouse.names import MAIN, PublishedNames
from lakeport.lakehouse.views import LakeCatalogView
from lakeport.types import fold_name

if TYPE_CHECKING:
    from lakeport.lakehouse.resources import LakeResources
    from lakeport.lakehouse.writing.transactions import LakeWrites

__all__ = ["CatalogWrites", "SchemaWrites", "drop_schema"]


class SchemaWrites:
    """What a schema of a lake accepts besides being listed; `LakeCatalogSchema` has the rest."""

    name: str
    _writes: LakeWrites
    _name_in_lake: str
    _find: Callable[[str], Table | None]
    """Returns the table or view that has a name now, after all changes of the request."""

    def create_table(self, name: str, schema: pa.Schema, options: CreateTableOptions) -> Table:
        """Create a table with the columns and NOT NULL of a statement; a lake has no other keys."""
        self._writes.require()
        _check_constraints(f"{self.name}.{name}", options)
        existing = self._find(name)
        if existing is not None and options.on_conflict is OnConflict.ERROR:
            raise AlreadyExistsError(f"{self.name}.{existing.name} exists already")
        folded = {fold_name(column) for column in options.not_null_columns}
        columns = pa.schema(
            [
                field.with_nullable(field.nullable and fold_name(field.name) not in folded)
                for field in schema
            ]
        )
        with self._writes.statement() as transaction:
            transaction.create_table(
                name,
                columns,
                self._name_in_lake,
                comment=options.comment or None,
                if_not_exists=options.on_conflict is OnConflict.IGNORE,
                or_replace=options.on_conflict is OnConflict.REPLACE,
            )
        created = self._find(name)
        if created is None:
            raise NotFoundError(f"there is no table {self.name}.{name}")
        return created

    def drop_table(self, name: str, options: DropTableOptions) -> None:
        """Drop a table. Older snapshots keep it until they are expired."""
        self._writes.require()
        self._check_is_table(name, "drop it with lakeport.drop_view")
        with self._writes.statement() as transaction:
            transaction.drop_table(name, self._name_in_lake, if_exists=options.ignore_not_found)

    def rename_table(self, old_name: str, new_name: str, options: RenameTableOptions) -> None:
        """Rename a table; its files stay where they are."""
        self._writes.require()
        self._check_is_table(old_name, "drop it and create it again")
        if options.ignore_not_found and self._find(old_name) is None:
            return
        with self._writes.statement() as transaction:
            transaction.table(old_name, self._name_in_lake).rename(new_name)

    def _check_is_table(self, name: str, advice: str) -> None:
        found = self._find(name)
        if isinstance(found, LakeCatalogView):
            raise UnsupportedError(f"{self.name}.{found.name} is a view, not a table: {advice}")


class CatalogWrites:
    """The changes of the schemas of a lake; `LakeCatalog` has the rest."""

    _access: LakeResources

    def create_schema(self, name: str, options: CreateSchemaOptions) -> Schema:
        """Create a schema."""
        self._access.writes.require()
        if options.comment:
            raise UnsupportedError(f"a lake has no comments of schemas: create {name!r} without")
        names = self._names()
        if _is_reserved(names, name):
            existing = self.schema(names.main if fold_name(name) == MAIN else name)
            if options.if_not_exists and existing is not None:
                return existing
            raise AlreadyExistsError(f"the schema {name} exists already")
        with self._access.writes.statement() as transaction:
            transaction.create_schema(name, if_not_exists=options.if_not_exists)
        created = self.schema(name)
        if created is None:
            raise NotFoundError(f"there is no schema {name!r}")
        return created

    def drop_schema(self, name: str, options: DropSchemaOptions) -> None:
        """Drop a schema, with its tables and views only if the options name that."""
        drop_schema(self._access.writes, self._names(), name, options)

    def schema(self, name: str) -> Schema | None:
        """Return the schema of that name, or None."""
        raise NotImplementedError

    def _names(self) -> PublishedNames:
        raise NotImplementedError


def drop_schema(
    writes: LakeWrites, names: PublishedNames, name: str, options: DropSchemaOptions
) -> None:
    """Drop a schema. One that is not empty is dropped only by a client that sends CASCADE."""
    writes.require()
    if _is_reserved(names, name):
        raise InvalidArgumentError(f"the schema {name} cannot be dropped")
    with writes.statement() as transaction:
        try:
            transaction.drop_schema(
                name, cascade=bool(options.cascade), if_exists=options.ignore_not_found
            )
        except SchemaNotEmptyError:
            if options.cascade is not None:
                raise
            raise SchemaNotEmptyError(
                f"the schema {name} is not empty, and DuckDB does not send CASCADE: drop its "
                f"tables first, or call {names.functions}.drop_schema with cascade := true"
            ) from None


def _is_reserved(names: PublishedNames, name: str) -> bool:
    return fold_name(name) in {MAIN, fold_name(names.main), fold_name(names.functions)}


def _check_constraints(table: str, options: CreateTableOptions) -> None:
    """Raise UnsupportedError for constraints that DuckLake does not have."""
    found = (
        "a primary key"
        if options.primary_key
        else "a UNIQUE constraint"
        if options.unique_constraints
        else "a CHECK constraint"
        if options.check_constraints
        else None
    )
    if found is not None:
        raise UnsupportedError(
            f"table {table} cannot have {found}: DuckLake has only NOT NULL constraints"
        )

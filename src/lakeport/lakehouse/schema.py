"""The schemas of a lake as schemas of a catalog, and an index of what they hold."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from lakeport.catalog import ScalarFunction, Table, TableFunction, TableFunctionInOut
from lakeport.ducklake import Schema, Snapshot
from lakeport.ducklake.metadata import LakeContents, Omission
from lakeport.ducklake.writing import Transaction
from lakeport.errors import CorruptLakeError, LakeportError, PermissionDeniedError
from lakeport.lakehouse.names import PublishedNames
from lakeport.lakehouse.resources import LakeResources
from lakeport.lakehouse.table import LakeCatalogTable
from lakeport.lakehouse.views import LakeCatalogView, view_schemas
from lakeport.lakehouse.writing.schema_methods import SchemaWrites
from lakeport.lakehouse.writing.staged import StagedTable, changed_tables, staged_contents
from lakeport.lakehouse.writing.transactions import LakeWrites
from lakeport.types import fold_name

__all__ = ["LakeCatalogSchema", "SchemaIndex", "TableFactory"]

_log = logging.getLogger("lakeport.lakehouse")


class LakeCatalogSchema(SchemaWrites):
    """One schema of a lake at the snapshot of the request, with its tables and views."""

    def __init__(
        self,
        name: str,
        schema: Schema,
        members: Mapping[str, TableFactory],
        snapshot: Snapshot,
        *,
        explain: Callable[[str], str | None],
        omitted: Mapping[str, Omission],
        as_seen: Callable[[str, Table], Table],
        writes: LakeWrites,
        find: Callable[[str], Table | None],
    ) -> None:
        self.name = name
        self._name_in_lake = schema.name
        self._writes = writes
        self._find = find
        self.comment = schema.comment or ""
        self.tags = {
            key: value
            for key, value in schema.tags.items()
            if key != "comment" and value is not None
        }
        self._members = members
        self._omitted = omitted
        self._snapshot = snapshot
        self._explain = explain
        self._as_seen = as_seen

    def tables(self) -> Sequence[Table]:
        """Return the tables; those with a column of an unknown type are logged and left out."""
        tables = [
            self._as_seen(self.name, publish(self._snapshot)) for publish in self._members.values()
        ]
        return [table for table in tables if self._can_be_listed(table)]

    def table(self, name: str) -> Table | None:
        """Return the table of that name, ignoring case, or None."""
        if self._writes.continue_at_definition(self._name_in_lake, name, self._snapshot.id):
            return self._find(name)
        publish = self._members.get(fold_name(name))
        omission = self._omitted.get(fold_name(name))
        if publish is None and omission is not None:
            raise CorruptLakeError(
                f"the {omission.kind} {self.name}.{name} cannot be read: {omission.reason}"
            )
        return None if publish is None else self._as_seen(self.name, publish(self._snapshot))

    def why_missing(self, name: str) -> str | None:
        """Return why there is no such table now; None if it never existed."""
        return self._explain(name)

    def scalar_functions(self) -> Sequence[ScalarFunction]:
        """Return no functions: macros of a lake are not published."""
        return ()

    def table_functions(self) -> Sequence[TableFunction]:
        """Return no functions: those about the lake are in a schema of their own."""
        return ()

    def table_functions_in_out(self) -> Sequence[TableFunctionInOut]:
        """Return no functions."""
        return ()

    def _can_be_listed(self, table: Table) -> bool:
        try:
            table.arrow_schema()
        except PermissionDeniedError:  # a view over tables that the caller may not read
            return False
        except LakeportError as error:
            _log.warning("table %s.%s is not listed: %s", self.name, table.name, error)
            return False
        return True


TableFactory: TypeAlias = Callable[[Snapshot], Table]
"""Makes a catalog table of a table or view of the lake, at a snapshot."""


@dataclass(frozen=True, slots=True)
class SchemaIndex:
    """The schemas, tables and views of a lake by their folded names."""

    names: PublishedNames
    schemas: Mapping[str, Schema]
    """By published name."""
    members: Mapping[str, Mapping[str, TableFactory]]
    """Tables and views, by the published names of their schemas and their own."""
    refused: Mapping[int, str]
    """The reasons for which views are refused, by the ids of the views."""
    omitted: Mapping[str, Mapping[str, Omission]]
    """The tables and views that cannot be read, by the same names."""

    @classmethod
    def of(
        cls,
        access: LakeResources,
        contents: LakeContents,
        *,
        main_as: str | None,
        direct_reads: bool,
    ) -> SchemaIndex:
        """Return the index of a lake; views whose columns are unknown are refused."""
        names = PublishedNames.choose([schema.name for schema in contents.schemas], main_as)

        def folded_name(schema: str) -> str:
            return fold_name(names.published(schema))

        members: dict[str, dict[str, TableFactory]] = defaultdict(dict)
        for table in contents.tables:
            publish = partial(LakeCatalogTable, access, names, table, direct=direct_reads)
            members[folded_name(table.schema)][fold_name(table.name)] = publish
        columns, refused = view_schemas(contents)
        for view in contents.views:
            if view.id in columns:
                make = partial(LakeCatalogView, access, names, view, columns[view.id])
                members[folded_name(view.schema)][fold_name(view.name)] = make
        omitted: dict[str, dict[str, Omission]] = defaultdict(dict)
        for omission in contents.omitted:
            if omission.schema is not None and omission.name is not None:
                omitted[folded_name(omission.schema)][fold_name(omission.name)] = omission
        schemas = {folded_name(schema.name): schema for schema in contents.schemas}
        return cls(names, schemas, members, refused, omitted)

    @classmethod
    def of_staged(
        cls,
        access: LakeResources,
        contents: LakeContents,
        transaction: Transaction,
        *,
        main_as: str | None,
        direct_reads: bool,
    ) -> SchemaIndex:
        """Return the index of a lake as a transaction leaves it that is not committed."""
        index = cls.of(
            access,
            staged_contents(contents, transaction),
            main_as=main_as,
            direct_reads=direct_reads,
        )
        members = {key: dict(own) for key, own in index.members.items()}
        for summary in changed_tables(transaction):
            key = fold_name(index.names.published(summary.schema))
            members[key][fold_name(summary.name)] = partial(
                StagedTable,
                access,
                index.names,
                summary,
                transaction=transaction,
                direct=direct_reads,
            )
        return replace(index, members=members)

"""The schema `lakeport` of a lake catalog: functions and tables about the lake itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeAlias

import pyarrow as pa

from lakeport.catalog import (
    CallableTableFunction,
    Parameter,
    ParameterKind,
    ScanTable,
    StaticSchema,
    TableFunction,
)
from lakeport.ducklake import ChangeFeed, LakeTable, Scan, Snapshot
from lakeport.errors import InvalidInputError, PermissionDeniedError, UnsupportedError
from lakeport.lakehouse.functions.access import MY_ACCESS_SCHEMA, access_functions, my_access
from lakeport.lakehouse.functions.activity import KILL_SCHEMA, QUERIES_SCHEMA, kill, queries
from lakeport.lakehouse.functions.changing import changing_functions
from lakeport.lakehouse.functions.documentation import FUNCTIONS_SCHEMA, functions_table
from lakeport.lakehouse.functions.health import health_functions, schedule_table
from lakeport.lakehouse.functions.history import (
    NAMES_SCHEMA,
    SNAPSHOTS_SCHEMA,
    names_in_history,
    snapshots,
)
from lakeport.lakehouse.functions.maintenance import maintenance_functions, maintenance_table
from lakeport.lakehouse.functions.metadata_tables import (
    COLUMNS_SCHEMA,
    FILES_OF_TABLE_SCHEMA,
    FILES_SCHEMA,
    SCHEMAS_SCHEMA,
    TABLE_INFO_SCHEMA,
    TABLES_SCHEMA,
    UNLISTED_SCHEMA,
    columns,
    files,
    files_of_table,
    schemas,
    table_info,
    tables,
    unlisted,
)
from lakeport.lakehouse.functions.table_details import detail_functions
from lakeport.lakehouse.names import PublishedNames, find_table, parse_table_name
from lakeport.lakehouse.permissions import Permissions
from lakeport.lakehouse.policies.restricted_feed import RestrictedFeed
from lakeport.lakehouse.resources import LakeResources
from lakeport.spark import retried_when_lost

__all__ = ["functions_schema"]

_COMMENT: Final = "Functions and tables about the lake itself"
_TABLE: Final = Parameter("table_name", pa.string())
_BOUNDS: Final = (pa.int64(), pa.timestamp("us", "UTC"))
"""The bounds of a change feed are snapshot ids or times."""
Bound: TypeAlias = int | datetime | None
_Feed: TypeAlias = tuple[LakeTable, ChangeFeed | Scan]


def functions_schema(
    access: LakeResources,
    names: PublishedNames,
    snapshot: Snapshot,
    extra: Sequence[TableFunction] = (),
    *,
    refused: Mapping[int, str],
) -> StaticSchema:
    """Return the schema of functions and tables about a lake, at a snapshot.

    `refused` are the reasons for which views are refused, by the ids of the views.
    """
    own = _Functions(access, names, snapshot, refused)
    functions = [
        *own.functions(),
        *detail_functions(access, snapshot, own.permissions, own.whole_table),
        *changing_functions(access, names),
        *maintenance_functions(access, names),
        *health_functions(access, names),
        *access_functions(access, names, snapshot),
        *extra,
    ]
    documented = ScanTable(
        "functions",
        FUNCTIONS_SCHEMA,
        lambda _: functions_table(names.functions, functions),
        comment="The functions of this schema",
    )
    return StaticSchema(
        names.functions,
        comment=_COMMENT,
        tables=[
            *own.tables(),
            maintenance_table(access.lake, names),
            schedule_table(access, names),
            documented,
        ],
        table_functions=functions,
    )


class _Kill(CallableTableFunction):
    is_immediate = True


class _Functions:
    """The functions and tables of one request."""

    def __init__(
        self,
        access: LakeResources,
        names: PublishedNames,
        snapshot: Snapshot,
        refused: Mapping[int, str],
    ) -> None:
        self._refused = refused
        self._access = access
        self._names = names
        self._snapshot = snapshot

    def tables(self) -> Iterator[ScanTable]:
        contents, access = self._access.contents(self._snapshot), self._access
        yield ScanTable(
            "snapshots",
            SNAPSHOTS_SCHEMA,
            lambda options: snapshots(access.lake, self.permissions(), options.columns),
            comment="All snapshots of the lake",
        )
        yield ScanTable(
            "names",
            NAMES_SCHEMA,
            lambda _: names_in_history(access.lake, self.permissions()),
            comment="The names of schemas, tables and views, with the snapshots that have them",
        )
        yield ScanTable(
            "schemas",
            SCHEMAS_SCHEMA,
            lambda _: schemas(contents, self.permissions()),
            comment="The schemas, with their names in the lake",
        )
        yield ScanTable(
            "tables",
            TABLES_SCHEMA,
            lambda _: tables(contents, self.permissions()),
            comment="The tables and views",
        )
        yield ScanTable(
            "unlisted",
            UNLISTED_SCHEMA,
            lambda _: unlisted(contents, self.permissions(), self._refused),
            comment="The tables and views that cannot be read, and why",
        )
        yield ScanTable(
            "columns",
            COLUMNS_SCHEMA,
            lambda _: columns(contents, self.permissions()),
            comment="The columns of all tables",
        )
        yield ScanTable(
            "my_access",
            MY_ACCESS_SCHEMA,
            lambda _: my_access(contents, self.permissions()),
            comment="What you may do with the tables and views, and what you see of them",
        )
        yield ScanTable(
            "files",
            FILES_SCHEMA,
            lambda _: files(access, contents, self.permissions(), snapshot=self._snapshot),
            comment="The files of all tables",
        )
        yield ScanTable(
            "queries",
            QUERIES_SCHEMA,
            lambda _: queries(),
            comment="What the server runs and ran lately, for the caller",
            is_immediate=True,
        )

    def functions(self) -> Iterator[TableFunction]:
        yield CallableTableFunction(
            "snapshots", self._snapshots, (), SNAPSHOTS_SCHEMA, comment="All snapshots"
        )
        yield CallableTableFunction(
            "table_info",
            lambda: table_info(
                self._access,
                self._access.contents(self._snapshot),
                self.permissions(),
                snapshot=self._snapshot,
            ),
            (),
            TABLE_INFO_SCHEMA,
            comment="Number and size of the files of every table",
        )
        yield CallableTableFunction(
            "list_files",
            self._list_files,
            (_TABLE, Parameter("snapshot_version", pa.int64(), ParameterKind.NAMED, None)),
            FILES_OF_TABLE_SCHEMA,
            comment="The files of a table, now or at a snapshot",
        )
        yield _Kill(
            "kill",
            kill,
            (Parameter("id", pa.string()),),
            KILL_SCHEMA,
            comment="End a running query by its id in the table queries",
        )
        for type in _BOUNDS:
            yield self._feed("table_changes", "What happened to a table", type, _changes)
            yield self._feed("table_insertions", "Rows inserted into a table", type, _insertions)
            yield self._feed("table_deletions", "Rows deleted from a table", type, _deletions)

    def _snapshots(self) -> pa.Table:
        return snapshots(self._access.lake, self.permissions())

    def permissions(self) -> Permissions:
        """Return the permissions of the current request, not of the one that listed the schema."""
        return Permissions.of_request(self._access, self._names)

    def whole_table(
        self, table_name: str | None, action: str, snapshot_version: int | None = None
    ) -> LakeTable:
        """Return a table of which the caller sees everything."""
        table = self._table(table_name, snapshot_version)
        if self.permissions().restriction(table.planner.state) is not None:
            raise PermissionDeniedError(
                f"you may not {action} {(table_name or '')[:80]}: policies restrict what you see "
                "of it"
            )
        return table

    def _list_files(self, table_name: str | None, snapshot_version: int | None) -> pa.Table:
        return files_of_table(self.whole_table(table_name, "list the files of", snapshot_version))

    def _feed(
        self,
        name: str,
        comment: str,
        bound: pa.DataType,
        read: Callable[[ChangeFeed], ChangeFeed | Scan],
    ) -> TableFunction:
        """Return a function of a table and two bounds, both included.

        The table is the one that has the name at the second bound.
        """

        def find(table_name: str | None, start: Bound, end: Bound) -> _Feed:
            if start is None or end is None:
                raise InvalidInputError(f"{name} needs two bounds, which are not NULL")
            last = end if isinstance(end, int) else self._access.lake.snapshot(timestamp=end).id
            table = self._table(table_name, last)
            return table, read(table.changes(start, last))

        def schema(table_name: str | None, start: Bound, end: Bound) -> pa.Schema:
            table, feed = find(table_name, start, end)
            seen = RestrictedFeed.of(self._access, self.permissions(), table, feed)
            return _snapshot_first(feed.schema if seen is None else seen.schema)

        def rows(table_name: str | None, start: Bound, end: Bound) -> pa.RecordBatchReader:
            table, feed = find(table_name, start, end)
            seen = RestrictedFeed.of(self._access, self.permissions(), table, feed)
            if seen is not None:
                return seen.to_batches()
            with retried_when_lost():
                return feed.to_batches(engine=self._access.engine)

        parameters = (_TABLE, Parameter("start", bound), Parameter("end", bound))
        return CallableTableFunction(name, rows, parameters, schema, comment=comment)

    def _table(self, name: str | None, version: int | None = None) -> LakeTable:
        if name is None:
            raise InvalidInputError("the name of the table is NULL")
        snapshot = self._snapshot if version is None else self._access.snapshot(version)
        schema, table_name = parse_table_name(self._names, name)
        table = find_table(self._access.contents(snapshot), schema, table_name)
        # The name as the caller wrote it: the table's own spelling would reveal that it exists.
        denied = f"you may not read {name[:80]}"
        if table is not None:
            self.permissions().require_reading([table], denied=denied)
            return self._access.table(table.schema, table.name, snapshot.id)
        if not self.permissions().reads_name(schema, table_name):
            raise PermissionDeniedError(denied)
        raise self._access.missing_table(schema, table_name, snapshot.id, shown=repr(name[:80]))


def _changes(feed: ChangeFeed) -> ChangeFeed:
    return feed


def _insertions(feed: ChangeFeed) -> Scan:
    return feed.insertions


def _deletions(feed: ChangeFeed) -> Scan:
    return feed.deletions


def _snapshot_first(schema: pa.Schema) -> pa.Schema:
    """Return the columns in DuckLake's order: snapshot, row id, then those of the table."""
    first = [name for name in ("snapshot_id", "rowid") if name in schema.names]
    hidden = [name for name in first if schema.names.count(name) > 1]
    if hidden:
        raise UnsupportedError(f"the table has a column called {hidden[0]!r} itself")
    rest = [field for field in schema if field.name not in first]
    return pa.schema([*(schema.field(name) for name in first), *rest])

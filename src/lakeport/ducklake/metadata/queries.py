"""Every query of the catalog database. A table costs one round trip, its files two more."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import sqlalchemy as sa

from lakeport.ducklake.metadata.catalog_tables import CatalogTables, probe_statement
from lakeport.ducklake.metadata.database import Database
from lakeport.ducklake.metadata.rows import (
    ColumnRow,
    ColumnTagRow,
    DataFileRow,
    DeleteFileRow,
    MetadataRow,
    QueryRow,
    SchemaRow,
    SnapshotChangesRow,
    SnapshotRow,
    TableRow,
    TableStatsRow,
    ViewRow,
)
from lakeport.ducklake.metadata.statements import (
    SNAPSHOT_PARAMETER,
    FileQuery,
    add_listing,
    at_snapshot,
    file_query,
    name_parameters,
    same_name,
    snapshot_id,
    table_query,
)
from lakeport.ducklake.metadata.union_query import (
    ColumnsResult,
    PreparedUnionQuery,
    QueryResult,
    Row,
    UnionQuery,
)
from lakeport.errors import LakeVersionError, NotFoundError

__all__ = [
    "CatalogReader",
    "ColumnsResult",
    "DataFileTotals",
    "DeleteFileTotals",
    "QueryResult",
    "Row",
    "TableWithColumnsRow",
    "check_version",
    "open_catalog",
    "partition_columns_are_ordinals",
]

MAX_PREPARED: Final = 512


@dataclass(frozen=True, slots=True)
class TableWithColumnsRow(QueryRow):
    """A table that has columns at a snapshot."""

    branch = "table_with_columns"
    table_id: int


@dataclass(frozen=True, slots=True)
class DataFileTotals(QueryRow):
    """The number and size of the data files of a table."""

    branch = "data_file_totals"
    table_id: int
    files: int
    bytes: int | None


@dataclass(frozen=True, slots=True)
class DeleteFileTotals(QueryRow):
    """The number and size of the delete files of a table."""

    branch = "delete_file_totals"
    table_id: int
    files: int
    bytes: int | None


@dataclass(frozen=True, slots=True)
class CatalogReader:
    """A catalog database with the tables that its format version has."""

    database: Database
    tables: CatalogTables
    version: str
    _prepared: dict[object, PreparedUnionQuery] = field(repr=False, compare=False)

    def snapshots(self, connection: sa.Connection) -> QueryResult:
        """Return all snapshots, with the changes and messages of their commits."""

        def build() -> UnionQuery:
            query = UnionQuery()
            query.add(SnapshotRow, self.tables[SnapshotRow])
            query.add(SnapshotChangesRow, self.tables[SnapshotChangesRow])
            return query

        return self.run(connection, "snapshots", build)

    def snapshot_times(self, connection: sa.Connection) -> list[SnapshotRow]:
        """Return all snapshots without their commits; the caller compares the times in UTC."""

        def build() -> UnionQuery:
            query = UnionQuery()
            query.add(SnapshotRow, self.tables[SnapshotRow])
            return query

        return self.run(connection, "snapshot_times", build)[SnapshotRow]

    def options(self, connection: sa.Connection) -> list[MetadataRow]:
        """Return the options of the lake, its schemas and its tables."""

        def build() -> UnionQuery:
            query = UnionQuery()
            query.add(MetadataRow, self.tables[MetadataRow])
            return query

        return self.run(connection, "options", build)[MetadataRow]

    def newest(self, connection: sa.Connection) -> SnapshotRow | None:
        """Return the newest snapshot without its commit; None if there is none."""

        def build() -> UnionQuery:
            return at_snapshot(self.tables, snapshot_id(self.tables, None))

        return next(iter(self.run(connection, "newest", build)[SnapshotRow]), None)

    def newest_and(self, connection: sa.Connection, version: int) -> QueryResult:
        """Return the newest snapshot, the one of a version, and the options of the lake."""

        def build() -> UnionQuery:
            query, snapshot = UnionQuery(), self.tables[SnapshotRow]
            wanted = [snapshot_id(self.tables, None), SNAPSHOT_PARAMETER]
            query.add(SnapshotRow, snapshot, snapshot.c.snapshot_id.in_(wanted))
            query.add(MetadataRow, self.tables[MetadataRow])
            return query

        return self.run(connection, "newest_and", build, at=version)

    def snapshot(self, connection: sa.Connection, version: int | None) -> QueryResult:
        """Return the snapshot of a version, or the newest one, with its commit."""

        def build() -> UnionQuery:
            at = snapshot_id(self.tables, version)
            query = at_snapshot(self.tables, at)
            changes = self.tables[SnapshotChangesRow]
            query.add(SnapshotChangesRow, changes, changes.c.snapshot_id == at)
            return query

        return self.run(connection, ("snapshot", version is None), build, at=version)

    def lifetimes(self, connection: sa.Connection) -> QueryResult:
        """Return all rows of schemas, tables and views, of all snapshots."""

        def build() -> UnionQuery:
            query = UnionQuery()
            for row in (SchemaRow, TableRow, ViewRow):
                query.add(row, self.tables[row])
            return query

        return self.run(connection, "lifetimes", build)

    def names(self, connection: sa.Connection, version: int | None) -> QueryResult:
        """Return schemas, tables, views and their tags at a snapshot."""
        t = self.tables
        at = snapshot_id(t, version)

        def build() -> UnionQuery:
            query = at_snapshot(t, at)
            add_listing(query, t, at)
            column = t[ColumnRow]
            tables_with_columns = (
                sa.select(column.c.table_id)
                .where(t.visible(column, at))
                .distinct()
                .subquery("tables_with_columns")
            )
            query.add(TableWithColumnsRow, tables_with_columns)
            return query

        return self.run(connection, ("names", version is None), build, at=version)

    def contents(self, connection: sa.Connection, version: int | None) -> QueryResult:
        """Return schemas, tables, views, their tags, and all columns, as tuples, with comments."""
        t = self.tables
        at = snapshot_id(t, version)

        def build() -> UnionQuery:
            query = at_snapshot(t, at)
            add_listing(query, t, at)
            query.add(ColumnRow, t[ColumnRow], t.visible(t[ColumnRow], at))
            tag = t[ColumnTagRow]
            query.add(ColumnTagRow, tag, t.visible(tag, at), tag.c.key == "comment")
            return query

        key = ("contents", version is None)
        return self._prepare(key, build).run(connection, ColumnRow, at=version)

    def file_totals(self, connection: sa.Connection, version: int | None) -> QueryResult:
        """Return number and size of the data files and the delete files of every table."""
        t = self.tables
        at = snapshot_id(t, version)

        def build() -> UnionQuery:
            query = at_snapshot(t, at)
            for row, totals in ((DataFileRow, DataFileTotals), (DeleteFileRow, DeleteFileTotals)):
                file = t[row]
                size = sa.cast(sa.func.sum(file.c.file_size_bytes), sa.BigInteger)
                count = sa.cast(sa.func.count(), sa.BigInteger)
                source = (
                    sa.select(file.c.table_id, count.label("files"), size.label("bytes"))
                    .where(t.visible(file, at))
                    .group_by(file.c.table_id)
                    .subquery(totals.branch)
                )
                query.add(totals, source)
            return query

        return self.run(connection, ("file_totals", version is None), build, at=version)

    def record_counts(self, connection: sa.Connection) -> dict[int, int]:
        """Return how many rows were added to every table, by the table's id."""
        totals = self.tables[TableStatsRow]
        rows = connection.execute(sa.select(totals.c.table_id, totals.c.record_count))
        return {int(id): int(count or 0) for id, count in rows}

    def column_names(self, connection: sa.Connection, table_id: int) -> dict[int, frozenset[str]]:
        """Return all names that each top-level column of a table ever had, by the column's id."""
        column = self.tables[ColumnRow]
        names = sa.select(column.c.column_id, column.c.column_name).where(
            column.c.table_id == table_id, column.c.parent_column.is_(None)
        )
        found: dict[int, set[str]] = defaultdict(set)
        for id, name in connection.execute(names):
            found[int(id)].add(str(name))
        return {id: frozenset(of_column) for id, of_column in found.items()}

    def file_count(self, connection: sa.Connection, table_id: int) -> int:
        """Return the number of data files of a table, of all snapshots."""
        file = self.tables[DataFileRow]
        count = sa.select(sa.func.count()).where(file.c.table_id == table_id).select_from(file)
        return int(connection.execute(count).scalar() or 0)

    def columns_ever_named(
        self, connection: sa.Connection, schema: str, name: str
    ) -> list[ColumnRow]:
        """Return all columns, of all snapshots, of all tables that ever had this name."""
        t = self.tables

        def build() -> UnionQuery:
            table, schemas, column = t[TableRow], t[SchemaRow], t[ColumnRow]
            ids = (
                sa.select(table.c.table_id)
                .select_from(table.join(schemas, table.c.schema_id == schemas.c.schema_id))
                .where(
                    same_name(t, table.c.table_name, "name"),
                    same_name(t, schemas.c.schema_name, "schema"),
                )
            )
            query = UnionQuery()
            query.add(ColumnRow, column, column.c.table_id.in_(ids))
            return query

        parameters = name_parameters(schema, name)
        return self.run(connection, "columns_ever_named", build, **parameters)[ColumnRow]

    def table(
        self, connection: sa.Connection, schema: str, name: str, version: int | None
    ) -> QueryResult:
        """Return everything about one table at a snapshot except its files."""
        t = self.tables
        at = snapshot_id(t, version)

        def build() -> UnionQuery:
            schema_matches = same_name(t, t[SchemaRow].c.schema_name, "schema")
            matches = sa.and_(same_name(t, t[TableRow].c.table_name, "name"), schema_matches)
            return table_query(t, at, matches, schema_matches)

        return self.run(
            connection,
            ("table", version is None),
            build,
            at=version,
            **name_parameters(schema, name),
        )

    def table_by_id(self, connection: sa.Connection, id: int, version: int) -> QueryResult:
        """Return the same by the table's id, which does not change when a table is renamed."""

        def build() -> UnionQuery:
            matches = self.tables[TableRow].c.table_id == sa.bindparam("id", type_=sa.BigInteger)
            return table_query(self.tables, SNAPSHOT_PARAMETER, matches, sa.true())

        return self.run(connection, "table_by_id", build, at=version, id=id)

    def files(
        self,
        connection: sa.Connection,
        table_id: int,
        at: int,
        wanted: FileQuery,
        *,
        from_snapshot: int | None = None,
        parameters: Mapping[str, object] | None = None,
    ) -> ColumnsResult:
        """Return the data files visible at a snapshot, with their deletes, as Arrow columns.

        With `from_snapshot`, the files are instead all those in which rows were inserted or deleted
        from there on. `parameters` are those of the exclusions.
        """
        prepared = self._prepare(("files", wanted), lambda: file_query(self.tables, wanted))
        values = {"at": at, "table_id": table_id, "from_snapshot": from_snapshot}
        return prepared.run_columns(connection, **values, **(parameters or {}))

    def run(
        self,
        connection: sa.Connection,
        key: object,
        build: Callable[[], UnionQuery],
        **parameters: object,
    ) -> QueryResult:
        """Run a query, which is built and compiled only the first time."""
        return self._prepare(key, build).run(connection, **parameters)

    def _prepare(self, key: object, build: Callable[[], UnionQuery]) -> PreparedUnionQuery:
        prepared = self._prepared.get(key)
        if prepared is None:
            if len(self._prepared) >= MAX_PREPARED:
                self._prepared.clear()  # each set of filter columns compiles its own statement
            prepared = self._prepared[key] = build().prepare(self.database.engine.dialect)
        return prepared


def open_catalog(database: Database) -> CatalogReader:
    """Read from a catalog database its tables and columns and its format version."""

    def work(connection: sa.Connection) -> CatalogReader:
        present: dict[str, set[str]] = {}
        for table, column in connection.execute(probe_statement(database)):
            present.setdefault(table, set()).add(column)
        if "ducklake_metadata" not in present or "ducklake_snapshot" not in present:
            raise NotFoundError(f"{database.location} holds no DuckLake tables")
        columns_by_table = {name: frozenset(columns) for name, columns in present.items()}
        tables = CatalogTables(database, columns_by_table)
        metadata = tables[MetadataRow]
        version = connection.execute(
            sa.select(metadata.c.value).where(
                metadata.c.key == "version", metadata.c.scope.is_(None)
            )
        ).scalar()
        dialect = database.engine.dialect
        shape = (dialect.name, dialect.driver, dialect.server_version_info, database.schema)
        shared = _statements((*shape, frozenset(columns_by_table.items())))
        return CatalogReader(database, tables, str(version or ""), shared)

    return database.read(work)


@lru_cache(maxsize=32)
def _statements(_shape: tuple[object, ...]) -> dict[object, PreparedUnionQuery]:
    """Return the compiled statements, shared by all catalogs with the same tables and dialect."""
    return {}


_OLDER = ("0.1", "0.2", "0.3-dev1", "0.3", "0.4-dev1", "0.4")


def check_version(version: str) -> str:
    """Accept format versions 0.1 to 0.4 and 1.x; raise LakeVersionError for others."""
    if version in _OLDER or re.fullmatch(r"1\.\d+(-dev\d+)?", version):
        return version
    raise LakeVersionError(
        f"the lake has format version {version!r}, and Lakeport reads 0.1 to 0.4 and 1.x: "
        "upgrade Lakeport, or open the lake with a DuckDB that can migrate it"
    )


def partition_columns_are_ordinals(version: str) -> bool:
    """Return whether partition keys name columns by position, as in format 0.1, not by id."""
    return version == "0.1"

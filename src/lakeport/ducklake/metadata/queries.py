"""Every question to the catalog database. A table costs one round trip, its files two more."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from lakeport.ducklake.metadata.catalog_tables import CatalogTables, probe_statement
from lakeport.ducklake.metadata.database import Database
from lakeport.ducklake.metadata.statements import (
    AT,
    CHANGES,
    COLUMN,
    SNAPSHOT,
    add_names,
    at_snapshot,
    file_query,
    name_parameters,
    same_name,
    snapshot_id,
    table_query,
)
from lakeport.ducklake.metadata.union_query import PreparedUnionQuery, UnionQuery
from lakeport.errors import LakeVersionError, NotFoundError

__all__ = [
    "CatalogReader",
    "Row",
    "check_version",
    "open_catalog",
    "partition_columns_are_ordinals",
]

Row = dict[str, Any]

MOST_PREPARED = 512


@dataclass(frozen=True, slots=True)
class CatalogReader:
    """A catalog database with the tables that its format version has."""

    database: Database
    tables: CatalogTables
    version: str
    _prepared: dict[object, PreparedUnionQuery] = field(repr=False, compare=False)

    def snapshots(self, connection: sa.Connection) -> dict[str, list[Row]]:
        """Every snapshot, with what its commit says."""

        def build() -> UnionQuery:
            bundle = UnionQuery()
            bundle.add("snapshot", self.tables["snapshot"], SNAPSHOT)
            bundle.add("changes", self.tables["snapshot_changes"], CHANGES)
            return bundle

        return self._run(connection, "snapshots", build)

    def snapshot_times(self, connection: sa.Connection) -> list[Row]:
        """Ids and times of all snapshots; the times are compared by the caller, in UTC."""

        def build() -> UnionQuery:
            bundle = UnionQuery()
            bundle.add("snapshot", self.tables["snapshot"], SNAPSHOT)
            return bundle

        return self._run(connection, "snapshot_times", build)["snapshot"]

    def newest_snapshot(self, connection: sa.Connection) -> int | None:
        """The id of the newest snapshot."""
        snapshot = self.tables["snapshot"]
        newest = connection.execute(sa.select(sa.func.max(snapshot.c.snapshot_id))).scalar()
        return None if newest is None else int(newest)

    def snapshot(self, connection: sa.Connection, version: int | None) -> dict[str, list[Row]]:
        """The snapshot of a version, or the newest one, with what its commit says."""

        def build() -> UnionQuery:
            at = snapshot_id(self.tables, version)
            bundle = at_snapshot(self.tables, at)
            changes = self.tables["snapshot_changes"]
            bundle.add("changes", changes, CHANGES, changes.c.snapshot_id == at)
            return bundle

        return self._run(connection, ("snapshot", version is None), build, at=version)

    def lifetimes(self, connection: sa.Connection) -> dict[str, list[Row]]:
        """Return every name of schemas, tables and views, with its first and last snapshot."""

        def build() -> UnionQuery:
            bundle = UnionQuery()
            validity = ("begin_snapshot", "end_snapshot")
            bundle.add("schema", self.tables["schema"], ("schema_id", "schema_name", *validity))
            for kind in ("table", "view"):
                columns = (f"{kind}_id", "schema_id", f"{kind}_name", *validity)
                bundle.add(kind, self.tables[kind], columns)
            return bundle

        return self._run(connection, "lifetimes", build)

    def names(self, connection: sa.Connection, version: int | None) -> dict[str, list[Row]]:
        """Schemas, tables, views and their tags at a snapshot."""
        t = self.tables
        at = snapshot_id(t, version)

        def build() -> UnionQuery:
            bundle = at_snapshot(t, at)
            add_names(bundle, t, at)
            column = t["column"]
            living = (
                sa.select(column.c.table_id)
                .where(t.visible(column, at))
                .distinct()
                .subquery("living")
            )
            bundle.add("columns_of", living, ("table_id",))
            return bundle

        return self._run(connection, ("names", version is None), build, at=version)

    def contents(self, connection: sa.Connection, version: int | None) -> dict[str, list[Row]]:
        """The same with the columns of all tables and their comments."""
        t = self.tables
        at = snapshot_id(t, version)

        def build() -> UnionQuery:
            bundle = at_snapshot(t, at)
            add_names(bundle, t, at)
            bundle.add("column", t["column"], ("table_id", *COLUMN), t.visible(t["column"], at))
            tag = t["column_tag"]
            columns = ("table_id", "column_id", "value")
            bundle.add("column_tag", tag, columns, t.visible(tag, at), tag.c.key == "comment")
            return bundle

        return self._run(connection, ("contents", version is None), build, at=version)

    def file_totals(self, connection: sa.Connection, version: int | None) -> dict[str, list[Row]]:
        """Number and size of the data files and the delete files of every table."""
        t = self.tables
        at = snapshot_id(t, version)

        def build() -> UnionQuery:
            bundle = at_snapshot(t, at)
            for kind in ("data_file", "delete_file"):
                file = t[kind]
                totals = (
                    sa.select(
                        file.c.table_id,
                        sa.func.count().label("files"),
                        sa.cast(sa.func.sum(file.c.file_size_bytes), sa.BigInteger).label("bytes"),
                    )
                    .where(t.visible(file, at))
                    .group_by(file.c.table_id)
                    .subquery(f"{kind}_totals")
                )
                chosen = {
                    "table_id": totals.c.table_id,
                    "files": sa.cast(totals.c.files, sa.BigInteger),
                    "bytes": totals.c.bytes,
                }
                bundle.add_select(kind, chosen, totals)
            return bundle

        return self._run(connection, ("file_totals", version is None), build, at=version)

    def columns_ever_named(self, connection: sa.Connection, schema: str, name: str) -> list[Row]:
        """All columns, of any time, of all tables that ever had this name."""
        t = self.tables

        def build() -> UnionQuery:
            named = t["table"].join(t["schema"], t["table"].c.schema_id == t["schema"].c.schema_id)
            ids = (
                sa.select(t["table"].c.table_id)
                .select_from(named)
                .where(
                    same_name(t["table"].c.table_name, "name"),
                    same_name(t["schema"].c.schema_name, "schema"),
                )
            )
            bundle = UnionQuery()
            columns = ("table_id", "column_id", "column_name", "parent_column")
            validity = ("begin_snapshot", "end_snapshot")
            bundle.add(
                "column", t["column"], (*columns, *validity), t["column"].c.table_id.in_(ids)
            )
            return bundle

        return self._run(connection, "columns_ever_named", build, **name_parameters(schema, name))[
            "column"
        ]

    def table(
        self, connection: sa.Connection, schema: str, name: str, version: int | None
    ) -> dict[str, list[Row]]:
        """Everything about one table at a snapshot except its files, in one statement."""
        t = self.tables
        at = snapshot_id(t, version)

        def build() -> UnionQuery:
            schema_is_it = same_name(t["schema"].c.schema_name, "schema")
            is_it = sa.and_(same_name(t["table"].c.table_name, "name"), schema_is_it)
            return table_query(t, at, is_it, schema_is_it)

        return self._run(
            connection,
            ("table", version is None),
            build,
            at=version,
            **name_parameters(schema, name),
        )

    def table_by_id(self, connection: sa.Connection, id: int, version: int) -> dict[str, list[Row]]:
        """The same by the table's id, which survives renames."""

        def build() -> UnionQuery:
            is_it = self.tables["table"].c.table_id == sa.bindparam("id", type_=sa.BigInteger)
            return table_query(self.tables, AT, is_it, sa.true())

        return self._run(connection, "table_by_id", build, at=version, id=id)

    def files(
        self,
        connection: sa.Connection,
        table_id: int,
        at: int,
        *,
        statistics_columns: Sequence[int] = (),
        partition_keys: int = 0,
        inlined_delete_table: str | None = None,
        from_snapshot: int | None = None,
    ) -> dict[str, list[Row]]:
        """Data files visible at a snapshot, with their deletes, in one statement.

        `statistics_columns` adds the statistics of some columns, `partition_keys` the values of
        that many partition keys. With `from_snapshot`, instead: every file with a row written or
        deleted from there on.
        """
        key = (
            "files",
            tuple(statistics_columns),
            partition_keys,
            inlined_delete_table,
            from_snapshot is None,
        )

        def build() -> UnionQuery:
            return file_query(
                self.tables,
                statistics_columns,
                partition_keys,
                inlined_delete_table,
                from_snapshot=from_snapshot is not None,
            )

        return self._run(
            connection, key, build, at=at, table_id=table_id, from_snapshot=from_snapshot
        )

    def _run(
        self,
        connection: sa.Connection,
        key: object,
        build: Callable[[], UnionQuery],
        **parameters: object,
    ) -> dict[str, list[Row]]:
        """Run a bundle, built and compiled only the first time that it is asked."""
        prepared = self._prepared.get(key)
        if prepared is None:
            if len(self._prepared) >= MOST_PREPARED:
                self._prepared.clear()  # filters on ever other columns make ever other statements
            prepared = self._prepared[key] = build().prepare(self.database.engine.dialect)
        return prepared.run(connection, **parameters)


def open_catalog(database: Database) -> CatalogReader:
    """Probe a catalog database: which tables and columns it has, and its format version."""

    def work(connection: sa.Connection) -> CatalogReader:
        present: dict[str, set[str]] = {}
        for table, column in connection.execute(probe_statement(database)):
            present.setdefault(table, set()).add(column)
        if "ducklake_metadata" not in present or "ducklake_snapshot" not in present:
            raise NotFoundError(f"{database.location} holds no DuckLake tables")
        found = {name: frozenset(columns) for name, columns in present.items()}
        tables = CatalogTables(database, found)
        metadata = tables["metadata"]
        version = connection.execute(
            sa.select(metadata.c.value).where(
                metadata.c.key == "version", metadata.c.scope.is_(None)
            )
        ).scalar()
        dialect = database.engine.dialect
        shape = (dialect.name, dialect.driver, dialect.server_version_info, database.schema)
        shared = _statements((*shape, frozenset(found.items())))
        return CatalogReader(database, tables, str(version or ""), shared)

    return database.read(work)


@lru_cache(maxsize=32)
def _statements(_shape: tuple[object, ...]) -> dict[object, PreparedUnionQuery]:
    """The statements of all catalogs of one shape: who opens many lakes compiles them once."""
    return {}


_OLDER = ("0.1", "0.2", "0.3-dev1", "0.3", "0.4-dev1", "0.4")


def check_version(version: str) -> str:
    """Accept 0.1 to 0.4 and every 1.x; refuse what nobody has described yet."""
    if version in _OLDER or re.fullmatch(r"1\.\d+(-dev\d+)?", version):
        return version
    raise LakeVersionError(
        f"the lake has format version {version!r}, and Lakeport reads 0.1 to 0.4 and 1.x: "
        "upgrade Lakeport, or open the lake with a DuckDB that can migrate it"
    )


def partition_columns_are_ordinals(version: str) -> bool:
    """In 0.1 a partition key names its column by position, later by column id."""
    return version == "0.1"

"""Every question to the catalog database. A table costs one round trip, its files two more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from lakeport.ducklake.bundle import Bundle, PreparedBundle
from lakeport.ducklake.database import Database
from lakeport.ducklake.tables import (
    CatalogTables,
    existing_columns,
    existing_tables,
    probe_statement,
)
from lakeport.ducklake.text import ascii_lower
from lakeport.errors import NotFoundError

__all__ = ["Catalog", "Row", "open_catalog"]

Row = dict[str, Any]

_SNAPSHOT = ("snapshot_id", "snapshot_time", "schema_version")
_CHANGES = ("snapshot_id", "changes_made", "author", "commit_message", "commit_extra_info")
_VIEW = ("view_id", "schema_id", "view_name", "view_uuid", "dialect", "sql", "column_aliases")
_COLUMN = (
    "column_id",
    "begin_snapshot",
    "end_snapshot",
    "column_order",
    "column_name",
    "column_type",
    "initial_default",
    "default_value",
    "nulls_allowed",
    "parent_column",
    "default_value_type",
)
_FILE = (
    "data_file_id",
    "path",
    "path_is_relative",
    "record_count",
    "file_size_bytes",
    "footer_size",
    "begin_snapshot",
    "end_snapshot",
    "row_id_start",
    "partition_id",
    "mapping_id",
    "encryption_key",
    "partial_max",
    "partial_file_info",
    "file_format",
)
_DELETE = (
    "delete_file_id",
    "data_file_id",
    "path",
    "path_is_relative",
    "format",
    "delete_count",
    "file_size_bytes",
    "footer_size",
    "begin_snapshot",
    "end_snapshot",
    "encryption_key",
    "partial_max",
)
_STATS = ("value_count", "null_count", "min_value", "max_value", "contains_nan")


_AT: Final = sa.bindparam("at", type_=sa.BigInteger)


@dataclass(frozen=True, slots=True)
class Catalog:
    """A catalog database with the tables that its format version has."""

    database: Database
    tables: CatalogTables
    version: str
    _prepared: dict[object, PreparedBundle] = field(default_factory=dict, repr=False, compare=False)

    def snapshots(self, connection: sa.Connection) -> dict[str, list[Row]]:
        """Every snapshot, with what its commit says."""

        def build() -> Bundle:
            bundle = Bundle()
            bundle.add("snapshot", self.tables["snapshot"], _SNAPSHOT)
            bundle.add("changes", self.tables["snapshot_changes"], _CHANGES)
            return bundle

        return self._run(connection, "snapshots", build)

    def snapshot_times(self, connection: sa.Connection) -> list[Row]:
        """Ids and times of all snapshots; the times are compared by the caller, in UTC."""

        def build() -> Bundle:
            bundle = Bundle()
            bundle.add("snapshot", self.tables["snapshot"], _SNAPSHOT)
            return bundle

        return self._run(connection, "snapshot_times", build)["snapshot"]

    def newest_snapshot(self, connection: sa.Connection) -> int | None:
        """The id of the newest snapshot."""
        snapshot = self.tables["snapshot"]
        newest = connection.execute(sa.select(sa.func.max(snapshot.c.snapshot_id))).scalar()
        return None if newest is None else int(newest)

    def snapshot(self, connection: sa.Connection, version: int | None) -> list[Row]:
        """The snapshot of a version, or the newest one; no row if there is none."""
        rows = self._run(
            connection,
            ("snapshot", version is None),
            lambda: self._base(self._at(version)),
            at=version,
        )
        return rows["snapshot"]

    def names(self, connection: sa.Connection, version: int | None) -> dict[str, list[Row]]:
        """Schemas, tables, views and their tags at a snapshot."""
        t = self.tables
        at = self._at(version)

        def build() -> Bundle:
            bundle = self._base(at)
            self._names(bundle, at)
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
        at = self._at(version)

        def build() -> Bundle:
            bundle = self._base(at)
            self._names(bundle, at)
            bundle.add("column", t["column"], ("table_id", *_COLUMN), t.visible(t["column"], at))
            tag = t["column_tag"]
            columns = ("table_id", "column_id", "value")
            bundle.add("column_tag", tag, columns, t.visible(tag, at), tag.c.key == "comment")
            return bundle

        return self._run(connection, ("contents", version is None), build, at=version)

    def file_totals(self, connection: sa.Connection, version: int | None) -> dict[str, list[Row]]:
        """Number and size of the data files and the delete files of every table."""
        t = self.tables
        at = self._at(version)

        def build() -> Bundle:
            bundle = self._base(at)
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

    def namesakes(self, connection: sa.Connection, schema: str, name: str) -> list[Row]:
        """All columns, of any time, of all tables that ever had this name."""
        t = self.tables

        def build() -> Bundle:
            named = t["table"].join(t["schema"], t["table"].c.schema_id == t["schema"].c.schema_id)
            ids = (
                sa.select(t["table"].c.table_id)
                .select_from(named)
                .where(
                    _same_name(t["table"].c.table_name, "name"),
                    _same_name(t["schema"].c.schema_name, "schema"),
                )
            )
            bundle = Bundle()
            columns = ("table_id", "column_id", "column_name", "parent_column")
            validity = ("begin_snapshot", "end_snapshot")
            bundle.add(
                "column", t["column"], (*columns, *validity), t["column"].c.table_id.in_(ids)
            )
            return bundle

        return self._run(connection, "namesakes", build, **_named(schema, name))["column"]

    def table(
        self, connection: sa.Connection, schema: str, name: str, version: int | None
    ) -> dict[str, list[Row]]:
        """Everything about one table at a snapshot except its files, in one statement."""
        t = self.tables
        at = self._at(version)

        def build() -> Bundle:
            schema_is_it = _same_name(t["schema"].c.schema_name, "schema")
            is_it = sa.and_(_same_name(t["table"].c.table_name, "name"), schema_is_it)
            return self._table(is_it, schema_is_it, at)

        return self._run(
            connection,
            ("table", version is None),
            build,
            at=version,
            **_named(schema, name),
        )

    def table_by_id(self, connection: sa.Connection, id: int, version: int) -> dict[str, list[Row]]:
        """The same by the table's id, which survives renames."""

        def build() -> Bundle:
            is_it = self.tables["table"].c.table_id == sa.bindparam("id", type_=sa.BigInteger)
            return self._table(is_it, sa.true(), _AT)

        return self._run(connection, "table_by_id", build, at=version, id=id)

    def _names(self, bundle: Bundle, at: ColumnElement[int]) -> None:
        """Schemas, tables and views, with their tags."""
        for kind, columns in (
            ("schema", ("schema_id", "schema_name", "schema_uuid")),
            ("table", ("table_id", "schema_id", "table_name", "table_uuid")),
            ("view", _VIEW),
            ("tag", ("object_id", "key", "value")),
        ):
            source = self.tables[kind]
            bundle.add(kind, source, columns, self.tables.visible(source, at))

    def _table(
        self, is_it: ColumnElement[bool], schema_is_it: ColumnElement[bool], at: ColumnElement[int]
    ) -> Bundle:
        t = self.tables
        bundle = self._base(at)
        named = t["table"].join(t["schema"], t["table"].c.schema_id == t["schema"].c.schema_id)
        schema_is_it = sa.and_(schema_is_it, t.visible(t["schema"], at))
        is_it = sa.and_(is_it, t.visible(t["table"], at), t.visible(t["schema"], at))
        chosen = sa.select(t["table"].c.table_id).select_from(named).where(is_it).cte("chosen")
        ids = sa.select(chosen.c.table_id)
        path = ("path", "path_is_relative")
        bundle.add("metadata", t["metadata"], ("key", "value", "scope", "scope_id"))
        bundle.add("schema", t["schema"], ("schema_id", "schema_name", *path), schema_is_it)
        columns = ("table_id", "schema_id", "table_name", "table_uuid", *path)
        bundle.add("table", t["table"], columns, is_it, joined=named)
        bundle.add("column", t["column"], _COLUMN, t["column"].c.table_id.in_(ids))
        self._of_table(bundle, ids)
        return bundle

    def _of_table(self, bundle: Bundle, ids: sa.Select[Any]) -> None:
        """The details of a table, whose id is a subquery."""
        t = self.tables
        validity = ("begin_snapshot", "end_snapshot")
        bundle.add("tag", t["tag"], ("key", "value", *validity), t["tag"].c.object_id.in_(ids))
        for kind, columns in (
            ("column_tag", ("column_id", "key", "value", *validity)),
            ("partition_info", ("partition_id", *validity)),
            ("partition_column", ("partition_id", "partition_key_index", "column_id", "transform")),
            ("sort_info", ("sort_id", *validity)),
            (
                "sort_expression",
                (
                    "sort_id",
                    "sort_key_index",
                    "expression",
                    "dialect",
                    "sort_direction",
                    "null_order",
                ),
            ),
            ("table_stats", ("record_count", "next_row_id", "file_size_bytes")),
            (
                "table_column_stats",
                (
                    "column_id",
                    "contains_null",
                    "contains_nan",
                    "min_value",
                    "max_value",
                    "extra_stats",
                ),
            ),
            ("schema_versions", ("begin_snapshot", "schema_version")),
            ("inlined_data_tables", ("table_name", "schema_version")),
        ):
            bundle.add(kind, t[kind], columns, t[kind].c.table_id.in_(ids))
        mapping, names = t["column_mapping"], t["name_mapping"]
        bundle.add(
            "name_mapping",
            names,
            (
                "mapping_id",
                "column_id",
                "source_name",
                "target_field_id",
                "parent_column",
                "is_partition",
            ),
            names.c.mapping_id.in_(
                sa.select(mapping.c.mapping_id).where(mapping.c.table_id.in_(ids))
            ),
        )
        existing = existing_tables(self.database)
        chosen = ids.subquery("named")
        wanted = sa.literal("ducklake_inlined_delete_").concat(
            sa.cast(chosen.c.table_id, sa.String())
        )
        bundle.add(
            "inlined_delete",
            existing,
            ("table_name",),
            existing.c.table_name.in_(sa.select(wanted)),
        )
        columns_now, directory = existing_columns(self.database), t["inlined_data_tables"]
        bundle.add(
            "inlined_column",
            columns_now,
            ("table_name", "column_name", "position", "data_type"),
            columns_now.c.table_name.in_(
                sa.select(directory.c.table_name).where(directory.c.table_id.in_(ids))
            ),
        )
        versions = t["snapshot"]
        first = (
            sa.select(
                versions.c.schema_version, sa.func.min(versions.c.snapshot_id).label("snapshot_id")
            )
            .where(
                versions.c.schema_version.in_(
                    sa.select(directory.c.schema_version).where(directory.c.table_id.in_(ids))
                )
            )
            .group_by(versions.c.schema_version)
            .subquery("first_snapshot")
        )
        bundle.add("first_snapshot", first, ("schema_version", "snapshot_id"))

    def files(
        self,
        connection: sa.Connection,
        table_id: int,
        at: int,
        *,
        stats_of: Sequence[int] = (),
        partition_keys: int = 0,
        inlined_delete_table: str | None = None,
        since: int | None = None,
    ) -> dict[str, list[Row]]:
        """Data files visible at a snapshot, with their deletes, in one statement.

        `stats_of` adds the statistics of some columns, `partition_keys` that many partition values.
        With `since`, instead: every file with a row written or deleted from there on.
        """
        key = ("files", tuple(stats_of), partition_keys, inlined_delete_table, since is None)

        def build() -> Bundle:
            return self._files(
                stats_of, partition_keys, inlined_delete_table, since=since is not None
            )

        return self._run(connection, key, build, at=at, table_id=table_id, since=since)

    def _files(
        self,
        stats_of: Sequence[int],
        partition_keys: int,
        inlined_delete_table: str | None,
        *,
        since: bool,
    ) -> Bundle:
        t = self.tables
        table_id = sa.bindparam("table_id", type_=sa.BigInteger)
        bundle = self._base(_AT)
        directory = t["inlined_data_tables"]
        bundle.add(
            "inlined_data_tables", directory, ("table_name",), directory.c.table_id == table_id
        )
        data = t["data_file"]
        columns: dict[str, Any] = {name: data.c[name] for name in _FILE}
        source: Any = data
        for column_id in stats_of:
            stats = t["file_column_stats"].alias(f"s{column_id}")
            mine = sa.and_(stats.c.table_id == table_id, stats.c.column_id == column_id)
            source = source.outerjoin(
                stats, sa.and_(stats.c.data_file_id == data.c.data_file_id, mine)
            )
            columns |= {f"s{column_id}_{name}": stats.c[name] for name in ("data_file_id", *_STATS)}
        for index in range(partition_keys):
            value = t["file_partition_value"].alias(f"p{index}")
            mine = sa.and_(value.c.table_id == table_id, value.c.partition_key_index == index)
            source = source.outerjoin(
                value, sa.and_(value.c.data_file_id == data.c.data_file_id, mine)
            )
            columns[f"p{index}"] = value.c.partition_value
        visible = _touched(data) if since else t.visible(data, _AT)
        bundle.add_select("data_file", columns, source, data.c.table_id == table_id, visible)
        deletes = t["delete_file"]
        visible = deletes.c.begin_snapshot <= _AT if since else t.visible(deletes, _AT)
        bundle.add("delete_file", deletes, _DELETE, deletes.c.table_id == table_id, visible)
        if inlined_delete_table:
            names = ("file_id", "row_id", "begin_snapshot")
            rows = sa.table(
                inlined_delete_table,
                *(sa.column(name, sa.BigInteger) for name in names),
                schema=self.database.schema,
            )
            bundle.add("inlined_delete", rows, names, rows.c.begin_snapshot <= _AT)
        return bundle

    def _base(self, at: ColumnElement[int]) -> Bundle:
        bundle = Bundle()
        snapshot = self.tables["snapshot"]
        bundle.add("snapshot", snapshot, _SNAPSHOT, snapshot.c.snapshot_id == at)
        return bundle

    def _at(self, version: int | None) -> ColumnElement[int]:
        if version is not None:
            return _AT
        newest = sa.func.max(self.tables["snapshot"].c.snapshot_id).label("snapshot_id")
        return sa.select(sa.select(newest).cte("newest").c.snapshot_id).scalar_subquery()

    def _run(
        self,
        connection: sa.Connection,
        key: object,
        build: Callable[[], Bundle],
        **parameters: object,
    ) -> dict[str, list[Row]]:
        """Run a bundle, built and compiled only the first time that it is asked."""
        prepared = self._prepared.get(key)
        if prepared is None:
            prepared = self._prepared[key] = build().prepare(self.database.engine.dialect)
        return prepared.run(connection, **parameters)


def open_catalog(database: Database) -> Catalog:
    """Probe a catalog database: which tables and columns it has, and its format version."""

    def work(connection: sa.Connection) -> Catalog:
        present: dict[str, set[str]] = {}
        for table, column in connection.execute(probe_statement(database)):
            present.setdefault(table, set()).add(column)
        if "ducklake_metadata" not in present or "ducklake_snapshot" not in present:
            raise NotFoundError(f"{database.location} holds no DuckLake tables")
        tables = CatalogTables(
            database, {name: frozenset(columns) for name, columns in present.items()}
        )
        metadata = tables["metadata"]
        version = connection.execute(
            sa.select(metadata.c.value).where(
                metadata.c.key == "version", metadata.c.scope.is_(None)
            )
        ).scalar()
        return Catalog(database, tables, str(version or ""))

    return database.read(work)


def _named(schema: str, name: str) -> dict[str, str]:
    """The parameters of `_same_name` for a schema and a table."""
    return {
        "schema": schema,
        "schema_lower": ascii_lower(schema),
        "name": name,
        "name_lower": ascii_lower(name),
    }


def _same_name(column: ColumnElement[str], parameter: str) -> ColumnElement[bool]:
    """Names are compared without regard to ASCII case, as DuckDB does."""
    exact, lower = (
        sa.bindparam(name, type_=sa.String) for name in (parameter, f"{parameter}_lower")
    )
    return sa.or_(column == exact, sa.func.lower(column) == lower)


def _touched(data: sa.FromClause) -> ColumnElement[bool]:
    """Files whose rows may have been inserted or deleted between two snapshots."""
    since = sa.bindparam("since", type_=sa.BigInteger)
    end = data.c.end_snapshot
    return sa.and_(data.c.begin_snapshot <= _AT, sa.or_(end.is_(None), end >= since))

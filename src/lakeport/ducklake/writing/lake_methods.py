"""The methods of `Lake` that write. Each is a transaction of its own; see `Transaction`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, cast

from lakeport.ducklake.metadata.database import Database
from lakeport.ducklake.metadata.location import parse_location
from lakeport.errors import InvalidArgumentError

if TYPE_CHECKING:
    from lakeport.ducklake.lake import Lake
    from lakeport.ducklake.table import LakeTable
    from lakeport.ducklake.writing.database import WriteDatabase
    from lakeport.ducklake.writing.database.known_tables import KnownTables
    from lakeport.ducklake.writing.ddl.definitions import MacroImplementation
    from lakeport.ducklake.writing.ddl.types import ColumnsLike
    from lakeport.ducklake.writing.results import WriteResult
    from lakeport.ducklake.writing.tasks import Progress
    from lakeport.ducklake.writing.transaction import Transaction

__all__ = ["LakeWriting"]


class LakeWriting:
    """What a lake can be asked to write."""

    @classmethod
    def create(
        cls,
        uri: str,
        *,
        data_path: str | None = None,
        encrypted: bool = False,
        metadata_schema: str | None = None,
        **options: Any,
    ) -> Self:
        """Create a lake in a catalog database that has none, and open it.

        Args:
            uri: The catalog database, as in `open`. A file is created; a database of a server must
                exist.
            data_path: The folder of the files. A lake in a DuckDB file has the default
                `<file>.files/`.
            encrypted: Encrypt all files of the lake; this cannot be changed later.
            metadata_schema: The database schema of the catalog's tables; it is created if missing.
            options: The other arguments of `open`.
        """
        from lakeport.ducklake.writing.creation import create_catalog

        database = Database(parse_location(uri), metadata_schema=metadata_schema)
        try:
            create_catalog(database, data_path, encrypted=encrypted)
        finally:
            database.dispose()
        lake_class: Any = cls
        opened: Self = lake_class.open(uri, metadata_schema=metadata_schema, **options)
        return opened

    def transaction(
        self,
        *,
        message: str | None = None,
        author: str | None = None,
        extra_info: str | None = None,
        version: int | None = None,
        progress: Progress | None = None,
    ) -> Transaction:
        """Begin a transaction: changes of several tables that become one snapshot, or nothing.

        Message, author and extra information are recorded with the snapshot. The transaction reads
        the snapshot `version`, by default the newest one. `progress` is called with a
        `WriteProgress` from time to time while Spark writes.
        """
        from lakeport.ducklake.writing.transaction import Transaction

        lake = _lake(self)
        if lake.pinned_snapshot is not None:
            raise InvalidArgumentError(
                f"the lake was opened at snapshot {lake.pinned_snapshot}: open it without one to "
                "write"
            )
        return Transaction(
            lake,
            message=message,
            author=author,
            extra_info=extra_info,
            version=version,
            progress=progress,
        )

    def create_schema(self, name: str, *, if_not_exists: bool = False) -> WriteResult:
        """Create a schema."""
        with self.transaction() as transaction:
            transaction.create_schema(name, if_not_exists=if_not_exists)
        return transaction.commit_result

    def drop_schema(
        self, name: str, *, cascade: bool = False, if_exists: bool = False
    ) -> WriteResult:
        """Drop a schema, which must be empty unless everything in it is dropped, too."""
        with self.transaction() as transaction:
            transaction.drop_schema(name, cascade=cascade, if_exists=if_exists)
        return transaction.commit_result

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
    ) -> LakeTable:
        """Create a table and return it; see `Transaction.create_table` for the arguments."""
        with self.transaction() as transaction:
            transaction.create_table(
                name,
                columns,
                schema,
                partition_by=partition_by,
                sort_by=sort_by,
                comment=comment,
                defaults=defaults,
                default_expressions=default_expressions,
                or_replace=or_replace,
                if_not_exists=if_not_exists,
            )
        return _lake(self).table(name, schema)

    def create_table_as(
        self,
        name: str,
        rows: Any,
        schema: str = "main",
        *,
        partition_by: Sequence[str] = (),
        sort_by: Sequence[str] = (),
        comment: str | None = None,
        or_replace: bool = False,
        progress: Progress | None = None,
    ) -> LakeTable:
        """Create a table with the columns of rows, and append them, in one snapshot.

        The rows are an Arrow table or reader, a data frame, a list of dicts, anything else with an
        Arrow stream, or a DataFrame of Spark, which Spark writes.
        """
        with self.transaction(progress=progress) as transaction:
            transaction.create_table_as(
                name,
                rows,
                schema,
                partition_by=partition_by,
                sort_by=sort_by,
                comment=comment,
                or_replace=or_replace,
            )
        return _lake(self).table(name, schema)

    def drop_table(
        self, name: str, schema: str = "main", *, if_exists: bool = False
    ) -> WriteResult:
        """Drop a table. Older snapshots keep it until they are expired."""
        with self.transaction() as transaction:
            transaction.drop_table(name, schema, if_exists=if_exists)
        return transaction.commit_result

    def create_view(
        self,
        name: str,
        sql: str,
        schema: str = "main",
        *,
        column_aliases: Sequence[str] = (),
        comment: str | None = None,
        or_replace: bool = False,
    ) -> WriteResult:
        """Create a view from a SELECT in DuckDB's dialect."""
        with self.transaction() as transaction:
            transaction.create_view(
                name,
                sql,
                schema,
                column_aliases=column_aliases,
                comment=comment,
                or_replace=or_replace,
            )
        return transaction.commit_result

    def rename_view(self, name: str, new_name: str, schema: str = "main") -> WriteResult:
        """Rename a view."""
        with self.transaction() as transaction:
            transaction.rename_view(name, new_name, schema)
        return transaction.commit_result

    def comment_on_view(self, name: str, comment: str | None, schema: str = "main") -> WriteResult:
        """Set or remove the comment of a view."""
        with self.transaction() as transaction:
            transaction.comment_on_view(name, comment, schema)
        return transaction.commit_result

    def drop_view(self, name: str, schema: str = "main", *, if_exists: bool = False) -> WriteResult:
        """Drop a view."""
        with self.transaction() as transaction:
            transaction.drop_view(name, schema, if_exists=if_exists)
        return transaction.commit_result

    def create_macro(
        self,
        name: str,
        implementations: Sequence[MacroImplementation],
        schema: str = "main",
        *,
        returns_table: bool = False,
    ) -> WriteResult:
        """Create a macro with one or more implementations, which differ in their parameters."""
        with self.transaction() as transaction:
            transaction.create_macro(name, implementations, schema, returns_table=returns_table)
        return transaction.commit_result

    def drop_macro(
        self, name: str, schema: str = "main", *, returns_table: bool = False
    ) -> WriteResult:
        """Drop a macro."""
        with self.transaction() as transaction:
            transaction.drop_macro(name, schema, returns_table=returns_table)
        return transaction.commit_result

    def set_option(
        self, key: str, value: Any, *, schema: str | None = None, table: str | None = None
    ) -> None:
        """Set an option of the lake, of a schema, or of a table; it holds for all snapshots.

        A table is looked up in the schema `main` unless a schema is given.
        """
        from lakeport.ducklake.writing.database.versions import check_writable
        from lakeport.ducklake.writing.options import option_text, store_option

        lake = _lake(self)
        check_writable(lake.version, lake.catalog.database.location)
        text = option_text(key, value)
        scope, scope_id = None, None
        if table is not None:
            scope, scope_id = "table", lake.table(table, schema or "main").id
        elif schema is not None:
            scope, scope_id = "schema", self.transaction().schema_id(schema)
        database = lake.catalog.database
        try:
            with self.write_database.transaction() as writer:
                store_option(writer, key.lower(), text, scope, scope_id)
                writer.commit()
        except database.errors as error:
            message = str(getattr(error, "orig", None) or error)
            is_locked = self.write_database.dialect.is_collision(error)
            raise database.error(message, locked=is_locked) from None

    def restore(
        self,
        table: str,
        schema: str = "main",
        *,
        version: int | None = None,
        timestamp: datetime | str | None = None,
        message: str | None = None,
    ) -> WriteResult:
        """Give a table the columns and rows of an earlier snapshot, as a new snapshot.

        Rows that were deleted or updated since get back the row ids that they had.
        """
        lake = _lake(self)
        then = lake.snapshot(version=version, timestamp=timestamp)
        with self.transaction(message=message) as transaction:
            transaction.table(table, schema).restore(then.id)
        return transaction.commit_result

    def rollback(
        self,
        *,
        version: int | None = None,
        timestamp: datetime | str | None = None,
        message: str | None = None,
    ) -> WriteResult:
        """Give the whole lake the contents of an earlier snapshot, as one new snapshot.

        Tables that were created since are dropped. A table that was dropped since is created again,
        as a new table with the same columns and rows. Macros, options and comments of other tables
        stay as they are.
        """
        from lakeport.ducklake.writing.changes import roll_back

        then = _lake(self).snapshot(version=version, timestamp=timestamp)
        with self.transaction(message=message) as transaction:
            roll_back(transaction, then.id)
        return transaction.commit_result

    @cached_property
    def write_database(self) -> WriteDatabase:
        """The connections that write; for other parts of this package."""
        from lakeport.ducklake.writing.database import WriteDatabase

        return WriteDatabase(_lake(self).catalog.database)

    @cached_property
    def known_tables(self) -> KnownTables:
        """The definitions of tables that were read; for other parts of this package."""
        from lakeport.ducklake.writing.database.known_tables import KnownTables

        return KnownTables()

    def close_writing(self) -> None:
        """Close the connections that write."""
        database = self.__dict__.pop("write_database", None)
        if database is not None:
            database.dispose()


def _lake(methods: LakeWriting) -> Lake:
    """Return the lake itself: only `Lake` has these methods."""
    return cast("Lake", methods)

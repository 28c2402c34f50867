"""`Transaction`: several changes of a lake that become one snapshot, or nothing.

```python
with lake.transaction(message="nightly load", author="etl") as transaction:
    trips = transaction.create_table("trips", {"id": "BIGINT", "day": "DATE"})
    trips.set_partitioning(["month(day)"])
```
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from lakeport.arrow import RowSource, reader_of
from lakeport.ducklake.metadata.rows import MetadataRow
from lakeport.ducklake.writing.change_set import (
    ChangeSet,
    CommitInfo,
    MacroChange,
    MetadataEntry,
    SchemaChange,
    TableChange,
    TableEntry,
    ViewChange,
)
from lakeport.ducklake.writing.changes.target import directory_of
from lakeport.ducklake.writing.commit import RetryPolicy, commit
from lakeport.ducklake.writing.database.known_tables import KnownTable, read_base
from lakeport.ducklake.writing.database.versions import check_writable
from lakeport.ducklake.writing.ddl.definitions import UNCOMMITTED, TableDefinition
from lakeport.ducklake.writing.ddl.names import reserved_names
from lakeport.ducklake.writing.ddl.transaction_methods import DdlMethods
from lakeport.ducklake.writing.distributed import is_frame, schema_of_rows
from lakeport.ducklake.writing.inlining import obstacle
from lakeport.ducklake.writing.options import Options
from lakeport.ducklake.writing.results import WriteResult
from lakeport.ducklake.writing.table_writer import TableWriter
from lakeport.ducklake.writing.tasks import Progress
from lakeport.errors import (
    InvalidArgumentError,
    LakeportError,
    NotFoundError,
    UnknownOutcomeError,
)
from lakeport.types import fold_name

if TYPE_CHECKING:
    from lakeport.ducklake.lake import Lake

__all__ = ["Transaction"]

_log = logging.getLogger("lakeport.ducklake.writing")


class Transaction(DdlMethods):
    """A base snapshot and the changes to it. Use it in a `with` block, which commits at its end."""

    def __init__(
        self,
        lake: Lake,
        *,
        message: str | None = None,
        author: str | None = None,
        extra_info: str | None = None,
        version: int | None = None,
        retry: RetryPolicy | None = None,
        progress: Progress | None = None,
    ) -> None:
        check_writable(lake.version, lake.catalog.database.location)
        self.lake = lake
        self.info = CommitInfo(author=author, message=message, extra_info=extra_info)
        self.result: WriteResult | None = None
        """What the commit has done; None before."""
        self.progress = progress
        """Called while an engine writes; None for no reports."""
        self._retry = retry
        self._base = version
        self._options: Options | None = None
        self._is_open = True
        self._next_id = -1
        self.tables: dict[int, TableEntry] = {}
        """The tables of the transaction by their ids; for other parts of this package."""
        self.schemas: dict[int, SchemaChange] = {}
        self.views: dict[int, ViewChange] = {}
        self.macros: dict[int, MacroChange] = {}
        self.metadata: dict[tuple[int, str], MetadataEntry] = {}

    @property
    def base(self) -> int:
        """The snapshot that the transaction reads: by default the newest one at its first use."""
        if self._base is None:
            self._base = self.lake.snapshot().id
        return self._base

    @property
    def options(self) -> Options:
        """The options of the lake, its schemas and its tables."""
        if self._options is None:
            self._options = Options(self.lake.option_rows())
        return self._options

    def table(self, name: str, schema: str = "main") -> TableWriter:
        """Return a table of the transaction, to be changed."""
        self.check_open()
        own = self._own_table(name, schema)
        if own is not None:
            return TableWriter(self, own)
        found = self._find_table(name, schema)
        definition = found.definition
        if definition.id in self.tables:
            raise NotFoundError(
                f"there is no table {schema}.{name}: the transaction has dropped or renamed it"
            )
        self.tables[definition.id] = TableEntry(definition, definition, table=found.table)
        return TableWriter(self, definition.id)

    def _find_table(self, name: str, schema: str) -> KnownTable:
        """Return a table at the base; the first one that is found also chooses the base."""
        known = self.lake.known_tables.get(schema, name) if self._options is None else None
        base = None if known is None else read_base(self.lake, known)
        # A given base can be used if it is the newest snapshot: the definition is that of then.
        if known is not None and base is not None and self._base in (None, base.snapshot):
            self._base, self._options = base.snapshot, base.options
            return known
        lookup = self.lake.lookup(name, schema, version=self._base)
        self._base = lookup.table.snapshot.id
        if self._options is None:
            self._options = Options(lookup.rows[MetadataRow])
        found = KnownTable.from_lookup(lookup)
        self.lake.known_tables.put(schema, name, found)
        return found

    def create_table_as(
        self,
        name: str,
        rows: RowSource,
        schema: str = "main",
        *,
        partition_by: Sequence[str] = (),
        sort_by: Sequence[str] = (),
        comment: str | None = None,
        or_replace: bool = False,
    ) -> TableWriter:
        """Create a table with the columns of rows, and append them.

        The rows are of any kind that `TableWriter.append` takes.
        """
        if not is_frame(rows):
            rows = reader_of(rows)
        table = self.create_table(
            name,
            schema_of_rows(rows, self.lake.engine),
            schema,
            partition_by=partition_by,
            sort_by=sort_by,
            comment=comment,
            or_replace=or_replace,
        )
        table.append(rows)
        return table

    def writer(self, table_id: int) -> TableWriter:
        """Return a table of the transaction by its id; for other parts of this package."""
        return TableWriter(self, table_id)

    def _own_table(self, name: str, schema: str) -> int | None:
        """Return the id of a table that the transaction has, by its name there."""
        for id, entry in self.tables.items():
            after = entry.after
            if (
                after is not None
                and fold_name(after.name) == fold_name(name)
                and fold_name(after.schema.name) == fold_name(schema)
            ):
                return id
        return None

    def check_columns(self, table: TableDefinition) -> None:
        """Raise InvalidArgumentError for names that the format reserves, and types it lacks."""
        has_prefix = not self.lake.version.startswith("1.0")
        inlines = self.options.inlining_limit(table.schema.id, table.id) > 0
        reserved = reserved_names(has_prefix=has_prefix, inlines=inlines)
        for row in table.columns:
            name = row.column_name.lower()
            is_reserved = name in reserved or (has_prefix and name.startswith("_ducklake_"))
            if row.parent_column is None and is_reserved:
                raise InvalidArgumentError(
                    f"a column cannot be called {row.column_name!r}, which the format reserves"
                )
            is_new = row.begin_snapshot == UNCOMMITTED
            if is_new and row.column_type == "timestamptz_ns" and not has_prefix:
                raise InvalidArgumentError(
                    f"column {row.column_name!r}: TIMESTAMPTZ_NS needs a lake of format 1.1, and "
                    "this one has 1.0"
                )

    def allocate(self) -> int:
        """Return a negative id for an object that the transaction creates."""
        self._next_id -= 1
        return self._next_id + 1

    def change_set(self) -> ChangeSet:
        """Return everything that the transaction changes."""
        return ChangeSet(
            base=self.base,
            schemas=tuple(self.schemas.values()),
            tables=tuple(
                TableChange(
                    before=entry.before,
                    after=entry.after,
                    data=entry.data,
                    inlines=entry.after is not None and self.inlining_limit(entry.after) > 0,
                )
                for entry in self.tables.values()
            ),
            views=tuple(c for c in self.views.values() if c.before != c.after),
            macros=tuple(self.macros.values()),
            metadata=tuple(self.metadata.values()),
            info=self.info,
        )

    def inlining_limit(self, table: TableDefinition) -> int:
        """Return the number of rows of a statement up to which they are inlined; 0 for never."""
        kind = self.lake.catalog.database.kind
        has_prefix = not self.lake.version.startswith("1.0")
        # On MySQL, CREATE TABLE would commit half of the transaction.
        if kind == "mysql" or obstacle(kind, table.tree, has_prefix=has_prefix) is not None:
            return 0
        return self.options.inlining_limit(table.schema.id, table.id)

    def inlined_deletes_limit(self, table: TableDefinition) -> int:
        """Return the number of deletes of a file up to which they are inlined; 0 for never.

        They are numbers, so the columns of the table do not matter.
        """
        if self.lake.catalog.database.kind == "mysql":
            return 0
        return self.options.inlining_limit(table.schema.id, table.id)

    def commit(self) -> WriteResult:
        """Make all changes visible as one snapshot, or raise an error and change nothing."""
        self.check_open()
        changes = self.change_set()
        if changes.is_empty and not changes.metadata:
            self._is_open = False
            self.result = WriteResult(snapshot=None, attempts=0)
            return self.result
        if not changes.is_empty:
            self._check_message()
        try:
            done = commit(self.lake.write_database, self.lake.catalog, changes, self._retry)
        except UnknownOutcomeError:
            self._is_open = False  # the files may be part of the lake
            raise
        except BaseException:
            self.rollback()
            raise
        self._is_open = False
        snapshot = None if changes.is_empty else done.snapshot
        self.result = replace(_result(changes), snapshot=snapshot, attempts=done.attempts)
        return self.result

    @property
    def commit_result(self) -> WriteResult:
        """What the commit has done; the transaction must be committed."""
        if self.result is None:
            raise InvalidArgumentError("the transaction is not committed")
        return self.result

    def rollback(self) -> None:
        """Discard all changes and delete the files that were written for them."""
        if not self._is_open:
            return
        self._is_open = False
        for id in self.tables:
            self.delete_files(id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._is_open:
            return
        if kind is None:
            self.commit()
        else:
            self.rollback()

    def delete_files(self, table_id: int) -> None:
        """Delete the files that were written for a table, as far as that is possible."""
        entry = self.tables[table_id]
        files, deletes = entry.data.files, entry.data.delete_files
        if entry.rows is not None:
            files, deletes = entry.rows.written()
        own = [f.path for f in files if f.path_is_relative and f.name_mapping is None]
        own += [file.path for file in deletes if file.path_is_relative]
        if not own or (entry.table is None and entry.after is None):
            return
        directory = directory_of(self.writer(table_id))
        for path in own:
            try:
                self.lake.storage.delete(directory + path)
            except (OSError, LakeportError):
                _log.warning("the file %s of a failed write could not be deleted", path)

    def _check_message(self) -> None:
        if self.options.requires_message and not self.info.message:
            raise InvalidArgumentError(
                "the option require_commit_message of the lake is set: give the transaction a "
                "message"
            )

    def check_open(self) -> None:
        """Raise InvalidArgumentError if the transaction has ended."""
        if not self._is_open:
            raise InvalidArgumentError("the transaction has ended")


def _result(changes: ChangeSet) -> WriteResult:
    data = [change.data for change in changes.tables]
    files = [file for entry in data for file in entry.files]
    updated = sum(entry.updated_rows for entry in data)
    written = sum(file.record_count for file in files) + sum(e.inlined_rows for e in data)
    return WriteResult(
        snapshot=None,
        rows_inserted=written - updated,
        rows_updated=updated,
        rows_deleted=sum(entry.deleted_rows for entry in data),
        files_added=len(files),
        bytes_added=sum(file.file_size_bytes for file in files),
    )

"""What a transaction wants: objects created, altered and dropped, files and rows added and deleted.

A change set is a value. Objects that the transaction creates have negative ids in it; the commit
gives them real ones. A table's definition before and after the transaction is in the change set,
and the commit writes the difference. So several changes of one column become one.

The change set of an append or a delete is one `TableChange` whose `data` lists what was written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from lakeport.ducklake.writing.ddl.definitions import (
    MacroDefinition,
    SchemaDefinition,
    TableDefinition,
    ViewDefinition,
)
from lakeport.ducklake.writing.written import (
    CompactedFile,
    InlinedDeletes,
    InlinedRowDeletes,
    InlinedRowInserts,
    WrittenDeleteFile,
    WrittenFile,
)

if TYPE_CHECKING:
    from lakeport.ducklake.table import LakeTable
    from lakeport.ducklake.writing.changes import TableRows

__all__ = [
    "ChangeSet",
    "CommitInfo",
    "Compaction",
    "DataChanges",
    "MacroChange",
    "MetadataEntry",
    "ReadFile",
    "RewriteDeletes",
    "SchemaChange",
    "TableChange",
    "TableEntry",
    "ViewChange",
]

RewriteDeletes: TypeAlias = Callable[[WrittenDeleteFile, int], WrittenDeleteFile]
"""Write a delete file again, with the id of the snapshot that the commit will have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFile:
    """A data file of the base snapshot from whose rows the changes were computed."""

    data_file_id: int
    delete_file_id: int | None = None
    """The delete file that applied to it."""
    inlined_deletes: int = 0
    """The number of its inlined deletes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataChanges:
    """Rows and files that are added to a table and removed from it."""

    files: tuple[WrittenFile, ...] = ()
    delete_files: tuple[WrittenDeleteFile, ...] = ()
    ended_files: tuple[int, ...] = ()
    """Ids of data files of which no row is left."""
    inlined_inserts: tuple[InlinedRowInserts, ...] = ()
    inlined_deletes: tuple[InlinedDeletes, ...] = ()
    inlined_row_deletes: tuple[InlinedRowDeletes, ...] = ()
    read: tuple[ReadFile, ...] = ()
    """The files that the deletes were computed from. Each must be unchanged when it commits."""
    is_blind: bool = True
    """The changes do not depend on the rows of the table: an append."""
    rewrite_deletes: RewriteDeletes | None = field(default=None, compare=False)
    """Needed if a delete file has an `embedded_snapshot`."""
    updated_rows: int = 0
    deleted_rows: int = 0
    """Rows of the statement's result; updated rows are not among the deleted and inserted ones."""

    def merged(self, other: DataChanges) -> DataChanges:
        """Return both changes, of one transaction, as one."""
        return replace(
            self,
            files=self.files + other.files,
            delete_files=self.delete_files + other.delete_files,
            ended_files=self.ended_files + other.ended_files,
            inlined_inserts=self.inlined_inserts + other.inlined_inserts,
            inlined_deletes=self.inlined_deletes + other.inlined_deletes,
            inlined_row_deletes=self.inlined_row_deletes + other.inlined_row_deletes,
            read=self.read + other.read,
            is_blind=self.is_blind and other.is_blind,
            rewrite_deletes=self.rewrite_deletes or other.rewrite_deletes,
            updated_rows=self.updated_rows + other.updated_rows,
            deleted_rows=self.deleted_rows + other.deleted_rows,
        )

    @property
    def deletes_files_rows(self) -> bool:
        """Whether delete files are added or data files ended."""
        return bool(self.delete_files or self.ended_files)

    @property
    def deletes_inlined(self) -> bool:
        """Whether the catalog database records deletes."""
        return bool(self.inlined_deletes or self.inlined_row_deletes)

    @property
    def inlined_rows(self) -> int:
        """The number of rows for the catalog database."""
        return sum(insert.rows.num_rows for insert in self.inlined_inserts)

    @property
    def is_empty(self) -> bool:
        """Whether a commit of these changes would change nothing."""
        return not (
            self.files
            or self.deletes_files_rows
            or self.deletes_inlined
            or any(insert.rows.num_rows for insert in self.inlined_inserts)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """Rows of a table that move to other files, without a change of any value."""

    kind: Literal["merge_adjacent", "rewrite_delete", "inline_flush"]
    files: tuple[CompactedFile, ...] = ()
    sources: tuple[ReadFile, ...] = ()
    """The data files that are replaced; for a flush, those whose inlined deletes are moved.

    Each must have the same deletes when the compaction commits.
    """
    delete_files: tuple[WrittenDeleteFile, ...] = ()
    """The delete files with the inlined deletes of the sources of a flush."""
    flushed_tables: tuple[str, ...] = ()
    """The tables of the catalog database whose rows, up to the base snapshot, are in the files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """A table before and after the transaction; None where it does not exist."""

    before: TableDefinition | None
    after: TableDefinition | None
    data: DataChanges = DataChanges()
    compaction: Compaction | None = None
    inlines: bool = False
    """The table may have inlined rows, by its options and its columns."""

    @property
    def id(self) -> int:
        """The table's id; negative for a table that the transaction creates."""
        if self.after is not None:
            return self.after.id
        if self.before is not None:
            return self.before.id
        raise ValueError("a change of a table has neither a definition before nor one after")


@dataclass(slots=True)
class TableEntry:
    """A table that an open transaction has looked up or created."""

    before: TableDefinition | None
    after: TableDefinition | None
    data: DataChanges = field(default_factory=DataChanges)
    rows: TableRows | None = None
    """The changes of rows, from which `data` was computed; None if there are none."""
    table: LakeTable | None = None
    """The table at the base snapshot, or at an earlier one at which it had the same definition.

    None for a table that the transaction creates.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """A schema that is created or dropped."""

    before: SchemaDefinition | None
    after: SchemaDefinition | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewChange:
    """A view before and after the transaction; None where it does not exist."""

    before: ViewDefinition | None
    after: ViewDefinition | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MacroChange:
    """A macro that is created or dropped."""

    before: MacroDefinition | None
    after: MacroDefinition | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataEntry:
    """A key of a table in `ducklake_metadata` that gets a value in the commit's transaction."""

    table_id: int
    key: str
    value: str
    expected: str | None
    """The value before the commit; None for no entry. Another value is a conflict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitInfo:
    """What a commit records about itself."""

    author: str | None = None
    message: str | None = None
    extra_info: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSet:
    """Everything that a transaction changes."""

    base: int
    """The snapshot that the transaction has read."""
    schemas: tuple[SchemaChange, ...] = ()
    tables: tuple[TableChange, ...] = ()
    views: tuple[ViewChange, ...] = ()
    macros: tuple[MacroChange, ...] = ()
    metadata: tuple[MetadataEntry, ...] = ()
    info: CommitInfo = CommitInfo()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to commit as a snapshot; metadata has no snapshots."""
        return (
            not self.schemas
            and not self.views
            and not self.macros
            and not any(c.before is not c.after and c.before != c.after for c in self.tables)
            and all(c.data.is_empty and c.compaction is None for c in self.tables)
        )

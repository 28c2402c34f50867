"""Decide whether a transaction can still be committed after the commits of others.

The rules are those of the reference, with its known gaps closed: a delete file must still be the
one from which a new one was built, a renamed table must still exist, and snapshots that were
expired in between make the check impossible. An append that reads nothing conflicts only with
drops, and with alterations of the columns or the partitioning.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeAlias

from lakeport._wording import counted
from lakeport.ducklake.metadata.rows import ColumnRow
from lakeport.ducklake.writing.change_set import ChangeSet, TableChange
from lakeport.ducklake.writing.ddl.definitions import (
    MacroDefinition,
    TableDefinition,
    ViewDefinition,
    same_column,
)
from lakeport.ducklake.writing.rows.changes_made import Change, parse_changes
from lakeport.ducklake.writing.state import CommitState, TableCommitState
from lakeport.errors import ConflictError
from lakeport.types import fold_name

__all__ = ["OtherChanges", "StaleFilesError", "check_conflicts"]

_Named: TypeAlias = TableDefinition | ViewDefinition | MacroDefinition
_INSERTS = ("inserted_into_table", "inlined_insert")
_DELETES = ("deleted_from_table", "inlined_delete")
_REWRITES = ("merge_adjacent", "rewrite_delete")


class StaleFilesError(ConflictError):
    """Files that a compaction replaces were changed; it can be repeated without them."""

    def __init__(self, message: str, files: frozenset[int]) -> None:
        super().__init__(message)
        self.files = files
        """The ids of these data files."""


class OtherChanges:
    """The changes that others have committed since the base of a transaction."""

    def __init__(self, changes: Iterable[Change]) -> None:
        self._ids: dict[str, set[int]] = defaultdict(set)
        self._names: dict[str, set[tuple[str, str | None]]] = defaultdict(set)
        for change in changes:
            if change.id is not None:
                self._ids[change.keyword].add(change.id)
            else:
                self._names[change.keyword].add(change.folded)

    def of(self, id: int, *keywords: str) -> str | None:
        """Return the first of the keywords with which an object was changed."""
        return next((keyword for keyword in keywords if id in self._ids[keyword]), None)

    def created(self, schema: str, name: str | None, *keywords: str) -> bool:
        """Return whether an object of this name was created."""
        key = (fold_name(schema), None if name is None else fold_name(name))
        return any(key in self._names[keyword] for keyword in keywords)

    def created_in(self, schema: str, *keywords: str) -> bool:
        """Return whether any object was created in a schema."""
        folded = fold_name(schema)
        return any(key[0] == folded for keyword in keywords for key in self._names[keyword])


def check_conflicts(changes: ChangeSet, state: CommitState) -> None:
    """Raise ConflictError if commits since the base of the transaction make it impossible."""
    if state.missing and not all(_is_identified(change) for change in changes.tables):
        raise ConflictError(
            f"snapshot {state.missing[0]} was expired during the transaction, so it is not known "
            "what it has changed: start again"
        )
    others = OtherChanges(
        change for row in state.since_base for change in parse_changes(row.changes_made)
    )
    for change in changes.tables:
        _check_table(change, others, state.table(change.id))
    _check_names(changes, others)
    _check_metadata(changes, state)


def _check_metadata(changes: ChangeSet, state: CommitState) -> None:
    for entry in changes.metadata:
        found = state.metadata.get((entry.table_id, entry.key))
        # A lost commit of metadata alone leaves no token behind, but the same value.
        is_repeated = changes.is_empty and found == entry.value
        if found != entry.expected and not is_repeated:
            raise ConflictError(
                f"another transaction has set {entry.key} of the table with id {entry.table_id} to "
                f"{found}: start again"
            )


def _check_table(change: TableChange, others: OtherChanges, now: TableCommitState) -> None:
    before, after = change.before, change.after
    if before is None:
        return
    if now.table is None:
        raise _conflict(before, "was dropped")
    if after is None:
        return
    if before.name != after.name and now.table.begin_snapshot != before.begin_snapshot:
        raise _conflict(before, "was renamed")
    if _is_altered(before, after):
        if others.of(before.id, "altered_table"):
            raise _conflict(before, "was altered")
        if _adds_not_null(before, after) and others.of(before.id, *_INSERTS):
            raise _conflict(before, "got rows, in which a column that is to be not null may be")
    _check_data(change, before, others, now)
    _check_compaction(change, before, others, now)


def _is_identified(change: TableChange) -> bool:
    """Return whether the state of a change's files decides alone if it can be committed."""
    compaction = change.compaction
    return compaction is not None and not compaction.flushed_tables and change.data.is_empty


def _check_compaction(
    change: TableChange, before: TableDefinition, others: OtherChanges, now: TableCommitState
) -> None:
    """Check that rows which move to other files are those that are valid now."""
    compaction = change.compaction
    if compaction is None:
        return
    stale = frozenset(
        read.data_file_id
        for read in compaction.sources
        if read.data_file_id not in now.data_files
        or [row.delete_file_id for row in now.delete_files.get(read.data_file_id, ())]
        != ([] if read.delete_file_id is None else [read.delete_file_id])
        or now.inlined_deletes.get(read.data_file_id, 0) != read.inlined_deletes
    )
    if stale:
        name = f"{before.schema.name}.{before.name}"
        raise StaleFilesError(
            f"another transaction has changed {counted(len(stale), 'data file')} of the table "
            f"{name} that were compacted: start again",
            stale,
        )
    if compaction.flushed_tables and (
        changed := others.of(before.id, "inlined_delete", "inline_flush")
    ):
        raise _conflict(before, _WORDS[changed])


def _check_data(
    change: TableChange, before: TableDefinition, others: OtherChanges, now: TableCommitState
) -> None:
    data = change.data
    if data.is_empty:
        return
    if others.of(before.id, "altered_table") and not _has_same_layout(before, now):
        raise _conflict(before, "was altered")
    if data.is_blind:
        return
    is_insert = bool(data.files or data.inlined_inserts)
    if is_insert and (changed := others.of(before.id, *_DELETES)):
        raise _conflict(before, _WORDS[changed])
    if data.deletes_files_rows or data.deletes_inlined:
        if changed := others.of(before.id, *_INSERTS):
            raise _conflict(before, _WORDS[changed])
        if changed := others.of(before.id, *_REWRITES, "inline_flush"):
            raise _conflict(before, _WORDS[changed])
    if data.inlined_row_deletes and others.of(before.id, "inlined_delete"):
        raise _conflict(before, _WORDS["inlined_delete"])
    _check_files(change, before, now)


def _check_files(change: TableChange, before: TableDefinition, now: TableCommitState) -> None:
    """Check by identity that no deletes of the touched files have been added or removed."""
    data = change.data
    expected = {
        read.data_file_id: (read.delete_file_id, read.inlined_deletes) for read in data.read
    }
    for file in data.delete_files:
        expected.setdefault(file.data_file_id, (file.replaces, -1))
    for file_id in data.ended_files:
        expected.setdefault(file_id, (-1, -1))
    for deletes in data.inlined_deletes:
        expected.setdefault(deletes.data_file_id, (-1, -1))
    for file_id, (delete_file, inlined) in expected.items():
        if file_id not in now.data_files:
            raise _conflict(before, f"no longer has the data file {file_id}")
        current = [row.delete_file_id for row in now.delete_files.get(file_id, ())]
        wanted = [] if delete_file is None else [delete_file]
        if delete_file != -1 and current != wanted:
            raise _conflict(before, f"has other deletes of the data file {file_id}")
        if inlined != -1 and now.inlined_deletes.get(file_id, 0) != inlined:
            raise _conflict(before, f"has other inlined deletes of the data file {file_id}")


def _check_names(changes: ChangeSet, others: OtherChanges) -> None:
    _check_schemas(changes, others)
    _check_new_names(changes, others)
    for view in changes.views:
        if view.before is not None and (
            others.of(view.before.id, "dropped_view")
            or (view.after is not None and others.of(view.before.id, "altered_view"))
        ):
            name = f"{view.before.schema.name}.{view.before.name}"
            raise ConflictError(f"the view {name} was changed by another transaction")
    for macro in changes.macros:
        if macro.before is not None and others.of(
            macro.before.id, f"dropped_{macro.before.type}_macro"
        ):
            raise ConflictError(f"the macro {macro.before.name} was dropped by another transaction")


def _check_schemas(changes: ChangeSet, others: OtherChanges) -> None:
    for schema in changes.schemas:
        if schema.after is not None and others.created(schema.after.name, None, "created_schema"):
            raise ConflictError(
                f"the schema {schema.after.name} was created by another transaction"
            )
        if schema.before is not None and schema.after is None:
            dropped = schema.before
            if others.of(dropped.id, "dropped_schema"):
                raise ConflictError(f"the schema {dropped.name} was dropped by another transaction")
            if others.created_in(dropped.name, *_CREATED):
                raise ConflictError(
                    f"the schema {dropped.name} cannot be dropped: another transaction has created "
                    "an object in it"
                )


def _check_new_names(changes: ChangeSet, others: OtherChanges) -> None:
    for before, after, kinds in _named_objects(changes):
        if after is None:
            continue
        if before is None or fold_name(before.name) != fold_name(after.name):
            full_name = f"{after.schema.name}.{after.name}"
            if others.created(after.schema.name, after.name, *kinds):
                raise ConflictError(f"{full_name} was created by another transaction")
            if others.of(after.schema.id, "dropped_schema"):
                raise ConflictError(
                    f"{full_name} cannot be created: another transaction has dropped its schema"
                )


_CREATED = ("created_table", "created_view", "created_scalar_macro", "created_table_macro")
_RELATIONS = ("created_table", "created_view")
_WORDS = {
    "inserted_into_table": "got rows",
    "inlined_insert": "got rows",
    "deleted_from_table": "lost rows",
    "inlined_delete": "lost rows",
    "merge_adjacent": "was compacted",
    "rewrite_delete": "was compacted",
    "inline_flush": "had its inlined rows written to files",
}


def _named_objects(
    changes: ChangeSet,
) -> Iterable[tuple[_Named | None, _Named | None, tuple[str, ...]]]:
    for table in changes.tables:
        yield table.before, table.after, _RELATIONS
    for view in changes.views:
        yield view.before, view.after, _RELATIONS
    for macro in changes.macros:
        if macro.after is not None:
            yield macro.before, macro.after, (f"created_{macro.after.type}_macro",)


def _is_altered(before: TableDefinition, after: TableDefinition) -> bool:
    """Return whether anything but the name of a table changes."""
    return (
        before.columns != after.columns
        or before.partition_id != after.partition_id
        or before.sort_id != after.sort_id
        or before.tags != after.tags
        or before.column_tags != after.column_tags
    )


def _adds_not_null(before: TableDefinition, after: TableDefinition) -> bool:
    nullable = {row.column_id for row in before.columns if row.nulls_allowed is not False}
    return any(r.nulls_allowed is False and r.column_id in nullable for r in after.columns)


def _has_same_layout(before: TableDefinition, now: TableCommitState) -> bool:
    """Return whether files that were written for a definition still fit the table."""
    if now.columns is None or now.partition_id != before.partition_id:
        return False
    old: dict[int, ColumnRow] = {row.column_id: row for row in before.columns}
    new = {row.column_id: row for row in now.columns}
    return old.keys() == new.keys() and all(same_column(old[id], new[id]) for id in old)


def _conflict(table: TableDefinition, what: str) -> ConflictError:
    return ConflictError(
        f"the table {table.schema.name}.{table.name} {what} by another transaction: start again"
        if what.startswith("was ")
        else f"another transaction has changed the table {table.schema.name}.{table.name}, which "
        f"{what}: start again"
    )

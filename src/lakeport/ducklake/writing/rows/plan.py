"""Compute everything that a commit writes, from its change set and the state that was read."""

from __future__ import annotations

from dataclasses import dataclass

from lakeport.ducklake.metadata.rows import (
    InlinedDataTableRow,
    MetadataRow,
    SchemaVersionRow,
    SnapshotChangesRow,
    SnapshotRow,
)
from lakeport.ducklake.writing.change_set import ChangeSet
from lakeport.ducklake.writing.database import CreateInlinedTable, Delete, Insert, Statement
from lakeport.ducklake.writing.inlining import inlined_table_name
from lakeport.ducklake.writing.rows.changes_made import format_changes
from lakeport.ducklake.writing.rows.compaction import compaction_rows
from lakeport.ducklake.writing.rows.data import data_rows
from lakeport.ducklake.writing.rows.ids import CommitIds
from lakeport.ducklake.writing.rows.objects import object_rows
from lakeport.ducklake.writing.state import CommitState

__all__ = ["CommitPlan", "metadata_statements", "plan_commit"]


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """The statements of one attempt; the first one inserts the snapshot."""

    snapshot: SnapshotRow
    changes: SnapshotChangesRow
    statements: tuple[Statement, ...]
    ids: CommitIds


def plan_commit(changes: ChangeSet, state: CommitState) -> CommitPlan:
    """Return the statements of a commit."""
    ids = CommitIds(state.latest)
    objects = object_rows(changes, state, ids)
    next_version = state.latest.schema_version + 1
    # Rows go to the newest table for inlined rows; a table without one gets one now.
    inlined = {id: inlined_table_name(id, next_version) for id, _ in objects.layouts}
    created = dict(objects.layouts)
    versioned = list(objects.versioned)
    for change in changes.tables:
        if not change.data.inlined_inserts or change.after is None:
            continue
        id = ids.object(change.id)
        known = state.table(change.id).inlined_tables
        if id not in inlined and known:
            inlined[id] = known[-1].table_name
        elif id not in inlined:
            inlined[id] = inlined_table_name(id, next_version)
            created[id] = change.after
            # The reference writes none, and then resolves the columns at a wrong snapshot.
            versioned.append(id)
    data = data_rows(changes, state, ids, inlined)
    compacted = compaction_rows(changes, state, ids)
    has_new_schema = bool(objects.changes or created)
    schema_version = next_version if has_new_schema else state.latest.schema_version
    layouts: list[Statement] = []
    for id, table in created.items():
        layouts.append(CreateInlinedTable(inlined[id], table.tree, state.has_prefix))
        layouts.append(Insert((InlinedDataTableRow(id, inlined[id], schema_version),)))
    versions = tuple(
        SchemaVersionRow(ids.snapshot, schema_version, id) for id in dict.fromkeys(versioned)
    )
    snapshot = SnapshotRow(
        snapshot_id=ids.snapshot,
        snapshot_time=state.time.strftime("%Y-%m-%d %H:%M:%S.%f+00"),
        schema_version=schema_version,
        next_catalog_id=ids.next_catalog_id,
        next_file_id=ids.next_file_id,
    )
    made = SnapshotChangesRow(
        snapshot_id=ids.snapshot,
        changes_made=format_changes([*objects.changes, *data.changes, *compacted.changes]) or None,
        author=changes.info.author,
        commit_message=changes.info.message,
        commit_extra_info=changes.info.extra_info,
    )
    return CommitPlan(
        snapshot=snapshot,
        changes=made,
        statements=(
            Insert((snapshot,)),
            *objects.statements,
            *layouts,
            *data.statements,
            *compacted.statements,
            *([Insert(versions)] if versions else []),
            *metadata_statements(changes, ids),
            Insert((made,)),
        ),
        ids=ids,
    )


def metadata_statements(changes: ChangeSet, ids: CommitIds) -> tuple[Statement, ...]:
    """Return the statements that replace the metadata entries of a change set."""
    rows = tuple(
        MetadataRow(entry.key, entry.value, "table", ids.object(entry.table_id))
        for entry in changes.metadata
    )
    if not rows:
        return ()
    keys = tuple((row.key, row.scope, row.scope_id) for row in rows)
    return Delete(MetadataRow, ("key", "scope", "scope_id"), keys), Insert(rows)

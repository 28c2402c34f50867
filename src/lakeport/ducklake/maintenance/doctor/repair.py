"""Mend what is safe to mend: each finding in one transaction, after a copy of the rows it changes.

The checks run again inside the transaction, with the lock of the kernel held, so a repair fits the
state that it changes. A repair that readers notice makes a snapshot: DuckDB keeps statistics until
the next one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lakeport.ducklake.maintenance.doctor.checks import CHECKS
from lakeport.ducklake.maintenance.doctor.diagnosis import examine, run_checks
from lakeport.ducklake.maintenance.doctor.examination import Check, Examination
from lakeport.ducklake.maintenance.doctor.findings import (
    NEW_SNAPSHOT,
    Action,
    CreateIndex,
    Diagnosis,
    Finding,
    MergeDeletes,
    RowChange,
    RowInsert,
)
from lakeport.ducklake.metadata.rows import SnapshotChangesRow, SnapshotRow
from lakeport.ducklake.model import DataFile
from lakeport.ducklake.reading.delete_files import read_delete_file
from lakeport.ducklake.snapshots import parse_catalog_timestamp
from lakeport.ducklake.writing.database import CatalogWriter, WriteDatabase
from lakeport.ducklake.writing.files import FileTarget, write_delete_file
from lakeport.ducklake.writing.written import WrittenDeleteFile
from lakeport.errors import ConflictError, UnsupportedError

if TYPE_CHECKING:
    from lakeport.ducklake.lake import Lake

__all__ = ["Repaired", "repair"]

_COUNTERS: Final = ("next_catalog_id", "next_file_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """One repair that was made, or would be made."""

    finding: Finding
    snapshot: int | None
    """The snapshot that the repair made; None for a dry run, and if no reader notices it."""
    rows_before: tuple[dict[str, Any], ...] = ()
    """The rows of the catalog that were changed or deleted, each with the name of its table."""

    def as_json(self) -> dict[str, Any]:
        """Return the repair as values of JSON."""
        return {
            "finding": self.finding.as_json(),
            "snapshot": self.snapshot,
            "rows_before": list(self.rows_before),
        }


def repair(
    lake: Lake,
    diagnosis: Diagnosis,
    *,
    dry_run: bool = False,
    save: Callable[[Repaired], None] | None = None,
) -> list[Repaired]:
    """Mend the findings of a diagnosis that can be mended safely.

    Args:
        lake: The lake that was examined.
        diagnosis: What was found. What has been mended meanwhile is left out.
        dry_run: Change nothing; return what would be changed.
        save: Is called before each repair, with the rows that it changes; what it raises stops it.
    """
    mendable = [finding for finding in diagnosis.findings if finding.repair is not None]
    if not lake.version.startswith("1.") and mendable:
        raise UnsupportedError(
            f"a lake of format {lake.version} is not repaired: migrate it with DuckDB first, by "
            "ATTACH with AUTOMATIC_MIGRATION"
        )
    made: list[Repaired] = []
    for finding in mendable:
        done = _Repair(lake, finding).run(dry_run=dry_run, save=save)
        if done is not None:
            made.append(done)
    return made


class _Repair:
    """The repair of one finding."""

    def __init__(self, lake: Lake, finding: Finding) -> None:
        self._lake = lake
        self._finding = finding

    def run(self, *, dry_run: bool, save: Callable[[Repaired], None] | None) -> Repaired | None:
        """Check again, save the rows, change them, and make a snapshot."""
        database: WriteDatabase = self._lake.write_database
        written: list[WrittenDeleteFile] = []
        is_committed = False
        try:
            with database.transaction() as writer:
                finding, exam = self._again(writer)
                try:
                    if finding is None or finding.repair is None:
                        return None
                    before = [
                        row
                        for action in finding.repair.actions
                        for row in _rows_before(writer, action)
                    ]
                    planned = Repaired(finding=finding, snapshot=None, rows_before=tuple(before))
                    if dry_run:
                        return planned
                    if save is not None:
                        save(planned)
                    snapshot = self._apply(writer, exam, finding, written)
                finally:
                    exam.copy.close()
                writer.commit()
                is_committed = True
                return replace(planned, snapshot=snapshot)
        finally:
            if not is_committed:
                for file in written:
                    self._lake.storage.delete(file.path)

    def _again(self, writer: CatalogWriter) -> tuple[Finding | None, Examination]:
        """Run the check again that found it; a finding of file contents is taken as it is."""
        exam = examine(self._lake, writer.connection)
        exam.deep = True
        check = _check_of(self._finding, exam)
        if check is None:
            return self._finding, exam
        found = (f for f in check if f.check == self._finding.check)
        return next((f for f in found if f.where == self._finding.where), None), exam

    def _apply(
        self,
        writer: CatalogWriter,
        exam: Examination,
        finding: Finding,
        written: list[WrittenDeleteFile],
    ) -> int | None:
        actions = [] if finding.repair is None else finding.repair.actions
        changes = [] if finding.repair is None else finding.repair.changes
        snapshot = exam.copy.latest + 1
        counters = _next_counters(exam)
        for action in actions:
            match action:
                case RowChange():
                    _change(writer, action, snapshot)
                case RowInsert("ducklake_snapshot", values):
                    counters |= values
                case RowInsert(table, values):
                    writer.insert_values(table, tuple(values), [tuple(values.values())])
                case MergeDeletes():
                    merged = _merge_deletes(self._lake, exam, action)
                    written.append(merged)
                    counters["next_file_id"] += 1
                    file_id = counters["next_file_id"] - 1
                    _replace_deletes(writer, exam, action, merged, file_id)
                case CreateIndex():
                    _create_index(writer, action)
        # Rows that no reader uses, and indexes, need no snapshot.
        if not changes and counters == _next_counters(exam):
            return None
        _insert_snapshot(writer, exam, finding, snapshot, counters, changes)
        return snapshot


def _check_of(finding: Finding, exam: Examination) -> Iterator[Finding] | None:
    """Return the findings of the check with a finding's name; None for the contents of files."""
    from_contents = ("broken_files", "field_ids", "wrong_statistics", "repeated_row_ids")
    if finding.check in from_contents:
        return None
    return run_checks(exam, _catalog_checks(CHECKS))


def _catalog_checks(checks: Sequence[Check]) -> list[Check]:
    """Return the checks that may be repeated while the lock is held: they list no storage."""
    return [c for c in checks if c.__name__ not in ("files_in_storage", "wrong_delete_files")]


def _rows_before(writer: CatalogWriter, action: Action) -> list[dict[str, Any]]:
    """Return the rows that an action changes, as values of JSON."""
    match action:
        case RowChange(table, where):
            return _select(writer, table, where)
        case MergeDeletes(_, data_file_id):
            where = {"data_file_id": data_file_id, "end_snapshot": None}
            return _select(writer, "ducklake_delete_file", where)
    return []


def _select(writer: CatalogWriter, table: str, where: Any) -> list[dict[str, Any]]:
    condition, values = _condition(writer, where)
    name = writer.dialect.table(writer.database.schema, table)
    result = writer.execute(f"SELECT * FROM {name} WHERE {condition}", values)
    return [
        {"table": table, **{key: _plain(value) for key, value in row.items()}}
        for row in result.mappings().all()
    ]


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.hex() if isinstance(value, bytes) else str(value)


def _condition(writer: CatalogWriter, where: Any) -> tuple[str, list[Any]]:
    parts, values = [], []
    for name, value in where.items():
        column = writer.dialect.identifier(name)
        if value is None:
            parts.append(f"{column} IS NULL")
        else:
            parts.append(f"{column} = {writer.dialect.placeholder}")
            values.append(value)
    return " AND ".join(parts), values


def _change(writer: CatalogWriter, change: RowChange, snapshot: int) -> None:
    condition, values = _condition(writer, change.where)
    name = writer.dialect.table(writer.database.schema, change.table)
    if change.values is None:
        writer.execute(f"DELETE FROM {name} WHERE {condition}", values)
        return
    mark = writer.dialect.placeholder
    sets = ", ".join(f"{writer.dialect.identifier(key)} = {mark}" for key in change.values)
    new = [snapshot if value is NEW_SNAPSHOT else value for value in change.values.values()]
    writer.execute(f"UPDATE {name} SET {sets} WHERE {condition}", [*new, *values])


def _create_index(writer: CatalogWriter, action: CreateIndex) -> None:
    short = action.table.removeprefix("ducklake_")
    index = writer.dialect.identifier(f"lakeport_{short}_{'_'.join(action.columns)}")
    columns = ", ".join(writer.dialect.identifier(column) for column in action.columns)
    table = writer.dialect.table(writer.database.schema, action.table)
    writer.execute(f"CREATE INDEX {index} ON {table} ({columns})")


def _next_counters(exam: Examination) -> dict[str, Any]:
    (row,) = exam.copy.rows(
        "SELECT next_catalog_id, next_file_id FROM ducklake_snapshot "
        "ORDER BY snapshot_id DESC LIMIT 1"
    )
    # DuckDB reads statistics again when the number of files has changed.
    return {"next_catalog_id": row[0], "next_file_id": row[1] + 1}


def _insert_snapshot(
    writer: CatalogWriter,
    exam: Examination,
    finding: Finding,
    snapshot: int,
    counters: dict[str, Any],
    changes: Sequence[str],
) -> None:
    (row,) = exam.copy.rows(
        "SELECT snapshot_time, schema_version FROM ducklake_snapshot "
        "ORDER BY snapshot_id DESC LIMIT 1"
    )
    moment = max(writer.now, parse_catalog_timestamp(row[0]))
    time = moment.strftime("%Y-%m-%d %H:%M:%S.%f+00")
    writer.insert([SnapshotRow(snapshot, time, row[1], *(counters[name] for name in _COUNTERS))])
    text = ",".join(changes) or None
    extra = json.dumps({"lakeport": {"doctor": finding.check}})
    message = f"doctor: {finding.what} ({finding.where})"
    writer.insert([SnapshotChangesRow(snapshot, text, "lakeport doctor", message, extra)])


def _merge_deletes(lake: Lake, exam: Examination, action: MergeDeletes) -> WrittenDeleteFile:
    """Write one delete file with the positions of all; each keeps the snapshot that deleted it."""
    file = _data_file(exam.data_files(), action.data_file_id)
    parts, owners = [], []
    for delete in file.deletes:
        positions, snapshots = read_delete_file(exam.storage, delete)
        parts.append(positions)
        owners.append(
            np.full(len(positions), delete.begin_snapshot) if snapshots is None else snapshots
        )
    positions, snapshots = np.concatenate(parts), np.concatenate(owners)
    order = np.lexsort((snapshots, positions))
    positions, snapshots = positions[order], snapshots[order]
    # Of two deletes of a row, the first one counts.
    first = np.ones(len(positions), np.bool_)
    first[1:] = positions[1:] != positions[:-1]
    target = FileTarget(
        columns=(),
        directory=exam.directory(action.table_id),
        storage=lake.storage,
        encrypted=file.encryption_key is not None,
    )
    written = write_delete_file(
        target,
        data_file_id=file.id,
        data_file=file.path,
        positions=positions[first],
        snapshots=snapshots[first],
    )
    last = int(snapshots[first].max())
    return replace(written, path=target.directory + written.path, embedded_snapshot=last)


def _data_file(files: Iterable[tuple[int, DataFile]], id: int) -> DataFile:
    for _, file in files:
        if file.id == id:
            return file
    raise ConflictError(f"data file {id} was removed by another transaction")


def _replace_deletes(
    writer: CatalogWriter,
    exam: Examination,
    action: MergeDeletes,
    merged: WrittenDeleteFile,
    file_id: int,
) -> None:
    """Replace the rows of the old delete files, and schedule the files for deletion."""
    old = exam.copy.rows(
        "SELECT delete_file_id, path, path_is_relative FROM live_delete WHERE data_file_id = ?",
        [action.data_file_id],
    )
    where = {"data_file_id": action.data_file_id, "end_snapshot": None}
    _change(writer, RowChange("ducklake_delete_file", where), 0)
    directory = exam.directory(action.table_id)
    values = {
        "delete_file_id": file_id,
        "table_id": action.table_id,
        "begin_snapshot": merged.begin_snapshot,
        "end_snapshot": None,
        "data_file_id": action.data_file_id,
        "path": merged.path.removeprefix(directory),
        "path_is_relative": True,
        "format": "parquet",
        "delete_count": merged.delete_count,
        "file_size_bytes": merged.file_size_bytes,
        "footer_size": merged.footer_size,
        "encryption_key": merged.encryption_key,
        "partial_max": merged.embedded_snapshot,
    }
    writer.insert_values("ducklake_delete_file", tuple(values), [tuple(values.values())])
    time = writer.now.strftime("%Y-%m-%d %H:%M:%S.%f+00")
    rows = []
    for id, path, relative in old:
        full = exam.path(action.table_id, path, is_relative=relative)
        inside = full.startswith(exam.root)
        rows.append((id, full.removeprefix(exam.root) if inside else full, inside, time))
    columns = ("data_file_id", "path", "path_is_relative", "schedule_start")
    writer.insert_values("ducklake_files_scheduled_for_deletion", columns, rows)

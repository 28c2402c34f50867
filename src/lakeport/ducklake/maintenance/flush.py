"""Flush inlined rows and inlined deletes of a table to files, without a change of any snapshot.

All versions of a row go to the file, each with the snapshot that wrote it. A delete file has the
versions that have ended. The rows leave the catalog database in the same transaction, each time
that the commit is tried.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from lakeport._wording import counted
from lakeport.ducklake.lake import Lake
from lakeport.ducklake.maintenance.compaction.candidates import (
    TableFiles,
    moved_column,
    read_files,
    sorts_variants,
)
from lakeport.ducklake.maintenance.results import MaintenanceResult
from lakeport.ducklake.metadata.rows import PartitionInfoRow, SchemaVersionRow
from lakeport.ducklake.metadata.table_state import visible
from lakeport.ducklake.model import (
    DataFile,
    InlinedTable,
    PartitionSpec,
    RecordedFile,
    SortField,
)
from lakeport.ducklake.planning.inlined_rows import InlinedRows, read_inlined
from lakeport.ducklake.reading.data_files import INTERNAL_ROW_ID
from lakeport.ducklake.reading.delete_files import INTERNAL_SNAPSHOT, read_delete_file
from lakeport.ducklake.reading.parquet import open_parquet
from lakeport.ducklake.writing import (
    ChangeSet,
    CommitInfo,
    CompactedFile,
    Compaction,
    RetryPolicy,
    TableChange,
    WrittenDeleteFile,
    WrittenFile,
)
from lakeport.ducklake.writing.changes.target import sort_order, table_target
from lakeport.ducklake.writing.commit import commit
from lakeport.ducklake.writing.files import (
    INTERNAL_FIELDS,
    FileTarget,
    FileWriter,
    sorted_batches,
    write_delete_file,
)
from lakeport.errors import ConflictError, InvalidInputError, LakeportError, UnknownOutcomeError
from lakeport.types import arrow_field

__all__ = ["flush_table"]

_log = logging.getLogger("lakeport.ducklake.maintenance")

_INTERNAL: Final = (INTERNAL_ROW_ID, INTERNAL_SNAPSHOT)


def flush_table(
    lake: Lake, name: str, schema: str, *, dry_run: bool = False, min_rows: int = 1
) -> MaintenanceResult:
    """Flush a table; start again if others have deleted inlined rows meanwhile.

    With fewer inlined rows and deletes than `min_rows`, nothing is done.
    """
    policy = RetryPolicy()
    attempt = 0
    while True:
        try:
            return _Flush(lake, read_files(lake, name, schema)).run(dry_run, min_rows)
        except ConflictError:
            attempt += 1
            if attempt >= policy.attempts:
                raise
            time.sleep(policy.pause(attempt))


@dataclass(slots=True)
class _Flush:
    """One attempt to flush a table."""

    lake: Lake
    state: TableFiles
    files: list[CompactedFile] = field(default_factory=list)
    delete_files: list[WrittenDeleteFile] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    rows: int = 0
    deletes: int = 0

    def run(self, dry_run: bool, min_rows: int) -> MaintenanceResult:  # noqa: FBT001
        parts = self._read()
        pairs = self.state.inlined_pairs
        rows = sum(len(part.row_ids) for _, part in parts)
        deletes = sum(len(found) // 16 for found in pairs.values())
        result = MaintenanceResult(operation="flush", table=self.state.name, dry_run=dry_run)
        if rows + deletes < max(min_rows, 1):
            return result
        if self.state.obstacle is not None:
            return replace(result, skipped=(self.state.obstacle,))
        if dry_run:
            return replace(result, rows=rows, deletes=deletes, files_written=len(parts))
        try:
            flushed = [table.name for table, part in parts if self._write_rows(table, part)]
            sources = [file for file in self.state.files if self._write_deletes(file)]
            if not (flushed or sources):
                return replace(result, skipped=tuple(self.skipped))
            snapshot = self._commit(flushed, sources)
        except UnknownOutcomeError:
            raise  # the files may be part of the lake
        except BaseException:
            self._delete_written()
            raise
        return replace(
            result,
            rows=self.rows,
            deletes=self.deletes,
            files_written=len(self.files) + len(self.delete_files),
            bytes_written=sum(new.file.file_size_bytes for new in self.files),
            commits=(snapshot,),
            skipped=tuple(self.skipped),
        )

    def _read(self) -> list[tuple[InlinedTable, InlinedRows]]:
        """Return all versions of the inlined rows up to the base, by inlined table."""
        planner = self.state.table.planner
        tables = [
            replace(table, columns=tuple(moved_column(column) for column in table.columns))
            for table in planner.state.inlined_tables
        ]

        def work(connection: sa.Connection) -> list[tuple[InlinedTable, InlinedRows]]:
            present = planner.files(connection).inlined_tables
            found = []
            for table in tables:
                if table.name in present:
                    parts = read_inlined(
                        self.lake.catalog,
                        connection,
                        [table],
                        table.columns,
                        self.state.base,
                        from_snapshot=0,
                    )
                    found += [(table, part) for part in parts]
            return found

        return self.lake.catalog.database.read(work)

    def _write_rows(self, table: InlinedTable, part: InlinedRows) -> bool:
        """Write the rows of one inlined table; return False if files cannot hold them."""
        target = replace(
            self._target(),
            columns=table.columns,
            exact=True,
            partition_spec=self._spec(table),
        )
        schema = pa.schema(
            [
                *(arrow_field(column) for column in target.columns),
                *(INTERNAL_FIELDS[name] for name in _INTERNAL),
            ]
        )
        rows = pa.RecordBatch.from_arrays(
            [*part.columns, part.row_ids, part.begin_snapshots], schema=schema
        )
        order = [*self._sort_order(table), *(_key(name) for name in _INTERNAL)]
        try:
            with FileWriter(target, internal=_INTERNAL, threads=1) as writer:
                for batch in sorted_batches(iter([rows]), schema, order):
                    writer.write(batch)
                files = writer.close()
        except InvalidInputError as error:
            # An integer of 128 bits, say, which a file would round.
            self.skipped.append(f"rows of {self.state.name} cannot be written to files: {error}")
            return False
        ended = pa.table(
            {"row": part.row_ids, "begin": part.begin_snapshots, "end": part.end_snapshots}
        ).filter(pc.is_valid(part.end_snapshots))
        for file in files:
            self.files.append(self._described(target, file, ended))
        self.rows += len(part.row_ids)
        return True

    def _described(self, target: FileTarget, file: WrittenFile, ended: pa.Table) -> CompactedFile:
        """Return a written file with its range of snapshots, and the deletes of ended rows."""
        path = target.directory + file.path
        recorded = RecordedFile(path=path, encryption_key=file.encryption_key)
        count = len(target.columns)
        with closing(open_parquet(target.storage, recorded)) as source:
            batches = [batch for _, batch in source.batches([count, count + 1], batch_rows=1 << 20)]
        written = pa.Table.from_batches(batches).rename_columns(["row", "begin"])
        bounds, first = pc.min_max(written["begin"]), pc.min(written["row"]).as_py()
        positions = written.append_column("position", pa.array(np.arange(written.num_rows)))
        found = positions.join(ended, ["row", "begin"], join_type="inner").sort_by("position")
        deletes = None
        if found.num_rows:
            deletes = write_delete_file(
                target,
                data_file_id=-1,
                data_file=path,
                positions=found["position"].to_numpy(),
                snapshots=found["end"].to_numpy(),
            )
        return CompactedFile(
            file=file,
            begin_snapshot=bounds["min"].as_py(),
            partial_max=bounds["max"].as_py(),
            row_id_start=first,
            deletes=deletes,
        )

    def _write_deletes(self, file: DataFile) -> bool:
        """Write the inlined deletes of a data file, together with those of its delete file."""
        pairs = np.frombuffer(self.state.inlined_pairs.get(file.id, b""), np.int64).reshape(-1, 2)
        if not len(pairs):
            return False
        if len(file.deletes) > 1:
            self.skipped.append(f"the file {file.path} has {len(file.deletes)} delete files")
            return False
        positions, snapshots = [pairs[:, 0]], [pairs[:, 1]]
        for delete in file.deletes:
            old, embedded = read_delete_file(self.lake.storage, delete)
            positions.append(old)
            snapshots.append(
                np.full(len(old), delete.begin_snapshot) if embedded is None else embedded
            )
        together, owners = np.concatenate(positions), np.concatenate(snapshots)
        order = np.lexsort((owners, together))
        together, owners = together[order], owners[order]
        # A position that is deleted twice belongs to the first snapshot.
        first = np.ones(len(together), np.bool_)
        first[1:] = together[1:] != together[:-1]
        self.delete_files.append(
            write_delete_file(
                self._target(),
                data_file_id=file.id,
                data_file=file.path,
                positions=together[first],
                snapshots=owners[first],
                replaces=file.deletes[0].id if file.deletes else None,
            )
        )
        self.deletes += len(pairs)
        return True

    def _commit(self, flushed: Sequence[str], sources: Sequence[DataFile]) -> int:
        state = self.state
        moved = f"{counted(self.rows, 'row')} and {counted(self.deletes, 'delete')}"
        changes = ChangeSet(
            base=state.base,
            tables=(
                TableChange(
                    before=state.definition,
                    after=state.definition,
                    compaction=Compaction(
                        kind="inline_flush",
                        files=tuple(self.files),
                        sources=tuple(state.read_file(file) for file in sources),
                        delete_files=tuple(self.delete_files),
                        flushed_tables=tuple(flushed),
                    ),
                ),
            ),
            info=CommitInfo(message=f"flush {moved} of {state.name}"),
        )
        return commit(self.lake.write_database, self.lake.catalog, changes).snapshot

    def _target(self) -> FileTarget:
        state = self.state
        return table_target(
            state.definition,
            state.options,
            directory=state.table.path,
            storage=self.lake.storage,
            in_order=True,
        )

    def _spec(self, table: InlinedTable) -> PartitionSpec | None:
        """Return the partitioning of the schema version that the inlined table was made for."""
        rows, specs = self.state.rows, self.state.table.planner.state.partition_specs
        begins = [
            row.begin_snapshot
            for row in rows[SchemaVersionRow]
            if row.schema_version == table.schema_version
        ]
        if not begins:
            return None
        ids = [r.partition_id for r in rows[PartitionInfoRow] if visible(r, max(begins))]
        spec = specs.get(max(ids)) if ids else None
        if spec is None or not spec.fields:
            return None
        present = {column.id for column in table.columns}
        return spec if all(field.column_id in present for field in spec.fields) else None

    def _sort_order(self, table: InlinedTable) -> tuple[SortField, ...]:
        """Return the sort order of now, if the columns of the inlined table are those of now."""
        same = [c.name for c in table.columns] == [c.name for c in self.state.table.columns]
        order = sort_order(self.state.definition) if same else ()
        return () if sorts_variants(order, table.columns) else order

    def _delete_written(self) -> None:
        written = [new.file.path for new in self.files]
        written += [new.deletes.path for new in self.files if new.deletes is not None]
        written += [file.path for file in self.delete_files]
        for path in written:
            try:
                self.lake.storage.delete(self.state.table.path + path)
            except (OSError, LakeportError):
                _log.warning("the file %s of a failed flush could not be deleted", path)


def _key(name: str) -> SortField:
    return SortField(expression=f'"{name}"', dialect="duckdb", descending=False, nulls_first=False)

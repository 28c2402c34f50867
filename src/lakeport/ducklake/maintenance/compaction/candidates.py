"""Which data files of a table are compacted together: small neighbours, and files with deletes.

Files are merged only if the table had the same columns when their rows were written: the merged
file replaces them in all snapshots, so it must hold every column that one of these snapshots reads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import sqlalchemy as sa

from lakeport.ducklake.lake import Lake
from lakeport.ducklake.metadata.queries import QueryResult
from lakeport.ducklake.metadata.rows import (
    ColumnRow,
    DeleteFileRow,
    SchemaRow,
    TableRow,
)
from lakeport.ducklake.metadata.table_state import column_tree
from lakeport.ducklake.model import DataFile, SortField
from lakeport.ducklake.planning.files import FileColumns
from lakeport.ducklake.planning.plan import FilterLike
from lakeport.ducklake.reading.tasks import FileTask
from lakeport.ducklake.storage.encryption import can_encrypt
from lakeport.ducklake.table import LakeTable
from lakeport.ducklake.writing import ReadFile, TableDefinition
from lakeport.ducklake.writing.ddl.definitions import table_definition
from lakeport.ducklake.writing.options import Options
from lakeport.filters import Filter
from lakeport.types import Column, fold_name, has_variant_bytes

__all__ = [
    "Group",
    "TableFiles",
    "merge_groups",
    "moved_column",
    "read_files",
    "rewrite_groups",
    "sorts_variants",
]

_POSITION_BYTES: Final = 8
_WHOLE: Final = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFiles:
    """A table at its newest snapshot, with all of its data files."""

    table: LakeTable
    definition: TableDefinition
    rows: QueryResult
    files: tuple[DataFile, ...]
    inlined_deletes: dict[int, bytes]
    """The inlined deletes of data files, as positions."""
    inlined_pairs: dict[int, bytes]
    """The same as pairs of a position and the snapshot that deleted it."""
    with_old_deletes: frozenset[int]
    """Data files with delete files that newer snapshots do not see."""
    options: Options

    @property
    def name(self) -> str:
        """Schema and name of the table."""
        return f"{self.table.schema_name}.{self.table.name}"

    @property
    def base(self) -> int:
        """The snapshot at which the table was read."""
        return self.table.snapshot.id

    @property
    def obstacle(self) -> str | None:
        """Why the rows of the table must stay where they are; None if they may move."""
        variants = [row for row in self.rows[ColumnRow] if row.column_type.lower() == "variant"]
        if any(row.parent_column is not None for row in variants):
            return f"{self.name} has variants inside of other values, which cannot be written"
        if variants and not has_variant_bytes():
            # As JSON, their values would lose types.
            return f"{self.name} has variants, which need DuckDB 1.5 or newer to be moved"
        if self.options.is_encrypted and not can_encrypt():
            return (
                f"{self.name} is encrypted, and DuckDB 1.5 cannot filter the rows of files that it "
                "has not encrypted itself: install its extension httpfs"
            )
        return None

    def deleted_rows(self, file: DataFile) -> int:
        """Return the number of deleted rows of a file."""
        inlined = len(self.inlined_deletes.get(file.id, b"")) // _POSITION_BYTES
        return sum(delete.delete_count or 0 for delete in file.deletes) + inlined

    def read_file(self, file: DataFile) -> ReadFile:
        """Return what must be unchanged when a compaction of a file commits."""
        return ReadFile(
            data_file_id=file.id,
            delete_file_id=file.deletes[0].id if file.deletes else None,
            inlined_deletes=len(self.inlined_pairs.get(file.id, b"")) // (2 * _POSITION_BYTES),
        )

    def columns_of(self, file: DataFile) -> tuple[Column, ...]:
        """Return the columns that the table had when the rows of a file were written."""
        written = file.begin_snapshot if file.partial_max is None else file.partial_max
        return column_tree(self.rows[ColumnRow], written)

    def tasks(self, files: Iterable[DataFile], columns: tuple[Column, ...]) -> tuple[FileTask, ...]:
        """Return the tasks that read the live rows of files, with row ids and snapshots."""
        state = replace(self.table.planner.state, columns=columns)
        planner = replace(self.table.planner, state=state)
        names = [*(column.name for column in columns), "rowid", "snapshot_id"]
        context = planner.context(names, Filter.always())
        return tuple(
            FileTask(
                context=context,
                estimated_rows=file.record_count or 0,
                estimated_bytes=file.file_size_bytes or 0,
                file=file,
                name_mapping=state.name_mapping_of(file),
                inlined_deletes=self.inlined_deletes.get(file.id, b""),
            )
            for file in files
        )

    def matching(self, where: FilterLike) -> frozenset[int]:
        """Return the ids of the files that may have rows which pass a filter."""
        if where is None:
            return frozenset(file.id for file in self.files)
        plan = self.table.planner.scan([], where, task_bytes=_WHOLE, exact=False)
        return frozenset(task.file.id for task in plan.tasks if isinstance(task, FileTask))


def moved_column(column: Column) -> Column:
    """Return a column as its values are moved: variants as bytes, and NULLs that were allowed."""
    return replace(column, nullable=True, as_bytes=column.type == "variant")


def sorts_variants(keys: Iterable[SortField], columns: Iterable[Column]) -> bool:
    """Return whether a sort order may use variants, which have another order while they move."""
    names = [fold_name(column.name) for column in columns if column.as_bytes]
    return any(name in fold_name(key.expression) for key in keys for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Data files whose rows go to new files together."""

    files: tuple[DataFile, ...]
    columns: tuple[Column, ...]
    """The columns of the new files."""
    bytes: int
    rows: int
    deleted: int = 0

    @property
    def begin_snapshot(self) -> int:
        """The smallest snapshot of the rows."""
        return min(file.begin_snapshot for file in self.files)

    @property
    def last_snapshot(self) -> int:
        """The largest snapshot of the rows."""
        return max(file.partial_max or file.begin_snapshot for file in self.files)

    @property
    def is_contiguous(self) -> bool:
        """Whether, by the catalog, the row ids of the files follow each other without a gap."""
        expected = self.files[0].row_id_start
        for file in self.files:
            if file.row_id_start is None or file.row_id_start != expected:
                return False
            expected += file.record_count or 0
        return True


def read_files(lake: Lake, name: str, schema: str = "main") -> TableFiles:
    """Read the newest state of a table and all of its data files, in two transactions."""
    lookup = lake.lookup(name, schema, version=None)
    table = lookup.table
    old = lake.catalog.tables[DeleteFileRow]
    ended = sa.select(old.c.data_file_id).where(
        old.c.table_id == table.id, old.c.end_snapshot.is_not(None)
    )

    def work(connection: sa.Connection) -> tuple[FileColumns, frozenset[int]]:
        files = table.planner.files(connection)
        return files, frozenset(row[0] for row in connection.execute(ended))

    files, with_old_deletes = lake.catalog.database.read(work)
    row, schema_row = lookup.rows[TableRow][0], lookup.rows[SchemaRow][0]
    return TableFiles(
        table=table,
        definition=table_definition(lookup.rows, row, schema_row, table.snapshot.id),
        rows=lookup.rows,
        files=tuple(files.data_file_objects(table.planner.state)),
        inlined_deletes=files.deleted_positions(),
        inlined_pairs=files.deleted_pairs(),
        with_old_deletes=with_old_deletes,
        options=Options(lake.option_rows()),
    )


def merge_groups(
    state: TableFiles,
    *,
    target_bytes: int,
    max_file_bytes: int | None = None,
    min_file_bytes: int = 0,
    only: Collection[int],
) -> list[Group]:
    """Return the groups of small files without deletes that become one file each.

    Args:
        state: The table and its files.
        target_bytes: The size up to which files are put together.
        max_file_bytes: Files of this size or more stay as they are; by default the target.
        min_file_bytes: Smaller files stay as they are.
        only: The ids of the files that may be merged.
    """
    limit = min(target_bytes, max_file_bytes or target_bytes)
    alike: dict[object, list[DataFile]] = defaultdict(list)
    columns: dict[object, tuple[Column, ...]] = {}
    layouts: dict[int, tuple[Column, ...]] = {}
    for file in sorted(state.files, key=_place):
        size = file.file_size_bytes or 0
        if file.id not in only or not min_file_bytes <= size < limit:
            continue
        if file.deletes or file.id in state.inlined_deletes or file.id in state.with_old_deletes:
            continue
        written = file.begin_snapshot if file.partial_max is None else file.partial_max
        if written not in layouts:
            layouts[written] = state.columns_of(file)
        key = (_layout(layouts[written]), file.partition_id, file.partition_values)
        alike[key].append(file)
        # The names of the newest columns: files have only their ids.
        columns[key] = layouts[written]
    return [
        Group(files=files, columns=columns[key], bytes=_size(files), rows=_rows(files))
        for key, members in alike.items()
        for files in _packed(members, target_bytes)
        if len(files) > 1
    ]


def rewrite_groups(
    state: TableFiles, *, threshold: float, target_bytes: int, only: Collection[int]
) -> list[Group]:
    """Return the groups of files of which at least a share of the rows is deleted.

    With the threshold 0, all files are rewritten, also those without deletes.
    """
    alike: dict[object, list[DataFile]] = defaultdict(list)
    for file in sorted(state.files, key=_place):
        rows, deleted = file.record_count or 0, state.deleted_rows(file)
        if file.id not in only or not rows or len(file.deletes) > 1:
            continue
        if threshold > 0 and (not deleted or deleted / rows < threshold):
            continue
        alike[(file.partition_id, file.partition_values)].append(file)
    columns = state.table.columns
    return [
        Group(
            files=files,
            columns=columns,
            bytes=_size(files),
            rows=_rows(files),
            deleted=sum(state.deleted_rows(file) for file in files),
        )
        for members in alike.values()
        for files in _packed(members, target_bytes, state)
    ]


def _place(file: DataFile) -> tuple[int, int, int]:
    start = -1 if file.row_id_start is None else file.row_id_start
    return file.begin_snapshot, start, file.id


def _layout(columns: Iterable[Column]) -> tuple[object, ...]:
    """Return ids and types of columns: what a file of other columns could not hold."""
    return tuple((column.id, column.type, _layout(column.children)) for column in columns)


def _packed(
    files: list[DataFile], target: int, state: TableFiles | None = None
) -> Iterator[tuple[DataFile, ...]]:
    """Divide files into runs that are about as large as the target, by their live rows."""
    run: list[DataFile] = []
    size = 0
    for file in files:
        own = file.file_size_bytes or 0
        if state is not None and file.record_count:
            own = own * (file.record_count - state.deleted_rows(file)) // file.record_count
        if run and size + own > target:
            yield tuple(run)
            run, size = [], 0
        run.append(file)
        size += own
    if run:
        yield tuple(run)


def _size(files: Iterable[DataFile]) -> int:
    return sum(file.file_size_bytes or 0 for file in files)


def _rows(files: Iterable[DataFile]) -> int:
    return sum(file.record_count or 0 for file in files)

"""Which files Spark's Parquet reader reads exactly, and which of them together.

Files with one layout are one scan. Within a scan, a file is identified by its size. A path can be
escaped in many ways, and a deleted row would come back if its file had another spelling. So two
files of one size are in two scans.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lakeport.ducklake.reading import (
    INTERNAL_ROW_ID,
    INTERNAL_ROW_ID_FIELD,
    INTERNAL_SNAPSHOT,
    INTERNAL_SNAPSHOT_FIELD,
    FileTask,
)
from lakeport.ducklake.storage import hive_value, is_local
from lakeport.spark.frames.lake_files import FILE_SIZE, NUMBERS
from lakeport.spark.frames.parquet_columns import (
    ConstantColumn,
    FileColumn,
    file_column,
    find_node,
    has_unique_names,
    literal,
)
from lakeport.spark.frames.parquet_footers import Footer, map_in_threads, read_footer
from lakeport.types import Column, ParquetField, spark_can_write

__all__ = ["POSITION_BITS", "ParquetFile", "ParquetScan", "ReadLayout", "plan_parquet_scans"]

# Planning more scans takes Spark longer than running them.
MAX_SCANS: Final = 16
# How many deleted positions the driver holds for one plan.
MAX_DELETES: Final = 20_000_000
# A file's size and a position in it are one number; Arrow reads larger files.
SIZE_BITS: Final = 36
POSITION_BITS: Final = 27


@dataclass(frozen=True, slots=True)
class ReadLayout:
    """How a plan's columns are read from a file."""

    columns: tuple[FileColumn | ConstantColumn | str, ...]
    """Columns of the file, columns that the file does not have, and names of virtual columns."""
    row_id: str | None
    """The field with row ids, if they are needed and in the file."""
    snapshot: str | None
    """The field with the snapshot of each row, if it is needed and in the file."""
    first_snapshot: int | None
    last_snapshot: int | None
    """Only rows that were written from the first to the last snapshot, by that field."""
    has_deletes: bool

    @property
    def needs_file_columns(self) -> bool:
        """Whether a virtual column comes from the catalog's row of the file."""
        in_rows = {"file_row_number", self.row_id and "rowid", self.snapshot and "snapshot_id"}
        return any(isinstance(c, str) and c not in in_rows for c in self.columns)

    @property
    def needs_files(self) -> bool:
        """Whether the file of each row must be identified."""
        return self.has_deletes or self.needs_file_columns

    @property
    def needs_positions(self) -> bool:
        """Whether the positions of rows are needed."""
        by_position = not self.row_id and "rowid" in self.columns
        return self.has_deletes or by_position or "file_row_number" in self.columns


@dataclass(frozen=True, slots=True)
class ParquetFile:
    """A file that Spark reads itself."""

    task: FileTask
    footer: Footer


@dataclass(frozen=True, slots=True)
class ParquetScan:
    """Files that Spark reads together."""

    layout: ReadLayout
    files: tuple[ParquetFile, ...]

    @property
    def hidden_columns(self) -> list[int]:
        """The ids of floating-point columns that are hidden from the statistics of the reader."""
        return [column.id for _, column in self._numbers()]

    @property
    def shows_numbers(self) -> bool:
        """Whether the reader may compare floating-point numbers with statistics."""
        return any(isinstance(column, FileColumn) and column.is_shown for column in self.columns)

    @property
    def columns(self) -> tuple[FileColumn | ConstantColumn | str, ...]:
        """How the plan's columns are read."""
        return self.layout.columns

    def with_numbers_shown(self, without_nan: Mapping[int, Collection[int]]) -> ParquetScan:
        """Return the scan with those columns shown that have no NaN in any of the files."""
        columns = list(self.layout.columns)
        for position, column in self._numbers():
            if all(column.id in without_nan.get(file.task.file.id, ()) for file in self.files):
                stored = columns[position]
                assert isinstance(stored, FileColumn)  # noqa: S101 - by `_numbers`
                columns[position] = replace(stored, is_shown=True)
        return replace(self, layout=replace(self.layout, columns=tuple(columns)))

    def _numbers(self) -> Iterator[tuple[int, Column]]:
        """Yield the positions of floating-point columns, which are not fields of structs."""
        read = self.files[0].task.context.read_columns
        for position, (stored, column) in enumerate(zip(self.columns, read, strict=True)):
            if not isinstance(stored, FileColumn) or not isinstance(column, Column):
                continue
            if stored.has_floats and not column.children:
                yield position, column


def plan_parquet_scans(tasks: Sequence[FileTask]) -> tuple[list[ParquetScan], list[FileTask]]:
    """Return the scans of Spark's reader, and the tasks that remain for Arrow."""
    pieces: dict[int, list[FileTask]] = defaultdict(list)
    for task in tasks:
        pieces[task.file.id].append(task)
    readable = [
        parts[0] for parts in pieces.values() if _covers_file(parts) and _can_spark_open(parts[0])
    ]
    footers = map_in_threads(_footer, readable)
    groups: dict[ReadLayout, list[ParquetFile]] = defaultdict(list)
    remaining_deletes = MAX_DELETES
    layouts = _Layouts()
    for task, footer in zip(readable, footers, strict=True):
        layout = None if footer is None else layouts.of(task, footer)
        if layout is None or footer is None or _deletes(task) > remaining_deletes:
            continue
        remaining_deletes -= _deletes(task)
        groups[layout].append(ParquetFile(task, footer))
    scans = [scan for layout, files in groups.items() for scan in _split_equal_sizes(layout, files)]
    # Spark's reader saves most time on the largest scans.
    scans.sort(key=lambda scan: sum(file.footer.size for file in scan.files), reverse=True)
    scans = scans[:MAX_SCANS]
    native = {file.task.file.id for scan in scans for file in scan.files}
    return scans, [task for task in tasks if task.file.id not in native]


def _footer(task: FileTask) -> Footer | None:
    """Return the footer of a task's file; None leaves the file, and its errors, to Arrow."""
    file = task.file.recorded
    footer = read_footer(task.context.storage, file.path, file.bytes)
    if footer is None:
        return None
    is_recorded = file.rows in (None, footer.rows) and file.footer_bytes in (None, footer.length)
    return footer if is_recorded else None


def _covers_file(pieces: Sequence[FileTask]) -> bool:
    """Return whether the tasks of a file read all of it, once."""
    ordered = sorted(pieces, key=lambda task: task.start)
    starts = [0, *(task.end for task in ordered)]
    return starts == [*(task.start for task in ordered), None]


def _can_spark_open(task: FileTask) -> bool:
    """Return whether Spark can open the file; it skips files with hidden names."""
    file = task.file
    hidden = file.path.rpartition("/")[2].startswith(("_", "."))
    return is_local(file.path) and not hidden and file.encryption_key is None


def _deletes(task: FileTask) -> int:
    """Estimate how many positions of the file are deleted."""
    if not task.apply_deletes:
        return 0
    listed = sum(delete.delete_count or 0 for delete in task.file.deletes)
    return listed + len(task.inlined_deletes) // 8


class _Layouts:
    """The layouts of a plan's files, most of which are equal."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, bool, bool], ReadLayout | None] = {}

    def of(self, task: FileTask, footer: Footer) -> ReadLayout | None:
        """Return how Spark reads a file; None if it cannot read it exactly."""
        file = task.file
        if footer.size >> SIZE_BITS or footer.rows >> POSITION_BITS:
            return None
        if task.name_mapping is not None or file.partial_rows or file.partial_max is not None:
            return _layout(task, footer)
        # Everything else that a layout depends on is the same for all files of a plan.
        key = (id(footer.fields), file.row_id_start is None, _has_deletes(task))
        if key not in self._known:
            self._known[key] = _layout(task, footer)
        return self._known[key]


def _has_deletes(task: FileTask) -> bool:
    # Not by the catalog's counts: its numbers of deletes may be wrong.
    return task.apply_deletes and bool(task.file.deletes or task.inlined_deletes)


def _layout(task: FileTask, footer: Footer) -> ReadLayout | None:
    file, fields = task.file, footer.fields
    has_ids = any(node.id is not None for node in fields)
    if file.partial_rows or not has_unique_names([node.name for node in fields]):
        return None
    if not all(spark_can_write(name) for name in _names(task, fields)):
        return None
    # Columns that Spark and our reader add to those of a file have these names.
    if any(node.name.lower() in ("_metadata", NUMBERS, FILE_SIZE) for node in fields):
        return None
    if task.name_mapping is None and not has_ids:
        return None
    columns = [_column(task, footer, column) for column in task.context.read_columns]
    read_columns = tuple(column for column in columns if column is not None)
    if len(read_columns) != len(columns):
        return None
    first, last = _bounds(task)
    is_mixed = first is not None or last is not None
    row_id = _internal(fields, INTERNAL_ROW_ID, INTERNAL_ROW_ID_FIELD)
    snapshot = _internal(fields, INTERNAL_SNAPSHOT, INTERNAL_SNAPSHOT_FIELD)
    if any(node is not None and node.type != "int64" for node in (row_id, snapshot)):
        return None
    if (is_mixed and snapshot is None) or (
        "rowid" in read_columns and row_id is None and file.row_id_start is None
    ):
        return None
    return ReadLayout(
        columns=read_columns,
        row_id=row_id.name if row_id and "rowid" in read_columns else None,
        snapshot=snapshot.name
        if snapshot and (is_mixed or "snapshot_id" in read_columns)
        else None,
        first_snapshot=first,
        last_snapshot=last,
        has_deletes=_has_deletes(task),
    )


def _names(task: FileTask, fields: Sequence[ParquetField]) -> Iterator[str]:
    """Yield all names of a file's fields and of the plan's columns, with nested ones."""
    waiting: list[ParquetField | Column] = list(fields)
    waiting += [column for column in task.context.read_columns if isinstance(column, Column)]
    while waiting:
        node = waiting.pop()
        waiting += node.children
        yield node.name


def _column(
    task: FileTask, footer: Footer, column: Column | str
) -> FileColumn | ConstantColumn | str | None:
    if isinstance(column, str):
        return column
    node = find_node(footer.fields, column, task.name_mapping)
    if node is not None:
        return file_column(node, column, mapped=task.name_mapping is not None)
    entry = (task.name_mapping or {}).get(column.id)
    if entry is None or not entry.is_partition:
        return literal(column, column.initial_default)
    is_text = column.type == "varchar"
    return literal(column, hive_value(task.file.path, entry.source_name, is_text=is_text))


def _internal(fields: Sequence[ParquetField], name: str, number: int) -> ParquetField | None:
    """Return a field that DuckLake stores beside the table's columns."""
    return next((node for node in fields if node.id == number or node.name == name), None)


def _bounds(task: FileTask) -> tuple[int | None, int | None]:
    """Return the first and last snapshot to read from a file with rows of several snapshots."""
    file, first, last = task.file, task.first_snapshot, task.context.snapshot
    if file.partial_max is None:
        return None, None
    return (
        first if first is not None and file.begin_snapshot < first else None,
        last if file.partial_max > last else None,
    )


def _split_equal_sizes(layout: ReadLayout, files: Sequence[ParquetFile]) -> list[ParquetScan]:
    """Split the files of a layout into scans in which each size occurs once."""
    scans: list[list[ParquetFile]] = []
    seen: dict[int | str, int] = defaultdict(int)
    for file in files:
        key = file.footer.size if layout.needs_files else file.task.file.path
        if seen[key] == len(scans):
            scans.append([])
        scans[seen[key]].append(file)
        seen[key] += 1
    return [ParquetScan(layout, tuple(scan)) for scan in scans]

"""The source of a merge on an engine: its rows in the table's types, numbered, with their ranges.

Rows pass from task to task as Arrow bytes, in a column of binary values: no type of the engine
comes between, and DuckDB evaluates the same expressions as in one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from lakeport.arrow import SchemaAdapter
from lakeport.ducklake.writing.changes.expressions import Workspace, open_workspace
from lakeport.ducklake.writing.files.fitting import column_converter
from lakeport.ducklake.writing.tasks.messages import (
    TaskReport,
    pack_report,
    pack_rows,
    unpack_rows,
)
from lakeport.ducklake.writing.tasks.names import Attempt
from lakeport.errors import InvalidInputError, LakeportError, first_line
from lakeport.types import Column, arrow_schema, duckdb_identifier, fold_name

__all__ = [
    "Item",
    "Side",
    "SourceFitter",
    "SourceTask",
    "StagedRows",
    "divided",
    "staged_rows",
]

_BLOB_BYTES: Final = 8 << 20
_FEW_BYTES: Final = 64 << 10
_MAX_HASHES: Final = 1 << 18
"""How many hashes a task of the source returns at most: two MiB."""
_NUMBERS_PER_TASK: Final = 40


class Side(IntEnum):
    """What the bytes of an item are."""

    REPORT = 0
    SOURCE = 1
    TARGET = 2
    READS = 3
    MATCHES = 4
    INSERTS = 5
    UPDATES = 6


Item: TypeAlias = tuple[int, int, bytes]
"""The task that gets it, its side, and its bytes."""


@dataclass(frozen=True, slots=True)
class SourceFitter:
    """Converts columns of a DataFrame to the types of the columns of a table with their names.

    Columns of other names keep their types, and so do columns that cannot have the table's.
    """

    frame: pa.Schema
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the fitted rows."""
        return pa.schema([field for field, _ in self._converters()])

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches in the types of the table."""
        fields, converters = zip(*self._converters(), strict=True)
        schema = pa.schema(fields)
        for batch in batches:
            try:
                arrays = [
                    array if convert is None else convert(array)
                    for array, convert in zip(batch.columns, converters, strict=True)
                ]
            except pa.ArrowException as error:
                raise InvalidInputError(
                    f"the source of the merge has values that the table cannot hold: "
                    f"{first_line(error)}"
                ) from None
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _converters(self) -> Iterator[tuple[pa.Field, Callable[[pa.Array], pa.Array] | None]]:
        known = {fold_name(column.name): column for column in self.columns}
        for field in self.frame:
            column = known.get(fold_name(field.name))
            if column is None:
                yield field, None
                continue
            try:
                converter = column_converter(field.type, column, column.name, stand_ins=True)
            except LakeportError:
                yield field, None
            else:
                yield arrow_schema([column]).field(0).with_name(field.name), converter


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTask:
    """Numbers the rows of a partition of the source, and finds the ranges of its keys."""

    fitter: SourceFitter
    keys: tuple[str, ...]
    """The columns that must be equal to columns of the table."""
    number: str
    """The name of the column of numbers, which follows the others."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows, with their numbers."""
        return pa.schema([*self.fitter.schema, pa.field(self.number, pa.int64())])

    @property
    def key_schema(self) -> pa.Schema:
        """The columns of the keys, which may be NULL."""
        schema = self.fitter.schema
        return pa.schema([(key, schema.field(key).type) for key in self.keys])

    def run(self, batches: Iterable[pa.RecordBatch], attempt: Attempt) -> Iterator[Item]:
        """Yield the rows as bytes, and then a report."""
        schema = self.schema
        first = attempt.task << _NUMBERS_PER_TASK
        rows = size = 0
        bounds: list[pa.Table] = []
        hashes: list[bytes] = []
        few: list[pa.Table] = []
        with open_workspace() as workspace:
            for part in _buffered(self.fitter(self._laid_out(batches))):
                numbers = pa.array(np.arange(first + rows, first + rows + part.num_rows))
                numbered = part.append_column(schema.field(self.number), numbers)
                rows += part.num_rows
                size += part.nbytes
                bounds.append(self._bounds(workspace, numbered))
                if rows <= _MAX_HASHES:
                    hashes.append(self._hashes(workspace))
                if size <= _FEW_BYTES:
                    few.append(numbered)
                yield 0, Side.SOURCE, pack_rows(numbered, compression="lz4")
        found = {
            "rows": rows,
            "bytes": size,
            "bounds": pack_rows(pa.concat_tables(bounds)) if bounds else None,
            "hashes": b"".join(hashes) if rows <= _MAX_HASHES else None,
        }
        returned = pa.concat_tables(few) if size <= _FEW_BYTES and few else None
        report = TaskReport(attempt=attempt, rows=returned, result=found)
        yield 0, Side.REPORT, pack_report(report)

    def _laid_out(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Spark chooses the layout: the time zone of instants, the width of offsets.
        for batch in batches:
            if batch.num_rows:
                yield SchemaAdapter(batch.schema, self.fitter.frame, "the DataFrame")(batch)

    def _bounds(self, workspace: Workspace, rows: pa.Table) -> pa.Table:
        """Return the least and the greatest values of the keys as two rows."""
        workspace.register("source_rows", rows.select(self.keys))
        names = [duckdb_identifier(key) for key in self.keys]
        ends = (", ".join(f"{end}({name}) AS {name}" for name in names) for end in ("min", "max"))
        sql = " UNION ALL ".join(f"SELECT {end} FROM source_rows" for end in ends)
        return workspace.stream(sql, self.key_schema).read_all()

    def _hashes(self, workspace: Workspace) -> bytes:
        sql = f"SELECT DISTINCT hash({key_list(self.keys)}) FROM source_rows"
        found = workspace.stream(sql, pa.schema([("hash", pa.uint64())])).read_all()
        hashes: bytes = found.column(0).to_numpy().tobytes()
        return hashes


@dataclass(frozen=True, slots=True)
class StagedRows:
    """What the tasks of a source have found about all of its rows."""

    rows: int
    bytes: int
    bounds: pa.Table
    """The least and greatest keys of each part of the source."""
    hashes: pa.Table | None
    """The hashes of all keys; None if they are too many."""
    few: pa.Table | None
    """All rows, if every task had few."""


def staged_rows(reports: Sequence[TaskReport], task: SourceTask) -> StagedRows:
    """Return what reports of all tasks of a source contain."""
    found = [report.result for report in reports]
    bounds = [unpack_rows(each["bounds"]) for each in found if each["bounds"] is not None]
    hashes = None
    if all(each["hashes"] is not None for each in found):
        values = np.frombuffer(b"".join(each["hashes"] for each in found), np.uint64)
        hashes = pa.table({"hash": pa.array(np.unique(values))})
    few = None
    if all(report.rows is not None or not report.result["rows"] for report in reports):
        parts = [report.rows for report in reports if report.rows is not None]
        few = pa.concat_tables(parts) if parts else task.schema.empty_table()
    return StagedRows(
        rows=sum(each["rows"] for each in found),
        bytes=sum(each["bytes"] for each in found),
        bounds=pa.concat_tables(bounds) if bounds else task.key_schema.empty_table(),
        hashes=hashes,
        few=few,
    )


def divided(batches: Iterable[pa.RecordBatch], side: Side) -> Iterator[Item]:
    """Yield rows as bytes for the parts that their last column has; the column is removed."""
    for rows in _buffered(batches):
        parts = rows.column(rows.num_columns - 1).to_numpy()
        order = np.argsort(parts, kind="stable")
        ordered = rows.drop_columns(rows.column_names[-1:]).take(pa.array(order))
        numbers = parts[order]
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        for start, stop in zip(starts, [*starts[1:], len(numbers)], strict=True):
            part = ordered.slice(start, stop - start)
            yield int(numbers[start]), side, pack_rows(part, compression="lz4")


def key_list(names: Sequence[str]) -> str:
    """Return the columns of keys as arguments of a function."""
    return ", ".join(duckdb_identifier(name) for name in names)


def _buffered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield batches together, in tables of some MiB."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= _BLOB_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)

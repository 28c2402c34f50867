"""Checks that read data files: footers, field ids, row counts, and statistics against the data.

Without `deep` they read some files, spread over the tables.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow as pa

from lakeport.arrow import thread_connection
from lakeport.ducklake.maintenance.doctor.examination import Examination, Flaw, report
from lakeport.ducklake.maintenance.doctor.findings import Action, Finding, RowChange, Severity
from lakeport.ducklake.model import DataFile
from lakeport.ducklake.reading.parquet import open_parquet
from lakeport.ducklake.reading.tasks import FileTask
from lakeport.errors import LakeportError, first_line
from lakeport.filters import Filter
from lakeport.types import Column, duckdb_identifier, duckdb_string, sql_type

if TYPE_CHECKING:
    from lakeport.ducklake.lake import Lake
    from lakeport.ducklake.table import LakeTable

__all__ = ["check_contents"]

_FILE_STATS: Final = "ducklake_file_column_stats"
_TABLE_STATS: Final = "ducklake_table_column_stats"
_FILES_AT_ONCE: Final = 256
_REPORTED_FILES: Final = 100
_FLOATS: Final = ("float32", "float64")
_SCALAR: Final = (
    "boolean", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float32", "float64", "date", "time", "timestamp", "timestamptz", "varchar",
)  # fmt: skip


def check_contents(exam: Examination, lake: Lake) -> Iterator[Finding]:
    """Read files of every table and compare them with what the catalog records."""
    broken: list[Flaw] = []
    fields: list[Flaw] = []
    wrong: list[Flaw] = []
    twice: list[Flaw] = []
    for found in exam.each(lambda file: _examined(exam, file), _chosen(exam, lake)):
        broken += found.broken
        fields += found.fields
        wrong += found.wrong
        exam.files_read += 1
        if exam.files_read % _REPORTED_FILES == 0:
            exam.progress(f"{check_contents.__name__}, {exam.files_read:,} files")
    if exam.deep:
        for table_id in exam.copy.column("SELECT table_id FROM live_table ORDER BY 1"):
            table = _table(lake, table_id, exam.copy.latest)
            if table is not None and not any(flaw.table_id == table_id for flaw in broken):
                twice += _repeated_row_ids(table_id, table)
    yield from report(
        exam,
        broken,
        check="broken_files",
        severity=Severity.ERROR,
        what="data files cannot be read, or are not the files that were committed",
        effect="scans of the table fail",
        remedy="restore them from a backup, or restore the table to a snapshot without them",
    )
    yield from report(
        exam,
        fields,
        check="field_ids",
        severity=Severity.WARNING,
        what="data files have no field ids, or other types than the table's columns",
        effect="columns read as NULL or as their default, or scans fail",
        remedy="check which program wrote the files; add them again with a name mapping",
    )
    yield from report(
        exam,
        wrong,
        check="wrong_statistics",
        severity=Severity.ERROR,
        what="the statistics of data files do not contain their data",
        effect="filters, min() and max() lose rows",
        remedy="remove the bounds, so that readers do not rely on them",
    )
    yield from report(
        exam,
        twice,
        check="repeated_row_ids",
        severity=Severity.ERROR,
        what="rows of the table have the same row id",
        effect="updates and change feeds mix up rows",
        remedy="write the rows again with overwrite()",
    )


@dataclass(frozen=True, slots=True)
class _File:
    """A data file to read, the table as a snapshot has it, and the recorded statistics."""

    table_id: int
    file: DataFile
    table: LakeTable | None
    recorded: dict[int, Sequence[Any]]


@dataclass(frozen=True, slots=True)
class _Examined:
    broken: Sequence[Flaw] = ()
    fields: Sequence[Flaw] = ()
    wrong: Sequence[Flaw] = ()


def _chosen(exam: Examination, lake: Lake) -> Iterator[_File]:
    """Yield the files to read, with what the catalog records about many of them at once."""
    tables: dict[tuple[int, int], LakeTable | None] = {}
    chosen = exam.chosen(exam.needed_files(), "SELECT count(*) FROM needed_file")
    while part := list(islice(chosen, _FILES_AT_ONCE)):
        recorded: dict[int, dict[int, Sequence[Any]]] = defaultdict(dict)
        for row in exam.copy.rows(
            "SELECT data_file_id, column_id, min_value, max_value, null_count, contains_nan, "
            f"value_count FROM {_FILE_STATS} WHERE data_file_id IN (SELECT unnest(?))",
            [[file.id for _, _, file in part]],
        ):
            recorded[row[0]][row[1]] = row[2:]
        for table_id, snapshot, file in part:
            place = table_id, snapshot
            if place not in tables:
                if len(tables) >= _FILES_AT_ONCE:
                    tables.clear()
                tables[place] = _table(lake, table_id, snapshot)
            yield _File(table_id, file, tables[place], recorded[file.id])


def _examined(exam: Examination, each: _File) -> _Examined:
    """Read one file; runs in several threads."""
    problem = _footer_problem(exam, each.file)
    if problem is not None:
        return _Examined(broken=[Flaw(each.table_id, problem)])
    if each.table is None:
        return _Examined()
    return _Examined(
        fields=list(_field_problems(exam, each.table_id, each.file, each.table)),
        wrong=list(_wrong_statistics(each.table_id, each.file, each.table, each.recorded)),
    )


def _table(lake: Lake, table_id: int, snapshot: int) -> LakeTable | None:
    try:
        return lake.table_by_id(table_id, snapshot)
    except LakeportError:
        return None


def _footer_problem(exam: Examination, file: DataFile) -> str | None:
    """Open a file, which compares size, footer and number of rows with the catalog."""
    try:
        open_parquet(exam.storage, file.recorded).close()
    except (LakeportError, OSError) as error:
        return str(error)
    return None


def _field_problems(
    exam: Examination, table_id: int, file: DataFile, table: LakeTable
) -> Iterator[Flaw]:
    if file.mapping_id is not None:
        return
    source = open_parquet(exam.storage, file.recorded)
    shape = source.shape
    source.close()
    if not shape.has_field_ids:
        yield Flaw(table_id, f"{file.path} has no field ids")
        return
    for column in table.columns:
        # A rewritten file lacks columns that were added after its rows were written.
        try:
            shape.stored(column)
        except LakeportError as error:
            yield Flaw(table_id, f"column {column.name} of {file.path}: {error}")


def _wrong_statistics(
    table_id: int, file: DataFile, table: LakeTable, recorded: dict[int, Sequence[Any]]
) -> Iterator[Flaw]:
    """Compare bounds, nulls and NaN of scalar columns with the data, deleted rows included."""
    columns = [
        column
        for column in table.columns
        if _is_scalar(column) and any(recorded.get(column.id, (None,))[2:])
    ]
    try:
        task = _task(table, file, columns)
    except LakeportError:
        return  # another check names the reason
    if task is None:
        return
    conditions = ", ".join(_contained(column, recorded[column.id]) for column in columns)
    try:
        source = thread_connection().from_arrow(
            pa.RecordBatchReader.from_batches(task.schema, task.read())
        )
        # Conditions without an aggregate would have a row for each row: the count makes it one.
        ((*verdicts, _),) = source.aggregate(f"{conditions}, count(*)").fetchall()
    except (LakeportError, OSError, pa.ArrowException, duckdb.Error) as error:
        yield Flaw(table_id, f"{file.path}: {first_line(error)}")
        return
    for column, is_contained in zip(columns, verdicts, strict=True):
        if not is_contained:
            low, high = recorded[column.id][:2]
            yield Flaw(
                table_id,
                f"column {column.name} of {file.path}: {low!r} to {high!r}",
                _forget(table_id, file.id, column),
                [f"altered_table:{table_id}"],
            )


def _is_scalar(column: Column) -> bool:
    return column.type in _SCALAR or column.type.startswith("decimal")


def _task(table: LakeTable, file: DataFile, columns: Sequence[Column]) -> FileTask | None:
    """Return the task that reads columns of a file; None if there is nothing to read."""
    if not columns:
        return None
    planner = table.planner
    return FileTask(
        context=planner.context([column.name for column in columns], Filter.always()),
        estimated_rows=file.record_count or 0,
        estimated_bytes=file.file_size_bytes or 0,
        file=file,
        name_mapping=planner.state.name_mapping_of(file),
        # The statistics contain deleted rows as well.
        apply_deletes=False,
    )


def _contained(column: Column, recorded: Sequence[Any]) -> str:
    """Return an aggregate that is true if the values of a column are as recorded."""
    low, high, nulls, nan, _ = recorded
    name, type = duckdb_identifier(column.name), sql_type(column)
    is_float = column.type in _FLOATS
    known = f" FILTER (NOT isnan({name}))" if is_float else ""
    conditions = ["true"]
    for bound, function, operator in ((low, "min", ">="), (high, "max", "<=")):
        if bound is not None:
            limit = f"TRY_CAST({duckdb_string(bound)} AS {type})"
            found = f"{function}({name}){known}"
            conditions.append(f"({found} IS NULL OR coalesce({found} {operator} {limit}, false))")
    if nulls is not None:
        conditions.append(f"count(*) - count({name}) = {int(nulls)}")
    if is_float and nan is False:
        conditions.append(f"NOT coalesce(bool_or(isnan({name})), false)")
    return " AND ".join(conditions)


def _forget(table_id: int, file_id: int, column: Column) -> list[Action]:
    """Return the changes after which readers do not rely on the statistics of a column."""
    of_file = {"data_file_id": file_id, "column_id": column.id}
    values: dict[str, Any] = {"min_value": None, "max_value": None, "null_count": None}
    if column.type in _FLOATS:
        values["contains_nan"] = True
    return [
        RowChange(_FILE_STATS, of_file, values),
        RowChange(_TABLE_STATS, {"table_id": table_id, "column_id": column.id}),
    ]


def _repeated_row_ids(table_id: int, table: LakeTable) -> Iterator[Flaw]:
    try:
        ids = table.scan(["rowid"]).to_arrow()
    except LakeportError:
        return
    repeated = ids.num_rows - len(ids.column(0).unique())
    if repeated:
        yield Flaw(table_id, f"{repeated} of {ids.num_rows} rows")

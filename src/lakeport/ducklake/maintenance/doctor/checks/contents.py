"""Checks that read data files: footers, field ids, row counts, and statistics against the data.

Without `deep` they read some files, spread over the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
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
from lakeport.types import Column, duckdb_identifier, duckdb_string, sql_type

if TYPE_CHECKING:
    from lakeport.ducklake.lake import Lake
    from lakeport.ducklake.table import LakeTable

__all__ = ["check_contents"]

_FILE_STATS: Final = "ducklake_file_column_stats"
_TABLE_STATS: Final = "ducklake_table_column_stats"
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
    files = _chosen(exam)
    tables: dict[int, LakeTable | None] = {}
    for table_id, file in files:
        exam.files_read += 1
        if table_id not in tables:
            tables[table_id] = _table(lake, table_id, exam.copy.latest)
        table = tables[table_id]
        problem = _footer_problem(exam, file)
        if problem is not None:
            broken.append(Flaw(table_id, problem))
        elif table is not None:
            fields += _field_problems(exam, table_id, file, table)
            wrong += _wrong_statistics(exam, table_id, file, table)
    if exam.deep:
        for table_id, table in tables.items():
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


def _chosen(exam: Examination) -> list[tuple[int, DataFile]]:
    """Return the files to read: all of them, or some of every table."""
    files = list(exam.data_files())
    if exam.deep or len(files) <= exam.sample:
        return files
    step = len(files) / max(exam.sample, 1)
    return [files[int(number * step)] for number in range(exam.sample)]


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
    exam: Examination, table_id: int, file: DataFile, table: LakeTable
) -> Iterator[Flaw]:
    """Compare bounds, nulls and NaN of scalar columns with the data, deleted rows included."""
    recorded = {
        row[0]: row[1:]
        for row in exam.copy.rows(
            "SELECT column_id, min_value, max_value, null_count, contains_nan, value_count "
            f"FROM {_FILE_STATS} WHERE data_file_id = ?",
            [file.id],
        )
    }
    columns = [
        column
        for column in table.columns
        if _is_scalar(column) and any(recorded.get(column.id, (None,))[2:])
    ]
    task = _task(table, file, columns)
    if task is None:
        return
    conditions = ", ".join(_contained(column, recorded[column.id]) for column in columns)
    try:
        # Deleted rows are read as well: the statistics contain them.
        rows = replace(task, apply_deletes=False).read()
        source = thread_connection().from_arrow(
            pa.RecordBatchReader.from_batches(task.schema, rows)
        )
        (verdicts,) = source.aggregate(conditions).fetchall()
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
    try:
        plan = table.scan([column.name for column in columns], task_bytes=1 << 62).plan
    except LakeportError:
        # Another check names the reason.
        return None
    tasks = (task for task in plan.tasks if isinstance(task, FileTask))
    return next((task for task in tasks if task.file.id == file.id), None)


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

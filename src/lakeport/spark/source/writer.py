"""`df.write.format("ducklake")`: tasks write files, and a process beside the driver commits them.

Spark makes the writer in one Python process, writes in the executors, and calls `commit` or `abort`
in a third process on the driver's machine. None of them has objects of the user's session, so the
lake is opened again for each step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from lakeport.ducklake.writing import TableWriter
from lakeport.ducklake.writing.distributed import evolve_columns, file_target
from lakeport.ducklake.writing.tasks import (
    AppendTask,
    TaskReport,
    WrittenRows,
    delete_leftovers,
    few_rows_of,
    new_job,
    pack_report,
    rows_of_reports,
    unpack_report,
)
from lakeport.errors import (
    ConflictError,
    InvalidArgumentError,
    UnknownOutcomeError,
    UnsupportedError,
)
from lakeport.spark.frames.columns import arrow_schema
from lakeport.spark.source.options import SourceOptions
from lakeport.spark.writing.appends import distinct_columns
from lakeport.spark.writing.worker import current_attempt

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["LakeWriter", "WriteOptions"]

_DYNAMIC: Final = "partitionoverwritemode"
_NAMES: Final = {"where": "where", "replacewhere": "where", "mergeschema": "mergeschema"}
_READ_ONLY: Final = ("columns", "filter", "version", "timestamp", "versionasof", "timestampasof")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Which table is written, and what becomes of the rows that it has."""

    source: SourceOptions
    overwrite: bool
    where: str | None = None
    dynamic: bool = False
    merge_schema: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str], *, overwrite: bool) -> Self:
        """Parse the options of a writer; names are case-insensitive."""
        values = {key.lower(): value for key, value in options.items()}
        own = {_NAMES[key]: values.pop(key) for key in list(values) if key in _NAMES}
        mode = values.pop(_DYNAMIC, "static").lower()
        for name in _READ_ONLY:
            if name in values:
                raise InvalidArgumentError(f"the option {name!r} is for reading, not for writing")
        if mode not in ("static", "dynamic"):
            raise InvalidArgumentError(
                f"the option partitionOverwriteMode is 'static' or 'dynamic', not {mode!r}"
            )
        if not overwrite and (mode == "dynamic" or "where" in own):
            raise InvalidArgumentError(
                "the options 'where' and 'partitionOverwriteMode' need mode('overwrite')"
            )
        return cls(
            source=SourceOptions.parse(values),
            overwrite=overwrite,
            where=own.get("where"),
            dynamic=mode == "dynamic",
            merge_schema=own.get("mergeschema", "false").lower() == "true",
        )


class LakeWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Appends the rows of a DataFrame to a table, or replaces rows by them, in one snapshot."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        """Plan the write at the newest snapshot."""
        columns = distinct_columns(schema)
        for column in columns:
            if column.expression != "{}":
                raise UnsupportedError(
                    f"the format 'ducklake' cannot write column {column.name!r} of a type that "
                    "Arrow does not have: cast it, or write with lake.table(…).append(df)"
                )
        self._options = options
        self._rows = arrow_schema(columns)
        with options.source.open() as lake:
            writer = self._table(lake.transaction())
            self._table_id = writer.id
            self._task = AppendTask(
                target=file_target(writer),
                source=self._rows,
                job=new_job(),
                few_rows=few_rows_of(writer.inlining_limit),
            )
        self._task.fitter()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        return _Report(pack_report(self._task.run(iterator, current_attempt())))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the files of all tasks visible as one snapshot."""
        reports = [unpack_report(m.report) for m in messages if isinstance(m, _Report)]
        try:
            self._commit(reports)
        except UnknownOutcomeError:
            raise  # the files may be part of the lake
        except BaseException:
            delete_leftovers(self._task.target, self._task.job, ())
            raise
        # Files of attempts that were not needed; Spark reports them to no caller.
        delete_leftovers(self._task.target, self._task.job, reports)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        """Delete the files of all tasks."""
        delete_leftovers(self._task.target, self._task.job, ())

    def _commit(self, reports: list[TaskReport]) -> None:
        written = WrittenRows(
            files=tuple(file for report in reports for file in report.files),
            rows=rows_of_reports(reports, self._task.target.columns),
        )
        options = self._options
        with options.source.open() as lake, lake.transaction() as transaction:
            writer = self._table(transaction)
            if writer.id != self._table_id or file_target(writer) != self._task.target:
                raise ConflictError(
                    f"table {options.source.name} was changed while rows were written to it: write "
                    "them again"
                )
            if options.overwrite:
                writer.overwrite(written, options.where, dynamic=options.dynamic)
            else:
                writer.append(written)

    def _table(self, transaction: Any) -> TableWriter:
        """Return the table with the columns that it has after the write."""
        writer: TableWriter = transaction.table(
            self._options.source.name, self._options.source.schema
        )
        if self._options.merge_schema:
            evolve_columns(writer, self._rows)
        return writer


@dataclass(frozen=True)
class _Report(WriterCommitMessage):  # type: ignore[misc]
    report: bytes

"""A stream into a table of a lake: `df.writeStream.format("ducklake")`.

Spark makes the writer in one process, which plans how files are written; tasks write them in the
executors; and another writer in another process commits each batch. The batch is recorded in the
transaction of its rows, under the id of the query. A batch that Spark runs again, because it was
stopped before it had recorded the end of the batch, is found there and not written twice.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from lakeport.ducklake.writing.distributed import file_target
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
from lakeport.spark.source.planning_errors import errors_in_one_sentence
from lakeport.spark.source.stream_options import StreamWriteOptions
from lakeport.spark.writing.appends import distinct_columns
from lakeport.spark.writing.worker import current_attempt

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from lakeport.ducklake import Lake
    from lakeport.ducklake.writing import TableWriter, Transaction
    from lakeport.ducklake.writing.files import FileTarget

__all__ = ["DuckLakeStreamWriter"]

_log = logging.getLogger("lakeport.spark")

# Properties that Spark gives the tasks of a batch.
_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"


@dataclass(frozen=True)
class _Message(WriterCommitMessage):  # type: ignore[misc]
    """What one task has written, for the process that commits."""

    report: bytes
    job: str
    layout: str
    query: str | None


class DuckLakeStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes the batches of a stream, each of them once."""

    def __init__(self, options: StreamWriteOptions, schema: StructType, *, overwrite: bool) -> None:
        self._options = options
        self._overwrite = overwrite
        columns = distinct_columns(schema)
        for column in columns:
            if column.expression != "{}":
                raise UnsupportedError(
                    f"column {column.name!r} of the stream has a type that Arrow does not have: "
                    "cast it to another type"
                )
        with options.source.open() as lake, lake.transaction() as transaction:
            writer = transaction.table(options.source.name, options.source.schema)
            self._task = AppendTask(
                target=file_target(writer),
                source=arrow_schema(columns),
                job=new_job(),
                few_rows=few_rows_of(writer.inlining_limit),
            )
        # An error of the columns is raised here, before any task runs.
        self._task.fitter()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task of a batch."""
        from pyspark import TaskContext

        context = TaskContext.get()
        query, batch = (
            (None, None)
            if context is None
            else (context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH))
        )
        # Files that no task reports are found by the job and the batch.
        job = f"{self._task.job}b{batch or 0}"
        report = replace(self._task, job=job).run(iterator, current_attempt())
        return _Message(pack_report(report), job, _layout(self._task.target), query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commit a batch, unless it has been committed before."""
        found = [message for message in messages if isinstance(message, _Message)]
        if not found:
            return
        reports = [unpack_report(message.report) for message in found]
        with errors_in_one_sentence(), self._options.source.open() as lake:
            try:
                is_new = self._commit(lake, batchId, found, reports)
            except UnknownOutcomeError:
                raise  # the files may be part of the lake
            except BaseException as error:
                self._delete(found, ())
                if not isinstance(error, ConflictError) or self._is_new(lake, batchId, found):
                    raise
                return  # another process has committed the batch
            if not is_new:
                _log.info("batch %d is in the lake already", batchId)
                self._delete(found, ())
            elif any(report.attempt.number for report in reports):
                self._delete(found, reports)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Delete the files of a batch that failed."""
        self._delete([message for message in messages if isinstance(message, _Message)], ())

    def _commit(
        self, lake: Lake, batch: int, messages: Sequence[_Message], reports: Sequence[TaskReport]
    ) -> bool:
        """Commit what tasks have written; return False if the batch has been committed before."""
        application = self._application(messages)
        with lake.transaction(message=f"batch {batch} of {application}") as transaction:
            table = self._table(transaction)
            if not table.begin_batch(application, batch):
                return False
            self._check_layout(table, messages)
            written = WrittenRows(
                files=tuple(file for report in reports for file in report.files),
                rows=rows_of_reports(reports, table.columns),
            )
            if self._overwrite:
                table.overwrite(written)
            else:
                table.append(written)
        return True

    def _is_new(self, lake: Lake, batch: int, messages: Sequence[_Message]) -> bool:
        """Return whether the lake does not have a batch."""
        transaction = lake.transaction()
        try:
            return self._table(transaction).begin_batch(self._application(messages), batch)
        finally:
            transaction.rollback()

    def _table(self, transaction: Transaction) -> TableWriter:
        return transaction.table(self._options.source.name, self._options.source.schema)

    def _application(self, messages: Sequence[_Message]) -> str:
        """Return the name under which batches are recorded."""
        found = self._options.application or messages[0].query
        if not found:
            raise InvalidArgumentError(
                "Spark has not given the id of the query to its tasks: set the option "
                "'application' to a name that the query keeps"
            )
        return found

    def _check_layout(self, table: TableWriter, messages: Sequence[_Message]) -> None:
        """Raise ConflictError if the files were written for other columns or partitions."""
        layout = _layout(file_target(table))
        if any(message.layout != layout for message in messages):
            definition = table.definition
            raise ConflictError(
                f"the table {definition.schema.name}.{definition.name} was altered while the "
                "stream ran: start the query again, with the same checkpoint"
            )

    def _delete(self, messages: Sequence[_Message], reports: Sequence[TaskReport]) -> None:
        """Delete the files of a batch that no report lists."""
        for job in {message.job for message in messages}:
            delete_leftovers(self._task.target, job, reports)


def _layout(target: FileTarget) -> str:
    """Return a text that is the same for targets whose files are alike."""
    nodes = [(n.id, n.name, n.type, n.nullable) for c in target.columns for n in c.walk()]
    text = repr((nodes, target.partition_spec, target.directory, target.encrypted))
    return hashlib.sha256(text.encode()).hexdigest()

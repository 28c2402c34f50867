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

from lakeport.ducklake.writing import DataChanges
from lakeport.ducklake.writing.changes import file_target
from lakeport.ducklake.writing.tasks import (
    AppendTask,
    TaskReport,
    few_rows_of,
    leftover_files,
    new_job,
    pack_report,
    unpack_report,
)
from lakeport.errors import ConflictError, InvalidArgumentError, LakeportError, UnsupportedError
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
        with errors_in_one_sentence(), self._options.source.open() as lake:
            application = self._application(found)
            reports = [unpack_report(message.report) for message in found]
            try:
                self._commit(lake, application, batchId, found)
            except ConflictError:
                # The files are deleted. Another process may have committed the same batch.
                with lake.transaction() as transaction:
                    if self._table(transaction).begin_batch(application, batchId):
                        transaction.rollback()
                        raise
            if any(report.attempt.number for report in reports):
                self._delete_leftovers(found, reports)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Delete the files of a batch that failed."""
        self._delete_leftovers([m for m in messages if isinstance(m, _Message)], ())

    def _commit(
        self, lake: Lake, application: str, batch: int, messages: Sequence[_Message]
    ) -> None:
        reports = [unpack_report(message.report) for message in messages]
        files = tuple(file for report in reports for file in report.files)
        rows = [report.rows for report in reports if report.rows is not None]
        with lake.transaction(message=f"batch {batch} of {application}") as transaction:
            table = self._table(transaction)
            if not table.begin_batch(application, batch):
                _log.info("batch %d of %s is in the lake already", batch, application)
                self._delete([file.path for file in files])
                return
            self._check_layout(table, messages)
            if self._overwrite:
                table.delete()
            table.add(DataChanges(files=files))
            if rows:
                table.append(pa.concat_tables(rows))

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
            self._delete_leftovers(messages, ())
            raise ConflictError(
                f"the table {definition.schema.name}.{definition.name} was altered while the "
                "stream ran: start the query again, with the same checkpoint"
            )

    def _delete_leftovers(
        self, messages: Sequence[_Message], reports: Sequence[TaskReport]
    ) -> None:
        """Delete the files of a batch that no report lists."""
        target = self._task.target
        reported = [file.path for report in reports for file in report.files]
        for job in {message.job for message in messages}:
            try:
                paths = leftover_files(target.storage, target.directory, job, reported)
            except (OSError, LakeportError) as error:
                _log.warning("files of a batch in %s remain: %s", target.directory, error)
                continue
            self._delete(paths, directory="")

    def _delete(self, paths: Sequence[str], *, directory: str | None = None) -> None:
        target = self._task.target
        for path in paths:
            try:
                target.storage.delete((target.directory if directory is None else directory) + path)
            except (OSError, LakeportError) as error:
                _log.warning("the file %s of a batch remains: %s", path, error)


def _layout(target: FileTarget) -> str:
    """Return a text that is the same for targets whose files are alike."""
    nodes = [(n.id, n.name, n.type, n.nullable) for c in target.columns for n in c.walk()]
    text = repr((nodes, target.partition_spec, target.directory, target.encrypted))
    return hashlib.sha256(text.encode()).hexdigest()

"""A table of a lake as a stream: `spark.readStream.format("ducklake")`.

Spark keeps one reader in a process beside the driver, and asks it for offsets and partitions. A
copy of the reader reads each partition in an executor. The lake is opened for each question, so
that a catalog in a DuckDB file is not locked in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from lakeport.ducklake import Column, LocalEngine, ReadTask, arrow_type
from lakeport.errors import InvalidArgumentError, UnsupportedError
from lakeport.spark.frames.values import to_spark_batch
from lakeport.spark.source.planning_errors import errors_in_one_sentence
from lakeport.spark.source.stream_offsets import Limits, StreamOffset, StreamPosition
from lakeport.spark.source.stream_options import StreamReadOptions

admission: Any = None
_AvailableNow: Any = object
with suppress(ImportError):  # PySpark 4.1 has no admission control
    admission = import_module("pyspark.sql.streaming.datasource")
    _AvailableNow = admission.SupportsTriggerAvailableNow

__all__ = ["FEED_COLUMNS", "make_stream_reader", "stream_columns"]

FEED_COLUMNS: Final = (
    Column(id=0, name="snapshot_id", type="int64"),
    Column(id=0, name="rowid", type="int64"),
    Column(id=0, name="change_type", type="varchar"),
)
"""The columns before those of the table in a change feed."""

Columns: TypeAlias = tuple[Column, ...]


def stream_columns(columns: Columns, *, change_feed: bool) -> Columns:
    """Return the columns of a stream of a table."""
    own = {column.name.lower() for column in columns}
    for column in FEED_COLUMNS if change_feed else FEED_COLUMNS[:2]:
        if column.name in own:
            raise UnsupportedError(
                f"the table has a column called {column.name}, so it cannot be read as a stream"
            )
    return (*FEED_COLUMNS, *columns) if change_feed else columns


def make_stream_reader(
    options: Mapping[str, str], columns: Columns | None
) -> DataSourceStreamReader:
    """Return the reader for the version of PySpark; it checks the options when it is used."""
    return (_Reader if admission is None else _AdmissionReader)(options, columns)


class _Reader(DataSourceStreamReader):  # type: ignore[misc]
    """Reads a stream with the methods of PySpark 4.1, in which a source limits its batches."""

    def __init__(self, options: Mapping[str, str], columns: Columns | None) -> None:
        self._given = options
        self._table_columns = columns
        self._reached: StreamOffset | None = None
        self._last: int | None = None
        self._newest: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where a new stream starts."""
        with errors_in_one_sentence(), self._position() as position:
            self._reached = position.first()
            return self._reached.to_json()

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next batch after the last one that was planned."""
        with errors_in_one_sentence(), self._position() as position:
            # After a restart, the first batch of PySpark 4.1 has no known start.
            start = self._reached or position.first()
            limits = Limits() if self._reached is None else self._limits
            return position.next(start, limits, last=None).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return what the tasks of a batch read."""
        first, last = StreamOffset.from_json(start), StreamOffset.from_json(end)
        self._reached = last
        with errors_in_one_sentence(), self._position() as position:
            return list(_partitions(position, first, last, self._columns))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition in the layout of Spark."""
        # Without any task, Spark still reads one empty partition.
        if isinstance(partition, _RowsPartition):
            for batch in partition.read(self._columns):
                yield to_spark_batch(batch, self._columns)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark stores the offsets, and snapshots are expired by the lake's owner."""

    @cached_property
    def _options(self) -> StreamReadOptions:
        options = StreamReadOptions.parse(self._given)
        options.check()
        return options

    @cached_property
    def _columns(self) -> Columns:
        if self._table_columns is None:
            raise InvalidArgumentError("a table of a lake has its own schema: do not pass another")
        return stream_columns(self._table_columns, change_feed=self._options.change_feed)

    @property
    def _limits(self) -> Limits:
        options = self._options
        return Limits(files=options.max_files, rows=options.max_rows, bytes=options.max_bytes)

    @contextmanager
    def _position(self) -> Iterator[StreamPosition]:
        """Open the lake and find the table."""
        _ = self._columns
        with self._options.source.open() as lake:
            yield StreamPosition(lake, self._options.source.table(lake), self._options)


class _AdmissionReader(_Reader, _AvailableNow):  # type: ignore[misc]
    """Reads a stream with the methods of PySpark 4.2, in batches as large as Spark allows."""

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # type: ignore[override] # noqa: N802
        """Return the end of the next batch."""
        with errors_in_one_sentence(), self._position() as position:
            self._newest = position.lake.newest().id
            first = StreamOffset.from_json(start)
            return position.next(first, self._limited(limit), last=self._last).to_json()

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Return the limit of the options; Spark passes it to `latestOffset`."""
        # Spark calls it first.
        with errors_in_one_sentence():
            options = self._options
        if options.max_files is not None:
            return admission.ReadMaxFiles(options.max_files)
        if options.max_rows is not None:
            return admission.ReadMaxRows(options.max_rows)
        if options.max_bytes is not None:
            return admission.ReadMaxBytes(options.max_bytes)
        return admission.ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the newest offset that was seen, for the progress of the query."""
        return None if self._newest is None else {"snapshot": self._newest}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Record the newest snapshot: the query reads no later one."""
        with errors_in_one_sentence(), self._position() as position:
            self._last = position.lake.newest().id

    def _limited(self, limit: Any) -> Limits:
        """Return the limits of the options, if Spark does not read everything."""
        if isinstance(limit, admission.ReadAllAvailable):
            return Limits()
        if isinstance(limit, admission.ReadMinRows):
            return Limits(min_rows=limit.min_rows)
        return self._limits


@dataclass(frozen=True)
class _RowsPartition(InputPartition):  # type: ignore[misc]
    """The rows of one task that some snapshots have inserted, or their changes."""

    task: ReadTask
    first: int
    last: int
    skipped: tuple[int, ...]
    columns: Columns
    """The columns of the table when the task was planned."""
    is_feed: bool
    """The task reads the columns of the change feed."""

    def read(self, wanted: Columns) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the columns of the stream."""
        is_feed = wanted[: len(FEED_COLUMNS)] == FEED_COLUMNS
        for batch in self.task.read():
            if self.is_feed:
                arrays = _aligned(batch.columns[3:], self.columns, wanted[3:], batch.num_rows)
                arrays = [*batch.columns[:3], *arrays]
            else:
                rows = batch.filter(self._mask(batch.columns[-1]))
                *values, row_ids, snapshots = rows.columns
                own = wanted[3:] if is_feed else wanted
                arrays = _aligned(values, self.columns, own, rows.num_rows)
                if is_feed:
                    kinds = pa.repeat(pa.scalar("insert"), rows.num_rows)
                    arrays = [snapshots, row_ids, kinds, *arrays]
            names = [column.name for column in wanted]
            yield pa.RecordBatch.from_arrays(arrays, names=names)

    def _mask(self, snapshots: pa.Array) -> pa.Array:
        inside = pc.and_(
            pc.greater_equal(snapshots, self.first), pc.less_equal(snapshots, self.last)
        )
        if not self.skipped:
            return inside
        return pc.and_not(inside, pc.is_in(snapshots, value_set=pa.array(self.skipped)))


def _partitions(
    position: StreamPosition, start: StreamOffset, end: StreamOffset, columns: Columns
) -> Iterator[InputPartition]:
    """Yield the rows of the start of a stream, then the changes of snapshots."""
    if start == end:
        return
    if start.initial is not None:
        last = end.snapshot if end.initial is not None else start.initial
        at = position.initial_table(start).columns
        for row_task in position.initial_tasks(start):
            yield _RowsPartition(row_task, start.snapshot + 1, last, (), at, is_feed=False)
    first, last = start.base + 1, end.snapshot
    if end.initial is not None or first > last:
        return
    skipped = position.skipped(first, last)
    table = position.lake.table_by_id(start.table, last)
    feed = table.changes(first, last)
    is_feed = columns[: len(FEED_COLUMNS)] == FEED_COLUMNS
    tasks: Sequence[ReadTask] = (
        feed.tasks(engine=LocalEngine()) if is_feed else feed.insertions.plan.tasks
    )
    for task in tasks:
        yield _RowsPartition(task, first, last, skipped, table.columns, is_feed)


def _aligned(
    arrays: Sequence[pa.Array], columns: Columns, wanted: Columns, rows: int
) -> list[pa.Array]:
    """Return the columns of the stream: by their ids, NULL for those that the table had not."""
    places = {column.id: number for number, column in enumerate(columns)}
    found = []
    for column in wanted:
        place, type = places.get(column.id), arrow_type(column)
        if place is None:
            found.append(pa.nulls(rows, type))
            continue
        array = arrays[place]
        if arrow_type(columns[place]) != type:
            try:
                array = array.cast(type)
            except pa.ArrowException as error:
                raise UnsupportedError(
                    f"column {column.name!r} had the type {columns[place].type} before, and its "
                    f"values are no {column.type}: {error}"
                ) from None
        found.append(array)
    return found

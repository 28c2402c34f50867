"""Write a stream of rows as the data files of a table, in bounded memory.

Rows are fitted, divided by partition and collected into row groups in the caller's thread; a few
threads encode the row groups. After a failure or a cancellation no file of the writer remains.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, Final, Self

import pyarrow as pa

from lakeport.arrow import RowSource, reader_of
from lakeport.ducklake.storage.encryption import can_encrypt
from lakeport.ducklake.writing.files.encoding.arrow_encoder import (
    ArrowEncoder,
    Encoder,
)
from lakeport.ducklake.writing.files.encoding.duckdb_encoder import DuckDBEncoder
from lakeport.ducklake.writing.files.encoding.layout import (
    INTERNAL_FIELDS,
    FileLayout,
    needs_duckdb,
)
from lakeport.ducklake.writing.files.encoding.statistics import nan_leaves
from lakeport.ducklake.writing.files.fitting import RowFitter
from lakeport.ducklake.writing.files.names import (
    FileNamer,
    data_file_path,
    folder_of,
    partition_key_names,
)
from lakeport.ducklake.writing.files.partitions import Partitioner, Values
from lakeport.ducklake.writing.files.sorting import sorted_batches
from lakeport.ducklake.writing.files.target import FileTarget
from lakeport.ducklake.writing.written import WrittenFile
from lakeport.errors import CancelledError, InternalError, LakeportError
from lakeport.types import arrow_schema

__all__ = ["FileWriter", "write_files"]

_ROW_GROUP_BYTES: Final = 128 << 20
_BUFFER_BYTES: Final = 256 << 20
_PARALLEL_BYTES: Final = 128 << 20
_MAX_OPEN_FILES: Final = 64
_MAX_THREADS: Final = 4
_SPLIT_ROWS: Final = 122_880
_SMALL_BYTES: Final = 8 << 20


def write_files(
    target: FileTarget,
    rows: RowSource,
    *,
    internal: Sequence[str] = (),
    names: FileNamer = data_file_path,
    threads: int | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> list[WrittenFile]:
    """Write rows as new data files of a table; return the files, none for no rows.

    Args:
        target: The table, and where and how its files are written.
        rows: An Arrow table, batch or reader, a data frame, or anything with `__arrow_c_stream__`.
        internal: Names of DuckLake's own columns that follow the table's columns in the rows.
        names: Returns the path of each file before it is opened.
        threads: The number of threads that encode; by default as many as cores, at most 4.
        is_cancelled: Asked before each batch.
    """
    reader = reader_of(rows, arrow_schema(target.columns))
    fit = RowFitter(reader.schema, target.columns, internal=[INTERNAL_FIELDS[n] for n in internal])
    batches: Iterator[pa.RecordBatch] = (fit(batch) for batch in reader)
    if target.sort_order and target.options.sort_on_insert:
        batches = sorted_batches(batches, fit.schema, target.sort_order)
    with FileWriter(target, internal=internal, names=names, threads=threads) as writer:
        for batch in batches:
            if is_cancelled():
                raise CancelledError("the write was cancelled")
            writer.write(batch)
        return writer.close()


class FileWriter:
    """Writes batches that fit the table, in their order; a `with` block removes files on failure.

    The batches have the schema of `RowFitter`.
    """

    def __init__(
        self,
        target: FileTarget,
        *,
        internal: Sequence[str] = (),
        names: FileNamer = data_file_path,
        threads: int | None = None,
    ) -> None:
        self._target = target
        self._layout = FileLayout(target.columns, internal, exact=target.exact)
        self._names = names
        self._threads = threads or min(os.cpu_count() or 1, _MAX_THREADS)
        self._pool: Executor | None = None
        # Bounds the row groups that wait for an encoder.
        self._slots = threading.Semaphore(2 * self._threads)
        self._partitions: dict[Values, _Partition] = {}
        self._files: list[_OpenFile] = []
        # The files without a footer; the most recently used one is the last.
        self._unfinished: dict[_OpenFile, None] = {}
        self._unsplit: list[pa.RecordBatch] = []
        self._partitioner: Partitioner | None = None
        self._keys: tuple[str, ...] = ()
        if target.is_partitioned and target.partition_spec is not None:
            self._partitioner = Partitioner(target.partition_spec, target.columns)
            self._keys = partition_key_names(target.partition_spec.fields, target.columns)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch."""
        if not batch.num_rows:
            return
        if self._partitioner is None:
            self._add((), batch)
            return
        # Many small batches make one large one, because each partition of a batch costs a copy.
        self._unsplit.append(batch)
        if sum(part.num_rows for part in self._unsplit) >= _SPLIT_ROWS:
            self._split()

    def close(self) -> list[WrittenFile]:
        """Write what is left; return the files in the order in which they were opened."""
        self._split()
        if self._pool is None and sum(p.bytes for p in self._partitions.values()) < _SMALL_BYTES:
            # Threads cost more than a few rows.
            self._pool = _Inline()
        for partition in self._partitions.values():
            while partition.rows:
                self._encode(partition)
        for file in self._files:
            file.finish()
        written = [file.result() for file in self._files]
        self._shutdown()
        return written

    def abort(self) -> None:
        """Remove every file of this writer."""
        self._shutdown()
        for file in self._files:
            file.abort()
            # The error that ended the write is raised, not that of a file that remains.
            with contextlib.suppress(OSError, LakeportError):
                self._target.storage.delete(self._target.directory + file.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.abort()

    def _shutdown(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _split(self) -> None:
        if not self._unsplit or self._partitioner is None:
            return
        batches, self._unsplit = self._unsplit, []
        whole = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        for start in range(0, whole.num_rows, _SPLIT_ROWS):
            for values, rows in self._partitioner(whole.slice(start, _SPLIT_ROWS)):
                self._add(values, rows)
        while sum(p.bytes for p in self._partitions.values()) > _BUFFER_BYTES:
            self._encode(max(self._partitions.values(), key=lambda partition: partition.bytes))

    def _add(self, values: Values, batch: pa.RecordBatch) -> None:
        partition = self._partitions.get(values)
        if partition is None:
            partition = self._partitions[values] = _Partition(values)
        partition.add(batch)
        while partition.rows >= self._target.options.row_group_rows or (
            partition.bytes >= self._row_group_bytes and partition.rows > 1
        ):
            self._encode(partition)

    @property
    def _row_group_bytes(self) -> int:
        return self._target.options.row_group_bytes or _ROW_GROUP_BYTES

    def _encode(self, partition: _Partition) -> None:
        """Send the next row group of a partition to its file."""
        table = partition.take(self._target.options.row_group_rows, self._row_group_bytes)
        lane = partition.next_lane(self._lanes(partition))
        file = partition.files.get(lane)
        with_nan = nan_leaves(self._layout, table)
        if file is not None:
            file.wait()
            limit = self._target.options.target_file_bytes
            is_full = file.is_finished or file.bytes_written >= limit
            # The statistics of a column with NaN are switched off when a file is opened.
            if is_full or not with_nan <= file.with_nan:
                self._finish(file)
                with_nan |= file.with_nan
                file = None
        if file is None:
            file = partition.files[lane] = self._open(partition, with_nan)
        self._unfinished.pop(file, None)
        self._unfinished[file] = None
        self._slots.acquire()
        file.submit(table, self._slots.release)

    def _lanes(self, partition: _Partition) -> int:
        """Return how many files of a partition are written side by side.

        The order of rows decides which row groups a reader can skip, so sorted rows stay in order.
        """
        if self._target.is_partitioned or self._target.sort_order:
            return 1
        is_large = partition.total_bytes >= min(
            _PARALLEL_BYTES, self._target.options.target_file_bytes
        )
        return self._threads if is_large or self._target.options.files_per_thread else 1

    def _open(self, partition: _Partition, with_nan: frozenset[int]) -> _OpenFile:
        if len(self._unfinished) >= _MAX_OPEN_FILES:
            self._finish(next(iter(self._unfinished)))
        target = self._target
        has_folder = self._keys and target.options.hive_folders
        path = self._names(folder_of(self._keys, partition.values) if has_folder else "")
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="lakeport-encode")
        kind = DuckDBEncoder if self._needs_duckdb() else ArrowEncoder
        file = _OpenFile(
            path,
            with_nan,
            self._pool,
            lambda: kind(target, self._layout, path, partition.values, with_nan),
        )
        self._files.append(file)
        return file

    def _finish(self, file: _OpenFile) -> None:
        self._unfinished.pop(file, None)
        file.finish()

    def _needs_duckdb(self) -> bool:
        """Return whether DuckDB encodes the files.

        DuckDB 1.5 reads encrypted files of pyarrow only as a whole, and filters none of them.
        """
        target = self._target
        return needs_duckdb(target.columns) or (target.encrypted and can_encrypt())


class _Partition:
    """The rows of one partition that are not encoded yet, and its open files."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.files: dict[int, _OpenFile] = {}
        self.rows = self.bytes = self.total_bytes = 0
        self._batches: list[pa.RecordBatch] = []
        self._row_groups = 0

    def add(self, batch: pa.RecordBatch) -> None:
        size = batch.nbytes
        self._batches.append(batch)
        self.rows += batch.num_rows
        self.bytes += size
        self.total_bytes += size

    def take(self, most_rows: int, most_bytes: int) -> pa.Table:
        """Return the next row group."""
        table = pa.Table.from_batches(self._batches)
        count = min(most_rows, self.rows)
        if self.bytes > most_bytes:
            count = max(1, min(count, self.rows * most_bytes // self.bytes))
        rest = table.slice(count)
        self._batches = rest.to_batches()
        self.rows -= count
        self.bytes = sum(batch.nbytes for batch in self._batches)
        return table.slice(0, count)

    def next_lane(self, lanes: int) -> int:
        self._row_groups += 1
        return self._row_groups % lanes


class _Inline(Executor):
    """Runs each call at once, in the caller's thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 (raised by the future)
            future.set_exception(error)
        return future


class _OpenFile:
    """A file and its work in the pool: one row group at a time, in order."""

    def __init__(
        self,
        path: str,
        with_nan: frozenset[int],
        pool: Executor,
        make: Callable[[], Encoder],
    ) -> None:
        self.path = path
        self.with_nan = with_nan
        self._pool = pool
        self._make = make
        self._encoder: Encoder | None = None
        self._pending: Future[Any] | None = None
        self._closing: Future[WrittenFile] | None = None

    @property
    def is_finished(self) -> bool:
        return self._closing is not None

    @property
    def bytes_written(self) -> int:
        return self._encoder.bytes_written if self._encoder is not None else 0

    def submit(self, table: pa.Table, done: Callable[[], None]) -> None:
        def work() -> None:
            try:
                if self._encoder is None:
                    self._encoder = self._make()
                self._encoder.write(table)
            finally:
                done()

        self._pending = self._pool.submit(work)

    def wait(self) -> None:
        """Wait for the row group that is being encoded; raise its error."""
        if self._pending is not None:
            self._pending.result()
            self._pending = None

    def finish(self) -> None:
        """Write the footer in the pool."""
        if self._closing is None:
            self.wait()
            if self._encoder is not None:
                self._closing = self._pool.submit(self._encoder.close)

    def result(self) -> WrittenFile:
        if self._closing is None:
            raise InternalError(f"the file {self.path!r} was never written")
        return self._closing.result()

    def abort(self) -> None:
        if self._encoder is not None:
            self._encoder.abort()

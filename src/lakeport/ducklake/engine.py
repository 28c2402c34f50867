"""Engines: where the tasks of a scan run. In this process, on Spark, or wherever is better.

Reading, counting and change feeds need two operations of an engine: `stream` rows, and `run` tasks
that return something small. This module imports no Spark: `engine_named` loads an engine by name.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.metadata import EntryPoints, entry_points
from typing import Any, Final, Protocol, cast

import pyarrow as pa

from lakeport.arrow import CancellingReader
from lakeport.ducklake.bundles import bundled
from lakeport.ducklake.prefetch import Prefetch
from lakeport.ducklake.turns import LOCAL_TURNS, REMOTE_TURNS, Turns
from lakeport.errors import InvalidArgumentError, UnavailableError

__all__ = [
    "FILE_OPEN_COST_BYTES",
    "MAX_BYTES",
    "SMALL_SCAN_BYTES",
    "AutoEngine",
    "DataFrameEngine",
    "Engine",
    "LocalEngine",
    "ReadTask",
    "RunTask",
    "engine_named",
    "make_engine",
    "resolve_engine",
    "spark_engine",
]

MAX_BYTES: Final = 64 * 1024 * 1024
"""How many bytes of batches wait in this process for their consumer, by default."""

SMALL_SCAN_BYTES: Final = 512 * 1024 * 1024
"""Plans that read less than this run in this process, by default."""

FILE_OPEN_COST_BYTES: Final = 128 * 1024
"""What opening a file costs a Spark task, as the bytes that could be read in that time."""

_LOCAL_OPEN_COST_BYTES: Final = 32 * 1024

# Threads that mostly wait for an object store: requests at once, for each core and at most.
_REMOTE_READS_PER_CORE: Final = 4
_MAX_REMOTE_READS: Final = 32

_GROUP: Final = "lakeport.engines"
# Also found without the metadata of an installed package, such as in an archive that Spark ships.
_OWN_ENGINES: Final = {
    "auto": "lakeport.ducklake:AutoEngine",
    "local": "lakeport.ducklake:LocalEngine",
    "spark": "lakeport.spark:SparkEngine",
}


class _Sized(Protocol):
    @property
    def estimated_bytes(self) -> int:
        """About how many bytes the task handles."""

    @property
    def bytes_to_read(self) -> int:
        """How many of them it reads from storage: none for rows that it carries."""


class ReadTask(_Sized, Protocol):
    """A picklable task that reads rows, and reads the same rows whenever it is run."""

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read the rows."""


class RunTask(_Sized, Protocol):
    """A picklable task with a small result."""

    def run(self) -> Any:
        """Return the result, made of numbers, text, bytes, lists and dictionaries."""


class Engine(Protocol):
    """Runs the tasks of scans."""

    @property
    def name(self) -> str:
        """The name by which `engine_named` finds the engine."""

    @property
    def parallelism(self) -> int:
        """How many tasks run at once."""

    def stream(
        self, tasks: Sequence[ReadTask], schema: pa.Schema, *, max_bytes: int = MAX_BYTES
    ) -> pa.RecordBatchReader:
        """Return the rows of all tasks while they are read.

        The tasks start with the first batch that is read. At most about `max_bytes` of batches wait
        in this process. Closing the reader, leaving its `with` block or dropping it ends the tasks.
        """

    def run(self, tasks: Sequence[RunTask]) -> Iterator[Any]:
        """Run tasks and yield their results, in no order."""


class DataFrameEngine(Engine, Protocol):
    """An engine whose rows are also DataFrames: Spark."""

    def dataframe(self, plan: Any, planner: Any = None) -> Any:
        """Return the rows of a scan plan as a DataFrame."""

    def change_dataframe(self, changes: Any, schema: pa.Schema) -> Any:
        """Return the rows of a change plan as a DataFrame with the columns of a schema."""

    def register(self, lake: Any, name: str | None = None, *, version: int) -> Any:
        """Make every table and view of a lake a temporary view."""

    def sql(self, lake: Any, query: str, *, args: Any = None, version: int | None = None) -> Any:
        """Return the DataFrame of a query over a lake, or of the outcome of a statement."""

    def frame_schema(self, frame: Any) -> pa.Schema:
        """Return the columns of a DataFrame in Arrow's types."""

    def frame_reader(self, frame: Any) -> pa.RecordBatchReader:
        """Return the rows of a DataFrame in this process, while they are computed."""

    def write_frame(self, frame: Any, request: Any) -> Any:
        """Write the rows of a DataFrame as data files of a table; return a `WrittenRows`."""


class LocalEngine:
    """Runs tasks in threads of this process; rows come in the order of the tasks.

    All scans of a process together decode in one thread for each core at a time, and take turns
    after every batch; a scan that has read little goes first. So a large scan delays a small one by
    a batch, and many scans need no more memory than their `max_bytes`.

    Args:
        threads: How many tasks of a scan run at once. By default one for each core; for files of an
            object store four for each core, up to 32.
    """

    name: Final = "local"

    def __init__(self, threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise InvalidArgumentError("a local engine needs at least one thread")
        self._threads = threads

    def __repr__(self) -> str:
        return f"LocalEngine(threads={self._threads})"

    @property
    def parallelism(self) -> int:
        """How many threads read at once."""
        return self._threads or _cores()

    def stream(
        self, tasks: Sequence[ReadTask], schema: pa.Schema, *, max_bytes: int = MAX_BYTES
    ) -> pa.RecordBatchReader:
        """Return the rows of the tasks, in their order, while threads read them."""
        if max_bytes <= 0:
            raise InvalidArgumentError("max_bytes must be positive")
        threads = self._threads_for(tasks)
        sources = bundled([(task.read, task.bytes_to_read) for task in tasks], schema, threads)
        size = sum(task.bytes_to_read for task in tasks)
        work = Prefetch(sources, threads, max_bytes, _turns_for(tasks), bytes_to_read=size)
        return CancellingReader(schema, work.items(), work.end)

    def run(self, tasks: Sequence[RunTask]) -> Iterator[Any]:
        """Run tasks in threads and yield their results, in the order of the tasks."""
        work = Prefetch(
            [_result(task) for task in tasks],
            self._threads_for(tasks),
            len(tasks),
            _turns_for(tasks),
            bytes_to_read=sum(task.bytes_to_read for task in tasks),
        )
        return work.items()

    def _threads_for(self, tasks: Sequence[_Sized]) -> int:
        """Return how many threads are worth their start: none for rows that tasks carry."""
        reading = [task for task in tasks if task.bytes_to_read]
        threads = self.parallelism
        if self._threads is None and _is_remote(reading):
            threads = max(threads, min(_REMOTE_READS_PER_CORE * threads, _MAX_REMOTE_READS))
        threads = min(threads, len(reading))
        return threads if threads > 1 else 0


def _turns_for(tasks: Sequence[_Sized]) -> Turns:
    return REMOTE_TURNS if _is_remote(tasks) else LOCAL_TURNS


def _is_remote(tasks: Sequence[_Sized]) -> bool:
    return any(getattr(task, "is_remote", False) for task in tasks)


class AutoEngine:
    """Runs small scans in this process and the others on Spark.

    A scan is small if the tasks read less than `small_scan_bytes`, of the columns that they need.
    Opening a file counts as 32 KiB. Without `lakeport[spark]` everything runs in this process.

    Args:
        local: The engine of small scans.
        spark: The engine of the others; by default, the one called `spark`, if it is installed.
        small_scan_bytes: The limit; with 0, only rows of the catalog database are read here.
    """

    name: Final = "auto"

    def __init__(
        self,
        local: Engine | None = None,
        spark: Engine | None = None,
        *,
        small_scan_bytes: int = SMALL_SCAN_BYTES,
    ) -> None:
        if small_scan_bytes < 0:
            raise InvalidArgumentError("small_scan_bytes must not be negative")
        self.local: Engine = local or LocalEngine()
        self._spark = spark
        self._is_without_spark = False
        self._small_scan_bytes = small_scan_bytes

    def __repr__(self) -> str:
        return f"AutoEngine(small_scan_bytes={self._small_scan_bytes})"

    @property
    def spark(self) -> Engine | None:
        """The engine of large scans; None where Spark is not installed."""
        # Several threads would find the same.
        if self._spark is None and not self._is_without_spark:
            try:
                self._spark = engine_named("spark")
            except UnavailableError:
                self._is_without_spark = True
        return self._spark

    @property
    def parallelism(self) -> int:
        """How many tasks of a large scan run at once."""
        return (self.spark or self.local).parallelism

    def choose(self, tasks: Sequence[_Sized]) -> Engine:
        """Return the engine that runs these tasks."""
        reads = [task.bytes_to_read for task in tasks]
        cost = sum(size + _LOCAL_OPEN_COST_BYTES for size in reads if size)
        if not cost or cost < self._small_scan_bytes:
            return self.local
        return self.spark or self.local

    def stream(
        self, tasks: Sequence[ReadTask], schema: pa.Schema, *, max_bytes: int = MAX_BYTES
    ) -> pa.RecordBatchReader:
        """Return the rows of the tasks, from the engine that suits their size."""
        return self.choose(tasks).stream(tasks, schema, max_bytes=max_bytes)

    def run(self, tasks: Sequence[RunTask]) -> Iterator[Any]:
        """Yield the results of the tasks, from the engine that suits their size."""
        return self.choose(tasks).run(tasks)


def engine_named(name: str, *arguments: object) -> Engine:
    """Return a new engine: `local`, `spark`, `auto`, or one that another package registers.

    Packages register classes of engines in the entry point group `lakeport.engines`. The
    `arguments` are those of the class.
    """
    for found in _registered(tuple(sys.path)).select(name=name):
        engine: Engine = found.load()(*arguments)
        return engine
    if name not in _OWN_ENGINES:
        raise InvalidArgumentError(
            f"there is no engine {name!r}: use 'auto', 'local' or 'spark', or install the package "
            f"that registers it in the entry point group {_GROUP!r}"
        )
    module, _, attribute = _OWN_ENGINES[name].partition(":")
    own: Engine = getattr(importlib.import_module(module), attribute)(*arguments)
    return own


@lru_cache(maxsize=1)
def _registered(path: tuple[str, ...]) -> EntryPoints:  # noqa: ARG001 - where packages are looked for
    """Return the registered engines; reading the files of all packages takes 15 ms of CPU."""
    return entry_points(group=_GROUP)


def make_engine(
    engine: Engine | str | None, spark: object, *, small_scan_bytes: int = SMALL_SCAN_BYTES
) -> Engine:
    """Return the engine of a lake, from the arguments of `Lake.open`."""
    if engine is not None and not isinstance(engine, str):
        if spark is not None:
            raise InvalidArgumentError("give an engine or a Spark session, not both")
        return engine
    name = engine or ("auto" if spark is None else "spark")
    if name == "auto":
        on_spark = None if spark is None else engine_named("spark", spark)
        return AutoEngine(spark=on_spark, small_scan_bytes=small_scan_bytes)
    if spark is None:
        return engine_named(name)
    if name != "spark":
        raise InvalidArgumentError(f"the engine {name!r} takes no Spark session")
    return engine_named(name, spark)


def resolve_engine(engine: Engine | str | None, default: Engine) -> Engine:
    """Return the engine of one call: the default one, or the one that the call names."""
    if engine is None:
        return default
    if not isinstance(engine, str):
        return engine
    if engine == default.name:
        return default
    if isinstance(default, AutoEngine):
        parts = [part for part in (default.local, default.spark) if part is not None]
        for part in parts:
            if part.name == engine:
                return part
    return engine_named(engine)


def spark_engine(default: Engine, spark: object = None) -> DataFrameEngine:
    """Return the engine of DataFrames: of a session, else that of a lake, else a new one."""
    found: Engine | None = default.spark if isinstance(default, AutoEngine) else default
    if spark is not None:
        found = engine_named("spark", spark)
    elif found is None or not hasattr(found, "dataframe"):
        found = engine_named("spark")
    return cast("DataFrameEngine", found)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _result(task: RunTask) -> Any:
    def results() -> Iterator[Any]:
        yield task.run()

    return results

"""A DuckDB in this process that runs views of lakes, over the rows of their tables.

A view's SQL is untrusted: the database reaches neither files, nor the network, nor extensions, and
its memory and threads are bounded. All views of a process share one database, so that the bound
holds for them together. Each run has an in-memory catalog of its own, with the tables that the
view reads and no others.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final, Protocol, TypeVar

import pyarrow as pa

from lakeport.arrow import LOSSLESS_SETTINGS, CancellingReader, SchemaAdapter, arrow_query, sandbox
from lakeport.ducklake.model import View
from lakeport.ducklake.views.dataset import InexactFilterError, ReadTable, TableDataset
from lakeport.ducklake.views.references import used_macros
from lakeport.errors import InvalidInputError, UnavailableError, first_line
from lakeport.filters import DuckDBEncoder, Filter
from lakeport.types import Column, arrow_schema, duckdb_identifier, duckdb_type

__all__ = ["VIEW_MEMORY_BYTES", "ViewDatabase", "shared_database"]

VIEW_MEMORY_BYTES: Final = 1024**3
"""The memory that all running views share, by default."""


class TableLike(Protocol):
    """A table that views read."""

    @property
    def schema(self) -> str:
        """The name of its schema."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Its columns."""


T = TypeVar("T", bound=TableLike)

_BATCH_ROWS: Final = 65_536
# DuckDB 1.5 fails where a join pushes the values of its other side into a scan of these.
_NEVER_PUSHED: Final = frozenset({"UUID", "HUGEINT", "UHUGEINT"})


class ViewDatabase:
    """Runs views.

    Args:
        memory_bytes: What all running views may use together.
        threads: How many threads they share; one for each core by default.
    """

    def __init__(
        self, *, memory_bytes: int = VIEW_MEMORY_BYTES, threads: int | None = None
    ) -> None:
        self._settings = {
            "memory_limit": f"{memory_bytes}B",
            "threads": str(threads or os.cpu_count() or 1),
        }
        self._memory_bytes = memory_bytes
        self._lock = threading.Lock()
        self._database: Any = None  # guarded by the lock; opened by the first view
        self._numbers = itertools.count()

    def stream(
        self,
        reads: Sequence[T | View],
        open_table: Callable[[T], ReadTable],
        *,
        schema: pa.Schema,
        filter: Filter,
        failure: str | None = None,
    ) -> pa.RecordBatchReader:
        """Return the rows of the last of `reads`, a view, while they are computed.

        Args:
            reads: The view and everything that it reads, in order of dependency.
            open_table: Returns how the rows of a table are read.
            schema: The columns of the view to return.
            filter: Rows that cannot pass it are left out where DuckDB can evaluate it.
            failure: The message of an error of the SQL, instead of DuckDB's, which may contain
                values of rows.
        """
        run = _Run(self._cursor(), f"lake_{next(self._numbers)}", self._memory_bytes, failure)
        try:
            for read in reads:
                if isinstance(read, View):
                    run.add_view(read)
                else:
                    run.add_table(read, open_table(read))
            return run.stream(reads[-1], schema, filter)
        except BaseException:
            run.close()
            raise

    def _cursor(self) -> Any:
        with self._lock:
            if self._database is None:
                self._database = sandbox(
                    lambda database: database.execute(LOSSLESS_SETTINGS), **self._settings
                )
            return self._database.cursor()


@cache
def shared_database() -> ViewDatabase:
    """Return the database of the tasks of this process: opening one takes 15 milliseconds."""
    return ViewDatabase()


if hasattr(os, "register_at_fork"):
    # A forked process must not use the database of its parent.
    os.register_at_fork(after_in_child=shared_database.cache_clear)


class _Run:
    """One run of a view: a connection, with a catalog of its own."""

    def __init__(self, cursor: Any, catalog: str, memory_bytes: int, failure: str | None) -> None:
        self._failure = failure
        self._cursor = cursor
        self._catalog = catalog
        self._memory_bytes = memory_bytes
        self._datasets: list[TableDataset] = []
        self._tables: list[TableLike] = []
        self._is_closed = threading.Event()
        cursor.execute(f"ATTACH ':memory:' AS {catalog}")
        cursor.execute(f"USE {catalog}.main")

    def add_table(self, table: TableLike, read: ReadTable) -> None:
        """Add a table; its rows are read when the view is run."""
        dataset = TableDataset(arrow_schema(table.columns), read)
        number = len(self._datasets)
        self._datasets.append(dataset)
        self._tables.append(table)
        self._cursor.register(f"scan_{number}", dataset)
        self._create(number, pushes=True)

    def add_view(self, view: View) -> None:
        """Add a view over the tables and views that were added."""
        for macro in used_macros(view):
            self._path(macro.schema, macro.name)
            self._execute(macro.create(self._catalog))
        aliases = ", ".join(duckdb_identifier(alias) for alias in view.column_aliases)
        self._execute(
            f"CREATE VIEW {self._path(view.schema, view.name)} {aliases and f'({aliases})'} AS "
            f"{view.select(self._catalog)}"
        )

    def stream(
        self, view: TableLike | View, schema: pa.Schema, filter: Filter
    ) -> pa.RecordBatchReader:
        """Start the view, with columns and a filter pushed into it."""
        columns = ", ".join(duckdb_identifier(name) for name in schema.names)
        query = f"SELECT {columns} FROM {self._path(view.schema, view.name)}"  # noqa: S608
        condition = DuckDBEncoder().encode(filter)
        if condition:
            query += f" WHERE {condition}"
        return CancellingReader(schema, self._batches(query, schema), self.close)

    def close(self) -> None:
        """End the run, from any thread: a query that runs is interrupted."""
        import duckdb

        self._is_closed.set()
        # The connection is closed already when all rows were read.
        with suppress(duckdb.ConnectionException):
            self._cursor.interrupt()

    def _batches(self, query: str, schema: pa.Schema) -> Generator[pa.RecordBatch]:
        try:
            reader, batch = self._started(query)
            adapt = SchemaAdapter(reader.schema, schema, "the view")
            while batch is not None and not self._is_closed.is_set():
                yield adapt(batch)
                batch = self._call(reader.read_next_batch)
        finally:
            self._release()

    def _started(self, query: str) -> tuple[pa.RecordBatchReader, pa.RecordBatch | None]:
        """Start a query; return its rows, and the first batch of them if there is one."""

        def start() -> tuple[pa.RecordBatchReader, pa.RecordBatch | None]:
            reader = self._call(
                lambda: arrow_query(self._cursor, query).to_arrow_reader(_BATCH_ROWS)
            )
            return reader, self._call(reader.read_next_batch)

        try:
            return start()
        except InexactFilterError:
            for number, dataset in enumerate(self._datasets):
                dataset.error = None
                self._create(number, pushes=False)
            return start()

    def _create(self, number: int, *, pushes: bool) -> None:
        """Create the view by which the SQL reads a table; filters of columns are pushed or not."""
        table, name = self._tables[number], f"scan_{number}"
        columns = self._columns(name, table.columns, pushes=pushes)
        self._execute(
            f"CREATE OR REPLACE VIEW {self._path(table.schema, table.name)} AS "  # noqa: S608
            f"SELECT {columns} FROM temp.main.{name}"
        )

    def _release(self) -> None:
        """Drop the catalog and the connection, and with them the tables' readers."""
        import duckdb

        with suppress(duckdb.Error):
            self._cursor.execute("USE memory.main")
            self._cursor.execute(f"DETACH {self._catalog}")
        self._cursor.close()

    def _execute(self, sql: str) -> Any:
        return self._call(lambda: self._cursor.execute(sql))

    def _call(self, work: Callable[[], Any]) -> Any:
        """Run a step of the query; raise the error of a table's scan instead of DuckDB's."""
        import duckdb

        try:
            return work()
        except StopIteration:
            return None
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            for dataset in self._datasets:
                if dataset.error is not None:
                    raise dataset.error from None
            if _is_of_pushing(error):
                raise InexactFilterError from None
            if "Out of Memory" in str(error):
                raise UnavailableError(
                    f"the view needs more memory than the {self._memory_bytes >> 20} MiB that "
                    "running views share"
                ) from None
            if self._failure is not None:
                raise InvalidInputError(self._failure) from None
            reason = first_line(error).replace(f"{self._catalog}.", "")
            raise InvalidInputError(f"DuckDB cannot run the view: {reason}") from None

    def _columns(self, relation: str, columns: Sequence[Column], *, pushes: bool) -> str:
        """Return the columns of a scan, cast where DuckDB reads another type from Arrow."""
        types = [duckdb_type(column) for column in columns]
        nulls = ", ".join(f"NULL::{type}" for type in types)
        wanted = self._cursor.sql(f"SELECT {nulls}").types
        present = self._cursor.sql(f"FROM temp.main.{relation}").types
        selected = []
        for column, has, needs, type in zip(columns, present, wanted, types, strict=True):
            name = duckdb_identifier(column.name)
            if has != needs:
                selected.append(f"CAST({name} AS {type}) AS {name}")
            elif pushes and type not in _NEVER_PUSHED:
                selected.append(name)
            else:
                # DuckDB pushes filters of columns, not of expressions.
                selected.append(f"coalesce({name}, {name}) AS {name}")
        return ", ".join(selected)

    def _path(self, schema: str, name: str) -> str:
        path = f"{self._catalog}.{duckdb_identifier(schema)}"
        self._cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {path}")
        return f"{path}.{duckdb_identifier(name)}"


def _is_of_pushing(error: Exception) -> bool:
    """Return whether DuckDB could not make an expression of pyarrow from a filter."""
    import duckdb

    # What Python raises while DuckDB makes Python's values of a filter, as of dates after the year
    # 9999, is of this class and of none below it.
    return type(error) is duckdb.Error or (
        isinstance(error, duckdb.NotImplementedException) and "Filter Pushdown" in str(error)
    )

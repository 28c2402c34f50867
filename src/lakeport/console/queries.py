"""Read-only queries of the console: DuckDB's SQL over the tables that the caller may read.

An embedded DuckDB without files, network and extensions runs the query. The rows of its tables are
scans of the server with the caller's token; columns and filters are pushed into them.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from lakeport.airport.client import Client
from lakeport.arrow import LOSSLESS_SETTINGS, arrow_query, sandbox
from lakeport.ducklake import View
from lakeport.ducklake.views import TableDataset, TableKey, referenced_tables, table_key
from lakeport.errors import (
    CancelledError,
    InvalidInputError,
    LakeportError,
    UnsupportedError,
    first_line,
)
from lakeport.filters import Filter
from lakeport.types import duckdb_identifier

__all__ = ["MAX_RESULT_BYTES", "Query", "QueryResult"]

MAX_RESULT_BYTES: Final = 256 * 1024 * 1024
"""A result in memory is cut at this size."""

_MEMORY: Final = "1GB"
_BATCH_ROWS: Final = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResult:
    """The rows of a query, and whether there are more."""

    rows: pa.Table
    is_cut: bool


class Query:
    """One query over the tables of a client. `run` it once; `cancel` it from any thread.

    A scan that waits for its turn is ended by the server only, which finds it by `trace_id`.
    """

    def __init__(self, client: Client, sql: str, *, version: int | None = None) -> None:
        self._client = client
        self._sql = sql.strip().rstrip(";")
        self._version = version
        self._is_cancelled = threading.Event()
        self._datasets: list[TableDataset] = []
        self.trace_id = str(uuid.uuid4())
        # Guards the next two: a connection that is closed cannot be interrupted.
        self._lock = threading.Lock()
        self._connection: Any = None
        self._has_ended = False

    def again(self) -> Query:
        """Return the same query, to be run once more."""
        return Query(self._client, self._sql, version=self._version)

    def cancel(self) -> bool:
        """End the query: `run` raises `CancelledError`. Return False if it has already ended."""
        with self._lock:
            if self._has_ended:
                return False
            self._is_cancelled.set()
            if self._connection is not None:
                self._connection.interrupt()
            return True

    def run(self, *, max_rows: int | None = None) -> QueryResult:
        """Return the rows, at most `max_rows` of them and `MAX_RESULT_BYTES`."""
        import duckdb

        connection = sandbox(_configure, memory_limit=_MEMORY)
        with self._lock:
            self._connection = connection
        try:
            self._check()
            self._add_tables(connection)
            return self._rows(connection, max_rows)
        except LakeportError:
            raise
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise self._reason(error) from None
        finally:
            with self._lock:
                self._has_ended = True
            connection.close()

    def _rows(self, connection: Any, max_rows: int | None) -> QueryResult:
        # One row more shows whether the result is complete.
        limit = "" if max_rows is None else f" LIMIT {max_rows + 1}"
        statement = f"SELECT * FROM ({self._sql}\n){limit}"  # noqa: S608
        reader = arrow_query(connection, statement).to_arrow_reader(_BATCH_ROWS)
        batches: list[pa.RecordBatch] = []
        size = rows = 0
        for batch in reader:
            self._check()
            batches.append(batch)
            size += batch.nbytes
            rows += batch.num_rows
            if size > MAX_RESULT_BYTES:
                break
        table = pa.Table.from_batches(batches, reader.schema)
        is_cut = size > MAX_RESULT_BYTES or (max_rows is not None and rows > max_rows)
        return QueryResult(rows=table.slice(0, max_rows), is_cut=is_cut)

    def _add_tables(self, connection: Any) -> None:
        """Register the tables that the query reads, and no others."""
        tables = {
            table_key(table.schema_name, table.name): (table.schema_name, table.name)
            for table in self._client.tables()
        }
        default = self._default_schema(tables)
        aliases = {table_key("main", key[1]): key for key in tables if key[0] == default}
        query = View(id=0, schema="main", name="query", uuid="", dialect="duckdb", sql=self._sql)
        try:
            names = referenced_tables(query, {*tables, *aliases})
        except UnsupportedError as error:
            reason = str(error).replace("the view", "the query")
            if "Only SELECT statements" in reason:
                reason = "queries of the console read, they cannot write: begin with SELECT or FROM"
            raise InvalidInputError(reason) from None
        for key in sorted(names):
            schema, name = tables[aliases.get(key, key)]
            path = f"{duckdb_identifier(key[0])}.{duckdb_identifier(name)}"
            dataset = self._dataset(schema, name)
            scan = f"scan_{len(self._datasets)}"
            connection.register(scan, dataset)
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {duckdb_identifier(key[0])}")
            connection.execute(f"CREATE VIEW {path} AS FROM temp.main.{scan}")

    def _default_schema(self, tables: dict[TableKey, tuple[str, str]]) -> str:
        """Return the schema of names without one: the lake's main schema is published as public."""
        schemas = {schema for schema, _ in tables}
        return next((name for name in ("public", "main_schema", "main") if name in schemas), "main")

    def _dataset(self, schema: str, name: str) -> TableDataset:
        table = self._client.table(name, schema=schema)
        columns = table.scan(version=self._version).schema

        def read(names: Sequence[str], filter: Filter) -> pa.RecordBatchReader:
            wanted = list(names) or columns.names[:1]
            scan = table.scan(wanted, version=self._version).traced(self.trace_id)
            reader = (scan.filter(filter) if filter else scan).to_reader()
            return pa.RecordBatchReader.from_batches(reader.schema, self._until_cancelled(reader))

        dataset = TableDataset(columns, read)
        self._datasets.append(dataset)
        return dataset

    def _until_cancelled(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        for batch in reader:
            self._check()
            yield batch

    def _check(self) -> None:
        if self._is_cancelled.is_set():
            raise CancelledError("the query was cancelled")

    def _reason(self, error: Exception) -> LakeportError:
        """Return the error of a table's scan, if there is one, instead of DuckDB's."""
        if self._is_cancelled.is_set():
            return CancelledError("the query was cancelled")
        for dataset in self._datasets:
            if isinstance(dataset.error, LakeportError):
                return dataset.error
        return InvalidInputError(first_line(error))


def _configure(connection: Any) -> None:
    connection.execute(LOSSLESS_SETTINGS)

"""A client that sends what DuckDB's Airport extension sends for a statement.

A local DuckDB has a twin of each table, in the types that the extension derives from the server's
reply, and encodes the rows: only the calls themselves are made here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import duckdb
import msgpack
import pyarrow as pa
from pyarrow import flight

from lakeport.catalog import without_rowid
from tests.wait import TIMEOUT_SECONDS

__all__ = ["Changed", "DuckDBClient"]

CHUNK_ROWS = 2048


@dataclass(frozen=True)
class Changed:
    """What the client reads from an exchange."""

    count: int
    returned: pa.Table | None


@dataclass
class DuckDBClient:
    """One DuckDB process that has attached a catalog."""

    location: str
    catalog: str
    connection: duckdb.DuckDBPyConnection
    _session: str = field(default_factory=lambda: str(uuid4()))

    def __enter__(self) -> Self:
        self._client = flight.FlightClient(self.location)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.close()

    def create_table(self, schema: str, name: str, columns: str) -> None:
        """CREATE TABLE with these SQL columns, and the twin in the types of the reply."""
        self._begin()
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE sent ({columns})")
        self._create(schema, name, self.connection.sql("FROM sent").to_arrow_table().schema)

    def create_table_as(self, schema: str, name: str, query: str) -> Changed:
        """CREATE TABLE AS; the rows are in the types of the query."""
        transaction = self._begin()
        rows = self.connection.sql(query).to_arrow_table()
        self._create(schema, name, rows.schema)
        return self._exchange("insert", schema, name, rows, transaction)

    def insert(self, schema: str, name: str, values: str, *, returning: bool = False) -> Changed:
        """INSERT; the rows are converted to the types of the twin first."""
        transaction = self._begin()
        self.connection.execute("CREATE OR REPLACE TEMP TABLE sent AS FROM twin LIMIT 0")
        self.connection.execute(f"INSERT INTO sent {values}")
        rows = self.connection.sql("FROM sent").to_arrow_table()
        return self._exchange("insert", schema, name, rows, transaction, returning=returning)

    def update(self, schema: str, name: str, rows: pa.Table, *, returning: bool = False) -> Changed:
        """UPDATE, with the SET columns and then rowid."""
        return self._exchange("update", schema, name, rows, self._begin(), returning=returning)

    def delete(
        self, schema: str, name: str, row_ids: pa.Table, *, returning: bool = False
    ) -> Changed:
        """DELETE of rows by rowid."""
        return self._exchange("delete", schema, name, row_ids, self._begin(), returning=returning)

    def action(self, kind: str, /, **fields: Any) -> list[bytes]:
        """An action of a statement."""
        options = self._options({"airport-action-name": kind})
        action = flight.Action(kind, msgpack.packb(fields))
        return [r.body.to_pybytes() for r in self._client.do_action(action, options)]

    def _begin(self) -> str:
        """Begin a statement as DuckDB does without BEGIN."""
        (reply,) = self.action("create_transaction", catalog_name=self.catalog)
        self.action("catalog_version", catalog_name=self.catalog)
        identifier: str = msgpack.unpackb(reply)["identifier"]
        return identifier

    def _create(self, schema: str, name: str, columns: pa.Schema) -> None:
        empty: dict[str, list[Any]] = {
            kind: []
            for kind in (
                *("not_null_constraints", "unique_constraints", "check_constraints"),
                *("primary_key_columns", "unique_columns", "multi_key_primary_keys"),
                "extra_constraints",
            )
        }
        (reply,) = self.action(
            "create_table",
            catalog_name=self.catalog,
            schema_name=schema,
            table_name=name,
            arrow_schema=columns.serialize().to_pybytes(),
            on_conflict="error",
            **empty,
        )
        known = without_rowid(flight.FlightInfo.deserialize(reply).schema)
        self.connection.register("known", pa.RecordBatchReader.from_batches(known, []))
        self.connection.execute("CREATE OR REPLACE TEMP TABLE twin AS FROM known")
        self.connection.unregister("known")

    def _exchange(
        self,
        operation: str,
        schema: str,
        name: str,
        rows: pa.Table,
        transaction: str,
        *,
        returning: bool = False,
    ) -> Changed:
        headers = {
            "airport-operation": operation,
            "airport-flight-path": f"{schema}/{name}",
            "airport-trace-id": str(uuid4()),
            "airport-transaction-id": transaction,
            "return-chunks": "1" if returning else "0",
        }
        descriptor = flight.FlightDescriptor.for_path(schema, name)
        writer, reader = self._client.do_exchange(descriptor, self._options(headers))
        returned = []
        with writer:
            writer.begin(rows.schema)
            columns = reader.schema
            for batch in rows.combine_chunks().to_batches(max_chunksize=CHUNK_ROWS):
                writer.write_batch(batch)
                if returning:
                    returned.append(reader.read_chunk().data)
            writer.done_writing()
            last = reader.read_chunk()
            count: int = msgpack.unpackb(last.app_metadata.to_pybytes())["total_changed"]
        return Changed(count, pa.Table.from_batches(returned, columns) if returning else None)

    def _options(self, headers: dict[str, str]) -> flight.FlightCallOptions:
        own = {
            "airport-user-agent": "airport/20250723",
            "authority": self.location,
            "airport-client-session-id": self._session,
            "airport-catalog": self.catalog,
        }
        pairs = [(key.encode(), value.encode()) for key, value in (own | headers).items()]
        return flight.FlightCallOptions(headers=pairs, timeout=TIMEOUT_SECONDS)

"""`connect` and `Client`: use an Airport server from Python, without DuckDB.

import lakeport
from lakeport import col

with lakeport.connect("grpc://127.0.0.1:8815") as client:
    orders = client.table("shop.orders")
    print(orders.columns)
    print(orders.scan(["id", "total"], filter=col("total") > 100).to_pandas())

    orders.insert([{"id": 7, "total": 12.5}])
    client.call_scalar("shop.with_tax", [10.0, 20.0])
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
from pyarrow import flight

from lakeport.airport.client.catalog import AttachedCatalog
from lakeport.airport.client.connection import Connection, Security
from lakeport.airport.client.entries import RemoteFunction, RemoteSchema
from lakeport.airport.client.replies import flight_description
from lakeport.airport.client.scan import Bound, Scan
from lakeport.airport.client.statements.ddl import (
    conflict_mode,
    create_schema,
    create_table,
    drop_schema,
    drop_table,
)
from lakeport.airport.client.statements.functions import call_in_out, call_scalar, call_table
from lakeport.airport.client.statements.statement import Statement, Transaction
from lakeport.airport.client.statements.writes import insert_rows
from lakeport.airport.client.table import RemoteTable
from lakeport.airport.protocol.addresses import DATABASES
from lakeport.arrow import RowSource, reader_of
from lakeport.catalog import CatalogVersion, OnConflict
from lakeport.errors import InternalError, InvalidArgumentError, NotFoundError

__all__ = ["Client", "connect"]


def connect(
    location: str,
    *,
    catalog: str = "",
    token: str | None = None,
    tls_root_certs: bytes | None = None,
    cert_chain: bytes | None = None,
    private_key: bytes | None = None,
    disable_server_verification: bool = False,
    timeout: float | None = None,
) -> Client:
    """Return a client of an Airport server. Nothing is sent before the first call.

    Args:
        location: Where the server is: `grpc://host:port`, or `grpc+tls://host:port`.
        catalog: The name of the catalog; may be empty if the server has only one.
        token: The bearer token that authenticates the caller.
        tls_root_certs: Certificates to trust, in PEM; those of the system by default.
        cert_chain: The client's own certificate in PEM, for mutual TLS.
        private_key: The key of that certificate.
        disable_server_verification: Accept any certificate. For experiments only.
        timeout: The longest time of one call in seconds, including reading a whole stream.
    """
    security = Security(
        token=token,
        tls_root_certs=tls_root_certs,
        cert_chain=cert_chain,
        private_key=private_key,
        disable_server_verification=disable_server_verification,
    )
    connection = Connection(location, security=security, timeout=timeout)
    return Client(AttachedCatalog(connection, catalog))


class Client:
    """A catalog of a server: lists, reads, writes and alters its objects.

    Threads may share a client. Names are not case-sensitive: `schema.table`, or `schema=` and the
    name separately if a name contains a dot. The catalog is listed once, and again by `refresh()`.
    """

    def __init__(self, catalog: AttachedCatalog) -> None:
        self._catalog = catalog
        self._connection = catalog.connection

    def __repr__(self) -> str:
        return f"Client({self.location!r}, catalog={self._catalog.name!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. Open readers fail with an error."""
        self._connection.close()

    @property
    def location(self) -> str:
        """Return the location of the server."""
        return self._connection.location

    def databases(self) -> list[dict[str, Any]]:
        """Return the catalogs of the server, one row each, with the server's own columns."""
        rows: list[dict[str, Any]] = self.take_flight([DATABASES]).to_arrow().to_pylist()
        return rows

    def catalog_version(self) -> CatalogVersion:
        """Return the version of the catalog."""
        return self._catalog.version()

    def refresh(self) -> None:
        """Discard the cached listing, so that changes by other clients become visible."""
        self._catalog.refresh()

    def schemas(self) -> list[RemoteSchema]:
        """Return all schemas."""
        return self._catalog.schemas()

    def tables(self, schema: str | None = None) -> list[RemoteTable]:
        """Return the tables of a schema, or of all schemas."""
        return [
            RemoteTable(self._catalog, entry.schema_name, entry.name)
            for entry in self._catalog.tables(schema)
        ]

    def table(self, name: str, *, schema: str | None = None) -> RemoteTable:
        """Return a table: `table("schema.table")` or `table("table", schema="schema")`."""
        entry = self._catalog.table(name, schema)
        return RemoteTable(self._catalog, entry.schema_name, entry.name)

    def functions(self, schema: str | None = None) -> list[RemoteFunction]:
        """Return the functions of a schema, or of all schemas."""
        return self._catalog.functions(schema)

    def function(self, name: str, *, schema: str | None = None) -> RemoteFunction:
        """Return a function with its overloads."""
        return self._catalog.function(name, schema)

    def call_scalar(self, name: str, /, *arguments: Any, num_rows: int = 1) -> pa.Array:
        """Call a scalar function and return one result for every row.

        Arrays and lists are columns of rows; everything else is one value for all rows. Wrap a
        list in `pa.scalar` to pass it as a value. If all arguments are values, or there are none,
        `num_rows` is the number of results.
        """
        function = self._catalog.function(name)
        return call_scalar(self._catalog, function, arguments, num_rows)

    def call_table(self, name: str, /, *positional: Any, **named: Any) -> Scan:
        """Call a table function. Narrow the scan with `select`, `filter` and `limit`."""
        function = self._catalog.function(name)
        return call_table(self._catalog, function, positional, named)

    def call_in_out(
        self, name: str, rows: RowSource, /, *positional: Any, **named: Any
    ) -> pa.RecordBatchReader:
        """Call a function that takes and returns rows. The reader yields them as they arrive."""
        function = self._catalog.function(name)
        return call_in_out(self._catalog, function, rows, positional, named)

    def take_flight(
        self,
        descriptor: str | bytes | Sequence[str],
        *,
        columns: Sequence[str] | None = None,
    ) -> Scan:
        """Return a scan of a flight of any catalog, by its path (a list) or command (a text)."""
        target = (
            flight.FlightDescriptor.for_command(descriptor)
            if isinstance(descriptor, str | bytes)
            else flight.FlightDescriptor.for_path(*descriptor)
        )

        def bind() -> Bound:
            headers = Statement().stream_headers(target)
            info = flight_description(self._connection.flight_info(target, headers))
            if info.descriptor != target:
                raise InternalError("the server described another flight than the requested one")
            return Bound(target, info.schema, headers)

        scan = Scan(self._connection, bind)
        return scan if columns is None else scan.select(*columns)

    def action(self, name: str, body: bytes | str = b"") -> list[bytes]:
        """Run an action of the server and return its results."""
        return self._connection.action(name, body.encode() if isinstance(body, str) else body)

    def list_actions(self) -> list[tuple[str, str]]:
        """Return the names and descriptions of the server's actions."""
        return self._connection.list_actions()

    @contextmanager
    def transaction(self, *, explicit: bool = False) -> Iterator[Transaction]:
        """Run the statements of a `with` block, in this thread, in one transaction.

        By default this is DuckDB's BEGIN … COMMIT: all statements read one state of the catalog,
        but each takes effect when it ends. With `explicit=True` they take effect together at the
        end of the block, or not at all if it raises. A server without such transactions raises an
        error.
        """
        with self._catalog.transaction(explicit=explicit) as transaction:
            yield transaction

    def create_schema(
        self,
        name: str,
        *,
        comment: str | None = None,
        tags: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
    ) -> RemoteSchema:
        """Create a schema."""
        return create_schema(
            self._catalog, name, comment=comment, tags=tags or {}, if_not_exists=if_not_exists
        )

    def drop_schema(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Drop a schema; `cascade` drops its tables, too."""
        drop_schema(self._catalog, name, if_exists=if_exists, cascade=cascade)

    def create_table(
        self,
        schema: str,
        name: str,
        columns: pa.Schema,
        *,
        on_conflict: OnConflict | str = OnConflict.ERROR,
        not_null: Sequence[str] = (),
        unique: Sequence[str | Sequence[str]] = (),
        primary_key: str | Sequence[str] = (),
        check: Sequence[str] = (),
    ) -> RemoteTable:
        """Create a table.

        Args:
            schema: The schema to create it in.
            name: Its name.
            columns: Its columns; fields that are not nullable are NOT NULL.
            on_conflict: What to do if it exists: `error`, `ignore` or `replace`.
            not_null: Further columns that reject nulls.
            unique: Columns, or sets of columns, whose values may not repeat.
            primary_key: The column or columns of the primary key.
            check: SQL expressions that every row must satisfy.
        """
        entry = create_table(
            self._catalog,
            self._catalog.begin(),
            schema,
            name,
            columns,
            on_conflict=on_conflict,
            not_null=not_null,
            unique=unique,
            primary_key=primary_key,
            check=check,
        )
        return RemoteTable(self._catalog, entry.schema_name, entry.name)

    def create_table_as(
        self,
        schema: str,
        name: str,
        rows: RowSource,
        *,
        on_conflict: OnConflict | str = OnConflict.ERROR,
    ) -> RemoteTable:
        """Create a table from rows; `on_conflict="ignore"` does not change an existing table."""
        reader = reader_of(rows)
        exists = False
        if conflict_mode(on_conflict) is OnConflict.IGNORE:
            # The reply does not show whether the server created the table or another client did.
            self.refresh()
            exists = self._has_table(schema, name)
        statement = self._catalog.begin()
        entry = create_table(
            self._catalog, statement, schema, name, reader.schema, on_conflict=on_conflict
        )
        if not exists:
            insert_rows(self._catalog, entry, reader, returning=False, statement=statement)
        return RemoteTable(self._catalog, entry.schema_name, entry.name)

    def drop_table(self, name: str, *, schema: str | None = None, if_exists: bool = False) -> None:
        """Drop a table. Call `refresh()` first if another client created it."""
        try:
            entry = self._catalog.table(name, schema)
        except NotFoundError:
            if if_exists:
                return
            raise
        drop_table(self._catalog, entry, if_exists=if_exists)

    def _has_table(self, schema: str, name: str) -> bool:
        try:
            self._catalog.table(name, schema)
        except (NotFoundError, InvalidArgumentError):
            return False
        return True

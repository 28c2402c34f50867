"""INSERT, UPDATE and DELETE over DoExchange.

A table receives one reader of batches in its own types, and needs to know nothing of the protocol.
Rows for RETURNING are sent when the table reads the next batch. The statement is committed before
the client receives the number of rows. On an error the rest of the input is read first: otherwise
the client fails while writing and loses the error's type. For the same reason no error is raised
before the client has sent its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pyarrow as pa

from lakeport._wording import counted
from lakeport.airport.protocol.batch_bounds import row_width
from lakeport.airport.protocol.codec import encode
from lakeport.airport.server.routing import CatalogRoute
from lakeport.airport.server.verbs.do_exchange import Exchange
from lakeport.airport.server.verbs.scans import check_schema_tag
from lakeport.arrow import SchemaAdapter, no_rows, readable_columns
from lakeport.auth import Operation
from lakeport.catalog import (
    DeletableBatchTable,
    DeletableTable,
    DMLOptions,
    DMLResult,
    InsertableTable,
    Table,
    UpdatableBatchTable,
    UpdatableTable,
    field_is_rowid,
    rowid_field,
    without_rowid,
)
from lakeport.errors import InternalError, InvalidArgumentError, NullRowIdError, UnsupportedError

__all__ = ["delete", "insert", "update"]

_ROWID = "rowid"
_MAX_REPLY_ROWS = 2048


def insert(exchange: Exchange, route: CatalogRoute) -> None:
    """Insert the rows of an exchange, which has all columns but the rowid."""
    received = exchange.input_schema()
    table, schema = _table(exchange, route, Operation.INSERT)
    if not isinstance(table, InsertableTable):
        raise UnsupportedError(f"table {exchange.address} does not accept new rows")
    columns = without_rowid(schema).remove_metadata()
    _check_columns(received, columns, exchange)
    reply = without_rowid(readable_columns(schema)).remove_metadata()
    statement = _Statement(exchange, route, received, into=columns, reply=reply)
    statement.run(table.insert)


def update(exchange: Exchange, route: CatalogRoute) -> None:
    """Update rows: an exchange has the changed columns and the rowid, RETURNING the same ones."""
    received = exchange.input_schema()
    table, schema = _table(exchange, route, Operation.UPDATE)
    if not isinstance(table, UpdatableTable | UpdatableBatchTable):
        raise UnsupportedError(f"the rows of table {exchange.address} cannot be updated")
    statement = _Statement(
        exchange, route, received, into=_with_rowid(schema, received, exchange), reply=received
    )
    if isinstance(table, UpdatableBatchTable):
        statement.run(table.update_rows)
    else:
        statement.run(_each_batch(table.update))


def delete(exchange: Exchange, route: CatalogRoute) -> None:
    """Delete rows: an exchange has the rowid, RETURNING the deleted rows."""
    received = exchange.input_schema()
    table, schema = _table(exchange, route, Operation.DELETE)
    if not isinstance(table, DeletableTable | DeletableBatchTable):
        raise UnsupportedError(f"the rows of table {exchange.address} cannot be deleted")
    statement = _Statement(
        exchange,
        route,
        received,
        into=_with_rowid(schema, received, exchange),
        reply=without_rowid(readable_columns(schema)).remove_metadata(),
    )
    if isinstance(table, DeletableBatchTable):
        statement.run(table.delete_rows)
    else:
        delete = table.delete
        statement.run(_each_batch(lambda row_ids, _rows, options: delete(row_ids, options)))


class _Statement:
    """One statement: reads the input, sends the RETURNING rows, and commits."""

    def __init__(
        self,
        exchange: Exchange,
        route: CatalogRoute,
        received: pa.Schema,
        *,
        into: pa.Schema,
        reply: pa.Schema,
    ) -> None:
        self._exchange = exchange
        self._route = route
        self._into = into
        self._reply = reply
        self._width = row_width(into)
        self._cast = SchemaAdapter(received, into, f"table {exchange.address}")
        # With RETURNING, the client sends a batch only after the reply to the previous one.
        self._batches = (
            exchange.batches() if exchange.returns_rows else exchange.coalesced_batches()
        )
        self._rowid = [index for index, field in enumerate(into) if field_is_rowid(field)]
        self._unanswered: pa.RecordBatch | None = None
        self._emitted: list[pa.RecordBatch] = []
        self._has_returned = False

    def run(self, change: Callable[[pa.RecordBatchReader, DMLOptions], DMLResult]) -> None:
        """Run the change in a transaction and send the number of changed rows."""
        exchange, route = self._exchange, self._route
        exchange.send_schema(self._reply)
        try:
            with exchange.host.transactions.statement(route.catalog, route.registered_name):
                reader = pa.RecordBatchReader.from_batches(self._into, self._rows())
                result = change(reader, self._options())
                for _ in reader:
                    pass
                self._check_all_sent()
                self._check_returned(result)
        except Exception:
            # With RETURNING, the client waits for a reply and sends nothing more.
            if not exchange.returns_rows:
                with suppress(Exception):
                    exchange.drain()
            raise
        exchange.write_metadata(encode({"total_changed": int(result.affected_rows)}))

    def _options(self) -> DMLOptions:
        if not self._exchange.returns_rows:
            return DMLOptions()
        return DMLOptions(
            returning=True,
            returning_columns=tuple(name for name in self._reply.names if name != _ROWID),
            emit=self._emitted.append,
        )

    def _rows(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self._unanswered = batch
            self._exchange.bounds().check_rows(batch.num_rows, self._width)
            rows = self._cast(batch)
            if any(rows.column(position).null_count for position in self._rowid):
                raise NullRowIdError
            yield rows
            self._answer()

    def _check_all_sent(self) -> None:
        if self._emitted:
            raise InternalError(
                f"table {self._exchange.address} returned rows of a batch after reading the next"
            )

    def _check_returned(self, result: DMLResult) -> None:
        """Raise `UnsupportedError` if rows were changed but none were returned for RETURNING."""
        if self._exchange.returns_rows and result.affected_rows > 0 and not self._has_returned:
            raise UnsupportedError(
                f"table {self._exchange.address} does not support RETURNING: it changed "
                f"{counted(result.affected_rows, 'row')} and returned none"
            )

    def _answer(self) -> None:
        """Send the rows that the table emitted for the last batch, as exactly one batch."""
        batch, self._unanswered = self._unanswered, None
        if not self._exchange.returns_rows or batch is None:
            return
        emitted, self._emitted[:] = list(self._emitted), []
        self._has_returned = self._has_returned or bool(emitted)
        self._exchange.write(self._reply_batch(batch, emitted))

    def _reply_batch(self, batch: pa.RecordBatch, emitted: list[pa.RecordBatch]) -> pa.RecordBatch:
        if not emitted:
            return no_rows(self._reply)
        rows = pa.concat_batches(emitted) if len(emitted) > 1 else emitted[0]
        if rows.num_rows > _MAX_REPLY_ROWS:
            raise InternalError(
                f"table {self._exchange.address} returned {counted(rows.num_rows, 'row')} for "
                "one batch"
            )
        if _ROWID in self._reply.names and _ROWID not in rows.schema.names:
            if rows.num_rows != batch.num_rows:
                returned = counted(rows.num_rows, "row")
                raise InternalError(
                    f"table {self._exchange.address} returned {returned} without a rowid for "
                    f"{batch.num_rows} updated ones"
                )
            rows = rows.append_column(_ROWID, batch.column(_ROWID))
        return SchemaAdapter(rows.schema, self._reply, f"table {self._exchange.address}")(rows)


def _each_batch(
    change: Callable[[pa.Array, pa.RecordBatch, DMLOptions], DMLResult],
) -> Callable[[pa.RecordBatchReader, DMLOptions], DMLResult]:
    """Return a change of all rows that calls `change` with the row ids and rows of each batch."""

    def run(rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        affected = 0
        for batch in rows:
            position = next(i for i, f in enumerate(batch.schema) if field_is_rowid(f))
            row_ids = batch.column(position)
            affected += change(row_ids, batch.remove_column(position), options).affected_rows
        return DMLResult(affected)

    return run


def _table(
    exchange: Exchange, route: CatalogRoute, operation: Operation
) -> tuple[Table, pa.Schema]:
    """Return the table that the caller may write, and its columns."""
    table = route.table(exchange.address, operation)
    schema = table.arrow_schema()
    check_schema_tag(exchange.address, schema)
    return table, schema


def _with_rowid(columns: pa.Schema, received: pa.Schema, exchange: Exchange) -> pa.Schema:
    """Return the received columns in the types of the table's columns, with the rowid marked."""
    marked = next((field for field in columns if field_is_rowid(field)), None)
    if marked is None or received.get_field_index(_ROWID) < 0:
        raise UnsupportedError(f"table {exchange.address} has no row identifier")
    visible = without_rowid(columns).remove_metadata()
    _check_columns(
        pa.schema([field for field in received if field.name != _ROWID]), visible, exchange
    )
    return pa.schema(
        [
            rowid_field(_ROWID, marked.type)
            if field.name == _ROWID
            else visible.field(field.name).with_nullable(nullable=True)
            for field in received
        ]
    )


def _check_columns(received: pa.Schema, columns: pa.Schema, exchange: Exchange) -> None:
    for name in received.names:
        if columns.get_field_index(name) < 0:
            raise InvalidArgumentError(f"table {exchange.address} has no column {name!r}")

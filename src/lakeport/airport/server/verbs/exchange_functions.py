"""Function calls over DoExchange: scalar functions, and functions that take a table."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lakeport._wording import counted
from lakeport.airport.protocol.codec import decode_struct
from lakeport.airport.protocol.limits import Limits
from lakeport.airport.protocol.signatures import (
    decode_arguments,
    input_schema,
    output_schema,
    result_schema,
)
from lakeport.airport.server.routing import CatalogRoute
from lakeport.airport.server.verbs.do_exchange import Exchange
from lakeport.arrow import Alignment, no_rows, split
from lakeport.catalog import AnyType, ScalarFunction, ScanOptions, TableFunctionInOut
from lakeport.errors import InternalError, InvalidArgumentError, MessageTooLargeError
from lakeport.filters import Filter
from lakeport.filters.json import parse_filter

__all__ = ["call_in_out_function", "call_scalar_function"]

_CONTINUES = b"chunk_continues"
_FINISHED = b"chunk_finished"


def call_scalar_function(exchange: Exchange, route: CatalogRoute) -> None:
    """Send a batch of results for each batch of arguments, with as many rows."""
    received = exchange.input_schema()
    function = route.scalar_function(exchange.address)
    if len(received) != len(function.signature.parameters):
        raise InvalidArgumentError(
            f"function {exchange.address} takes {len(function.signature.parameters)} arguments, "
            f"not {len(received)}"
        )
    schema = output_schema(function)
    exchange.send_schema(schema)
    for batch in exchange.batches():
        result = _execute(function, batch, schema.field(0).type)
        exchange.write(pa.RecordBatch.from_arrays([result], schema=schema))


def call_in_out_function(exchange: Exchange, route: CatalogRoute) -> None:
    """Call a function with the rows of an exchange; send its rows while the input still arrives."""
    limits = exchange.host.limits
    # The first message may contain anything, also rows. It is read only for permitted callers.
    with exchange.after_columns():
        function = _in_out_function(exchange, route)
    # Reading the schema first would discard the parameters.
    parameters = exchange.read_metadata()
    received = exchange.input_schema()
    request = decode_struct(parameters, "parameters", limits=limits)
    arguments = decode_arguments(function, request.blob("parameters"), limits=limits)
    subject = f"function {exchange.address}"
    schema = result_schema(function.schema_for_input(arguments, received), subject)
    exchange.send_schema(schema)

    rows = _InputRows(exchange, schema)
    options = ScanOptions(
        filter=_filter_hint(request.text("json_filters", ""), limits),
        batch_size=exchange.host.batch_rows,
    )
    output = function.execute_in_out(
        arguments, pa.RecordBatchReader.from_batches(received, rows), options
    )
    align = Alignment(schema, output.schema, None, subject)
    for batch in output:
        for piece in split(
            align(batch),
            rows=exchange.host.batch_rows,
            size=exchange.host.max_message_size,
        ):
            exchange.write(piece, _CONTINUES)
    # A function may return before it has read its input; the client still waits for the replies.
    for _ in rows:
        pass
    exchange.write(rows.no_rows, _FINISHED)


def _in_out_function(exchange: Exchange, route: CatalogRoute) -> TableFunctionInOut:
    function = route.table_function(exchange.address)
    if not isinstance(function, TableFunctionInOut):
        raise InvalidArgumentError(f"function {exchange.address} does not take a table")
    return function


class _InputRows(Iterator[pa.RecordBatch]):
    """The input of an in-out call. Reading the next batch ends the reply to the previous one.

    The batch that ends a reply is always empty: DuckDB would wait forever after one of 2048 rows.
    """

    def __init__(self, exchange: Exchange, output: pa.Schema) -> None:
        self.no_rows = no_rows(output)
        self._exchange = exchange
        self._batches = exchange.batches()
        self._unanswered = False

    def __next__(self) -> pa.RecordBatch:
        if self._unanswered:
            self._unanswered = False
            self._exchange.write(self.no_rows, _FINISHED)
        batch = next(self._batches)
        self._unanswered = True
        return batch


def _filter_hint(filters: str, limits: Limits) -> Filter:
    """Return the client's filter of the result; one that exceeds a limit keeps every row."""
    try:
        return parse_filter(filters, max_bytes=limits.json_bytes, max_depth=limits.json_depth)
    except MessageTooLargeError:
        return Filter.always()


def _execute(function: ScalarFunction, batch: pa.RecordBatch, returns: pa.DataType) -> pa.Array:
    declared = function.signature.parameters
    if not any(isinstance(parameter.type, AnyType) for parameter in declared):
        # The client sends the declared types, but may send other column names.
        batch = (
            pa.RecordBatch.from_arrays(batch.columns, schema=input_schema(function.signature))
            if batch.num_columns
            else batch
        )
    result = function.execute(batch)
    if isinstance(result, pa.ChunkedArray):
        result = result.combine_chunks()
    if len(result) != batch.num_rows:
        raise InternalError(
            f"function {function.name!r} returned {counted(len(result), 'value')} for "
            f"{counted(batch.num_rows, 'row')}"
        )
    return result if result.type == returns else result.cast(returns)

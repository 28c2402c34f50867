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
from lakeport.airport.server.verbs.do_exchange import Exchange
from lakeport.arrow import Alignment, no_rows, split
from lakeport.catalog import AnyType, ScalarFunction, ScanOptions, TableFunctionInOut
from lakeport.errors import InternalError, InvalidArgumentError, MessageTooLargeError
from lakeport.filters import Filter
from lakeport.filters.json import parse_filter

__all__ = ["call_in_out_function", "call_scalar_function"]

_CONTINUES = b"chunk_continues"
_FINISHED = b"chunk_finished"


def call_scalar_function(exchange: Exchange) -> None:
    """One batch of arguments in, one batch of as many results out, until the client is done."""
    received = exchange.input_schema()
    function = exchange.routed().scalar_function(exchange.address)
    if len(received) != len(function.signature.parameters):
        raise InvalidArgumentError(
            f"function {exchange.address} takes {len(function.signature.parameters)} arguments, "
            f"not {len(received)}"
        )
    schema = output_schema(function)
    exchange.begin(schema)
    for batch in exchange.batches():
        result = _execute(function, batch, schema.field(0).type)
        exchange.write(pa.RecordBatch.from_arrays([result], schema=schema))


def call_in_out_function(exchange: Exchange) -> None:
    """Rows in, rows out: what the function yields is sent while its input still arrives."""
    limits = exchange.host.limits
    # The first message may be anything, also rows: only callers of the function make us read it.
    with exchange.refusing():
        function = _in_out_function(exchange)
    # Touching the schema first would lose the parameters.
    parameters = exchange.read_metadata()
    received = exchange.input_schema()
    request = decode_struct(parameters, "parameters", limits=limits)
    arguments = decode_arguments(function, request.blob("parameters"), limits=limits)
    what = f"function {exchange.address}"
    schema = result_schema(function.schema_for_input(arguments, received), what)
    exchange.begin(schema)

    rows = _InputRows(exchange, schema)
    options = ScanOptions(
        filter=_hint(request.text("json_filters", ""), limits),
        batch_size=exchange.host.batch_rows,
    )
    output = function.execute_in_out(
        arguments, pa.RecordBatchReader.from_batches(received, rows), options
    )
    align = Alignment(schema, output.schema, None, what)
    for batch in output:
        for piece in split(
            align(batch),
            rows=exchange.host.batch_rows,
            size=exchange.host.max_message_size,
        ):
            exchange.write(piece, _CONTINUES)
    # A function may stop before its input does; the client still waits for its answers.
    for _ in rows:
        pass
    exchange.write(rows.no_rows, _FINISHED)


def _in_out_function(exchange: Exchange) -> TableFunctionInOut:
    function = exchange.routed().table_function(exchange.address)
    if not isinstance(function, TableFunctionInOut):
        raise InvalidArgumentError(f"function {exchange.address} does not take a table")
    return function


class _InputRows(Iterator[pa.RecordBatch]):
    """The input of an in-out call. Asking for the next batch ends the answer to the last one.

    That answer is always empty: the client would wait forever after one of 2048 rows.
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


def _hint(filters: str, limits: Limits) -> Filter:
    """What the client would keep of the result; beyond the bounds, everything."""
    try:
        return parse_filter(filters, max_bytes=limits.json_bytes, max_depth=limits.json_depth)
    except MessageTooLargeError:
        return Filter.always()


def _execute(function: ScalarFunction, batch: pa.RecordBatch, returns: pa.DataType) -> pa.Array:
    declared = function.signature.parameters
    if not any(isinstance(parameter.type, AnyType) for parameter in declared):
        # The client labels the buffers with our own types, whatever their names.
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

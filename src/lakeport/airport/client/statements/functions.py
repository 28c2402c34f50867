"""Call scalar functions, table functions, and functions from rows to rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakeport.airport.client.catalog import AttachedCatalog
from lakeport.airport.client.connection import pack
from lakeport.airport.client.entries import FunctionKind, RemoteFunction
from lakeport.airport.client.replies import FlightDescription, read_flight_description
from lakeport.airport.client.scan import Bound, Scan
from lakeport.airport.client.statements.exchange import Exchange
from lakeport.airport.client.statements.overloads import (
    BoundCall,
    bind_call,
    column_argument,
    value_argument,
)
from lakeport.airport.client.statements.statement import Statement
from lakeport.airport.client.statements.writes import CHUNK_ROWS, chunks
from lakeport.airport.protocol.codec import write_schema
from lakeport.arrow import RowSource, reader_of, write_batch
from lakeport.catalog import AnyType, ParameterKind
from lakeport.errors import InternalError, InvalidArgumentError

__all__ = ["call_in_out", "call_scalar", "call_table"]

_CONTINUES = b"chunk_continues"
_FINISHED = b"chunk_finished"
_NO_FILTERS = '{"filters":[],"column_binding_names_by_index":[]}'


def call_scalar(
    catalog: AttachedCatalog, function: RemoteFunction, arguments: Sequence[Any], num_rows: int
) -> pa.Array:
    """Call a scalar function and return one result for every row of the arguments."""
    columns = [column_argument(value) for value in arguments]
    lengths = {len(each.array) for each in columns if not each.is_constant}
    if len(lengths) > 1:
        raise InvalidArgumentError(f"the arguments have different lengths: {sorted(lengths)}")
    rows = lengths.pop() if lengths else num_rows
    call = bind_call(function, FunctionKind.SCALAR, columns)
    declared = call.overload.returns
    if declared is None:
        raise InternalError(f"function {function} does not declare its return type")

    statement = catalog.begin(fetch_version=False)
    batches = [_repeated(call, [each.is_constant for each in columns], n) for n in _slices(rows)]
    with Exchange(
        catalog.connection,
        call.overload.descriptor,
        "scalar_function",
        statement.stream_headers(call.overload.descriptor),
        returns_rows=True,
    ) as exchange:
        reply = exchange.send_schema(_argument_schema(call))
        if not reply.equals(pa.schema([declared]), check_metadata=False):
            raise InternalError(
                f"function {function} is declared to return {declared}, but returns "
                f"{', '.join(map(str, reply)) or 'nothing'}"
            )
        results = []
        for batch in batches:
            exchange.send(batch)
            result = exchange.receive_rows().rows
            if result is None or result.num_rows != batch.num_rows:
                raise InternalError(f"function {function} did not return one value for each row")
            results.append(result.column(0))
    return pa.chunked_array(results, type=declared.type).combine_chunks()


def call_table(
    catalog: AttachedCatalog,
    function: RemoteFunction,
    positional: Sequence[Any],
    named: Mapping[str, Any],
) -> Scan:
    """Return the rows of a table function as a scan."""
    call = _bind_values(function, FunctionKind.TABLE, positional, named)

    def bind() -> Bound:
        statement = catalog.begin(fetch_version=False)
        row = _argument_row(call)
        info = _flight_info(catalog, statement, call, row, table_input_schema=b"")
        headers = statement.stream_headers(call.overload.descriptor, transactional=False)
        return Bound(call.overload.descriptor, info.schema, headers, arguments=row)

    return Scan(catalog.connection, bind, _subject=f"function {function}")


def call_in_out(
    catalog: AttachedCatalog,
    function: RemoteFunction,
    rows: RowSource,
    positional: Sequence[Any],
    named: Mapping[str, Any],
) -> pa.RecordBatchReader:
    """Call a function from rows to rows. Its rows are computed while the reader is read."""
    call = _bind_values(function, FunctionKind.IN_OUT, positional, named)
    source = reader_of(rows)
    statement = catalog.begin()
    row = _argument_row(call)
    info = _flight_info(
        catalog, statement, call, row, table_input_schema=write_schema(source.schema)
    )
    batches = _in_out_batches(catalog, statement, call, row, source, info.schema)
    return pa.RecordBatchReader.from_batches(info.schema, batches)


def _in_out_batches(
    catalog: AttachedCatalog,
    statement: Statement,
    call: BoundCall,
    row: bytes,
    source: pa.RecordBatchReader,
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    descriptor = call.overload.descriptor
    with Exchange(
        catalog.connection,
        descriptor,
        "table_function_in_out",
        statement.stream_headers(descriptor, transactional=False),
        returns_rows=True,
    ) as exchange:
        parameters = {
            "json_filters": _NO_FILTERS,
            "column_ids": [],
            "parameters": row,
            "at_unit": "",
            "at_value": "",
        }
        exchange.send_metadata(pack(parameters))
        reply = exchange.send_schema(source.schema)
        if reply.types != schema.types:
            raise InternalError("the function returns other columns than it announced")
        for batch in chunks(source):
            exchange.send(batch)
            yield from _replies(exchange, schema, may_end=False)
        exchange.finish()
        yield from _replies(exchange, schema, may_end=True)


def _replies(exchange: Exchange, schema: pa.Schema, *, may_end: bool) -> Iterator[pa.RecordBatch]:
    """Yield the replies to one chunk, up to the message that ends it."""
    while True:
        message = exchange.receive() if may_end else exchange.receive_rows()
        if message is None:
            return
        if message.rows is None or message.metadata not in (_CONTINUES, _FINISHED):
            raise InternalError("the function's reply does not show whether the chunk is finished")
        if message.rows.num_rows:
            yield pa.RecordBatch.from_arrays(message.rows.columns, schema=schema)
        if message.metadata == _FINISHED:
            return


def _bind_values(
    function: RemoteFunction,
    kind: FunctionKind,
    positional: Sequence[Any],
    named: Mapping[str, Any],
) -> BoundCall:
    return bind_call(
        function,
        kind,
        [value_argument(value) for value in positional],
        {name: value_argument(value) for name, value in named.items()},
    )


def _flight_info(
    catalog: AttachedCatalog,
    statement: Statement,
    call: BoundCall,
    row: bytes,
    *,
    table_input_schema: bytes,
) -> FlightDescription:
    descriptor = call.overload.descriptor
    request = {
        "descriptor": descriptor.serialize(),
        "parameters": row,
        "table_input_schema": table_input_schema,
        "at_unit": "",
        "at_value": "",
    }
    headers = statement.stream_headers(descriptor, transactional=False)
    info = read_flight_description(
        catalog.connection.request("table_function_flight_info", request, headers)
    )
    if info.descriptor != descriptor:
        raise InternalError("the server described another function than the one called")
    return info


def _argument_row(call: BoundCall) -> bytes:
    if not call.arrays:
        return write_batch(_rows_without_columns(1))
    return write_batch(pa.RecordBatch.from_arrays(list(call.arrays), schema=call.schema))


def _argument_schema(call: BoundCall) -> pa.Schema:
    """Return the declared parameters, or the types of the arguments if one may have any type."""
    parameters = [p for p in call.overload.parameters if p.kind is not ParameterKind.TABLE]
    if any(isinstance(p.type, AnyType) for p in parameters):
        return call.schema
    return pa.schema([pa.field(p.name, p.type) for p in parameters])


def _slices(rows: int) -> Iterator[tuple[int, int]]:
    for start in range(0, rows, CHUNK_ROWS):
        yield start, min(CHUNK_ROWS, rows - start)


def _repeated(
    call: BoundCall, is_constant: Sequence[bool], window: tuple[int, int]
) -> pa.RecordBatch:
    start, length = window
    if not call.arrays:
        return _rows_without_columns(length)
    arrays = [
        array.take(pa.repeat(0, length)) if constant else array.slice(start, length)
        for array, constant in zip(call.arrays, is_constant, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_argument_schema(call))


def _rows_without_columns(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=["_"]).select([])

"""Filter rows in memory: with Arrow where Arrow can evaluate the filter, else with DuckDB."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero

from lakeport.arrow import combine, relabel, thread_connection
from lakeport.errors import InvalidArgumentError, UnsupportedError, first_line
from lakeport.filters import ColumnRef, Expression, Filter, Unsupported, walk
from lakeport.filters.encoders import ArrowEncoder, DuckDBEncoder
from lakeport.types import has_zoned_nanoseconds

__all__ = ["RowFilter", "row_filter"]

RowFilter: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Takes a batch with all columns of the filter; returns the rows that pass."""


def row_filter(filter: Filter, schema: pa.Schema, *, exact: bool) -> RowFilter:
    """Return a function that filters batches of a schema.

    If not `exact`, conditions that Arrow cannot evaluate are left out, so more rows pass. If
    `exact`, DuckDB evaluates those; a condition that neither can evaluate raises UnsupportedError.
    """
    encoder = ArrowEncoder(schema, in_memory=True)
    truncated = _truncated_columns(schema)
    if not exact:
        return _by_arrow(encoder.encode(filter))
    quick, slow = [], []
    for conjunct in filter.conjuncts:
        expression = encoder.encode_expression(conjunct)
        if expression is not None:
            quick.append(expression)
        else:
            slow.append(_sql(conjunct, truncated))
    by_arrow = _by_arrow(reduce(pc.Expression.__and__, quick) if quick else None)
    if not slow:
        return by_arrow
    by_duckdb = _by_duckdb(" AND ".join(f"({part})" for part in slow))
    return lambda batch: by_duckdb(by_arrow(batch))


def _by_arrow(condition: pc.Expression | None) -> RowFilter:
    if condition is None:
        return lambda batch: batch

    def apply(batch: pa.RecordBatch) -> pa.RecordBatch:
        # As a table: pyarrow 26 cannot make a batch without rows that has a UUID in a list.
        try:
            rows = _filtered(pa.Table.from_batches([batch]), condition)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            reason = first_line(error)
            raise InvalidArgumentError(f"the filter cannot be evaluated: {reason}") from None
        return rows.combine_chunks().to_batches()[0] if rows.num_rows else batch.slice(0, 0)

    return apply


def _filtered(rows: pa.Table, condition: pc.Expression) -> pa.Table:
    """Return the rows that pass. `Table.filter` uses threads, which costs small batches the most.

    Large scans have a thread for each core already.
    """
    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(rows))
    passing = acero.Declaration("filter", acero.FilterNodeOptions(condition), [source])
    return passing.to_table(use_threads=False)


def _by_duckdb(condition: str) -> RowFilter:
    def apply(batch: pa.RecordBatch) -> pa.RecordBatch:
        import duckdb

        if not batch.num_rows:
            return batch
        rows = thread_connection().from_arrow(pa.Table.from_batches([batch]))
        try:
            passes = rows.project(f"coalesce(({condition}), false)").to_arrow_table().column(0)
        except duckdb.Error as error:
            reason = first_line(error)
            raise InvalidArgumentError(f"the filter cannot be evaluated: {reason}") from None
        return batch.filter(relabel(combine(passes), pa.bool_()))

    return apply


def _truncated_columns(schema: pa.Schema) -> frozenset[str]:
    """Return the columns whose values DuckDB cannot take from Arrow as they are.

    DuckDB 1.5 has no TIMESTAMPTZ_NS and drops the nanoseconds of an instant; 2.0 keeps them.
    """
    if has_zoned_nanoseconds():
        return frozenset()
    return frozenset(field.name for field in schema if _is_truncated(field.type))


def _is_truncated(type: pa.DataType) -> bool:
    if pa.types.is_timestamp(type):
        return type.unit == "ns" and type.tz is not None
    return any(_is_truncated(type.field(index).type) for index in range(type.num_fields))


def _sql(conjunct: Expression, truncated: frozenset[str]) -> str:
    for node in walk(conjunct):
        if isinstance(node, ColumnRef) and node.name in truncated:
            raise UnsupportedError(
                f"the filter on column {node.name!r}, a timestamptz_ns, needs DuckDB 2.0 or newer: "
                "DuckDB 1.5 compares only the microseconds of such values. Comparisons of the "
                "column with constants work with every version"
            )
    zoned_nanoseconds = has_zoned_nanoseconds()
    sql = DuckDBEncoder(zoned_nanoseconds=zoned_nanoseconds).encode_expression(conjunct)
    if sql is None:
        reasons = [node.reason for node in walk(conjunct) if isinstance(node, Unsupported)]
        detail = f": {', '.join(reasons)}" if reasons else ""
        raise UnsupportedError(f"a part of the filter cannot be evaluated{detail}")
    return sql

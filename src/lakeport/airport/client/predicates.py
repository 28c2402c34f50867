"""Filters of the client: bound to a table's columns, sent to the server, and applied again.

A server may return more rows than a filter matches, so every received row is tested again: by
DuckDB if the `duckdb` package is installed, otherwise by Arrow, which has fewer functions. DuckDB
returns only a mask; the rows keep their Arrow types.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import reduce
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.arrow import filter_rows, thread_sandbox
from lakeport.catalog import field_is_rowid
from lakeport.errors import (
    InvalidArgumentError,
    InvalidInputError,
    LakeportError,
    NotFoundError,
    UnsupportedError,
    first_line,
)
from lakeport.filters import ColumnRef, Constant, Expression, Filter, Term, Unsupported, bind, walk
from lakeport.filters.encoders import ArrowEncoder, DuckDBEncoder
from lakeport.types import Column, LogicalType, arrow_type, fold_name, from_arrow_type, normalize

__all__ = [
    "ROWID",
    "FilterLike",
    "Predicate",
    "as_condition",
    "bound_filter",
    "column_positions",
    "take_rows",
]

FilterLike: TypeAlias = Filter | Expression | Term | str
"""A filter: `col("id") > 5`, several joined by `&` and `|`, a `Filter`, or SQL text."""

ROWID = "rowid"
"""The name of the row identifier in queries. The field itself may have another name."""

_ROW_NUMBER = "__row_number"


def as_condition(filter: FilterLike) -> Filter | str:
    """Return a user's predicate as a filter. SQL text is parsed later, with the table's columns."""
    match filter:
        case Filter() | str():
            return filter
        case Term():
            return Filter.of(filter.expression)
        case Expression():
            return Filter.of(filter)
    raise InvalidArgumentError(
        f'{type(filter).__name__} is not a filter; build one like col("id") > 5, or write SQL'
    )


def bound_filter(conditions: Iterable[Filter | str], schema: pa.Schema) -> Filter:
    """Return the conjunction of all conditions, over the columns of a schema."""
    filters = (_parsed(c, schema) if isinstance(c, str) else c for c in conditions)
    return reduce(Filter.__and__, filters, Filter.always())


def _parsed(text: str, schema: pa.Schema) -> Filter:
    """Parse a condition. Raise UnsupportedError if a part of it cannot be expressed."""
    from lakeport.filters import parse_sql_filter

    columns = [
        Column(id=number, name=_query_name(field), type=_column_type(field))
        for number, field in enumerate(schema, 1)
    ]
    filter = parse_sql_filter(text, columns)
    for conjunct in filter.conjuncts:
        for node in walk(conjunct):
            if isinstance(node, Unsupported):
                raise UnsupportedError(f"the filter cannot contain this: {node.reason}")
    return filter


def _column_type(field: pa.Field) -> str:
    """Return the type of a quoted constant that is compared with the column; text by default."""
    try:
        column = Column(id=0, name=field.name, type=normalize(from_arrow_type(field.type).sql()))
        arrow_type(column)
    except LakeportError:
        return "varchar"
    return column.type


def column_positions(schema: pa.Schema) -> dict[str, int]:
    """Map folded column names to positions; `rowid` is the row identifier if no column has it."""
    positions: dict[str, int] = {}
    for index, field in enumerate(schema):
        if not field_is_rowid(field):
            positions.setdefault(fold_name(field.name), index)
    for index, field in enumerate(schema):
        if field_is_rowid(field):
            positions.setdefault(ROWID, index)
    return positions


class Predicate:
    """A filter bound to the columns of a table. Used by one thread at a time."""

    def __init__(self, filter: Filter, schema: pa.Schema) -> None:
        positions = column_positions(schema)
        missing = sorted(name for name in filter.columns if fold_name(name) not in positions)
        if missing:
            raise NotFoundError(f"there is no column {missing[0]!r} to filter by")
        indexes = {name: positions[fold_name(name)] for name in sorted(filter.columns)}
        names = {name: _query_name(schema.field(index)) for name, index in indexes.items()}
        self._columns = {names[name]: index for name, index in indexes.items()}
        typed = pa.schema([schema.field(i).with_name(n) for n, i in self._columns.items()])
        renamed = Filter(tuple(_renamed(conjunct, names) for conjunct in filter.conjuncts))
        self.filter = bind(renamed, typed)
        """The filter in the table's spelling and types, as it is sent."""
        exact = bind(renamed, typed, zoned_nanoseconds=True)
        self._evaluate = _evaluator(exact, typed) if self.filter else None

    @property
    def positions(self) -> tuple[int, ...]:
        """Return the positions of the filter's columns in the schema."""
        return tuple(self._columns.values())

    def matching_rows(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return the numbers of the rows of a batch that match; None if all of them do."""
        if self._evaluate is None or batch.num_rows == 0:
            return None
        tested = pa.RecordBatch.from_arrays(
            [batch.column(index) for index in self._columns.values()], names=list(self._columns)
        )
        numbers = self._evaluate(tested)
        return None if len(numbers) == batch.num_rows else numbers


def take_rows(array: pa.Array, numbers: pa.Array) -> pa.Array:
    """Return the rows with these numbers, which are in ascending order."""
    try:
        return array.take(numbers)
    except pa.ArrowNotImplementedError:
        # pyarrow 26: every type can be sliced, but `take` is missing for some.
        pieces = [array.slice(start, length) for start, length in _runs(numbers.to_pylist())]
        return pa.concat_arrays(pieces) if pieces else array.slice(0, 0)


Evaluator: TypeAlias = Callable[[pa.RecordBatch], pa.Array]
"""Takes the columns of a filter and returns the numbers of the matching rows."""


def _evaluator(filter: Filter, schema: pa.Schema) -> Evaluator:
    """Return what evaluates a filter: Arrow where it computes the same as DuckDB, else DuckDB."""
    encoder = ArrowEncoder(schema, in_memory=True)
    parts = [encoder.encode_expression(conjunct) for conjunct in filter.conjuncts]
    # pyarrow 26 cannot filter views.
    has_views = any("_view" in str(field.type) for field in schema)
    if all(part is not None for part in parts) and not has_views:
        return _arrow_evaluator(reduce(pc.Expression.__and__, parts))
    # DuckDB 1.5 drops the nanoseconds of instants; Arrow compares them as they are.
    zoned_nanoseconds = any(field.type == pa.timestamp("ns", "UTC") for field in schema)
    if importlib.util.find_spec("duckdb") is None or zoned_nanoseconds:
        raise UnsupportedError(
            "a part of the filter cannot be applied by Arrow alone; install the duckdb package"
        )
    return _duckdb_evaluator(filter)


def _duckdb_evaluator(filter: Filter) -> Evaluator:
    import duckdb

    encoder = DuckDBEncoder()
    parts = [encoder.encode_expression(conjunct) for conjunct in filter.conjuncts]
    condition = " AND ".join(part for part in parts if part is not None)
    if None in parts:
        raise UnsupportedError("a part of the filter cannot be applied to the received rows")

    def evaluate(tested: pa.RecordBatch) -> pa.Array:
        connection = thread_sandbox()
        connection.register("tested", pa.Table.from_batches([tested]))
        # DuckDB keeps the order of the rows because a sandbox has one thread.
        query = f"SELECT coalesce(({condition}), false) AS matches FROM tested"  # noqa: S608
        try:
            mask = connection.sql(query).to_arrow_table().column(0).combine_chunks()
        except duckdb.Error as error:
            reason = first_line(error)
            raise InvalidInputError(f"the filter cannot be applied: {reason}") from None
        finally:
            connection.unregister("tested")
        return pc.indices_nonzero(mask)

    return evaluate


def _arrow_evaluator(condition: pc.Expression) -> Evaluator:
    def evaluate(tested: pa.RecordBatch) -> pa.Array:
        numbered = tested.append_column(_ROW_NUMBER, pa.arange(0, tested.num_rows))
        try:
            passing = filter_rows(numbered, condition)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            reason = first_line(error)
            raise InvalidInputError(f"the filter cannot be applied: {reason}") from None
        return passing.column(_ROW_NUMBER).combine_chunks()

    return evaluate


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    """Return runs of consecutive numbers as (start, length)."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and sum(runs[-1]) == number:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((number, 1))
    return runs


def _query_name(field: pa.Field) -> str:
    return ROWID if field_is_rowid(field) else str(field.name)


def _renamed(node: Any, names: Mapping[str, str]) -> Any:
    """Return the tree with the table's spelling of the columns."""
    match node:
        case ColumnRef():
            return replace(node, name=names[node.name])
        case tuple():
            return tuple(_renamed(item, names) for item in node)
        case Constant() | LogicalType():
            return node
        case _ if is_dataclass(node) and not isinstance(node, type):
            parts = {
                field.name: _renamed(getattr(node, field.name), names) for field in fields(node)
            }
            return replace(node, **parts)
    return node

"""Which files can hold a matching row: a filter, seen through statistics and partition values.

Each predicate becomes SQL that asks "may this be true of some row of the file?", and DuckDB answers
it for all files at once, with its own order of values. What is unknown may be true.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeport.ducklake import kernel
from lakeport.ducklake.buckets import bucket_of
from lakeport.ducklake.model import Column, PartitionField, PartitionSpec
from lakeport.ducklake.queries import Row, ascii_lower
from lakeport.ducklake.types import duckdb_type
from lakeport.filters import (
    Between,
    Cast,
    ColumnRef,
    Comparison,
    ComparisonOp,
    Conjunction,
    ConjunctionOp,
    Constant,
    DuckDBEncoder,
    Expression,
    Filter,
    FunctionCall,
    In,
    IsNull,
    LogicalType,
    Not,
)

__all__ = ["PruningRules", "pruning_rules"]

Op = ComparisonOp
_MANY_ITEMS: Final = 200
_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_FLOATS = ("float32", "float64")
_ZONELESS = ("date", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns")
_TRUE: Final = Constant(value=True, type=LogicalType("BOOLEAN"))
_FALSE: Final = Constant(value=False, type=LogicalType("BOOLEAN"))
_NEGATED = {
    Op.EQUAL: Op.NOT_EQUAL,
    Op.NOT_EQUAL: Op.EQUAL,
    Op.LESS: Op.GREATER_OR_EQUAL,
    Op.LESS_OR_EQUAL: Op.GREATER,
    Op.GREATER: Op.LESS_OR_EQUAL,
    Op.GREATER_OR_EQUAL: Op.LESS,
}


@dataclass(frozen=True, slots=True)
class PruningRules:
    """A filter as questions to ask of every file."""

    stats_of: tuple[int, ...]
    """Columns whose statistics the questions are about."""
    statistics: str
    partition: str

    def keep(self, files: Sequence[Row]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """For each file whether its partition values and its statistics allow a match."""
        import duckdb

        if not files or (self.statistics == "TRUE" and self.partition == "TRUE"):
            return np.ones(len(files), np.bool_), np.ones(len(files), np.bool_)
        texts = [f"s{c}_{name}" for c in self.stats_of for name in ("min_value", "max_value")]
        numbers = [
            f"s{c}_{name}"
            for c in self.stats_of
            for name in ("value_count", "null_count", "contains_nan")
        ]
        keys = [name for name in files[0] if re.fullmatch(r"p\d+", name)]
        table = pa.table(
            {name: pa.array([f[name] for f in files], pa.string()) for name in [*texts, *keys]}
            | {
                name: pa.array([f[name] for f in files], pa.int64())
                for name in [*numbers, "partition_id"]
            }
        )
        question = f"({self.partition}) AS by_partition, ({self.statistics}) AS by_statistics"
        try:
            answer = kernel.connection().from_arrow(table).project(question).fetchnumpy()
        except duckdb.Error:  # two types that DuckDB does not compare: nothing is known
            return np.ones(len(files), np.bool_), np.ones(len(files), np.bool_)
        return np.asarray(answer["by_partition"], np.bool_), np.asarray(
            answer["by_statistics"], np.bool_
        )


def pruning_rules(
    filter: Filter,
    columns: Sequence[Column],
    specs: Mapping[int, PartitionSpec],
    retyped: frozenset[int],
) -> PruningRules:
    """Translate a filter; parts that say nothing about files become TRUE."""
    by_name = {ascii_lower(column.name): column for column in columns}
    statistics = _Statistics(retyped)
    stats_sql = _all(_may(part, by_name, statistics) for part in filter.conjuncts)
    cases = []
    for spec in specs.values():
        rules = _Partition(spec, retyped)
        sql = _all(_may(part, by_name, rules) for part in filter.conjuncts)
        if sql != "TRUE":
            cases.append(f"WHEN {spec.id} THEN {sql}")
    partition = f"CASE partition_id {' '.join(cases)} ELSE TRUE END" if cases else "TRUE"
    return PruningRules(tuple(sorted(statistics.used)), stats_sql, partition)


@dataclass(frozen=True, slots=True)
class _Target:
    """A column, or a field of a struct, perhaps under a cast that keeps the order of values."""

    column: Column
    cast: LogicalType | None = None


class _Rules(Protocol):
    """What is known of a file: its statistics, or its partition values."""

    def compare(self, op: ComparisonOp, target: _Target, literals: Sequence[str]) -> str | None:
        """May some row compare so with one of the literals? None if nothing is known."""

    def null(self, target: _Target, *, negated: bool) -> str | None:
        """May some row be NULL, or not NULL?"""


def _may(node: Expression, columns: Mapping[str, Column], rules: _Rules) -> str:
    """SQL that is true of every file with a row for which the expression is true."""
    match node:
        case Conjunction(op, children):
            parts = [_may(child, columns, rules) for child in children]
            return _all(parts) if op is ConjunctionOp.AND else _any(parts)
        case Comparison(op, left, right):
            return _compare(op, left, right, columns, rules)
        case Between():
            low, high = node.as_comparisons()
            return _all([_may(low, columns, rules), _may(high, columns, rules)])
        case In(probe, items, negated):
            return _in(probe, items, columns, rules, negated=negated)
        case IsNull(child, negated):
            target = _target(child, columns)
            return (target and rules.null(target, negated=negated)) or "TRUE"
        case Not(child):
            return _may_not(child, columns, rules)
        case FunctionCall("prefix" | "starts_with", (probe, Constant() as constant)):
            return _prefix(probe, constant, columns, rules)
        case ColumnRef() | FunctionCall("struct_extract"):
            return _compare(Op.EQUAL, node, _TRUE, columns, rules)
        case _:
            return "TRUE"


def _may_not(node: Expression, columns: Mapping[str, Column], rules: _Rules) -> str:
    match node:
        case Not(child):
            return _may(child, columns, rules)
        case Conjunction(op, children):
            parts = [_may_not(child, columns, rules) for child in children]
            return _any(parts) if op is ConjunctionOp.AND else _all(parts)
        case Comparison(op, left, right) if op in _NEGATED:
            return _compare(_NEGATED[op], left, right, columns, rules)
        case Between():
            return _any([_may_not(side, columns, rules) for side in node.as_comparisons()])
        case In(probe, items, negated):
            return _in(probe, items, columns, rules, negated=not negated)
        case IsNull(child, negated):
            return _may(IsNull(child, not negated), columns, rules)
        case ColumnRef() | FunctionCall("struct_extract"):
            return _compare(Op.EQUAL, node, _FALSE, columns, rules)
        case _:
            return "TRUE"


def _compare(
    op: ComparisonOp,
    left: Expression,
    right: Expression,
    columns: Mapping[str, Column],
    rules: _Rules,
) -> str:
    if isinstance(left, Constant) and not isinstance(right, Constant):
        left, right, op = right, left, op.flipped
    target = _target(left, columns)
    if target is None or not isinstance(right, Constant) or op is Op.DISTINCT:
        return "TRUE"
    if op is Op.NOT_DISTINCT:
        if right.value is None:
            return _may(IsNull(left), columns, rules)
        op = Op.EQUAL
    literal = _literal(right, target)
    return (literal and rules.compare(op, target, [literal])) or "TRUE"


def _in(
    probe: Expression,
    items: Sequence[Expression],
    columns: Mapping[str, Column],
    rules: _Rules,
    *,
    negated: bool,
) -> str:
    target = _target(probe, columns)
    if target is None or not items:
        return "TRUE"
    literals = [_literal(item, target) if isinstance(item, Constant) else None for item in items]
    known = [literal for literal in literals if literal is not None]
    if len(known) < len(literals):
        return "TRUE"
    if negated:
        return _all(rules.compare(Op.NOT_EQUAL, target, [literal]) or "TRUE" for literal in known)
    return rules.compare(Op.EQUAL, target, known) or "TRUE"


def _prefix(
    probe: Expression, constant: Constant, columns: Mapping[str, Column], rules: _Rules
) -> str:
    """Text that begins with a prefix is at or after it, and no bound before it is too small."""
    target = _target(probe, columns)
    if target is None or target.cast or target.column.type != "varchar":
        return "TRUE"
    literal = _literal(constant, target)
    return (literal and rules.compare(Op.GREATER_OR_EQUAL, target, [literal])) or "TRUE"


def _target(node: Expression, columns: Mapping[str, Column]) -> _Target | None:
    match node:
        case ColumnRef(name):
            column = columns.get(ascii_lower(name))
            return None if column is None else _Target(column)
        case FunctionCall("struct_extract", (inner, Constant(str() as name))):
            parent = _target(inner, columns)
            if parent is None or parent.cast or parent.column.type != "struct":
                return None
            children = {ascii_lower(child.name): child for child in parent.column.children}
            child = children.get(ascii_lower(name))
            return None if child is None else _Target(child)
        case Cast(inner, type, try_cast):
            target = _target(inner, columns)
            if target is None or target.cast or try_cast or not _keeps_order(target.column, type):
                return None
            return _Target(target.column, type)
        case _:
            return None


def _keeps_order(column: Column, type: LogicalType) -> bool:
    family = _family(column.type)
    return family == _family_of(type) and family in ("number", "moment")


def _literal(constant: Expression, target: _Target) -> str | None:
    """A constant as SQL, if it is compared with the column as a value of the column's kind."""
    if not isinstance(constant, Constant) or constant.value is None:
        return None
    if _family_of(constant.type) != _family(target.column.type):
        return None
    return DuckDBEncoder().encode_expression(constant)


class _Statistics:
    """What the column statistics of a file say."""

    def __init__(self, retyped: frozenset[int]) -> None:
        self._retyped = retyped
        self.used: set[int] = set()

    def compare(self, op: ComparisonOp, target: _Target, literals: Sequence[str]) -> str | None:
        column = target.column
        if not self._trusted(column):
            return None
        self.used.add(column.id)
        low, high = (self._bound(target, name) for name in ("min_value", "max_value"))
        known = f"s{column.id}_value_count"
        is_float = column.type in _FLOATS
        nan = f"coalesce(s{column.id}_contains_nan <> 0, TRUE)" if is_float else "FALSE"
        if op is Op.EQUAL and len(literals) > _MANY_ITEMS:
            least, greatest = f"least({', '.join(literals)})", f"greatest({', '.join(literals)})"
            asked = f"({low} <= {greatest} AND {high} >= {least}) OR {nan}"
        else:
            asked = _any(
                [self._one(op, low, high, literal, nan, is_float=is_float) for literal in literals]
            )
        return f"(coalesce({known} > 0, TRUE) AND coalesce({asked}, TRUE))"

    def null(self, target: _Target, *, negated: bool) -> str | None:
        column = target.column
        if (
            target.cast
            or column.children
            or column.type in ("timetz", "interval", "variant", "geometry")
        ):
            return None
        self.used.add(column.id)
        return f"coalesce(s{column.id}_{'value' if negated else 'null'}_count > 0, TRUE)"

    def _trusted(self, column: Column) -> bool:
        if _family(column.type) is None:
            return False
        # The text of old bounds is exact in the old type only.
        inexact = (*_FLOATS, "timestamptz", "timestamptz_ns")
        return not (column.id in self._retyped and column.type in inexact)

    def _bound(self, target: _Target, name: str) -> str:
        sql = f"TRY_CAST(s{target.column.id}_{name} AS {duckdb_type(target.column)})"
        return f"TRY_CAST({sql} AS {target.cast.sql()})" if target.cast else sql

    def _one(
        self, op: ComparisonOp, low: str, high: str, k: str, nan: str, *, is_float: bool
    ) -> str:
        """NaN is above every number and outside the bounds."""
        match op:
            case Op.EQUAL:
                equal = f"({low} <= {k} AND {high} >= {k})"
                return f"({equal} OR (isnan(CAST({k} AS DOUBLE)) AND {nan}))" if is_float else equal
            case Op.NOT_EQUAL:
                return f"({low} <> {k} OR {high} <> {k} OR {nan})"
            case Op.LESS | Op.LESS_OR_EQUAL:
                return f"({low} {op.value} {k})"
            case _:
                return f"({high} {op.value} {k} OR {nan})"


class _Partition:
    """What the partition values of a file say, by the spec that the file was written with."""

    def __init__(self, spec: PartitionSpec, retyped: frozenset[int]) -> None:
        self._fields = [(i, f) for i, f in enumerate(spec.fields) if f.column_id not in retyped]

    def compare(self, op: ComparisonOp, target: _Target, literals: Sequence[str]) -> str | None:
        if target.cast:
            return None
        mine = [(i, field) for i, field in self._fields if field.column_id == target.column.id]
        questions = [
            self._field(op, index, field, target.column, literals) for index, field in mine
        ]
        return (
            _all(f"coalesce({sql}, TRUE)" for sql in questions if sql) if any(questions) else None
        )

    def null(self, target: _Target, *, negated: bool) -> str | None:  # noqa: ARG002
        return None

    def _field(
        self,
        op: ComparisonOp,
        index: int,
        field: PartitionField,
        column: Column,
        literals: Sequence[str],
    ) -> str | None:
        key = f"p{index}"
        if field.transform == "identity":
            return self._identity(op, key, column, literals)
        bucket = re.fullmatch(r"bucket\((\d+)\)", field.transform)
        if bucket:
            return self._bucket(op, key, column, literals, int(bucket.group(1)))
        part = _TRANSFORMS.get(field.transform)
        if part is None or (
            column.type not in _ZONELESS and not field.transform.startswith("epoch_")
        ):
            return None
        value = f"TRY_CAST({key} AS BIGINT)"
        if op is Op.EQUAL:
            return _any([f"({value} = {part(literal)})" for literal in literals])
        if field.transform not in _MONOTONE:
            return None
        if op in (Op.LESS, Op.LESS_OR_EQUAL):
            return f"({value} <= {part(literals[0])})"
        return (
            f"({value} >= {part(literals[0])})" if op in (Op.GREATER, Op.GREATER_OR_EQUAL) else None
        )

    def _identity(
        self, op: ComparisonOp, key: str, column: Column, literals: Sequence[str]
    ) -> str | None:
        if column.type in _FLOATS or column.type.startswith("timestamptz"):
            return None
        value = f"TRY_CAST({key} AS {duckdb_type(column)})"
        return _any([f"({value} {op.value} {literal})" for literal in literals])

    def _bucket(
        self, op: ComparisonOp, key: str, column: Column, literals: Sequence[str], count: int
    ) -> str | None:
        if op is not Op.EQUAL or len(literals) > _MANY_ITEMS:
            return None
        buckets = [bucket_of(literal, column, count) for literal in literals]
        if any(bucket is None for bucket in buckets):
            return None
        return f"(TRY_CAST({key} AS BIGINT) IN ({', '.join(str(bucket) for bucket in buckets)}))"


_TRANSFORMS: Final[Mapping[str, Callable[[str], str]]] = {
    "year": lambda k: f"year({k})",
    "month": lambda k: f"month({k})",
    "day": lambda k: f"day({k})",
    "hour": lambda k: f"hour({k})",
    "epoch_year": lambda k: f"year({k}) - 1970",
    "epoch_month": lambda k: f"(year({k}) - 1970) * 12 + month({k}) - 1",
    "epoch_day": lambda k: f"date_diff('day', DATE '1970-01-01', CAST({k} AS DATE))",
    "epoch_hour": lambda k: f"CAST(floor(epoch({k}) / 3600) AS BIGINT)",
}
_MONOTONE: Final = frozenset({"year", "epoch_year", "epoch_month", "epoch_day", "epoch_hour"})


def _family(type: str) -> str | None:
    """Types whose values compare with each other by value; None where bounds cannot be trusted."""
    if type in _INTEGERS or type in _FLOATS or type.startswith("decimal("):
        return "number"
    if type in _ZONELESS:
        return "moment"
    if type in ("timestamptz", "timestamptz_ns"):
        return "instant"
    return {"boolean": "boolean", "varchar": "text", "uuid": "uuid", "time": "time"}.get(type)


def _family_of(type: LogicalType) -> str | None:
    if type.alias:
        return None
    numbers = (
        "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER",
        "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL",
    )  # fmt: skip
    if type.id in numbers:
        return "number"
    if type.id in ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"):
        return "moment"
    return {
        "TIMESTAMP WITH TIME ZONE": "instant",
        "BOOLEAN": "boolean",
        "VARCHAR": "text",
        "UUID": "uuid",
        "TIME": "time",
    }.get(type.id)


def _all(parts: Iterable[str]) -> str:
    said = [part for part in parts if part != "TRUE"]
    return f"({' AND '.join(said)})" if said else "TRUE"


def _any(parts: Iterable[str]) -> str:
    said = list(parts)
    return "TRUE" if not said or "TRUE" in said else f"({' OR '.join(said)})"

"""Find the files that may contain a matching row, by their statistics and partition values.

Each predicate becomes SQL that is true if some row of the file may match. DuckDB evaluates it for
all files at once, with its own order of values. A predicate without statistics is true.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from lakeport.arrow import thread_connection
from lakeport.ducklake.model import PartitionSpec
from lakeport.ducklake.planning.files import Mask
from lakeport.ducklake.planning.pruning_rules import (
    ComparedColumn,
    ComparedLiteral,
    PartitionRules,
    Rules,
    StatisticsRules,
    all_of,
    any_of,
    family,
    family_of,
)
from lakeport.filters import (
    Between,
    Cast,
    ColumnRef,
    Comparison,
    ComparisonOp,
    Conjunction,
    ConjunctionOp,
    Constant,
    Expression,
    Filter,
    FunctionCall,
    In,
    IsNull,
    Not,
)
from lakeport.filters.encoders import DuckDBEncoder
from lakeport.types import Column, LogicalType, fold_name, has_zoned_nanoseconds

__all__ = ["PruningRules", "may_match", "pruning_rules"]

Op = ComparisonOp
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
    """A filter as SQL conditions on the statistics and the partition values of files."""

    statistics_columns: tuple[int, ...]
    """The columns whose statistics the conditions use."""
    statistics: str
    partition: str

    @property
    def decides_nothing(self) -> bool:
        """Whether every file may match, whatever the catalog records about it."""
        return self.statistics == "TRUE" and self.partition == "TRUE"

    def keep(self, files: pa.Table) -> tuple[Mask, Mask]:
        """Return for each file whether its partition values and its statistics allow a match."""
        import duckdb

        everything = np.ones(files.num_rows, np.bool_)
        if not files.num_rows or self.decides_nothing:
            return everything, everything
        conditions = f"({self.partition}) AS by_partition, ({self.statistics}) AS by_statistics"
        try:
            answer = thread_connection().from_arrow(files).project(conditions).fetchnumpy()
        except duckdb.Error:  # types that DuckDB does not compare: every file may match
            return everything, everything
        return np.asarray(answer["by_partition"], np.bool_), np.asarray(
            answer["by_statistics"], np.bool_
        )

    def without_statistics(self) -> PruningRules:
        """Return the same rules for files whose statistics the database has compared."""
        return PruningRules((), "TRUE", self.partition)


def pruning_rules(
    filter: Filter,
    columns: Sequence[Column],
    specs: Mapping[int, PartitionSpec],
    columns_with_older_types: frozenset[int],
) -> PruningRules:
    """Translate a filter; parts that no statistics or partition values decide become TRUE."""
    by_name = {fold_name(column.name): column for column in columns}
    statistics = StatisticsRules(columns_with_older_types)
    stats_sql = all_of(may_match(part, by_name, statistics) for part in filter.conjuncts)
    cases = []
    for spec in specs.values():
        rules = PartitionRules(spec, columns_with_older_types)
        sql = all_of(may_match(part, by_name, rules) for part in filter.conjuncts)
        if sql != "TRUE":
            cases.append(f"WHEN {spec.id} THEN {sql}")
    by_spec = f"CASE partition_id {' '.join(cases)} ELSE TRUE END"
    # The partition values of an added file come from its folders; its rows may differ.
    partition = f"mapping_id IS NOT NULL OR {by_spec}" if cases else "TRUE"
    return PruningRules(tuple(sorted(statistics.used)), stats_sql, partition)


def may_match(node: Expression, columns: Mapping[str, Column], rules: Rules) -> str:
    """Return SQL that is true for every file that may contain a matching row."""
    match node:
        case Conjunction(op, children):
            parts = [may_match(child, columns, rules) for child in children]
            return all_of(parts) if op is ConjunctionOp.AND else any_of(parts)
        case Comparison(op, left, right):
            return _compare(op, left, right, columns, rules)
        case Between():
            low, high = node.as_comparisons()
            return all_of([may_match(low, columns, rules), may_match(high, columns, rules)])
        case In(probe, items, negated):
            return _in(probe, items, columns, rules, negated=negated)
        case IsNull(child, negated):
            target = _target(child, columns)
            return (target and rules.null(target, negated=negated)) or "TRUE"
        case Not(child):
            return _may_not_match(child, columns, rules)
        case FunctionCall("prefix" | "starts_with", (probe, Constant() as constant)):
            return _prefix(probe, constant, columns, rules)
        case FunctionCall("~~", (probe, Constant(str() as pattern) as constant)):
            prefix = replace(constant, value=re.split(r"[%_\\]", pattern, maxsplit=1)[0])
            return _prefix(probe, prefix, columns, rules)
        case ColumnRef() | FunctionCall("struct_extract"):
            return _compare(Op.EQUAL, node, _TRUE, columns, rules)
        case _:
            return "TRUE"


def _may_not_match(node: Expression, columns: Mapping[str, Column], rules: Rules) -> str:
    match node:
        case Not(child):
            return may_match(child, columns, rules)
        case Conjunction(op, children):
            parts = [_may_not_match(child, columns, rules) for child in children]
            return any_of(parts) if op is ConjunctionOp.AND else all_of(parts)
        case Comparison(op, left, right) if op in _NEGATED:
            return _compare(_NEGATED[op], left, right, columns, rules)
        case Between():
            return any_of([_may_not_match(side, columns, rules) for side in node.as_comparisons()])
        case In(probe, items, negated):
            return _in(probe, items, columns, rules, negated=not negated)
        case IsNull(child, negated):
            return may_match(IsNull(child, not negated), columns, rules)
        case ColumnRef() | FunctionCall("struct_extract"):
            return _compare(Op.EQUAL, node, _FALSE, columns, rules)
        case _:
            return "TRUE"


def _compare(
    op: ComparisonOp,
    left: Expression,
    right: Expression,
    columns: Mapping[str, Column],
    rules: Rules,
) -> str:
    if isinstance(left, Constant) and not isinstance(right, Constant):
        left, right, op = right, left, op.flipped
    target = _target(left, columns)
    if target is None or not isinstance(right, Constant) or op is Op.DISTINCT:
        return "TRUE"
    if op is Op.NOT_DISTINCT:
        if right.value is None:
            return may_match(IsNull(left), columns, rules)
        op = Op.EQUAL
    literal = _literal(right, target)
    return (literal and rules.compare(op, target, [literal])) or "TRUE"


def _in(
    probe: Expression,
    items: Sequence[Expression],
    columns: Mapping[str, Column],
    rules: Rules,
    *,
    negated: bool,
) -> str:
    target = _target(probe, columns)
    if target is None or not items:
        return "TRUE"
    literals = [_literal(item, target) if isinstance(item, Constant) else None for item in items]
    encoded = [literal for literal in literals if literal is not None]
    if len(encoded) < len(literals):
        return "TRUE"
    if negated:
        excluded = (rules.compare(Op.NOT_EQUAL, target, [literal]) for literal in encoded)
        return all_of(sql or "TRUE" for sql in excluded)
    return rules.compare(Op.EQUAL, target, encoded) or "TRUE"


def _prefix(
    probe: Expression, constant: Constant, columns: Mapping[str, Column], rules: Rules
) -> str:
    """Compare with the prefix p: a text that starts with it is >= p, and < the text after them."""
    target = _target(probe, columns)
    if target is None or target.cast or target.column.type != "varchar" or not constant.value:
        return "TRUE"
    parts = [_compare(Op.GREATER_OR_EQUAL, probe, constant, columns, rules)]
    last = ord(constant.value[-1])
    # The code points after these two are no characters.
    if last not in (0xD7FF, 0x10FFFF):
        after = replace(constant, value=constant.value[:-1] + chr(last + 1))
        parts.append(_compare(Op.LESS, probe, after, columns, rules))
    return all_of(parts)


def _target(node: Expression, columns: Mapping[str, Column]) -> ComparedColumn | None:
    match node:
        case ColumnRef(name):
            column = columns.get(fold_name(name))
            return None if column is None else ComparedColumn(column)
        case FunctionCall("struct_extract", (inner, Constant(str() as name))):
            parent = _target(inner, columns)
            if parent is None or parent.cast or parent.column.type != "struct":
                return None
            children = {fold_name(child.name): child for child in parent.column.children}
            child = children.get(fold_name(name))
            return None if child is None else ComparedColumn(child)
        case Cast(inner, type, try_cast):
            target = _target(inner, columns)
            if target is None or target.cast or try_cast or not _keeps_order(target.column, type):
                return None
            return ComparedColumn(target.column, type)
        case _:
            return None


def _keeps_order(column: Column, type: LogicalType) -> bool:
    kind = family(column.type)
    return kind == family_of(type) and kind in ("number", "timestamp")


def _literal(constant: Expression, target: ComparedColumn) -> ComparedLiteral | None:
    """Return a constant with its SQL, if its type is in the same family as the column's type."""
    if not isinstance(constant, Constant) or constant.value is None:
        return None
    kind = family(target.column.type)
    if kind is None or kind != family_of(constant.type):
        return None
    # A client without TIMESTAMPTZ_NS compares microseconds; bounds in nanoseconds do not apply.
    if target.column.type == "timestamptz_ns" and constant.type.id != "TIMESTAMPTZ_NS":
        return None
    zoned_nanoseconds = has_zoned_nanoseconds()
    sql = DuckDBEncoder(zoned_nanoseconds=zoned_nanoseconds).encode_expression(constant)
    return None if sql is None else ComparedLiteral(constant, sql)

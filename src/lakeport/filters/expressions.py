"""The predicate as an immutable tree.

    Expression
    ├── ColumnRef, Constant
    ├── Comparison, Between, In, IsNull
    ├── Conjunction, Not
    ├── Coalesce, Case, Cast, FunctionCall
    └── Unsupported      any other expression

A ``Filter`` is a list of conjuncts that must all be true. An encoder may keep more rows than the
filter, never fewer, because DuckDB applies the filter again.
"""

from __future__ import annotations

import enum
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from lakeport.types import BOOLEAN, UNKNOWN, LogicalType

__all__ = [
    "Between",
    "Case",
    "CaseBranch",
    "Cast",
    "Coalesce",
    "ColumnRef",
    "Comparison",
    "ComparisonOp",
    "Conjunction",
    "ConjunctionOp",
    "Constant",
    "Expression",
    "Filter",
    "FunctionCall",
    "In",
    "IsNull",
    "Not",
    "Unsupported",
    "subexpressions",
    "type_of",
    "walk",
]


class ComparisonOp(enum.Enum):
    """How two values are compared; the value is DuckDB's SQL operator."""

    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    DISTINCT = "IS DISTINCT FROM"
    NOT_DISTINCT = "IS NOT DISTINCT FROM"

    @property
    def flipped(self) -> ComparisonOp:
        """Return the operator with the same meaning after the two sides change places."""
        return _FLIPPED.get(self, self)


_FLIPPED = {
    ComparisonOp.LESS: ComparisonOp.GREATER,
    ComparisonOp.LESS_OR_EQUAL: ComparisonOp.GREATER_OR_EQUAL,
    ComparisonOp.GREATER: ComparisonOp.LESS,
    ComparisonOp.GREATER_OR_EQUAL: ComparisonOp.LESS_OR_EQUAL,
}


class ConjunctionOp(enum.Enum):
    """How boolean children are joined; the value is the SQL keyword."""

    AND = "AND"
    OR = "OR"


class Expression:
    """A node of the tree; ``&``, ``|`` and ``~`` join boolean expressions."""

    __slots__ = ()

    def __and__(self, other: Expression) -> Conjunction:
        return _conjunction(ConjunctionOp.AND, self, other)

    def __or__(self, other: Expression) -> Conjunction:
        return _conjunction(ConjunctionOp.OR, self, other)

    def __invert__(self) -> Not:
        return Not(self)

    def __bool__(self) -> NoReturn:
        # Python's `and`, `or`, `not` and `1 < x < 5` call it, and would drop one side.
        raise TypeError(
            "a predicate is true or false for a row, not by itself: join predicates with &, | "
            "and ~ instead of and, or and not, and write a < x < b as (x > a) & (x < b)"
        )


@dataclass(frozen=True, slots=True)
class ColumnRef(Expression):
    """A column of the table, by name."""

    name: str
    type: LogicalType = UNKNOWN


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Expression):
    """A typed value, ``None`` for NULL; ``json.decode`` lists the Python value of each type."""

    value: Any
    type: LogicalType

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Constant):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[object, LogicalType]:
        return _identity(self.value), self.type


@dataclass(frozen=True, slots=True)
class Comparison(Expression):
    """``left op right``."""

    op: ComparisonOp
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Conjunction(Expression):
    """Children joined by AND or by OR."""

    op: ConjunctionOp
    children: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Between(Expression):
    """``input`` between two bounds, each inclusive or not."""

    input: Expression
    lower: Expression
    upper: Expression
    lower_inclusive: bool = True
    upper_inclusive: bool = True

    def as_comparisons(self) -> tuple[Comparison, Comparison]:
        """Return the two comparisons whose AND is this expression."""
        low = ComparisonOp.GREATER_OR_EQUAL if self.lower_inclusive else ComparisonOp.GREATER
        high = ComparisonOp.LESS_OR_EQUAL if self.upper_inclusive else ComparisonOp.LESS
        return Comparison(low, self.input, self.lower), Comparison(high, self.input, self.upper)


@dataclass(frozen=True, slots=True)
class In(Expression):
    """``probe IN (items)`` or ``probe NOT IN (items)``; the items may be any expressions."""

    probe: Expression
    items: tuple[Expression, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Not(Expression):
    """The boolean opposite; NULL stays NULL."""

    child: Expression


@dataclass(frozen=True, slots=True)
class IsNull(Expression):
    """``child IS NULL`` or ``child IS NOT NULL``."""

    child: Expression
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Coalesce(Expression):
    """The first child that is not NULL."""

    children: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class FunctionCall(Expression):
    """A function or operator of DuckDB, or of another catalog if ``catalog`` names it."""

    name: str
    arguments: tuple[Expression, ...]
    return_type: LogicalType
    is_operator: bool = False
    catalog: str = ""
    schema: str = ""

    @property
    def is_builtin(self) -> bool:
        """Return whether the function is DuckDB's own."""
        return self.catalog in ("", "system") and self.schema in ("", "main", "pg_catalog")


@dataclass(frozen=True, slots=True)
class Cast(Expression):
    """``CAST(child AS type)``, or ``TRY_CAST`` where a failure gives NULL."""

    child: Expression
    type: LogicalType
    try_cast: bool = False


@dataclass(frozen=True, slots=True)
class CaseBranch:
    """``WHEN when THEN then``."""

    when: Expression
    then: Expression


@dataclass(frozen=True, slots=True)
class Case(Expression):
    """``CASE`` with its branches and its ELSE."""

    branches: tuple[CaseBranch, ...]
    otherwise: Expression


@dataclass(frozen=True, slots=True)
class Unsupported(Expression):
    """Something that cannot be evaluated here; what contains it is widened."""

    reason: str


@dataclass(frozen=True, slots=True)
class Filter:
    """Conjuncts that must all be true; without conjuncts every row passes."""

    conjuncts: tuple[Expression, ...] = ()

    @classmethod
    def always(cls) -> Filter:
        """Return the filter that every row passes."""
        return cls()

    @classmethod
    def of(cls, *expressions: Expression) -> Filter:
        """Return a filter of these predicates, with every outer AND split into its children."""
        return cls(tuple(part for expression in expressions for part in _conjuncts(expression)))

    @property
    def columns(self) -> frozenset[str]:
        """Return the names of all columns of the filter."""
        return frozenset(
            node.name
            for conjunct in self.conjuncts
            for node in walk(conjunct)
            if isinstance(node, ColumnRef)
        )

    def __bool__(self) -> bool:
        return bool(self.conjuncts)

    def __and__(self, other: Filter) -> Filter:
        added = tuple(part for part in other.conjuncts if part not in self.conjuncts)
        return Filter(self.conjuncts + added)


def type_of(expression: Expression) -> LogicalType:
    """Return the type of the expression's value, ``UNKNOWN`` if it is not given."""
    match expression:
        case ColumnRef() | Constant() | Cast():
            return expression.type
        case FunctionCall():
            return expression.return_type
        case Coalesce():
            return type_of(expression.children[0]) if expression.children else UNKNOWN
        case Case():
            return type_of(expression.otherwise)
        case Unsupported():
            return UNKNOWN
        case _:
            return BOOLEAN


def subexpressions(expression: Expression) -> tuple[Expression, ...]:
    """Return the direct children of a node."""
    match expression:
        case Comparison(_, left, right):
            return (left, right)
        case Conjunction(_, children) | Coalesce(children):
            return children
        case Between():
            return (expression.input, expression.lower, expression.upper)
        case In(probe, items):
            return (probe, *items)
        case Not(child) | IsNull(child) | Cast(child):
            return (child,)
        case FunctionCall():
            return expression.arguments
        case Case(branches, otherwise):
            return (*(part for b in branches for part in (b.when, b.then)), otherwise)
        case _:
            return ()


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield the node and all nodes below it."""
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(subexpressions(node)))


def _conjunction(op: ConjunctionOp, left: Expression, right: Expression) -> Conjunction:
    children: list[Expression] = []
    for side in (left, right):
        same = isinstance(side, Conjunction) and side.op is op
        children.extend(subexpressions(side) if same else (side,))
    return Conjunction(op, tuple(children))


def _conjuncts(expression: Expression) -> Iterator[Expression]:
    if isinstance(expression, Conjunction) and expression.op is ConjunctionOp.AND:
        for child in expression.children:
            yield from _conjuncts(child)
    else:
        yield expression


def _identity(value: Any) -> object:
    # Structural equality: NaN equals itself, and 0.0 differs from -0.0.
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack(">d", value)
    if isinstance(value, tuple):
        return tuple(_identity(item) for item in value)
    return value

"""Encode predicates that a target cannot express fully: keep more rows, never fewer.

An expression is encoded in one of two ways. ``exact``: the target computes its value, NULL
included. ``widened``: the encoding is true for every row for which the expression is true. An AND
may lose children and a BETWEEN a bound, because fewer conditions keep more rows. An OR needs all
its children. Every other expression, and every expression under a NOT, must be exact.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Generic, TypeVar

from lakeport.filters.expressions import (
    Between,
    ColumnRef,
    Conjunction,
    ConjunctionOp,
    Expression,
    Filter,
    In,
    Unsupported,
)
from lakeport.filters.visitor import Visitor

__all__ = ["SqlEncoder", "WideningEncoder"]

T = TypeVar("T")


class WideningEncoder(Visitor[T | None], Generic[T]):
    """Encodes predicates for a target; ``None`` means that the target cannot express it."""

    @abstractmethod
    def join(self, op: ConjunctionOp, parts: Sequence[T]) -> T:
        """Return the AND or OR of several encoded predicates."""

    def predicate(self, expression: Expression) -> T | None:
        """Return an encoding that is true wherever the expression is; by default the exact one."""
        return self.visit(expression)

    def widened_filter(self, filter: Filter) -> T | None:
        """Encode a filter; return ``None`` if nothing of it can be expressed."""
        parts = [
            part
            for conjunct in filter.conjuncts
            if (part := self._encode_or_none(conjunct)) is not None
        ]
        return self._join(ConjunctionOp.AND, parts)

    def widened(self, expression: Expression) -> T | None:
        """Encode a predicate, dropping what cannot be expressed where that keeps more rows."""
        match expression:
            case Conjunction(ConjunctionOp.AND, children):
                return self._all_of(children)
            case Conjunction(ConjunctionOp.OR, children):
                parts = [self.widened(child) for child in children]
                encoded = [part for part in parts if part is not None]
                return self._join(ConjunctionOp.OR, encoded) if len(encoded) == len(parts) else None
            case Between():
                exact = self.predicate(expression)
                return exact if exact is not None else self._all_of(expression.as_comparisons())
            case _:
                return self.predicate(expression)

    def visit_conjunction(self, expression: Conjunction) -> T | None:
        """Join children by AND or OR if all of them are exact."""
        parts = [part for child in expression.children if (part := self.visit(child)) is not None]
        complete = len(parts) == len(expression.children)
        return self._join(expression.op, parts) if complete else None

    def visit_unsupported(self, expression: Unsupported) -> T | None:  # noqa: ARG002
        """Return ``None``: no target can express it."""
        return None

    def _encode_or_none(self, conjunct: Expression) -> T | None:
        try:
            return self.widened(conjunct)
        except RecursionError:
            return None

    def _all_of(self, children: Sequence[Expression]) -> T | None:
        parts = [part for child in children if (part := self.widened(child)) is not None]
        return self._join(ConjunctionOp.AND, parts)

    def _join(self, op: ConjunctionOp, parts: Sequence[T]) -> T | None:
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else self.join(op, parts)


class SqlEncoder(WideningEncoder[str]):
    """Writes filters as SQL text.

    ``column_mapping`` renames columns. ``column_expressions`` replaces columns by SQL, which is
    taken as it is. ``columns``, if given, are the only ones that exist: predicates on others are
    dropped.
    """

    def __init__(
        self,
        *,
        column_mapping: Mapping[str, str] | None = None,
        column_expressions: Mapping[str, str] | None = None,
        columns: Collection[str] | None = None,
    ) -> None:
        self._mapping = dict(column_mapping or {})
        self._expressions = dict(column_expressions or {})
        self._columns = None if columns is None else frozenset(columns)

    @abstractmethod
    def quoted(self, name: str) -> str | None:
        """Return a quoted column name; ``None`` if it cannot be written safely."""

    def encode(self, filter: Filter) -> str:
        """Return a WHERE condition that keeps at least the rows of the filter, or ``""``."""
        return self.widened_filter(filter) or ""

    def encode_expression(self, expression: Expression) -> str | None:
        """Return the expression without widening; ``None`` if it cannot be expressed exactly."""
        return self.visit(expression)

    def join(self, op: ConjunctionOp, parts: Sequence[str]) -> str:
        """Join predicates by AND or OR."""
        return f"({f' {op.value} '.join(parts)})"

    def encode_empty_in(self, expression: In) -> str:
        """Return an IN without items, which SQL cannot write: no value is in it, not even NULL."""
        return "TRUE" if expression.negated else "FALSE"

    def column(self, expression: ColumnRef) -> str | None:
        """Return a quoted name, or the SQL that replaces it; ``None`` for a missing column."""
        if expression.name in self._expressions:
            return f"({self._expressions[expression.name]})"
        if self._columns is not None and expression.name not in self._columns:
            return None
        return self.quoted(self._mapping.get(expression.name, expression.name))

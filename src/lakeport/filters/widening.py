"""What to do with a predicate that a target cannot express: keep more rows, never fewer.

Two questions are asked of an expression. ``exact``: can the target compute its value, NULL
included? ``widened``: is there a predicate of the target that is true for every row for which the
expression is true? An AND may lose children and a BETWEEN a bound, because fewer conditions keep
more rows. An OR needs all its children. Everything else, and so everything under a NOT, must be
exact.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from lakeport.filters.expressions import (
    Between,
    Conjunction,
    ConjunctionOp,
    Expression,
    Filter,
    Unsupported,
)
from lakeport.filters.visitor import Visitor

__all__ = ["WideningEncoder"]

T = TypeVar("T")


class WideningEncoder(Visitor[T | None], Generic[T]):
    """Encodes predicates for a target; ``None`` stands for what the target cannot express."""

    @abstractmethod
    def joined(self, op: ConjunctionOp, parts: Sequence[T]) -> T:
        """The AND or OR of several encoded predicates."""

    def predicate(self, expression: Expression) -> T | None:
        """An encoding that is true wherever the expression is true; by default the exact one."""
        return self.visit(expression)

    def widened_filter(self, filter: Filter) -> T | None:
        """Encode a filter; ``None`` if nothing of it can be expressed."""
        parts = [
            part for conjunct in filter.conjuncts if (part := self._guarded(conjunct)) is not None
        ]
        return self._join(ConjunctionOp.AND, parts)

    def widened(self, expression: Expression) -> T | None:
        """Encode a predicate, dropping what cannot be expressed where that keeps more rows."""
        match expression:
            case Conjunction(ConjunctionOp.AND, children):
                return self._all_of(children)
            case Conjunction(ConjunctionOp.OR, children):
                parts = [self.widened(child) for child in children]
                known = [part for part in parts if part is not None]
                return self._join(ConjunctionOp.OR, known) if len(known) == len(parts) else None
            case Between():
                exact = self.predicate(expression)
                return exact if exact is not None else self._all_of(expression.as_comparisons())
            case _:
                return self.predicate(expression)

    def visit_conjunction(self, expression: Conjunction) -> T | None:
        """AND and OR are exact if all children are."""
        parts = [part for child in expression.children if (part := self.visit(child)) is not None]
        complete = len(parts) == len(expression.children)
        return self._join(expression.op, parts) if complete else None

    def visit_unsupported(self, expression: Unsupported) -> T | None:  # noqa: ARG002
        """No target can express it."""
        return None

    def _guarded(self, conjunct: Expression) -> T | None:
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
        return parts[0] if len(parts) == 1 else self.joined(op, parts)

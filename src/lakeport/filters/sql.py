"""What the SQL encoders share: their options, and how a column becomes SQL."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence

from lakeport.filters.expressions import ColumnRef, ConjunctionOp, Expression, Filter, In
from lakeport.filters.widening import WideningEncoder

__all__ = ["SqlEncoder"]


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
        """A column name that cannot leave its place; ``None`` if it cannot be written safely."""

    def encode(self, filter: Filter) -> str:
        """The body of a WHERE clause that keeps at least the rows of the filter, or ``""``."""
        return self.widened_filter(filter) or ""

    def encode_expression(self, expression: Expression) -> str | None:
        """The expression itself, not widened; ``None`` if it cannot be expressed exactly."""
        return self.visit(expression)

    def joined(self, op: ConjunctionOp, parts: Sequence[str]) -> str:
        """Predicates joined by AND or OR."""
        return f"({f' {op.value} '.join(parts)})"

    def among_nothing(self, expression: In) -> str:
        """IN without items, which SQL cannot write: nothing is among no values, not even NULL."""
        return "TRUE" if expression.negated else "FALSE"

    def column(self, expression: ColumnRef) -> str | None:
        """A quoted name, or the SQL that stands for it; ``None`` for a column that is not there."""
        if expression.name in self._expressions:
            return f"({self._expressions[expression.name]})"
        if self._columns is not None and expression.name not in self._columns:
            return None
        return self.quoted(self._mapping.get(expression.name, expression.name))

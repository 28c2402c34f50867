"""One method per kind of node: the way every encoder walks the tree."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from lakeport.filters.expressions import (
    Between,
    Case,
    Cast,
    Coalesce,
    ColumnRef,
    Comparison,
    Conjunction,
    Constant,
    Expression,
    FunctionCall,
    In,
    IsNull,
    Not,
    Unsupported,
)

__all__ = ["Visitor"]

T = TypeVar("T")


class Visitor(ABC, Generic[T]):
    """Turns an expression into a ``T``; ``visit`` calls the method of the node's kind."""

    def visit(self, expression: Expression) -> T:  # noqa: C901 - one case for each kind of node
        """Turn any expression into a ``T``."""
        match expression:
            case ColumnRef():
                return self.visit_column_ref(expression)
            case Constant():
                return self.visit_constant(expression)
            case Comparison():
                return self.visit_comparison(expression)
            case Conjunction():
                return self.visit_conjunction(expression)
            case Between():
                return self.visit_between(expression)
            case In():
                return self.visit_in(expression)
            case Not():
                return self.visit_not(expression)
            case IsNull():
                return self.visit_is_null(expression)
            case Coalesce():
                return self.visit_coalesce(expression)
            case FunctionCall():
                return self.visit_function_call(expression)
            case Cast():
                return self.visit_cast(expression)
            case Case():
                return self.visit_case(expression)
            case Unsupported():
                return self.visit_unsupported(expression)
            case _:
                return self.visit_unsupported(Unsupported(type(expression).__name__))

    @abstractmethod
    def visit_column_ref(self, expression: ColumnRef) -> T:
        """Visit a column."""

    @abstractmethod
    def visit_constant(self, expression: Constant) -> T:
        """Visit a typed value."""

    @abstractmethod
    def visit_comparison(self, expression: Comparison) -> T:
        """Visit a comparison of two values."""

    @abstractmethod
    def visit_conjunction(self, expression: Conjunction) -> T:
        """Visit an AND or OR."""

    @abstractmethod
    def visit_between(self, expression: Between) -> T:
        """Visit a BETWEEN."""

    @abstractmethod
    def visit_in(self, expression: In) -> T:
        """Visit an IN."""

    @abstractmethod
    def visit_not(self, expression: Not) -> T:
        """Visit a NOT."""

    @abstractmethod
    def visit_is_null(self, expression: IsNull) -> T:
        """Visit a test for NULL."""

    @abstractmethod
    def visit_coalesce(self, expression: Coalesce) -> T:
        """Visit a COALESCE."""

    @abstractmethod
    def visit_function_call(self, expression: FunctionCall) -> T:
        """Visit a function or operator."""

    @abstractmethod
    def visit_cast(self, expression: Cast) -> T:
        """Visit a cast."""

    @abstractmethod
    def visit_case(self, expression: Case) -> T:
        """Visit a CASE."""

    @abstractmethod
    def visit_unsupported(self, expression: Unsupported) -> T:
        """Visit an expression that is not supported."""

"""A ``Filter`` as the JSON that the client itself writes: the inverse of ``parse``."""

from __future__ import annotations

import json
from typing import Any, Final

from lakeport.errors import UnsupportedError
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
    Filter,
    FunctionCall,
    In,
    IsNull,
    Not,
    Unsupported,
    type_of,
)
from lakeport.filters.parse import COMPARISON_NAMES, CONJUNCTION_NAMES
from lakeport.filters.types import BOOLEAN, LogicalType
from lakeport.filters.value_encoding import encode_value
from lakeport.filters.visitor import Visitor

__all__ = ["to_json"]

_NO_LOCATION: Final = 2**64 - 1
_COMPARISON_OPS: Final = {op: name for name, op in COMPARISON_NAMES.items()}
_CONJUNCTION_OPS: Final = {op: name for name, op in CONJUNCTION_NAMES.items()}


def to_json(filter: Filter) -> str:
    """The filter as ``json_filters``; ``UnsupportedError`` if a part of it has no JSON form."""
    writer = _Writer()
    document = {
        "filters": [writer.visit(conjunct) for conjunct in filter.conjuncts],
        "column_binding_names_by_index": list(writer.names),
    }
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


class _Writer(Visitor[dict[str, Any]]):
    """Writes expressions and numbers the columns in the order of their appearance."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}

    def visit_column_ref(self, expression: ColumnRef) -> dict[str, Any]:
        index = self.names.setdefault(expression.name, len(self.names))
        return _node(
            "BOUND_COLUMN_REF",
            "BOUND_COLUMN_REF",
            alias=expression.name,
            return_type=expression.type.to_json(),
            binding={"table_index": 0, "column_index": index},
            depth=0,
        )

    def visit_constant(self, expression: Constant) -> dict[str, Any]:
        value = encode_value(expression.value, expression.type)
        return _node("BOUND_CONSTANT", "VALUE_CONSTANT", value=value)

    def visit_comparison(self, expression: Comparison) -> dict[str, Any]:
        return _node(
            "BOUND_COMPARISON",
            _COMPARISON_OPS[expression.op],
            left=self.visit(expression.left),
            right=self.visit(expression.right),
        )

    def visit_conjunction(self, expression: Conjunction) -> dict[str, Any]:
        children = [self.visit(child) for child in expression.children]
        return _node("BOUND_CONJUNCTION", _CONJUNCTION_OPS[expression.op], children=children)

    def visit_between(self, expression: Between) -> dict[str, Any]:
        return _node(
            "BOUND_BETWEEN",
            "COMPARE_BETWEEN",
            input=self.visit(expression.input),
            lower=self.visit(expression.lower),
            upper=self.visit(expression.upper),
            lower_inclusive=expression.lower_inclusive,
            upper_inclusive=expression.upper_inclusive,
        )

    def visit_in(self, expression: In) -> dict[str, Any]:
        kind = "COMPARE_NOT_IN" if expression.negated else "COMPARE_IN"
        return self._operator(kind, BOOLEAN, expression.probe, *expression.items)

    def visit_not(self, expression: Not) -> dict[str, Any]:
        return self._operator("OPERATOR_NOT", BOOLEAN, expression.child)

    def visit_is_null(self, expression: IsNull) -> dict[str, Any]:
        kind = "OPERATOR_IS_NOT_NULL" if expression.negated else "OPERATOR_IS_NULL"
        return self._operator(kind, BOOLEAN, expression.child)

    def visit_coalesce(self, expression: Coalesce) -> dict[str, Any]:
        return self._operator("OPERATOR_COALESCE", type_of(expression), *expression.children)

    def visit_function_call(self, expression: FunctionCall) -> dict[str, Any]:
        return _node(
            "BOUND_FUNCTION",
            "BOUND_FUNCTION",
            return_type=expression.return_type.to_json(),
            children=[self.visit(argument) for argument in expression.arguments],
            name=expression.name,
            arguments=[type_of(argument).to_json() for argument in expression.arguments],
            original_arguments=[],
            catalog_name=expression.catalog,
            schema_name=expression.schema,
            has_serialize=False,
            is_operator=expression.is_operator,
        )

    def visit_cast(self, expression: Cast) -> dict[str, Any]:
        return _node(
            "BOUND_CAST",
            "OPERATOR_CAST",
            child=self.visit(expression.child),
            return_type=expression.type.to_json(),
            try_cast=expression.try_cast,
        )

    def visit_case(self, expression: Case) -> dict[str, Any]:
        checks = [
            {"when_expr": self.visit(branch.when), "then_expr": self.visit(branch.then)}
            for branch in expression.branches
        ]
        return _node(
            "BOUND_CASE",
            "CASE_EXPR",
            return_type=type_of(expression).to_json(),
            case_checks=checks,
            else_expr=self.visit(expression.otherwise),
        )

    def visit_unsupported(self, expression: Unsupported) -> dict[str, Any]:
        raise UnsupportedError(f"The filter cannot be written: {expression.reason}")

    def _operator(self, kind: str, type: LogicalType, *children: Expression) -> dict[str, Any]:
        visited = [self.visit(child) for child in children]
        return _node("BOUND_OPERATOR", kind, return_type=type.to_json(), children=visited)


def _node(expression_class: str, kind: str, *, alias: str = "", **fields: Any) -> dict[str, Any]:
    prefix = {"expression_class": expression_class, "type": kind, "alias": alias}
    return {**prefix, "query_location": _NO_LOCATION, **fields}

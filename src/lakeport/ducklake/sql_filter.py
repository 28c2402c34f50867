"""A filter from SQL text: DuckDB parses it, and its syntax tree becomes a `lakeport.filters` tree.

Whatever has no column in it is a constant, and DuckDB computes it once. What the tree cannot
express becomes `Unsupported`, which keeps more rows, never fewer.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from lakeport.ducklake import kernel
from lakeport.ducklake.text import ascii_lower
from lakeport.errors import InvalidArgumentError, UnsupportedError
from lakeport.filters import (
    Between,
    Cast,
    ColumnRef,
    Comparison,
    ComparisonOp,
    Conjunction,
    ConjunctionOp,
    Expression,
    Filter,
    FunctionCall,
    In,
    IsNull,
    LogicalType,
    Not,
    Unsupported,
    lit,
)

__all__ = ["parse_sql_filter"]

_COMPARISONS: Final = {
    "COMPARE_EQUAL": ComparisonOp.EQUAL,
    "COMPARE_NOTEQUAL": ComparisonOp.NOT_EQUAL,
    "COMPARE_LESSTHAN": ComparisonOp.LESS,
    "COMPARE_LESSTHANOREQUALTO": ComparisonOp.LESS_OR_EQUAL,
    "COMPARE_GREATERTHAN": ComparisonOp.GREATER,
    "COMPARE_GREATERTHANOREQUALTO": ComparisonOp.GREATER_OR_EQUAL,
    "COMPARE_DISTINCT_FROM": ComparisonOp.DISTINCT,
    "COMPARE_NOT_DISTINCT_FROM": ComparisonOp.NOT_DISTINCT,
}
_PREDICATES: Final = frozenset(
    {"~~", "!~~", "~~*", "!~~*", "starts_with", "prefix", "suffix", "ends_with", "contains"}
)
_BOOLEAN: Final = LogicalType("BOOLEAN")


def parse_sql_filter(text: str, columns: Collection[str]) -> Filter:
    """The condition of a WHERE clause over a table with these columns."""
    # Only parsed, never run: the statement is read back as a syntax tree.
    statement = f"SELECT * FROM t WHERE {text}"  # noqa: S608
    document = json.loads(_scalar("SELECT json_serialize_sql(?)", statement))
    if document.get("error"):
        raise InvalidArgumentError(f"the filter is not SQL: {document.get('error_message')}")
    statements = document["statements"]
    node = statements[0]["node"]
    plain = (
        node["type"] == "SELECT_NODE" and not node["modifiers"] and not node["group_expressions"]
    )
    if len(statements) != 1 or not plain or node["where_clause"] is None:
        raise InvalidArgumentError("the filter is more than one condition")
    return Filter.of(_Translator(columns).expression(node["where_clause"]))


class _Translator:
    def __init__(self, columns: Collection[str]) -> None:
        self._columns = {ascii_lower(name): name for name in columns}

    def expression(self, node: Mapping[str, Any]) -> Expression:
        if not _mentions(node, ("COLUMN_REF", "SUBQUERY", "STAR")):
            return _constant(node)
        match node["class"]:
            case "COLUMN_REF":
                return self._column(node["column_names"])
            case "CONJUNCTION":
                op = ConjunctionOp.AND if node["type"] == "CONJUNCTION_AND" else ConjunctionOp.OR
                return Conjunction(op, self._all(node["children"]))
            case "COMPARISON" if node["type"] in _COMPARISONS:
                left, right = self.expression(node["left"]), self.expression(node["right"])
                return Comparison(_COMPARISONS[node["type"]], left, right)
            case "BETWEEN":
                probe, lower, upper = self._all([node["input"], node["lower"], node["upper"]])
                return Between(probe, lower, upper)
            case "CAST":
                type = LogicalType.parse(node["cast_type"])
                return Cast(self.expression(node["child"]), type, bool(node["try_cast"]))
            case "OPERATOR":
                return self._operator(node["type"], self._all(node["children"]))
            case "FUNCTION" if node["function_name"] in _PREDICATES:
                name, is_operator = node["function_name"], bool(node["is_operator"])
                return FunctionCall(name, self._all(node["children"]), _BOOLEAN, is_operator)
            case _:
                return Unsupported(f"{node['class'].lower()} {node['type'].lower()}")

    def _all(self, nodes: Sequence[Mapping[str, Any]]) -> tuple[Expression, ...]:
        return tuple(self.expression(node) for node in nodes)

    def _operator(self, kind: str, children: tuple[Expression, ...]) -> Expression:
        match kind:
            case "OPERATOR_NOT":
                return Not(children[0])
            case "OPERATOR_IS_NULL" | "OPERATOR_IS_NOT_NULL":
                return IsNull(children[0], kind == "OPERATOR_IS_NOT_NULL")
            case "COMPARE_IN" | "COMPARE_NOT_IN":
                return In(children[0], children[1:], kind == "COMPARE_NOT_IN")
            case _:
                return Unsupported(kind.lower())

    def _column(self, names: Sequence[str]) -> Expression:
        """`column`, `column.field`, or either after the name of the table."""
        for start in range(len(names)):
            name = self._columns.get(ascii_lower(names[start]))
            if name is not None:
                found: Expression = ColumnRef(name)
                for member in names[start + 1 :]:
                    unknown = LogicalType("UNKNOWN")
                    found = FunctionCall("struct_extract", (found, lit(member)), unknown)
                return found
        return ColumnRef(names[-1])


def _mentions(node: object, classes: tuple[str, ...]) -> bool:
    if isinstance(node, dict):
        return node.get("class") in classes or any(_mentions(v, classes) for v in node.values())
    return isinstance(node, list) and any(_mentions(item, classes) for item in node)


def _constant(node: Mapping[str, Any]) -> Expression:
    """A value that DuckDB computes from the syntax tree itself, written back as SQL."""
    import duckdb

    template = json.loads(_scalar("SELECT json_serialize_sql(?)", "SELECT 1"))
    template["statements"][0]["node"]["select_list"] = [node]
    try:
        sql = _scalar("SELECT json_deserialize_sql(?)", json.dumps(template))
        value = kernel.connection().execute(sql).to_arrow_table().column(0)[0]
        return lit(value)
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise InvalidArgumentError(
            f"a constant of the filter cannot be computed: {reason}"
        ) from None
    except UnsupportedError as error:
        return Unsupported(str(error))


def _scalar(sql: str, parameter: str) -> str:
    return str(kernel.connection().execute(sql, [parameter]).fetchone()[0])

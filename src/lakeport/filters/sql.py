"""Read a filter from SQL text: DuckDB parses it, and its syntax tree becomes a filter's tree.

DuckDB computes an expression without columns once, as a constant. An expression that the filter
cannot contain becomes `Unsupported`, which keeps more rows, never fewer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from lakeport.arrow import thread_connection
from lakeport.errors import CorruptLakeError, InvalidArgumentError, UnsupportedError, first_line
from lakeport.filters.duckdb_syntax import (
    SqlSyntaxError,
    cast_target,
    constant_value,
    expression_sql,
    function_arguments,
    parse_sql,
)
from lakeport.filters.expressions import (
    Between,
    Case,
    CaseBranch,
    Cast,
    Coalesce,
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
    Unsupported,
)
from lakeport.filters.json.parse import COMPARISON_NAMES
from lakeport.filters.literals import lit
from lakeport.types import Column, LogicalType, fold_name, parse_value

__all__ = ["parse_sql_filter"]

_PREDICATES: Final = frozenset(
    {"~~", "!~~", "~~*", "!~~*", "starts_with", "prefix", "suffix", "ends_with", "contains"}
)
_VOLATILE: Final = frozenset({"random", "uuid", "gen_random_uuid", "uuidv4", "uuidv7", "nextval"})
_BOOLEAN: Final = LogicalType("BOOLEAN")
_UNKNOWN: Final = LogicalType("UNKNOWN")


def parse_sql_filter(text: str, columns: Sequence[Column]) -> Filter:
    """Return the filter of a WHERE clause over a table with these columns."""
    # The statement is parsed, never run.
    statement = f"SELECT * FROM t WHERE {text}"  # noqa: S608
    try:
        statements = parse_sql(thread_connection(), statement)
    except SqlSyntaxError as error:
        raise InvalidArgumentError(f"the filter is not SQL: {error}") from None
    node = statements[0]
    more = ("modifiers", "group_expressions", "having", "qualify", "sample")
    plain = node["type"] == "SELECT_NODE" and not any(node[clause] for clause in more)
    if len(statements) != 1 or not plain or node["where_clause"] is None:
        raise InvalidArgumentError("the filter is more than one condition")
    return Filter.of(_Translator(columns).condition(node["where_clause"]))


class _Translator:
    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = {fold_name(column.name): column for column in columns}

    def condition(self, node: Mapping[str, Any]) -> Expression:
        """Return an expression as a condition: numbers are true unless they are zero."""
        match condition := self.expression(node):
            case ColumnRef():
                column = self._columns.get(fold_name(condition.name))
                is_boolean = column is None or column.type == "boolean"
                return condition if is_boolean else Cast(condition, _BOOLEAN)
            case Constant() if condition.value is not None and condition.type != _BOOLEAN:
                return Cast(condition, _BOOLEAN)
            case FunctionCall() if condition.is_operator and condition.return_type != _BOOLEAN:
                return Comparison(ComparisonOp.NOT_EQUAL, condition, lit(0))
        return condition

    def expression(self, node: Mapping[str, Any]) -> Expression:
        if not _varies(node):
            return _constant(node)
        match node["class"]:
            case "COLUMN_REF":
                return self._column(node["column_names"])
            case "CONJUNCTION":
                op = ConjunctionOp.AND if node["type"] == "CONJUNCTION_AND" else ConjunctionOp.OR
                return Conjunction(op, tuple(self.condition(child) for child in node["children"]))
            case "COMPARISON" if node["type"] in COMPARISON_NAMES:
                left, right = self._compared([node["left"], node["right"]])
                return Comparison(COMPARISON_NAMES[node["type"]], left, right)
            case "BETWEEN":
                probe, lower, upper = self._compared([node["input"], node["lower"], node["upper"]])
                return Between(probe, lower, upper)
            case "CAST":
                child = self.expression(node["child"])
                return Cast(child, cast_target(node), bool(node["try_cast"]))
            case "CASE":
                branches = [
                    CaseBranch(
                        self.condition(check["when_expr"]), self.expression(check["then_expr"])
                    )
                    for check in node["case_checks"]
                ]
                return Case(tuple(branches), self.expression(node["else_expr"]))
            case "OPERATOR" if node["type"] in ("COMPARE_IN", "COMPARE_NOT_IN"):
                probe, *items = self._compared(node["children"])
                return In(probe, tuple(items), node["type"] == "COMPARE_NOT_IN")
            case "OPERATOR":
                return self._operator(node["type"], node["children"])
            case "FUNCTION":
                return self._function(node)
            case _:
                return Unsupported(f"{node['class'].lower()} {node['type'].lower()}")

    def _all(self, nodes: Sequence[Mapping[str, Any]]) -> tuple[Expression, ...]:
        return tuple(self.expression(node) for node in nodes)

    def _compared(self, nodes: Sequence[Mapping[str, Any]]) -> tuple[Expression, ...]:
        """Return the operands of a comparison; text is read as the type of the column beside it."""
        columns = [self._columns.get(fold_name(n["column_names"][-1])) for n in nodes if _named(n)]
        column = columns[0] if len(columns) == 1 else None
        if column is None or column.children:
            return self._all(nodes)
        return tuple(
            _value_of(column, text)
            if isinstance(text := constant_value(node), str) and column.type != "varchar"
            else self.expression(node)
            for node in nodes
        )

    def _function(self, node: Mapping[str, Any]) -> Expression:
        name, is_operator = node["function_name"], bool(node["is_operator"])
        if _is_volatile(node):
            return Unsupported(f"{name}() has another value for every row")
        if node.get("distinct") or node.get("filter") or node["order_bys"]["orders"]:
            return Unsupported(f"function {name} with more than arguments")
        type = _BOOLEAN if name in _PREDICATES else _UNKNOWN
        return FunctionCall(name, self._all(function_arguments(node)), type, is_operator)

    def _operator(self, kind: str, nodes: Sequence[Mapping[str, Any]]) -> Expression:
        if kind == "OPERATOR_NOT":
            return Not(self.condition(nodes[0]))
        children = self._all(nodes)
        match kind:
            case "OPERATOR_IS_NULL" | "OPERATOR_IS_NOT_NULL":
                return IsNull(children[0], kind == "OPERATOR_IS_NOT_NULL")
            case "OPERATOR_COALESCE":
                return Coalesce(children)
            case "ARRAY_EXTRACT" if self._is_map(children[0]):
                return FunctionCall("map_extract_value", children, _UNKNOWN)
            case "ARRAY_EXTRACT" | "STRUCT_EXTRACT":
                return FunctionCall(kind.lower(), children, _UNKNOWN)
            case _:
                return Unsupported(kind.lower())

    def _is_map(self, node: Expression) -> bool:
        column = self._columns.get(fold_name(node.name)) if isinstance(node, ColumnRef) else None
        return column is not None and column.type == "map"

    def _column(self, names: Sequence[str]) -> Expression:
        """Resolve `column`, `column.field`, or either after the name of the table."""
        for start in range(len(names)):
            column = self._columns.get(fold_name(names[start]))
            if column is not None:
                value: Expression = ColumnRef(column.name)
                for member in names[start + 1 :]:
                    value = FunctionCall("struct_extract", (value, lit(member)), _UNKNOWN)
                return value
        return ColumnRef(names[-1])


def _named(node: Mapping[str, Any]) -> bool:
    return bool(node["class"] == "COLUMN_REF" and len(node["column_names"]) == 1)


def _value_of(column: Column, text: str) -> Expression:
    try:
        return lit(parse_value(text, column)[0])
    except CorruptLakeError:
        raise InvalidArgumentError(
            f"{text!r} is not a value of column {column.name!r}, which is {column.type}"
        ) from None
    except UnsupportedError as error:
        return Unsupported(str(error))


def _varies(node: object) -> bool:
    """Return whether a syntax tree is more than a constant value."""
    if isinstance(node, dict):
        # A collation decides how the other side of a comparison is compared.
        kinds = ("COLUMN_REF", "SUBQUERY", "STAR", "COLLATE")
        if node.get("class") in kinds or _is_volatile(node):
            return True
        return any(_varies(value) for value in node.values())
    return isinstance(node, list) and any(_varies(item) for item in node)


def _is_volatile(node: Mapping[str, Any]) -> bool:
    return node.get("class") == "FUNCTION" and node["function_name"].lower() in _VOLATILE


def _constant(node: Mapping[str, Any]) -> Expression:
    """Return the value of a syntax tree, which DuckDB computes from the SQL of the tree."""
    import duckdb

    duck = thread_connection()
    value = constant_value(node)
    if isinstance(value, float):
        return lit(value)  # DuckDB would write it back as a DECIMAL
    try:
        sql = f"SELECT {expression_sql(duck, node)}"
        return lit(duck.sql(sql).to_arrow_table().column(0)[0])
    except duckdb.Error as error:
        reason = first_line(error)
        raise InvalidArgumentError(
            f"a constant of the filter cannot be computed: {reason}"
        ) from None
    except UnsupportedError as error:
        return Unsupported(str(error))

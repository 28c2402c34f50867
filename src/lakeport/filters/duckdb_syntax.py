"""The syntax trees that DuckDB's `json_serialize_sql` writes, read alike for DuckDB 1.5 and 2.0.

A tree is not changed, so that `expression_sql` can turn it back into SQL. The functions of this
module read what the two versions write in different forms:

| | DuckDB 1.5 | DuckDB 2.0 |
|---|---|---|
| arguments of a function | `children: [node]` | `arguments: [{name, expression: node}]` |
| target of a cast | `cast_type: {id, type_info}` | `type_expr: node of class TYPE` |
| constant | `value: {type, is_null, value}` | `literal: {kind, text}` |

The module imports no DuckDB: a connection is an argument.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from lakeport.errors import InvalidArgumentError
from lakeport.types import Field, LogicalType, canonical_id

__all__ = [
    "Node",
    "SqlSyntaxError",
    "cast_target",
    "constant_value",
    "expression_sql",
    "function_arguments",
    "parse_sql",
]

Node: TypeAlias = Mapping[str, Any]
"""An expression of a syntax tree."""


class SqlSyntaxError(ValueError):
    """SQL text that DuckDB cannot parse; the message is DuckDB's."""


def parse_sql(connection: Any, sql: str) -> list[dict[str, Any]]:
    """Return the query nodes of SQL text, one for each statement. Nothing is run.

    Raises `SqlSyntaxError` for a text that is no query, and `RecursionError` for one that is nested
    too deeply.
    """
    document = json.loads(_scalar(connection, "SELECT json_serialize_sql(?)", sql))
    if document.get("error"):
        raise SqlSyntaxError(str(document.get("error_message") or "unknown error"))
    return [statement["node"] for statement in document["statements"]]


def expression_sql(connection: Any, node: Node) -> str:
    """Return an expression as DuckDB writes it in SQL."""
    template = json.loads(_scalar(connection, "SELECT json_serialize_sql(?)", "SELECT 1"))
    template["statements"][0]["node"]["select_list"] = [node]
    sql = _scalar(connection, "SELECT json_deserialize_sql(?)", json.dumps(template))
    return sql.removeprefix("SELECT ")


def function_arguments(node: Node) -> list[dict[str, Any]]:
    """Return the arguments of a function."""
    if "arguments" in node:
        return [argument["expression"] for argument in node["arguments"]]
    return list(node["children"])


def constant_value(node: Node) -> str | int | float | bool | None:
    """Return the value of a text, integer, floating point or boolean constant, else None.

    A number with a decimal point is a DECIMAL and gives None; with an exponent it is a DOUBLE.
    """
    if node.get("class") != "CONSTANT":
        return None
    if "literal" in node:
        return _literal_value(node["literal"])
    value = node["value"]
    if value["is_null"] or value["type"]["id"] == "DECIMAL":
        return None
    constant = value.get("value")
    return constant if isinstance(constant, str | int | float) else None


def cast_target(node: Node) -> LogicalType:
    """Return the type to which a node of class CAST casts."""
    if "type_expr" in node:
        return _named_type(node["type_expr"])
    return LogicalType.parse(node["cast_type"])


def _literal_value(literal: Node) -> str | int | float | bool | None:
    text = literal["text"]
    match literal["kind"]:
        case "STRING":
            return str(text)
        case "INTEGER":
            return int(text)
        case "NUMERIC" if "e" in text.lower():
            return float(text)
        case "BOOLEAN":
            return bool(text.lower() == "true")
        case _:
            return None


def _named_type(node: Node) -> LogicalType:
    """Return a type from its name and its parameters, which are types and constants."""
    if node.get("class") != "TYPE":
        raise InvalidArgumentError("a type of the SQL text is not a name")
    children: Sequence[Node] = node["children"]
    match str(node["type_name"]).upper():
        case "DECIMAL" | "NUMERIC":
            return _decimal([constant_value(child) for child in children])
        case "LIST":
            return LogicalType.list(_named_type(children[0]))
        case "ARRAY":
            return LogicalType.array(_named_type(children[0]), _whole(children[1]))
        case "MAP":
            return LogicalType.map(_named_type(children[0]), _named_type(children[1]))
        case "STRUCT" | "ROW" | "UNION" as name:
            fields = tuple(Field(str(child["alias"]), _named_type(child)) for child in children)
            return LogicalType("UNION" if name == "UNION" else "STRUCT", fields=fields)
        case "ENUM":
            return LogicalType.enum(*(str(constant_value(child)) for child in children))
        case "JSON":
            return LogicalType("VARCHAR", alias="JSON")
        case name:
            return LogicalType(canonical_id(name))


def _decimal(parameters: Sequence[object]) -> LogicalType:
    match parameters:
        case []:
            return LogicalType.decimal(18, 3)
        case [int() as width]:
            return LogicalType.decimal(width, 0)
        case [int() as width, int() as scale]:
            return LogicalType.decimal(width, scale)
    raise InvalidArgumentError("a DECIMAL type of the SQL text has other parameters than numbers")


def _whole(node: Node) -> int:
    size = constant_value(node)
    if not isinstance(size, int):
        raise InvalidArgumentError("the size of an ARRAY type of the SQL text is not a number")
    return size


def _scalar(connection: Any, sql: str, parameter: str) -> str:
    # All rows are fetched: DuckDB 2.0 refuses other work on a connection with an unfinished result.
    return str(connection.execute(sql, [parameter]).fetchall()[0][0])

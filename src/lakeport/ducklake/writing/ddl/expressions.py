"""SQL expressions and statements as DuckDB prints them, which is how the reference stores them."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from lakeport.arrow import thread_connection
from lakeport.errors import InvalidArgumentError

__all__ = [
    "function_names",
    "literal_text",
    "print_expression",
    "print_select",
    "rename_column_in",
]

_CLAUSES: Final = ("modifiers", "where_clause", "group_expressions", "having", "sample", "qualify")


def print_expression(sql: str) -> str:
    """Return an expression as DuckDB prints it: `1+1` is `(1 + 1)`."""
    return _deserialize(_expression_tree(sql)).removeprefix("SELECT ")


def function_names(sql: str) -> frozenset[str]:
    """Return the names of the functions that an expression calls, in lower case."""
    names: set[str] = set()
    nodes: list[Any] = [_expression_tree(sql)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            if "function_name" in node:
                names.add(str(node["function_name"]).lower())
            nodes.extend(node.values())
        elif isinstance(node, list):
            nodes.extend(node)
    return frozenset(names)


def print_select(sql: str) -> str:
    """Return a SELECT as DuckDB prints it. One with `{DUCKLAKE_CATALOG}` stays as it is."""
    if "{DUCKLAKE_CATALOG}" in sql:
        return sql.strip().rstrip(";")
    return _printed(sql, "the SELECT of the view")


def rename_column_in(sql: str, old: str, new: str) -> str:
    """Return an expression with another name for a column."""
    tree = _expression_tree(sql)

    def rename(node: Any) -> None:
        if isinstance(node, dict):
            names = node.get("column_names")
            if isinstance(names, list) and names and str(names[-1]).lower() == old.lower():
                names[-1] = new
            for value in node.values():
                rename(value)
        elif isinstance(node, list):
            for value in node:
                rename(value)

    rename(tree)
    return _deserialize(tree).removeprefix("SELECT ")


def literal_text(sql: str) -> str | None:
    """Return the text of an expression that is a literal and not NULL; None for others."""
    tree = _expression_tree(sql)
    (expression,) = tree["statements"][0]["node"]["select_list"]
    if expression.get("class") != "CONSTANT" or expression["value"].get("is_null"):
        return None
    literal = _deserialize(tree).removeprefix("SELECT ")
    row = thread_connection().execute(f"SELECT CAST({literal} AS VARCHAR)").fetchall()
    return str(row[0][0])


def _printed(sql: str, what: str) -> str:
    return _deserialize(_tree(sql, what))


def _expression_tree(sql: str) -> Any:
    """Return the tree of a SELECT of one expression and nothing else."""
    tree = _tree(f"SELECT {sql}", f"the expression {sql[:200]!r}")
    node = tree["statements"][0]["node"]
    if (
        node["type"] != "SELECT_NODE"
        or len(node["select_list"]) != 1
        or node["select_list"][0].get("alias")
        or node["from_table"]["type"] != "EMPTY"
        or any(node.get(clause) for clause in _CLAUSES)
    ):
        raise InvalidArgumentError(f"{sql[:200]!r} is not one expression")
    return tree


def _tree(sql: str, what: str) -> Any:
    row = thread_connection().execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()
    tree = json.loads(row[0][0])
    if tree.get("error") or len(tree.get("statements", ())) != 1:
        reason = re.sub(r"\s+", " ", str(tree.get("error_message", "it is not one SELECT")))
        raise InvalidArgumentError(f"{what} is not understood: {reason}")
    return tree


def _deserialize(tree: Any) -> str:
    text = json.dumps(tree)
    row = thread_connection().execute("SELECT json_deserialize_sql(?::JSON)", [text]).fetchall()
    return str(row[0][0])

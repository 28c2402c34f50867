"""The SQL expressions of policies: row filters and masks, with the caller's values filled in.

An expression is DuckDB SQL over the columns of one table. DuckDB's own parser reads it, so text of
an identity never becomes SQL: it is put into the syntax tree as a constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from lakeport.arrow import thread_connection
from lakeport.auth.identity import Identity
from lakeport.errors import DefinitionError
from lakeport.filters import SqlSyntaxError, constant_value, expression_sql, parse_sql
from lakeport.types import duckdb_string, fold_name

__all__ = ["PolicyExpression"]

_MAX_LENGTH: Final = 10_000
_REFUSED: Final = {
    "SUBQUERY": "a subquery",
    "WINDOW": "a window function",
    "STAR": "a star",
    "PARAMETER": "a parameter",
    "DEFAULT": "DEFAULT",
    "POSITIONAL_REFERENCE": "a position",
}
_OWN_FUNCTIONS: Final = frozenset(
    {"user", "current_user", "session_user", "user_attribute", "user_groups", "in_group"}
)
_BARE: Final = frozenset({"current_user", "session_user"})


class PolicyExpression:
    """A row filter or a mask: parsed once, written for each caller.

    Besides DuckDB's functions it has `user()`, `user_attribute('name')`, which is NULL without the
    attribute, `user_groups()` and `in_group('name')`.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._tree = _parse(text)
        self.columns = frozenset(
            fold_name(node["column_names"][0])
            for node in _nodes(self._tree)
            if node.get("class") == "COLUMN_REF" and not _is_bare_user(node)
        )
        """The names of columns, in lower case; also those of the parameters of lambdas."""
        for node in _nodes(self._tree):
            _check(node)

    def sql(self, caller: Identity) -> str:
        """Return the expression for a caller, in parentheses."""
        filled = _filled(self._tree, caller)
        return f"({expression_sql(thread_connection(), filled)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PolicyExpression) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"PolicyExpression({self.text!r})"


def _parse(text: str) -> Mapping[str, Any]:
    if not text.strip() or len(text) > _MAX_LENGTH:
        raise DefinitionError(
            f"an expression of a policy has between one and {_MAX_LENGTH} characters"
        )
    try:
        # Parsed, never run. The line feed ends a comment of the text.
        statements = parse_sql(thread_connection(), f"SELECT {text}\n")
    except SqlSyntaxError as error:
        raise DefinitionError(f"{text[:200]!r} is not SQL: {error}") from None
    except RecursionError:
        raise DefinitionError("an expression of a policy is nested too deeply") from None
    node = statements[0]
    more = ("where_clause", "group_expressions", "having", "qualify", "sample", "modifiers")
    is_plain = (
        node["type"] == "SELECT_NODE"
        and (node.get("from_table") or {"type": "EMPTY"})["type"] in ("EMPTY", "EMPTY_FROM")
        and not any(node.get(clause) for clause in more)
    )
    if len(statements) != 1 or not is_plain or len(node["select_list"]) != 1:
        raise DefinitionError(f"{text[:200]!r} is not one expression")
    expression: Mapping[str, Any] = node["select_list"][0]
    return {**expression, "alias": ""}


def _nodes(tree: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(tree, Mapping):
        if "class" in tree:
            yield tree
        for value in tree.values():
            yield from _nodes(value)
    elif isinstance(tree, list):
        for item in tree:
            yield from _nodes(item)


def _check(node: Mapping[str, Any]) -> None:
    kind = node["class"]
    if kind in _REFUSED:
        raise DefinitionError(f"an expression of a policy cannot have {_REFUSED[kind]}")
    name = _own_function(node)
    arguments = _arguments(node) if name else []
    if name in ("user_attribute", "in_group"):
        if len(arguments) != 1 or not isinstance(constant_value(arguments[0]), str):
            raise DefinitionError(f"{name} takes one text, such as {name}('x')")
    elif name and arguments:
        raise DefinitionError(f"{name}() takes no arguments")


def _own_function(node: Mapping[str, Any]) -> str:
    """Return the name of a function about the caller; an empty text for other nodes."""
    if node.get("class") == "FUNCTION" and not node.get("is_operator"):
        name = str(node["function_name"]).lower()
        return name if name in _OWN_FUNCTIONS else ""
    return "user" if _is_bare_user(node) else ""


def _is_bare_user(node: Mapping[str, Any]) -> bool:
    names = node.get("column_names") or []
    return node.get("class") == "COLUMN_REF" and len(names) == 1 and names[0].lower() in _BARE


def _arguments(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if "arguments" in node:
        return [argument["expression"] for argument in node["arguments"]]
    return list(node.get("children") or [])


def _filled(tree: Any, caller: Identity) -> Any:
    """Return the tree with constants for the functions about the caller."""
    if isinstance(tree, list):
        return [_filled(item, caller) for item in tree]
    if not isinstance(tree, Mapping):
        return tree
    name = _own_function(tree) if "class" in tree else ""
    if name:
        return _constant(name, _arguments(tree), caller)
    return {key: _filled(value, caller) for key, value in tree.items()}


def _constant(name: str, arguments: list[Mapping[str, Any]], caller: Identity) -> Any:
    argument = str(constant_value(arguments[0])) if arguments else ""
    match name:
        case "user_attribute":
            value = caller.attributes.get(argument)
            text = "CAST(NULL AS VARCHAR)" if value is None else duckdb_string(value)
        case "in_group":
            text = "true" if argument in caller.groups else "false"
        case "user_groups":
            names = ", ".join(duckdb_string(group) for group in sorted(caller.groups))
            text = f"CAST([{names}] AS VARCHAR[])"
        case _:
            text = duckdb_string(caller.user)
    return parse_sql(thread_connection(), f"SELECT {text}")[0]["select_list"][0]

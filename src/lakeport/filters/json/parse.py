"""Read the client's JSON as a ``Filter``.

The text comes from the network, so its size, its nesting and its number of nodes are bounded.
Malformed text raises ``InvalidArgumentError``; a well-formed but unknown expression becomes
``Unsupported``. Two spellings of the structure are read: the one that the client writes and the
older one of its documentation (``children`` instead of ``left`` and ``right``, ``function.name``,
the type of a constant beside its value).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

from lakeport.errors import InvalidArgumentError, MessageTooLargeError, UnsupportedError
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
from lakeport.filters.json.decode import decode_value
from lakeport.types import UNKNOWN, LogicalType

__all__ = ["COMPARISON_NAMES", "CONJUNCTION_NAMES", "parse_filter"]

COMPARISON_NAMES: Final[dict[str, ComparisonOp]] = {
    "COMPARE_EQUAL": ComparisonOp.EQUAL,
    "COMPARE_NOTEQUAL": ComparisonOp.NOT_EQUAL,
    "COMPARE_LESSTHAN": ComparisonOp.LESS,
    "COMPARE_GREATERTHAN": ComparisonOp.GREATER,
    "COMPARE_LESSTHANOREQUALTO": ComparisonOp.LESS_OR_EQUAL,
    "COMPARE_GREATERTHANOREQUALTO": ComparisonOp.GREATER_OR_EQUAL,
    "COMPARE_DISTINCT_FROM": ComparisonOp.DISTINCT,
    "COMPARE_NOT_DISTINCT_FROM": ComparisonOp.NOT_DISTINCT,
}

CONJUNCTION_NAMES: Final[dict[str, ConjunctionOp]] = {
    "CONJUNCTION_AND": ConjunctionOp.AND,
    "CONJUNCTION_OR": ConjunctionOp.OR,
}


def parse_filter(
    text: str | bytes | None,
    *,
    max_bytes: int = 8 * 1024 * 1024,
    max_depth: int = 100,
    max_nodes: int = 100_000,
) -> Filter:
    """Read ``json_filters``; return the empty filter if there is no text or it has no filters.

    ``max_bytes`` bounds the text, ``max_depth`` the nesting of expressions, ``max_nodes`` their
    number.
    """
    if not text:
        return Filter.always()
    if len(text) > max_bytes:
        raise MessageTooLargeError(f"the filter is larger than {max_bytes} bytes")
    document = _load(text, max_nesting=3 * max_depth + 64, max_containers=10 * max_nodes)
    if document is None:
        return Filter.always()
    if not isinstance(document, dict):
        raise InvalidArgumentError("the filter is not a JSON object")
    reader = _Reader(_names(document), max_depth=max_depth, max_nodes=max_nodes)
    try:
        return Filter(tuple(reader.expressions(document.get("filters") or [], 0)))
    except RecursionError as error:
        raise MessageTooLargeError(_TOO_LARGE) from error


def _load(text: str | bytes, *, max_nesting: int, max_containers: int) -> Any:
    try:
        decoded = text.decode() if isinstance(text, bytes) else text
    except UnicodeDecodeError as error:
        raise InvalidArgumentError("the filter is not UTF-8 text") from error
    if not decoded.strip():
        return None
    _check_nesting(decoded, max_nesting=max_nesting, max_containers=max_containers)
    try:
        document = json.loads(decoded)
        if "\\u" in decoded or not decoded.isascii():
            # A lone surrogate cannot be encoded as UTF-8.
            json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError("the filter is not valid JSON") from error
    return document


def _check_nesting(text: str, *, max_nesting: int, max_containers: int) -> None:
    nesting = containers = 0
    for match in _STRUCTURE.finditer(text):
        character = match[0]
        if character in "[{":
            nesting += 1
            containers += 1
            if nesting > max_nesting or containers > max_containers:
                raise MessageTooLargeError(_TOO_LARGE)
        elif character in "]}":
            nesting -= 1


_TOO_LARGE: Final = "the filter is nested too deeply or has too many parts"
_STRUCTURE: Final = re.compile(r'"(?:[^"\\]+|\\.)*+"?|[\[\]{}]', re.DOTALL)


def _names(document: dict[str, Any]) -> list[str]:
    names = document.get("column_binding_names_by_index")
    if names is None:
        return []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidArgumentError("the column names of the filter are not a list of strings")
    return names


class _Reader:
    """Turns JSON expressions into nodes, counting them."""

    def __init__(self, names: list[str], *, max_depth: int, max_nodes: int) -> None:
        self._names = names
        self._max_depth = max_depth
        self._nodes_left = max_nodes

    def expressions(self, documents: Any, depth: int) -> list[Expression]:
        """Read a JSON list of expressions."""
        if not isinstance(documents, list):
            raise InvalidArgumentError("a list of expressions of the filter is not a list")
        return [self.expression(document, depth) for document in documents]

    def expression(self, document: Any, depth: int) -> Expression:
        """Read one JSON expression."""
        if not isinstance(document, dict) or not isinstance(document.get("expression_class"), str):
            raise InvalidArgumentError("an expression of the filter is not an object with a class")
        self._nodes_left -= 1
        if depth >= self._max_depth or self._nodes_left < 0:
            raise MessageTooLargeError(_TOO_LARGE)
        read = self._READERS.get(document["expression_class"])
        if read is None:
            return _unsupported("The expression class", document["expression_class"])
        return read(self, document, depth + 1)

    def _column_ref(self, document: dict[str, Any], _depth: int) -> Expression:
        binding = document.get("binding")
        index = binding.get("column_index") if isinstance(binding, dict) else None
        if (
            not isinstance(index, int)
            or isinstance(index, bool)
            or not 0 <= index < len(self._names)
        ):
            raise InvalidArgumentError("the filter refers to a column that it does not name")
        return ColumnRef(self._names[index], _type(document, "return_type"))

    def _constant(self, document: dict[str, Any], _depth: int) -> Expression:
        outer = document.get("return_type")
        try:
            value, type = decode_value(
                document.get("value"), LogicalType.parse(outer) if outer is not None else None
            )
        except UnsupportedError as error:
            return Unsupported(str(error))
        return Constant(value, type)

    def _comparison(self, document: dict[str, Any], depth: int) -> Expression:
        op = COMPARISON_NAMES.get(_kind(document))
        if op is None and "left" in document:
            return _unsupported("The comparison", _kind(document))
        if op is None:
            return self._operator(document, depth)
        left, right = self._parts(document, ("left", "right"), depth)
        return Comparison(op, left, right)

    def _conjunction(self, document: dict[str, Any], depth: int) -> Expression:
        op = CONJUNCTION_NAMES.get(_kind(document))
        if op is None:
            return _unsupported("The conjunction", _kind(document))
        return Conjunction(op, tuple(self.expressions(document.get("children"), depth)))

    def _between(self, document: dict[str, Any], depth: int) -> Expression:
        value, lower, upper = self._parts(document, ("input", "lower", "upper"), depth)
        return Between(
            value,
            lower,
            upper,
            lower_inclusive=_flag(document, "lower_inclusive", default=True),
            upper_inclusive=_flag(document, "upper_inclusive", default=True),
        )

    def _operator(self, document: dict[str, Any], depth: int) -> Expression:
        kind = _kind(document)
        if kind == "COMPARE_BETWEEN":
            return self._between(document, depth)
        children = tuple(self.expressions(document.get("children"), depth))
        if (
            kind in ("OPERATOR_NOT", "OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL")
            and len(children) != 1
        ):
            raise InvalidArgumentError(f"{kind} of the filter needs exactly one operand")
        match kind:
            case "COMPARE_IN" | "COMPARE_NOT_IN" if children:
                return In(children[0], children[1:], negated=kind == "COMPARE_NOT_IN")
            case "OPERATOR_NOT":
                return Not(children[0])
            case "OPERATOR_IS_NULL" | "OPERATOR_IS_NOT_NULL":
                return IsNull(children[0], negated=kind == "OPERATOR_IS_NOT_NULL")
            case "OPERATOR_COALESCE" if children:
                return Coalesce(children)
            case _:
                return _unsupported("The operator", kind)

    def _function(self, document: dict[str, Any], depth: int) -> Expression:
        name = _function_name(document)
        data = document.get("function_data")
        if isinstance(data, dict) and "lambda_expr" in data:
            return _unsupported("A lambda in the function", name)
        return FunctionCall(
            name,
            tuple(self.expressions(document.get("children") or [], depth)),
            return_type=_type(document, "return_type"),
            is_operator=_flag(document, "is_operator", default=False),
            catalog=_text(document, "catalog_name"),
            schema=_text(document, "schema_name"),
        )

    def _cast(self, document: dict[str, Any], depth: int) -> Expression:
        (child,) = self._parts(document, ("child",), depth)
        type = LogicalType.parse(document.get("return_type"))
        return Cast(child, type, try_cast=_flag(document, "try_cast", default=False))

    def _case(self, document: dict[str, Any], depth: int) -> Expression:
        checks = document.get("case_checks")
        if not isinstance(checks, list) or not all(isinstance(check, dict) for check in checks):
            raise InvalidArgumentError("a CASE of the filter has no list of branches")
        branches = tuple(
            CaseBranch(
                self.expression(check.get("when_expr"), depth),
                self.expression(check.get("then_expr"), depth),
            )
            for check in checks
        )
        return Case(branches, self.expression(document.get("else_expr"), depth))

    def _parts(
        self, document: dict[str, Any], names: tuple[str, ...], depth: int
    ) -> list[Expression]:
        if names[0] in document:
            return [self.expression(document.get(name), depth) for name in names]
        children = self.expressions(document.get("children"), depth)
        if len(children) != len(names):
            raise InvalidArgumentError(
                f"{_kind(document)} of the filter needs exactly {len(names)} operands"
            )
        return children

    _READERS: Final[dict[str, Callable[[_Reader, dict[str, Any], int], Expression]]] = {
        "BOUND_COLUMN_REF": _column_ref,
        "BOUND_CONSTANT": _constant,
        "BOUND_COMPARISON": _comparison,
        "BOUND_CONJUNCTION": _conjunction,
        "BOUND_BETWEEN": _between,
        "BOUND_OPERATOR": _operator,
        "BOUND_FUNCTION": _function,
        "BOUND_CAST": _cast,
        "BOUND_CASE": _case,
    }


def _kind(document: dict[str, Any]) -> str:
    return _text(document, "type")


def _type(document: dict[str, Any], key: str) -> LogicalType:
    return UNKNOWN if document.get(key) is None else LogicalType.parse(document[key])


def _text(document: dict[str, Any], key: str) -> str:
    value = document.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidArgumentError(f"the {key} of an expression of the filter is not a string")
    return value


def _flag(document: dict[str, Any], key: str, *, default: bool) -> bool:
    value = document.get(key, default)
    if not isinstance(value, bool):
        raise InvalidArgumentError(f"the {key} of an expression of the filter is not a boolean")
    return value


def _function_name(document: dict[str, Any]) -> str:
    function = document.get("function")
    name = _text(function if isinstance(function, dict) else document, "name")
    if not name:
        raise InvalidArgumentError("a function of the filter has no name")
    return name


def _unsupported(kind: str, name: str) -> Unsupported:
    return Unsupported(f"{kind} {name[:80]} is not supported")

"""The values of constants: Python to the JSON that the client writes."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from decimal import Context, Decimal
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
from lakeport.filters.json.parse import COMPARISON_NAMES, CONJUNCTION_NAMES
from lakeport.filters.visitor import Visitor
from lakeport.types import BOOLEAN, STORED_AS_INTEGER, LogicalType

__all__ = ["encode_value", "to_json"]

_EXACT: Final = Context(prec=60)


def encode_value(value: Any, type: LogicalType) -> dict[str, Any]:
    """Invert ``decode_value``; raise ``UnsupportedError`` if the value does not fit the type."""
    if value is None:
        return {"type": type.to_json(), "is_null": True}
    if type.id not in _ENCODERS:
        raise UnsupportedError(f"constants of type {type.id} cannot be written")
    try:
        encoded = _ENCODERS[type.id](value, type)
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise UnsupportedError(f"{value!r} is not a value of type {type.id}") from error
    return {"type": type.to_json(), "is_null": False, "value": encoded}


def _encode_boolean(value: Any, _type: LogicalType) -> bool:
    if not isinstance(value, bool):
        raise TypeError(value)
    return value


def _encode_float(value: Any, _type: LogicalType) -> float:
    return float(value)


def _encode_integer(value: Any, type: LogicalType) -> Any:
    low, high = STORED_AS_INTEGER[type.id]
    if not isinstance(value, int) or not low <= value <= high:
        raise ValueError(value)
    return _to_words(value) if type.id in ("HUGEINT", "UHUGEINT") else value


def _encode_decimal(value: Any, type: LogicalType) -> Any:
    scaled = _EXACT.scaleb(Decimal(value), type.scale or 0)
    unscaled = int(scaled)
    if unscaled != scaled or abs(unscaled) >= 10 ** (type.width or 38):
        raise ValueError(value)
    return _to_words(unscaled) if (type.width or 38) > 18 else unscaled


def _encode_varchar(value: Any, _type: LogicalType) -> Any:
    return value if isinstance(value, str) else _base64(value)


def _encode_blob(value: Any, _type: LogicalType) -> str:
    return "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b"\\'\"" else f"\\x{byte:02X}"
        for byte in bytes(value)
    )


def _encode_bit(value: Any, _type: LogicalType) -> Any:
    padding = -len(value) % 8
    bits = "1" * padding + value
    raw = bytes(int(bits[start : start + 8], 2) for start in range(0, len(bits), 8))
    return _base64(bytes([padding]) + raw)


def _encode_bignum(value: Any, _type: LogicalType) -> Any:
    magnitude = abs(value).to_bytes(max(1, (abs(value).bit_length() + 7) // 8))
    raw = (0x800000 | len(magnitude)).to_bytes(3) + magnitude
    return _base64(raw if value >= 0 else bytes(byte ^ 0xFF for byte in raw))


def _encode_interval(value: Any, _type: LogicalType) -> Any:
    return {"months": value.months, "days": value.days, "micros": value.micros}


def _encode_uuid(value: Any, _type: LogicalType) -> Any:
    return _to_words(_signed(value.int ^ (1 << 127)))


def _encode_enum(value: Any, type: LogicalType) -> int:
    return type.values.index(value)


def _encode_sequence(value: Any, type: LogicalType) -> Any:
    if type.child is None or (type.id == "ARRAY" and len(value) != type.size):
        raise ValueError(value)
    return {"children": [encode_value(item, type.child) for item in value]}


def _encode_struct(value: Any, type: LogicalType) -> Any:
    pairs = zip(value, type.fields, strict=True)
    return {"children": [encode_value(item, field.type) for item, field in pairs]}


def _encode_union(value: Any, type: LogicalType) -> Any:
    tag, member = value
    if not 0 <= tag < len(type.fields):
        raise ValueError(value)
    members = (
        encode_value(member if index == tag else None, field.type)
        for index, field in enumerate(type.fields)
    )
    return {"children": [encode_value(tag, LogicalType("UTINYINT")), *members]}


def _to_words(number: int) -> dict[str, int]:
    return {"upper": number >> 64, "lower": number % (1 << 64)}


def _signed(number: int) -> int:
    return number - (1 << 128) if number >> 127 else number


def _base64(raw: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(raw).decode()}


_Encoder = Callable[[Any, LogicalType], Any]

_ENCODERS: Final[dict[str, _Encoder]] = {
    "BOOLEAN": _encode_boolean,
    "FLOAT": _encode_float,
    "DOUBLE": _encode_float,
    "DECIMAL": _encode_decimal,
    "VARCHAR": _encode_varchar,
    "BLOB": _encode_blob,
    "BIT": _encode_bit,
    "BIGNUM": _encode_bignum,
    "INTERVAL": _encode_interval,
    "UUID": _encode_uuid,
    "ENUM": _encode_enum,
    "LIST": _encode_sequence,
    "ARRAY": _encode_sequence,
    "STRUCT": _encode_struct,
    "MAP": _encode_sequence,
    "UNION": _encode_union,
    **dict.fromkeys(STORED_AS_INTEGER, _encode_integer),
}

_NO_LOCATION: Final = 2**64 - 1
_COMPARISON_OPS: Final = {op: name for name, op in COMPARISON_NAMES.items()}
_CONJUNCTION_OPS: Final = {op: name for name, op in CONJUNCTION_NAMES.items()}


def to_json(filter: Filter) -> str:
    """Return the filter as ``json_filters``; raise ``UnsupportedError`` if it has no JSON form."""
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
        raise UnsupportedError(f"the filter cannot be written: {expression.reason}")

    def _operator(self, kind: str, type: LogicalType, *children: Expression) -> dict[str, Any]:
        visited = [self.visit(child) for child in children]
        return _node("BOUND_OPERATOR", kind, return_type=type.to_json(), children=visited)


def _node(expression_class: str, kind: str, *, alias: str = "", **fields: Any) -> dict[str, Any]:
    prefix = {"expression_class": expression_class, "type": kind, "alias": alias}
    return {**prefix, "query_location": _NO_LOCATION, **fields}

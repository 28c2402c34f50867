"""Which functions of DuckDB may run on a server instead of on the client.

A function is here if its result depends on nothing but its arguments: not on chance, the clock, a
session's time zone or settings, nor on a platform's mathematical library. Functions that can build
huge values from small ones are left out too.
"""

from __future__ import annotations

from typing import Final

from lakeport.filters.expressions import Constant, FunctionCall, type_of
from lakeport.filters.temporal import ZONED_TIMESTAMPS
from lakeport.filters.types import LogicalType

__all__ = ["BINARY_OPERATORS", "UNARY_OPERATORS", "depends_on_zone", "is_pushable", "never_fails"]

BINARY_OPERATORS: Final = frozenset(
    {"+", "-", "*", "/", "//", "%", "&", "|", "<<", ">>", "||", "^@"}
    | {"~~", "!~~", "~~*", "!~~*", "~~~"}
)
UNARY_OPERATORS: Final = frozenset({"-", "+", "~"})

_PATTERNS: Final = frozenset(
    {"like_escape", "not_like_escape", "ilike_escape", "not_ilike_escape"}
    | {"regexp_matches", "regexp_full_match"}
)

_DIVISIONS: Final = frozenset({"/", "//", "%", "mod"})

_NEVER_FAIL: Final = frozenset(
    {
        "~~", "!~~", "~~*", "!~~*", "~~~", "^@", "||", "&", "|", "~", "prefix", "suffix",
        "contains", "starts_with", "ends_with", "lower", "upper", "lcase", "ucase", "length",
        "len", "strlen", "char_length", "character_length", "octet_length", "struct_extract",
        "array_extract", "list_extract", "list_element", "map_extract", "map_extract_value",
        "element_at", "union_extract", "union_tag", "list_contains", "list_has",
        "array_contains", "array_has", "cardinality", "map_keys", "map_values",
        "timetz_byte_comparable", "normalized_interval", "greatest", "least", "isnan", "isinf",
        "isfinite", "year", "month", "day", "hour", "minute", "second", "struct_pack",
    }
)  # fmt: skip

_MAY_FAIL: Final = frozenset(
    {
        "+", "-", "*", "/", "//", "%", "<<", ">>", "mod", "xor", "abs", "sign", "ceil",
        "ceiling", "floor", "round", "trunc", "like_escape", "not_like_escape", "ilike_escape",
        "not_ilike_escape", "regexp_matches", "regexp_full_match", "regexp_extract",
        "regexp_replace", "substr", "substring", "left", "right", "reverse", "replace",
        "translate", "trim", "ltrim", "rtrim", "instr", "strpos", "ascii", "ord", "unicode",
        "concat", "concat_ws", "split_part", "hex", "to_hex", "md5", "sha256", "bit_length",
        "bit_count", "list_position", "list_indexof", "array_position", "array_length",
        "list_has_any", "list_has_all", "date_part", "datepart", "date_trunc", "datetrunc",
        "date_diff", "datediff", "date_sub", "datesub", "dayofmonth", "dayofweek", "dayofyear",
        "weekday", "week", "weekofyear", "isodow", "isoyear", "quarter", "decade", "century",
        "millisecond", "microsecond", "nanosecond", "dayname", "monthname", "last_day", "epoch",
        "epoch_ms", "epoch_us", "epoch_ns", "make_date", "make_time", "make_timestamp",
        "strftime", "strptime", "try_strptime", "to_days", "to_months", "to_years", "to_hours",
        "to_minutes", "to_seconds", "to_milliseconds", "to_microseconds",
    }
)  # fmt: skip

_ZONED: Final = ZONED_TIMESTAMPS | {"TIME WITH TIME ZONE"}

_ZONE_FREE: Final = frozenset(
    {
        "timetz_byte_comparable", "epoch_ms", "epoch_us", "epoch_ns", "greatest", "least",
        "isfinite", "isinf", "struct_extract", "array_extract", "list_extract", "list_element",
        "map_extract", "map_extract_value", "element_at", "union_extract", "union_tag",
        "list_contains", "list_has", "array_contains", "array_has", "contains", "len", "length",
        "cardinality", "map_keys", "map_values", "struct_pack",
    }
)  # fmt: skip


def is_pushable(call: FunctionCall) -> bool:
    """Whether the call means the same on the server as on the client."""
    name = call.name.lower()
    if not call.is_builtin or name not in _NEVER_FAIL | _MAY_FAIL:
        return False
    zoned = depends_on_zone(call.return_type) or any(
        depends_on_zone(type_of(argument)) for argument in call.arguments
    )
    if zoned and name not in _ZONE_FREE:
        return False
    return name not in _DIVISIONS or _division_is_pushable(call)


def never_fails(call: FunctionCall) -> bool:
    """Whether the function has a result for all values of the columns in its arguments."""
    name, rest = call.name.lower(), call.arguments[1:]
    if name in _PATTERNS:
        return all(isinstance(argument, Constant) for argument in rest)
    if name in _DIVISIONS and rest:
        divisor = rest[0]
        return isinstance(divisor, Constant) and divisor.value not in (None, 0, -1)
    return name in _NEVER_FAIL


def depends_on_zone(type: LogicalType) -> bool:
    """Whether the text or the calendar fields of such a value depend on a session's time zone."""
    if type.id in _ZONED:
        return True
    if type.child is not None and depends_on_zone(type.child):
        return True
    return any(depends_on_zone(field.type) for field in type.fields)


def _division_is_pushable(call: FunctionCall) -> bool:
    # Settings of the client decide what `/` means for integers, and what division by zero gives.
    kinds = {type_of(argument).id for argument in call.arguments}
    floating = bool(kinds & {"FLOAT", "DOUBLE"})
    if not floating:
        return call.name != "/"
    divisor = call.arguments[-1]
    return isinstance(divisor, Constant) and divisor.value not in (None, 0)

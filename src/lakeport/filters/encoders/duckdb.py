"""A filter as the body of a DuckDB WHERE clause.

Names and literals are quoted; functions come from an allow-list. An expression that could fail on
a row is wrapped in ``TRY`` or ``TRY_CAST``. The client may never evaluate it on that row, because a
conjunct that is dropped here excludes the row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from lakeport.filters.encoders.base import SqlEncoder
from lakeport.filters.expressions import (
    Between,
    Case,
    Cast,
    Coalesce,
    ColumnRef,
    Comparison,
    ConjunctionOp,
    Constant,
    Expression,
    Filter,
    FunctionCall,
    In,
    IsNull,
    Not,
    type_of,
)
from lakeport.types import (
    INTEGER_RANGES,
    UNKNOWN,
    ZONED_TIMESTAMPS,
    LogicalType,
    always_succeeds,
    duckdb_identifier,
    duckdb_literal,
    has_sql_type,
)

__all__ = [
    "BINARY_OPERATORS",
    "UNARY_OPERATORS",
    "DuckDBEncoder",
    "depends_on_zone",
    "filter_shape",
    "is_pushable",
    "never_fails",
    "to_duckdb_sql",
]

_OVERFLOWING: Final = frozenset({"+", "-", "*"})
_SMALLER_THAN_HUGEINT: Final = frozenset(INTEGER_RANGES) - {"HUGEINT", "UHUGEINT"}
_HUGEINT: Final = LogicalType("HUGEINT")


def to_duckdb_sql(
    filter: Filter,
    *,
    column_mapping: Mapping[str, str] | None = None,
    column_expressions: Mapping[str, str] | None = None,
    columns: Collection[str] | None = None,
) -> str:
    """Return the filter as DuckDB SQL, ``""`` if nothing of it can be expressed."""
    encoder = DuckDBEncoder(
        column_mapping=column_mapping, column_expressions=column_expressions, columns=columns
    )
    return encoder.encode(filter)


def filter_shape(filter: Filter) -> str:
    """Return the filter as SQL with `?` in place of its constants, for logs and lists."""
    return _ShapeEncoder().encode(filter)


class DuckDBEncoder(SqlEncoder):
    """Writes filters as DuckDB SQL.

    ``column_mapping`` renames columns. ``column_expressions`` replaces columns by SQL, which is
    taken as it is. ``columns``, if given, are the only ones that exist: predicates on others are
    dropped. ``zoned_nanoseconds`` promises a DuckDB that has the type TIMESTAMPTZ_NS, 2.0 or newer;
    without it, predicates with constants of that type are dropped.
    """

    def __init__(
        self,
        *,
        column_mapping: Mapping[str, str] | None = None,
        column_expressions: Mapping[str, str] | None = None,
        columns: Collection[str] | None = None,
        zoned_nanoseconds: bool = False,
    ) -> None:
        super().__init__(
            column_mapping=column_mapping, column_expressions=column_expressions, columns=columns
        )
        self._zoned_nanoseconds = zoned_nanoseconds

    def quoted(self, name: str) -> str | None:
        """Return a quoted name."""
        return duckdb_identifier(name)

    def visit_column_ref(self, expression: ColumnRef) -> str | None:
        """Return a quoted name, or the SQL that replaces it."""
        return self.column(expression)

    def visit_constant(self, expression: Constant) -> str | None:
        """Return a typed literal."""
        if expression.type.id == "TIMESTAMPTZ_NS" and not self._zoned_nanoseconds:
            return None
        return duckdb_literal(expression.value, expression.type)

    def visit_comparison(self, expression: Comparison) -> str | None:
        """Compare by an operator."""
        parts = self._operands((expression.left, expression.right))
        return None if parts is None else f"({parts[0]} {expression.op.value} {parts[1]})"

    def visit_between(self, expression: Between) -> str | None:
        """Encode BETWEEN, or two comparisons if a bound is exclusive."""
        if not (expression.lower_inclusive and expression.upper_inclusive):
            parts = self._all(expression.as_comparisons())
            return None if parts is None else self.join(ConjunctionOp.AND, parts)
        parts = self._operands((expression.input, expression.lower, expression.upper))
        return None if parts is None else f"({parts[0]} BETWEEN {parts[1]} AND {parts[2]})"

    def visit_in(self, expression: In) -> str | None:
        """Encode IN with a list."""
        if not expression.items:
            return self.encode_empty_in(expression)
        parts = self._operands((expression.probe, *expression.items))
        if parts is None:
            return None
        keyword = "NOT IN" if expression.negated else "IN"
        return f"({parts[0]} {keyword} ({', '.join(parts[1:])}))"

    def visit_not(self, expression: Not) -> str | None:
        """Negate a boolean."""
        child = self.visit(expression.child)
        return None if child is None else f"(NOT {child})"

    def visit_is_null(self, expression: IsNull) -> str | None:
        """Test for NULL."""
        child = self._operand(expression.child)
        return None if child is None else f"({child} IS {'NOT ' if expression.negated else ''}NULL)"

    def visit_coalesce(self, expression: Coalesce) -> str | None:
        """Encode COALESCE."""
        parts = self._all(expression.children)
        return None if not parts else f"COALESCE({', '.join(parts)})"

    def visit_cast(self, expression: Cast) -> str | None:
        """Encode a cast whose result does not depend on a session's settings."""
        source, target = type_of(expression.child), expression.type
        if source == target:
            return self.visit(expression.child)
        child = self._operand(expression.child)
        if _is_widened(expression.child):
            source = _HUGEINT
        if child is None or source == UNKNOWN or not has_sql_type(target):
            return None
        if depends_on_zone(source) or depends_on_zone(target) or not has_sql_type(source):
            return None
        keyword = "CAST" if always_succeeds(source, target) else "TRY_CAST"
        return f"{keyword}({child} AS {target.sql()})"

    def visit_case(self, expression: Case) -> str | None:
        """Encode CASE."""
        otherwise = self.visit(expression.otherwise)
        branches = [(self.visit(b.when), self.visit(b.then)) for b in expression.branches]
        if otherwise is None or not branches or any(None in branch for branch in branches):
            return None
        checks = " ".join(f"WHEN {when} THEN {then}" for when, then in branches)
        return f"(CASE {checks} ELSE {otherwise} END)"

    def visit_function_call(self, expression: FunctionCall) -> str | None:
        """Encode a function of the allow-list, or an operator."""
        if _is_widened(expression):
            # Only compared values may have a wider type; functions need the declared one.
            wide = self._operand(expression)
            return None if wide is None else f"TRY_CAST({wide} AS {expression.return_type.sql()})"
        return self._called(expression, self._all(expression.arguments))

    def _operand(self, expression: Expression) -> str | None:
        """Return a value that is compared, added or cast: integer arithmetic in HUGEINT.

        DuckDB may have moved a constant across a comparison and so never overflow.
        """
        if not isinstance(expression, FunctionCall) or not _is_widened(expression):
            return self.visit(expression)
        arguments = self._operands(expression.arguments)
        wide = arguments and [f"CAST({argument} AS HUGEINT)" for argument in arguments]
        return self._called(expression, wide)

    def _called(self, expression: FunctionCall, arguments: Sequence[str] | None) -> str | None:
        if arguments is None or not is_pushable(expression):
            return None
        call = _call(expression, arguments)
        return call if call is None or never_fails(expression) else f"TRY({call})"

    def _operands(self, expressions: Sequence[Expression]) -> list[str] | None:
        parts = [part for each in expressions if (part := self._operand(each)) is not None]
        return parts if len(parts) == len(expressions) else None

    def _all(self, expressions: Sequence[Expression]) -> list[str] | None:
        parts = [part for each in expressions if (part := self.visit(each)) is not None]
        return parts if len(parts) == len(expressions) else None


class _ShapeEncoder(DuckDBEncoder):
    """Writes filters without their values, which may be private."""

    def visit_constant(self, expression: Constant) -> str | None:  # noqa: ARG002
        """Return a placeholder."""
        return "?"


def _is_widened(expression: Expression) -> bool:
    """Return whether this is arithmetic of integers that cannot overflow in HUGEINT."""
    if not isinstance(expression, FunctionCall) or expression.name not in _OVERFLOWING:
        return False
    types = (expression.return_type, *(type_of(argument) for argument in expression.arguments))
    return all(type.id in _SMALLER_THAN_HUGEINT for type in types)


def _call(expression: FunctionCall, arguments: Sequence[str]) -> str | None:
    name = expression.name.lower()
    match arguments:
        case [left, right] if name in BINARY_OPERATORS:
            return f"({left} {name} {right})"
        case [operand] if name in UNARY_OPERATORS:
            return f"({name} {operand})"
        case _ if name in BINARY_OPERATORS | UNARY_OPERATORS:
            return None
        case _ if name == "struct_pack":
            return _struct_pack(expression, arguments)
        case _:
            return f"{name}({', '.join(arguments)})"


def _struct_pack(expression: FunctionCall, arguments: Sequence[str]) -> str | None:
    fields = expression.return_type.fields
    if len(fields) != len(arguments) or not has_sql_type(expression.return_type):
        return None
    members = zip(fields, arguments, strict=True)
    return f"struct_pack({', '.join(f'{duckdb_identifier(f.name)} := {a}' for f, a in members)})"


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
    """Return whether the call has the same result on the server as on the client."""
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
    """Return whether the function has a result for all values of the columns in its arguments."""
    name, rest = call.name.lower(), call.arguments[1:]
    if name in _PATTERNS:
        return all(isinstance(argument, Constant) for argument in rest)
    if name in _DIVISIONS and rest:
        divisor = rest[0]
        return isinstance(divisor, Constant) and divisor.value not in (None, 0, -1)
    return name in _NEVER_FAIL


def depends_on_zone(type: LogicalType) -> bool:
    """Return whether the text or calendar fields of a value depend on the session's time zone."""
    if type.id in _ZONED:
        return True
    if type.child is not None and depends_on_zone(type.child):
        return True
    return any(depends_on_zone(field.type) for field in type.fields)


def _division_is_pushable(call: FunctionCall) -> bool:
    # The meaning of `/` for integers, and of a division by zero, depends on settings of the client.
    kinds = {type_of(argument).id for argument in call.arguments}
    floating = bool(kinds & {"FLOAT", "DOUBLE"})
    if not floating:
        return call.name != "/"
    divisor = call.arguments[-1]
    return isinstance(divisor, Constant) and divisor.value not in (None, 0)

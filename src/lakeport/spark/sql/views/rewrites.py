"""Rewrites of SQL that DuckDB and Spark both accept, with different results."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from sqlglot import exp

from lakeport.errors import UnsupportedError
from lakeport.spark.sql.views.patterns import java_pattern

__all__ = ["CALLS", "REWRITES", "is_text"]


def is_text(node: Any) -> bool:
    """Return whether a node is a constant text that is not empty."""
    return isinstance(node, exp.Literal) and node.is_string and bool(node.name)


def _integer_constant(node: Any) -> int | None:
    """Return the value of a constant whole number; None for other nodes."""
    if isinstance(node, exp.Neg):
        inner = _integer_constant(node.this)
        return None if inner is None else -inner
    is_number = isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal()
    return int(node.name) if is_number else None


def _function(name: str, *arguments: Any) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _double(node: exp.Expr) -> exp.Expr:
    return exp.cast(node.copy(), "double")


def _to_timestamp(node: exp.Expr) -> exp.Expr:
    """Cast a date or a timestamp to a timestamp, as DuckDB does."""
    return exp.Cast(this=node.copy(), to=exp.DataType.build("timestamp_ntz", dialect="spark"))


def _whole_only(node: exp.Expr) -> exp.Expr:
    """Make Spark's analyser refuse a value that is not whole, by a bitwise operator."""
    return exp.Paren(this=exp.BitwiseOr(this=node.copy(), expression=exp.Literal.number(0)))


def _cast(node: exp.Expr) -> exp.Expr:
    """Round fractions to whole numbers as DuckDB does; Spark truncates them."""
    kind, value = node.args["to"], node.this.unnest()
    if kind.is_type("text", "varchar") and not _has_same_text(value):
        raise UnsupportedError("the text of this value may differ in Spark")
    _check_parsing(value, kind)
    if kind.this not in _INTEGERS or _is_whole(value):
        return node
    if value.is_type("float", "double"):
        return exp.Cast(this=_function("rint", value.copy()), to=kind)
    if value.is_type("decimal"):
        return exp.Cast(this=_function("round", value.copy()), to=kind)
    return exp.Cast(this=_whole_only(node.this), to=kind)


def _check_parsing(value: exp.Expr, kind: exp.DataType) -> None:
    """Refuse casts of texts that both databases might read differently."""
    pattern = _NUMBER if kind.is_type(*exp.DataType.NUMERIC_TYPES, "boolean") else _MOMENT
    if value.is_string and not kind.is_type("text", "varchar"):
        if pattern.fullmatch(value.name) is None:
            raise UnsupportedError(f"the text {value.name!r} may have another value in Spark")
    elif value.is_type("text", "varchar") and not kind.is_type("text", "varchar"):
        raise UnsupportedError("a cast of a text column has no translation")
    elif kind.is_type("date", "timestamp", "timestamp_ntz", "timestamptz") and not value.is_type(
        "date", "timestamp_ntz", "timestamptz", "null"
    ):
        raise UnsupportedError("a cast of a value that may be a text has no translation")


_NUMBER: Final = re.compile(r"-?\d{1,18}(\.\d{1,9})?")
_MOMENT: Final = re.compile(r"(1[6-9]|2[0-9])\d\d-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d{1,6})?)?")


def _has_same_text(node: exp.Expr) -> bool:
    """Return whether a value is known to have one text form: floats, lists and others have two."""
    return (
        _is_whole(node)
        or isinstance(node, exp.Literal)
        or node.is_type("decimal", "date", "timestamp_ntz", "text", "varchar")
    )


def _rounded(node: exp.Expr) -> exp.Expr:
    """Round decimals and whole numbers: of a float, Spark returns a BIGINT and DuckDB a DOUBLE."""
    value = node.this.unnest()
    if not (_is_whole(value) or value.is_type("decimal")):
        raise UnsupportedError(f"{node.key} of a floating-point number has no translation")
    return node


def _is_whole(node: exp.Expr) -> bool:
    is_truth = isinstance(node, exp.Predicate | exp.Connector | exp.Not | exp.Boolean | exp.Null)
    return (
        is_truth
        or _integer_constant(node) is not None
        or node.is_type("boolean", *exp.DataType.INTEGER_TYPES)
    )


def _data_type(node: exp.Expr) -> exp.Expr:
    kind = node.this
    if kind is exp.DataType.Type.INT128:
        return exp.DataType.build("decimal(38, 0)")
    if kind not in _TYPES:
        raise UnsupportedError(f"a cast to {node.sql('duckdb')} has no translation")
    return node


_INTEGERS: Final = frozenset(
    exp.DataType.Type[name] for name in ("TINYINT", "SMALLINT", "INT", "BIGINT", "INT128")
)
_TYPES: Final = _INTEGERS | frozenset(
    exp.DataType.Type[name]
    for name in (
        "BOOLEAN", "FLOAT", "DOUBLE", "DECIMAL", "TEXT", "VARCHAR", "DATE", "TIMESTAMPNTZ",
        "TIMESTAMPTZ", "ARRAY", "LIST", "STRUCT", "MAP",
    )
)  # fmt: skip


def _division(node: exp.Expr) -> exp.Expr:
    """Divide by constants alone: Spark raises an error where DuckDB returns infinity or NaN."""
    divisor = node.expression.unnest()
    if isinstance(divisor, exp.Neg):
        divisor = divisor.this
    is_number = isinstance(divisor, exp.Literal) and not divisor.is_string
    if not is_number or float(divisor.name) == 0:
        raise UnsupportedError("a division by something that may be zero has no translation")
    return exp.Div(this=_double(node.this), expression=_double(node.expression), typed=True)


def _whole_division(node: exp.Expr) -> exp.Expr:
    divisor = exp.Nullif(this=_whole_only(node.expression), expression=exp.Literal.number(0))
    return exp.IntDiv(this=_whole_only(node.this), expression=divisor)


def _remainder(node: exp.Expr) -> exp.Expr:
    """Return NULL for a remainder of zero; refuse floats, where DuckDB returns NaN."""
    value, by = (_exact_only(side) for side in (node.this, node.expression))
    return exp.Mod(this=value, expression=exp.Nullif(this=by, expression=exp.Literal.number(0)))


def _exact_only(node: exp.Expr) -> exp.Expr:
    """Return a whole or decimal value; make Spark refuse any other that is not whole."""
    inner = node.unnest()
    is_decimal = inner.is_type("decimal") or (
        isinstance(inner, exp.Literal) and not inner.is_string and "e" not in inner.name.lower()
    )
    return node.copy() if is_decimal or _is_whole(inner) else _whole_only(node)


def _concatenated(node: exp.Expr) -> exp.Expr:
    """Refuse floating-point numbers, which have another text in Spark."""
    for value in node.iter_expressions():
        if value.unnest().is_type("float", "double"):
            raise UnsupportedError("the text of this value may differ in Spark")
    return node


def _joined(node: exp.Expr) -> exp.Expr:
    """Make Spark refuse lists by adding an empty text: DuckDB joins them as texts."""
    _concatenated(node)
    separator, *values = node.expressions
    nothing = exp.Literal.string("")
    texts = [_function("concat", value.copy(), nothing.copy()) for value in values]
    return exp.ConcatWs(**{**node.args, "expressions": [separator.copy(), *texts]})


def _sum(node: exp.Expr) -> exp.Expr:
    """Cast dates to which intervals are added: the sum is a timestamp in DuckDB."""
    left, right = node.this, node.expression
    if isinstance(right.unnest(), exp.Interval):
        return type(node)(this=_to_timestamp(left), expression=right)
    if isinstance(left.unnest(), exp.Interval) and isinstance(node, exp.Add):
        return exp.Add(this=_to_timestamp(right), expression=left)
    return node


def _average(node: exp.Expr) -> exp.Expr:
    if isinstance(node.this, exp.Distinct):
        raise UnsupportedError("avg(DISTINCT …) has no translation")
    return exp.Avg(this=_double(node.this))


def _like(node: exp.Expr) -> exp.Expr:
    """Escape backslashes: they are letters in DuckDB's patterns, escapes in Spark's."""
    if isinstance(node.parent, exp.Escape):
        return node
    pattern = node.expression
    if not pattern.is_string:
        raise UnsupportedError("LIKE is translated with constant patterns alone")
    if "\\" not in pattern.name:
        return node
    escaped = exp.Literal.string(pattern.name.replace("\\", "\\\\"))
    return exp.Like(**{**node.args, "expression": escaped})


def _element(node: exp.Expr) -> exp.Expr:
    """Count elements from one, with NULL beyond the end, in lists as in maps."""
    if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice):
        raise UnsupportedError("a slice of a list has no translation")
    index = node.expressions[0]
    number = _integer_constant(index)
    # sqlglot counts constant indexes from zero.
    if number is not None:
        index = exp.Literal.number(number + 1)
    return _function("try_element_at", node.this.copy(), index)


def _substring(node: exp.Expr) -> exp.Expr:
    start, length = _integer_constant(node.args.get("start")), node.args.get("length")
    if start is None or start < 1 or (length is not None and (_integer_constant(length) or -1) < 0):
        raise UnsupportedError("substring is translated with constant positive positions alone")
    return node


def _left_or_right(node: exp.Expr) -> exp.Expr:
    if (_integer_constant(node.expression) or -1) < 0:
        raise UnsupportedError(f"{node.key} is translated with constant lengths alone")
    return node


def _truncated(node: exp.Expr) -> exp.Expr:
    unit = node.text("unit").upper()
    if unit in ("YEAR", "QUARTER", "MONTH", "WEEK"):
        return _to_timestamp(_function("trunc", node.this.copy(), exp.Literal.string(unit)))
    if unit == "DAY":
        return _to_timestamp(exp.cast(node.this.copy(), "date"))
    if unit in ("HOUR", "MINUTE", "SECOND"):
        return _to_timestamp(_function("date_trunc", exp.Literal.string(unit), node.this.copy()))
    raise UnsupportedError(f"date_trunc to a {unit.lower()} has no translation")


def _difference(node: exp.Expr) -> exp.Expr:
    """Count the boundaries between two timestamps, not the time between them."""
    unit = node.text("unit").upper() or "DAY"
    end, start = node.this.copy(), node.expression.copy()
    if unit == "DAY":
        return _function("datediff", end, start)
    years = exp.paren(exp.Sub(this=exp.Year(this=end), expression=exp.Year(this=start)))
    if unit == "YEAR":
        return years
    if unit == "MONTH":
        months = exp.Sub(this=exp.Month(this=end.copy()), expression=exp.Month(this=start.copy()))
        twelve = exp.Mul(this=years, expression=exp.Literal.number(12))
        return exp.paren(exp.Add(this=twelve, expression=exp.paren(months)))
    raise UnsupportedError(f"date_diff in {unit.lower()}s has no translation")


_FORMATS: Final = {
    "%Y": "yyyy", "%y": "yy", "%m": "MM", "%d": "dd", "%H": "HH", "%I": "hh", "%M": "mm",
    "%S": "ss", "%f": "SSSSSS", "%p": "a", "%j": "DDD", "%B": "MMMM", "%b": "MMM", "%A": "EEEE",
    "%a": "E", "%%": "%",
}  # fmt: skip


def _formatted(node: exp.Expr) -> exp.Expr:
    moment, pattern = node.this, node.args["format"]
    if not pattern.is_string:
        moment, pattern = pattern, moment
    if not pattern.is_string:
        raise UnsupportedError("strftime is translated with constant formats alone")
    parts: list[str] = []
    for code in re.findall(r"%.?|[^%]+", pattern.name, re.DOTALL):
        if code[0] == "%" and code not in _FORMATS:
            raise UnsupportedError(f"the format {code} of strftime has no translation")
        plain = code.replace("'", "''")
        parts.append(_FORMATS[code] if code[0] == "%" else f"'{plain}'")
    return _function("date_format", moment.copy(), exp.Literal.string("".join(parts)))


def _matched(node: exp.Expr) -> exp.Expr:
    return exp.RegexpLike(this=node.this.copy(), expression=_pattern(node.expression))


def _pattern(node: exp.Expr, around: str = "{}") -> exp.Expr:
    """Return a constant pattern for Java, inside another."""
    if not node.is_string:
        raise UnsupportedError("regular expressions are translated with constant patterns alone")
    return exp.Literal.string(around.replace("{}", java_pattern(node.name)))


def _extracted(node: exp.Expr) -> exp.Expr:
    if not is_text(node.args.get("group") or exp.Literal.string("0")) and (
        _integer_constant(node.args.get("group")) is None
    ):
        raise UnsupportedError("regexp_extract is translated with constant groups alone")
    if node.args.get("parameters"):
        raise UnsupportedError("regexp_extract with options has no translation")
    group = node.args.get("group") or exp.Literal.number(0)
    pattern = _pattern(node.expression)
    return _function("regexp_extract", node.this.copy(), pattern, group.copy())


def _replaced(node: exp.Expr) -> exp.Expr:
    replacement, options = node.args["replacement"], node.args.get("modifiers")
    if options is None or options.name != "g":
        raise UnsupportedError("regexp_replace is translated with the option 'g' alone")
    if not replacement.is_string or set(replacement.name) & {"\\", "$"}:
        raise UnsupportedError("regexp_replace is translated with plain replacements alone")
    pattern = _pattern(node.expression)
    return _function("regexp_replace", node.this.copy(), pattern, replacement.copy())


def _full_match(node: exp.Expr) -> exp.Expr:
    if node.args.get("options"):
        raise UnsupportedError("regexp_full_match with options has no translation")
    whole = _pattern(node.expression, "^(?:{})\\z")
    return exp.RegexpLike(this=node.this.copy(), expression=whole)


def _struct(node: exp.Expr) -> exp.Expr:
    arguments: list[exp.Expr] = []
    for member in node.expressions:
        if not isinstance(member, exp.PropertyEQ):
            raise UnsupportedError("a struct without names has no translation")
        arguments += [exp.Literal.string(member.this.name), member.expression.copy()]
    return _function("named_struct", *arguments)


def _contained(node: exp.Expr) -> exp.Expr:
    """Return whether a list contains a value; NULL elements do not match, NULL values are NULL."""
    element = exp.to_identifier("element")
    same = exp.NullSafeEQ(this=element, expression=node.expression.copy())
    test = exp.Lambda(this=same, expressions=[element.copy()])
    unknown = exp.Is(this=node.expression.copy(), expression=exp.Null())
    return _function("if", unknown, exp.Null(), _function("exists", node.this.copy(), test))


def _quantile(node: exp.Expr) -> exp.Expr:
    """Refuse quantiles of decimals, which are truncated decimals in DuckDB."""
    if node.this.is_type("decimal"):
        raise UnsupportedError("quantiles of decimals have no translation")
    if isinstance(node, exp.Median):
        return node
    return _function("percentile", node.this.copy(), node.expression.copy())


def _size(node: exp.Expr) -> exp.Expr:
    return _function("array_size", node.this.copy())


def _unchanged(node: exp.Expr) -> exp.Expr:
    return node


Rewrite = Callable[[Any], exp.Expr]

REWRITES: Final[dict[type[exp.Expr], Rewrite]] = {
    exp.Cast: _cast,
    exp.DataType: _data_type,
    exp.Div: _division,
    exp.IntDiv: _whole_division,
    exp.Mod: _remainder,
    exp.Add: _sum,
    exp.Sub: _sum,
    exp.Avg: _average,
    exp.Ceil: _rounded,
    exp.Floor: _rounded,
    exp.Sign: _rounded,
    exp.Like: _like,
    exp.Bracket: _element,
    exp.Substring: _substring,
    exp.Left: _left_or_right,
    exp.Right: _left_or_right,
    exp.TimestampTrunc: _truncated,
    exp.DateTrunc: _truncated,
    exp.DateDiff: _difference,
    exp.TimeToStr: _formatted,
    exp.RegexpLike: _matched,
    exp.RegexpExtract: _extracted,
    exp.RegexpReplace: _replaced,
    exp.RegexpFullMatch: _full_match,
    exp.Concat: _concatenated,
    exp.ConcatWs: _joined,
    exp.DPipe: _concatenated,
    exp.Struct: _struct,
    exp.PropertyEQ: _unchanged,
    exp.ArrayContains: _contained,
    exp.PercentileCont: _quantile,
    exp.Median: _quantile,
    exp.ArraySize: _size,
}


def _part(node: exp.Expr) -> exp.Expr:
    part, moment = node.expressions
    if not part.is_string or part.name.lower() not in _PARTS:
        raise UnsupportedError(f"date_part of {part.sql('duckdb')} has no translation")
    return _function(part.name.lower(), moment.copy())


def _map(node: exp.Expr) -> exp.Expr:
    return _function("map_from_arrays", *(argument.copy() for argument in node.expressions))


def _named(name: str) -> Rewrite:
    return lambda node: _function(name, *(argument.copy() for argument in node.expressions))


_PARTS: Final = frozenset({"year", "month", "day", "quarter", "hour", "minute"})

CALLS: Final[dict[str, Rewrite]] = {
    "date_part": _part,
    "map": _map,
    "prefix": _named("startswith"),
    "suffix": _named("endswith"),
}

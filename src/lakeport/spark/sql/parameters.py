"""Parameters of statements and queries: `:name` and `?` are replaced by constants.

A constant is written in SQL that Spark and DuckDB read alike, because a statement has parts for
both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, TypeAlias

from lakeport.errors import InvalidArgumentError
from lakeport.spark.sql.statements import Token, tokens_of

__all__ = ["Arguments", "with_arguments"]

Arguments: TypeAlias = Mapping[str, Any] | Sequence[Any]
"""Values by name, or in the order of the question marks."""

# A backslash is an escape in Spark only, and ${…} is replaced there.
_SPECIAL: Final = {"'": 39, "\\": 92, "$": 36}


def with_arguments(text: str, arguments: Arguments | None) -> str:
    """Return a text with its parameters replaced by constants.

    Raises:
        InvalidArgumentError: A parameter has no value, or a value that SQL cannot hold.
    """
    if arguments is None:
        return text
    tokens = tokens_of(text)
    used: set[Any] = set()
    edits: list[tuple[int, int, str]] = []
    for position, token in enumerate(tokens):
        if isinstance(arguments, Mapping):
            if not _is_named(tokens, position):
                continue
            key: Any = tokens[position + 1].text
            end = tokens[position + 1].end
            known = key in arguments
        elif token.kind == "other" and token.text == "?":
            key, end = len(used), token.end
            known = key < len(arguments)
        else:
            continue
        if not known:
            shown = f":{key}" if isinstance(key, str) else f"number {key + 1}"
            raise InvalidArgumentError(f"the parameter {shown} has no value in args")
        used.add(key)
        edits.append((token.start, end, _constant(arguments[key], key)))
    if not isinstance(arguments, Mapping) and len(used) < len(arguments):
        raise InvalidArgumentError(f"args has {len(arguments)} values for {len(used)} parameters")
    for start, end, value in reversed(edits):
        text = text[:start] + value + text[end:]
    return text


def _is_named(tokens: Sequence[Token], position: int) -> bool:
    """Return whether a colon and the next word are a parameter, and no slice or struct field."""
    colon = tokens[position]
    if colon.keyword != ":" or position + 1 >= len(tokens):
        return False
    word = tokens[position + 1]
    before = tokens[position - 1] if position else None
    follows_value = before is not None and (
        before.kind in ("name", "number", "string") or before.keyword in (")", "]", ":")
    )
    is_glued = before is not None and before.kind == "word" and before.end == colon.start
    return word.kind == "word" and word.start == colon.end and not follows_value and not is_glued


def _constant(value: Any, key: Any) -> str:
    """Return a value as SQL."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value) if value >= 0 else f"({value})"
        case float():
            text = repr(value) if math.isfinite(value) else {"inf": "Infinity"}.get(str(value))
            return f"CAST('{text or _unbounded(value)}' AS DOUBLE)"
        case Decimal() if value.is_finite():
            return f"({value:f})"
        case str():
            return _text(value)
        case datetime():
            return _text(value.isoformat(sep=" "))
        case date():
            return f"DATE '{value.isoformat()}'"
        case bytes():
            return f"unhex('{value.hex()}')"
        case _:
            shown = f":{key}" if isinstance(key, str) else f"number {key + 1}"
            raise InvalidArgumentError(
                f"the value of parameter {shown} is a {type(value).__name__}: give a number, text, "
                "date, time stamp, bytes, boolean or None"
            )


def _unbounded(value: float) -> str:
    return "NaN" if math.isnan(value) else "-Infinity"


def _text(value: str) -> str:
    parts = [""]
    for character in value:
        if character in _SPECIAL:
            parts += [f"chr({_SPECIAL[character]})", ""]
        else:
            parts[-1] += character
    texts = [part if number % 2 else f"'{part}'" for number, part in enumerate(parts)]
    return texts[0] if len(texts) == 1 else f"({' || '.join(texts)})"

"""Expressions and types as DuckDB's SQL: names of tables and backticks are replaced.

The tables of a statement have names of their own, and the kernel has others: `target` and `source`
in a merge, none in an update or a delete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from lakeport.errors import InvalidInputError, UnsupportedError
from lakeport.spark.sql.statements.model import Assignment, ObjectName
from lakeport.spark.sql.statements.tokens import Token, tokens_of
from lakeport.types import duckdb_identifier, fold_name

__all__ = [
    "Qualifiers",
    "assigned_column",
    "default_parts",
    "duckdb_sql",
    "lake_type",
    "partition_key",
    "partition_key_text",
    "qualifiers",
    "table_names",
]

Qualifiers: TypeAlias = Mapping[tuple[str, ...], str]
"""The names of tables, folded, and what replaces each of them and its dot."""

# Types of Spark that DuckDB has under other names.
_TYPES: Final = {"TIMESTAMP_NTZ": "TIMESTAMP", "TIMESTAMP_LTZ": "TIMESTAMPTZ", "BYTE": "TINYINT"}
_TYPE_NESTING: Final = {"<": 1, "(": 1, "[": 1, ">": -1, ">>": -2, ")": -1, "]": -1}
_PLURALS: Final = {"YEARS": "year", "MONTHS": "month", "DAYS": "day", "HOURS": "hour"}


def table_names(table: ObjectName, alias: str | None) -> list[tuple[str, ...]]:
    """Return how expressions may name a table: by its alias, or else by its own name."""
    if alias is not None:
        return [(alias,)]
    return [(table.name,), (table.schema, table.name)]


def qualifiers(names: Sequence[tuple[str, ...]], replacement: str) -> dict[tuple[str, ...], str]:
    """Return the replacement of each name."""
    return {tuple(map(fold_name, name)): replacement for name in names}


def duckdb_sql(text: str, names: Qualifiers | None = None) -> str:
    """Return an expression with the names of tables replaced and names in double quotes."""
    tokens = tokens_of(text)
    edits: list[tuple[int, int, str]] = []
    position = 0
    while position < len(tokens):
        chain = _chain(tokens, position)
        if not chain:
            position += 1
            continue
        dropped, replacement = _qualifier(chain, names or {})
        if dropped:
            edits.append((chain[0].start, chain[dropped].start, replacement))
        edits += [
            (token.start, token.end, duckdb_identifier(token.text))
            for token in chain[dropped:]
            if text[token.start] == "`"
        ]
        position += 2 * len(chain) - 1
    for start, end, new in reversed(edits):
        text = text[:start] + new + text[end:]
    return text


def _chain(tokens: Sequence[Token], first: int) -> list[Token]:
    """Return the names that are joined by dots from a position on."""
    if not tokens[first].is_name:
        return []
    chain = [tokens[first]]
    position = first + 1
    while (
        position + 1 < len(tokens)
        and tokens[position].keyword == "."
        and tokens[position + 1].is_name
    ):
        chain.append(tokens[position + 1])
        position += 2
    return chain


def _qualifier(chain: Sequence[Token], names: Qualifiers) -> tuple[int, str]:
    """Return how many names of a chain name a table, and their replacement."""
    folded = tuple(fold_name(token.text) for token in chain)
    for length in (2, 1):
        if len(chain) > length and folded[:length] in names:
            return length, names[folded[:length]]
    return 0, ""


def assigned_column(assignment: Assignment, names: Qualifiers) -> str:
    """Return the column of an assignment, which may be qualified by its table."""
    path, _ = assignment
    for length in (2, 1):
        if len(path) > length and tuple(map(fold_name, path[:length])) in names:
            path = path[length:]
            break
    if len(path) > 1:
        raise UnsupportedError(
            f"the field {'.'.join(path)} of a struct cannot be set alone: set the column "
            f"{path[0]!r} to a new struct"
        )
    return path[0]


def default_parts(text: str) -> tuple[str | None, str | None]:
    """Return a default as the text of a literal, or as an expression; both None for NULL."""
    tokens = tokens_of(text)
    if len(tokens) == 1:
        (token,) = tokens
        if token.kind in ("string", "number"):
            return token.text, None
        if token.keyword == "NULL":
            return None, None
    if len(tokens) == 2 and tokens[0].keyword == "-" and tokens[1].kind == "number":
        return f"-{tokens[1].text}", None
    return None, duckdb_sql(text)


def lake_type(text: str) -> str:
    """Return a type as DuckDB's SQL; it may be written as Spark writes types.

    Names such as TIMESTAMP and DECIMAL have the meaning of DuckDB, also inside `STRUCT<…>`.
    """
    tokens = tokens_of(text)
    words = [token.keyword for token in tokens]
    if words[-2:] == ["[", "]"]:
        return f"{lake_type(text[: tokens[-2].start])}[]"
    kind = words[0] if words[1:2] == ["<"] and words[-1] in (">", ">>") else None
    parts = _type_parts(text[tokens[1].end : tokens[-1].end - 1]) if kind else []
    match kind, parts:
        case None, _:
            return _TYPES.get(text.strip().upper(), duckdb_sql(text))
        case "ARRAY", [element]:
            return f"{lake_type(element)}[]"
        case "MAP", [key, value]:
            return f"MAP({lake_type(key)}, {lake_type(value)})"
        case "STRUCT", [_, *_]:
            return f"STRUCT({', '.join(map(_field, parts))})"
    raise InvalidInputError(
        f"the type {text!r} cannot be parsed: write ARRAY<type>, MAP<type, type> or "
        "STRUCT<name: type, …>"
    )


def _type_parts(text: str) -> list[str]:
    """Return the texts between the commas of a type that are outside of its other types."""
    parts, first, depth = [], 0, 0
    for token in tokens_of(text):
        depth += _TYPE_NESTING.get(token.keyword, 0)
        if token.keyword == "," and depth == 0:
            parts.append(text[first : token.start])
            first = token.end
    parts.append(text[first:])
    return parts


def _field(text: str) -> str:
    """Return a field of Spark's `STRUCT<…>`, such as `city: STRING`, as DuckDB's SQL."""
    tokens = tokens_of(text)
    has_colon = len(tokens) > 1 and tokens[1].keyword == ":"
    if len(tokens) < 2 + has_colon or not tokens[0].is_name:
        raise InvalidInputError(f"the field {text.strip()!r} of a struct has no name or no type")
    words = [token.keyword for token in tokens]
    name = duckdb_identifier(tokens[0].text)
    if words[-2:] == ["NOT", "NULL"]:
        raise UnsupportedError(
            f"the field {name} of a struct cannot be NOT NULL: only whole columns can be"
        )
    if len(words) > 2 and words[-2] == "COMMENT" and tokens[-1].kind == "string":
        raise UnsupportedError(
            f"the comment on the field {name} of a struct is not supported here: write COMMENT ON "
            "COLUMN afterwards"
        )
    return f"{name} {lake_type(text[tokens[1 + has_colon].start :])}"


def partition_key(text: str) -> str:
    """Return a partition key; the functions of Spark, such as `months(day)`, are plural."""
    tokens = tokens_of(text)
    word = _PLURALS.get(tokens[0].keyword)
    if word is not None and len(tokens) > 1 and tokens[1].keyword == "(":
        text = f"{word}{text[tokens[0].end - tokens[0].start :].lstrip()}"
    return duckdb_sql(text)


def partition_key_text(transform: str, name: str) -> str:
    """Return a partition key as SQL, such as `bucket(16, id)`."""
    if transform == "identity":
        return name
    function, _, count = transform.rstrip(")").partition("(")
    return f"{function}({count}, {name})" if count else f"{function}({name})"

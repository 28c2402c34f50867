"""Expressions and types as DuckDB's SQL: names of tables and backticks are replaced.

The tables of a statement have names of their own, and the kernel has others: `target` and `source`
in a merge, none in an update or a delete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from sqlglot import errors, exp

from lakeport.errors import InvalidInputError, UnsupportedError, first_line
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

    TIMESTAMP has no time zone, as in DuckDB, also inside `STRUCT<…>`.
    """
    tokens = tokens_of(text)
    if not any(token.keyword == "<" for token in tokens):
        return _TYPES.get(text.strip().upper(), duckdb_sql(text))
    for token in reversed(tokens):
        if token.keyword == "TIMESTAMP":
            text = f"{text[: token.start]}TIMESTAMP_NTZ{text[token.end :]}"
    try:
        return exp.DataType.build(text, dialect="spark").sql("duckdb")
    except (errors.SqlglotError, ValueError) as error:
        raise InvalidInputError(
            f"the type {text!r} cannot be parsed: {first_line(error)}"
        ) from None


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

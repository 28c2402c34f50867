"""Parse the text of a statement that changes a lake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lakeport.errors import InvalidInputError, UnsupportedError
from lakeport.spark.sql.statements.ddl import (
    parse_alter,
    parse_comment,
    parse_create,
    parse_drop,
)
from lakeport.spark.sql.statements.dml import (
    parse_delete,
    parse_insert,
    parse_merge,
    parse_truncate,
    parse_update,
)
from lakeport.spark.sql.statements.model import Statement, With
from lakeport.spark.sql.statements.tokens import TokenReader, tokens_of

__all__ = ["is_statement", "parse_statement"]

_PARSERS: Final[dict[str, Callable[[TokenReader], Statement]]] = {
    "ALTER": parse_alter,
    "COMMENT": parse_comment,
    "CREATE": parse_create,
    "DELETE": parse_delete,
    "DROP": parse_drop,
    "INSERT": parse_insert,
    "MERGE": parse_merge,
    "TRUNCATE": parse_truncate,
    "UPDATE": parse_update,
}


_QUERIES: Final = ("SELECT", "FROM", "VALUES", "TABLE", "(", "MAP", "REDUCE")
_AFTER_WITH: Final = ("INSERT", "UPDATE", "DELETE", "MERGE")
_HINTS: Final = {
    "BEGIN": "write with lake.transaction()",
    "CALL": "maintain the lake with lake.maintain() or lakeport maintain",
    "COMMIT": "write with lake.transaction()",
    "EXPLAIN": "call explain() of the DataFrame of the query",
    "OPTIMIZE": "maintain the lake with lake.maintain() or lakeport maintain",
    "REPLACE": "write CREATE OR REPLACE TABLE",
    "ROLLBACK": "write with lake.transaction()",
    "SET": "set an option with lake.set_option or ALTER TABLE … SET TBLPROPERTIES",
    "START": "write with lake.transaction()",
    "USE": "write the schema before the name of each table",
    "VACUUM": "maintain the lake with lake.maintain() or lakeport maintain",
}


def is_statement(text: str) -> bool:
    """Return whether a text is a statement, and not a query."""
    try:
        tokens = tokens_of(text)
    except InvalidInputError:
        return False  # the parser of queries reports what is wrong
    first = tokens[0].keyword if tokens else ""
    if first == "WITH":
        reader = TokenReader(text)
        reader.until(*_AFTER_WITH, *_QUERIES[:4])
        return any(reader.peek(word) for word in _AFTER_WITH)
    return bool(tokens) and first != ";" and first not in _QUERIES


def parse_statement(text: str) -> Statement | With:
    """Parse a statement.

    Raises:
        InvalidInputError: The text is not one statement.
        UnsupportedError: A part of it is not supported; the message names the part.
    """
    reader = TokenReader(text)
    ctes = reader.until(*_AFTER_WITH) if reader.peek("WITH") else None
    word = reader.next.keyword if reader.next is not None else reader.what
    parse = _PARSERS.get(word)
    if parse is None:
        others = f"there are queries and {', '.join(_PARSERS)}, SHOW, DESCRIBE"
        raise UnsupportedError(f"{word} cannot be run on a lake: {_HINTS.get(word, others)}")
    reader.what = word
    reader.expect(word)
    statement = parse(reader)
    return statement if ctes is None else With(ctes, statement)

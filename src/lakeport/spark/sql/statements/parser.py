"""Parse the text of a statement that changes a lake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lakeport.errors import UnsupportedError
from lakeport.spark.sql.queries import first_command
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
from lakeport.spark.sql.statements.model import Statement
from lakeport.spark.sql.statements.tokens import TokenReader

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


def is_statement(text: str) -> bool:
    """Return whether a text is a command, and not a query."""
    return first_command(text) is not None


def parse_statement(text: str) -> Statement:
    """Parse a statement.

    Raises:
        InvalidInputError: The text is not one statement.
        UnsupportedError: A part of it is not supported; the message names the part.
    """
    reader = TokenReader(text)
    parse = _PARSERS.get(reader.what)
    if parse is None:
        raise UnsupportedError(
            f"{reader.what} cannot be run on a lake: there are queries and {', '.join(_PARSERS)}"
        )
    reader.expect(reader.what)
    return parse(reader)

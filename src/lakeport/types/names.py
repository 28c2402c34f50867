"""Names and types as Spark SQL, whatever characters they hold."""

from __future__ import annotations

import re

__all__ = [
    "duckdb_identifier",
    "duckdb_string",
    "fold_name",
    "spark_identifier",
    "spark_identifier_or_none",
]


def spark_identifier(name: str) -> str:
    """A name that Spark does not take apart."""
    return "`" + name.replace("`", "``") + "`"


def fold_name(name: str) -> str:
    """Lower case of A to Z only."""
    return re.sub("[A-Z]+", lambda match: match.group().lower(), name)


def spark_identifier_or_none(name: str) -> str | None:
    """A quoted name, ``None`` if Spark would replace a part of it."""
    return None if "${" in name else "`" + name.replace("`", "``") + "`"


def duckdb_identifier(name: str) -> str:
    """A DuckDB identifier that means exactly this name."""
    return '"' + name.replace('"', '""') + '"'


def duckdb_string(text: str) -> str:
    """A DuckDB string literal that means exactly this text."""
    return "'" + text.replace("'", "''") + "'"

"""Names as identifiers of DuckDB and Spark SQL, whatever characters they contain."""

from __future__ import annotations

import re

__all__ = [
    "duckdb_identifier",
    "duckdb_string",
    "fold_name",
    "spark_can_write",
    "spark_identifier",
]


def spark_identifier(name: str) -> str:
    """Return a Spark SQL identifier that means exactly this name, if `spark_can_write` is true."""
    return "`" + name.replace("`", "``") + "`"


def spark_can_write(name: str) -> bool:
    """Return whether a name can stand in Spark SQL: Spark replaces `${...}` even inside quotes."""
    return "${" not in name


def fold_name(name: str) -> str:
    """Return a name with A to Z in lower case, as DuckDB compares names."""
    if name.isascii():
        return name.lower()
    return re.sub("[A-Z]+", lambda match: match.group().lower(), name)


def duckdb_identifier(name: str) -> str:
    """Return a DuckDB identifier that means exactly this name."""
    return '"' + name.replace('"', '""') + '"'


def duckdb_string(text: str) -> str:
    """Return a DuckDB string literal that means exactly this text."""
    return "'" + text.replace("'", "''") + "'"

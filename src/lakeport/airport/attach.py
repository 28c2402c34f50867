"""The statement that attaches a catalog, for people to paste."""

from __future__ import annotations

from functools import cache

from lakeport.filters.types import quote_identifier, quote_string

__all__ = ["attach_statement"]


def attach_statement(catalog: str, location: str) -> str:
    """ATTACH for a catalog; a name that is no plain identifier is quoted."""
    return (
        f"ATTACH {quote_string(catalog)} AS {_identifier(catalog)} "
        f"(TYPE airport, LOCATION {quote_string(location)});"
    )


def _identifier(text: str) -> str:
    is_plain = text.isidentifier() and text.isascii() and text.lower() not in _keywords()
    return text if is_plain else quote_identifier(text)


@cache
def _keywords() -> frozenset[str]:
    """The words that DuckDB takes for a name in quotes only."""
    import duckdb

    with duckdb.connect() as connection:
        rows = connection.sql(
            "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'"
        ).fetchall()
    return frozenset(name for (name,) in rows)

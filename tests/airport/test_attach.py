"""The statement that people paste: DuckDB must be able to read it."""

from __future__ import annotations

import duckdb
import pytest

from lakeport.airport.server.server import attach_statement

LOCATION = "grpc://127.0.0.1:8815"


def test_a_plain_name_needs_no_quotes() -> None:
    assert attach_statement("Lake_2", LOCATION) == (
        f"ATTACH 'Lake_2' AS Lake_2 (TYPE airport, LOCATION '{LOCATION}');"
    )


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("my-lake", "'my-lake' AS \"my-lake\""),
        ("o'hara", "'o''hara' AS \"o'hara\""),
        ('a"b', '\'a"b\' AS "a""b"'),
        ("order", "'order' AS \"order\""),
        ("2024", "'2024' AS \"2024\""),
        ("näh", "'n%C3%A4h' AS \"näh\""),
    ],
)
def test_any_other_name_is_quoted(name: str, spelled: str) -> None:
    statement = attach_statement(name, LOCATION)

    assert spelled in statement
    assert len(duckdb.extract_statements(statement)) == 1

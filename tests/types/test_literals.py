"""What DuckDB SQL can write: types whose members have distinct names."""

from __future__ import annotations

import duckdb
import pytest

from lakeport.arrow import thread_connection
from lakeport.types import Field, LogicalType, has_sql_type

INTEGER = LogicalType("INTEGER")


@pytest.mark.parametrize(
    "names", [("a", "b"), ("a", "A"), ("Straße", "STRASSE"), ("é", "É"), ("K", "k"), ("x", "x")]
)
def test_a_struct_has_an_sql_type_if_duckdb_accepts_the_names_of_its_members(
    names: tuple[str, str],
) -> None:
    type = LogicalType("STRUCT", fields=tuple(Field(name, INTEGER) for name in names))
    try:
        thread_connection().sql(f"SELECT NULL::{type.sql()}")
        accepts = True
    except duckdb.Error:
        accepts = False

    assert has_sql_type(type) is accepts

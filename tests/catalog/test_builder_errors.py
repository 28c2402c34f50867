"""Every wrong declaration is one sentence at `build()` that names the object and the fault."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lakeport.catalog import CatalogBuilder, FunctionReference, Partition, rowid_field
from lakeport.errors import DefinitionError, InvalidArgumentError

INT = pa.int64()
COLUMNS = pa.schema([("x", INT)])
DATA = pa.table({"x": [1]})

# Wrong on purpose, so the builder is untyped here.
Declare = Callable[[Any], Any]


def _table(schema: pa.Schema) -> Declare:
    return lambda s: s.table("t", lambda: None, schema=schema)


TABLES: dict[str, tuple[Declare, str]] = {
    "empty name": (lambda s: s.table("", DATA), "the name of a table must not be empty"),
    "control characters": (lambda s: s.table("a\nb", DATA), "table 'a\\nb' has control characters"),
    "long name": (
        lambda s: s.table("x" * 1025, DATA),
        "the table is 1025 bytes long; at most 1024",
    ),
    "surrogate": (lambda s: s.table("\ud800", DATA), "the name of the table is not valid Unicode"),
    "no name": (lambda s: s.table(None, DATA), "schema 's': a name is missing"),
    "two of one name": (
        lambda s: s.table("t", DATA).table("t", DATA),
        "schema 's' has two tables named 't' (case is ignored)",
    ),
    "two names that differ in case": (
        lambda s: s.table("t", DATA).table("T", DATA),
        "schema 's' has two tables named 'T' (case is ignored)",
    ),
    "not a table": (
        lambda s: s.table("t", 42),
        "table 't': int is not a table; give a pyarrow table",
    ),
    "not the protocol": (
        lambda s: s.table(42),
        "schema 's': int lacks the Table protocol (name, comment, arrow_schema, scan)",
    ),
    "scan without schema": (
        lambda s: s.table("t", lambda options: DATA),
        "table 't': a scan callable needs schema=…",
    ),
    "factory of something else": (
        lambda s: s.table("t", lambda: [1, 2]),
        "table 't': the factory returns list, which has no Arrow schema; declare one with schema=…",
    ),
    "scan with too many arguments": (
        lambda s: s.table("t", lambda a, b: DATA, schema=COLUMNS),
        "table 't': the callable takes 2 arguments; it must take none",
    ),
    "schema is no schema": (
        lambda s: s.table("t", lambda: DATA, schema={"x": "int"}),
        "table s.t: expected a pyarrow schema, not dict",
    ),
    "no endpoints": (
        lambda s: s.table("t", DATA, endpoints=0),
        "table 't': endpoints must be at least 1, not 0",
    ),
    "endpoints of a scan": (
        lambda s: s.table("t", lambda: DATA, endpoints=4),
        "table 't': endpoints and statistics do not apply to a callable",
    ),
    "statistics of a scan": (
        lambda s: s.table("t", lambda options: DATA, schema=COLUMNS, statistics=True),
        "table 't': endpoints and statistics do not apply to a callable",
    ),
    "data of other types": (
        lambda s: s.table("t", pa.table({"x": ["a"]}), schema=COLUMNS),
        "table 't': the data does not fit schema=",
    ),
    "data without a column": (
        lambda s: s.table("t", DATA, schema=pa.schema([("y", INT)])),
        "table 't': the data does not fit schema=",
    ),
    "no columns": (_table(pa.schema([])), "table s.t has no columns"),
    "only a rowid": (_table(pa.schema([rowid_field()])), "table s.t has no columns"),
    "two row ids": (
        _table(pa.schema([("x", INT), rowid_field("a"), rowid_field("b")])),
        "table s.t has more than one column marked is_rowid",
    ),
    "two columns of one name": (
        _table(pa.schema([("x", INT), ("X", INT)])),
        "table s.t has two columns named 'X' (case is ignored)",
    ),
    "column without a name": (
        _table(pa.schema([("", INT)])),
        "the name of a column of table s.t must not be empty",
    ),
    "half floats": (
        _table(pa.schema([("x", pa.float16())])),
        "table s.t: column 'x': DuckDB has no type for halffloat",
    ),
    "wide decimals": (
        _table(pa.schema([("x", pa.decimal256(50, 2))])),
        "table s.t: column 'x': DuckDB has no type for decimal256(50, 2)",
    ),
    "nested half floats": (
        _table(pa.schema([("x", pa.list_(pa.struct([("h", pa.float16())])))])),
        "table s.t: column 'x': DuckDB has no type for halffloat",
    ),
    "extension of half floats": (
        _table(pa.schema([("x", pa.opaque(pa.float16(), "half", "nobody"))])),
        "table s.t: column 'x': DuckDB has no type for halffloat",
    ),
    "dense unions": (
        _table(pa.schema([("x", pa.dense_union([pa.field("a", INT)]))])),
        "table s.t: column 'x': DuckDB reads sparse unions only",
    ),
    "structs without fields": (
        _table(pa.schema([("x", pa.struct([]))])),
        "table s.t: column 'x': a struct needs at least one field",
    ),
    "reference that is a partition": (
        lambda s: s.reference_table("t", Partition(b"1"), schema=COLUMNS),
        "table s.t: Partition is not a FunctionReference or FileReference",
    ),
    "reference that is text": (
        lambda s: s.reference_table("t", ["a.parquet"], schema=COLUMNS),
        "table s.t: str is not a FunctionReference or FileReference",
    ),
    "reference with a positional name": (
        lambda s: s.reference_table(
            "t", FunctionReference("read_csv", named={"arg_0": 1}), schema=COLUMNS
        ),
        "table s.t: read_csv: the named argument 'arg_0' must not start with 'arg_'",
    ),
    "reference with a rowid": (
        lambda s: s.reference_table("t", [], schema=pa.schema([("x", INT), rowid_field()])),
        "table s.t: a table that the client reads by itself cannot have a rowid",
    ),
    "reference without columns": (
        lambda s: s.reference_table("t", [], schema=pa.schema([])),
        "table s.t has no columns",
    ),
}


@pytest.mark.parametrize(("declare", "fault"), TABLES.values(), ids=TABLES)
def test_a_wrong_table_is_refused(declare: Declare, fault: str) -> None:
    schema = CatalogBuilder().schema("s")

    with pytest.raises(DefinitionError, match=re.escape(fault)):
        declare(schema)
        schema.build()


def test_two_schemas_of_one_name_are_refused() -> None:
    builder = CatalogBuilder()
    builder.schema("s")
    builder.schema("s")

    with pytest.raises(DefinitionError, match="the catalog has two schemas named 's'"):
        builder.build()


def test_a_schema_without_a_name_is_refused() -> None:
    with pytest.raises(DefinitionError, match="the name of a schema must not be empty"):
        CatalogBuilder().schema("").build()


def test_a_wrong_declaration_is_an_invalid_argument() -> None:
    assert issubclass(DefinitionError, InvalidArgumentError)


def test_nothing_is_refused_before_build() -> None:
    schema = CatalogBuilder().schema("s")

    schema.table("", DATA).table("t", 42).table("t", 42)
    schema.scalar_function("f", lambda: 1, parameters={"x": INT}, returns=INT)

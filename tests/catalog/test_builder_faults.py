"""Every wrong declaration fails at `build()` with a sentence that names the object and the fault."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lakeport.catalog import (
    ANY,
    CatalogBuilder,
    FunctionReference,
    FunctionSignature,
    Parameter,
    ParameterKind,
    Partition,
    SchemaBuilder,
    Stability,
    rowid_field,
)
from lakeport.errors import DefinitionError, InvalidArgumentError

INT = pa.int64()
COLUMNS = pa.schema([("x", INT)])
DATA = pa.table({"x": [1]})

Declare = Callable[[SchemaBuilder], Any]


def _table(schema: pa.Schema) -> Declare:
    return lambda s: s.table("t", lambda: None, schema=schema)


TABLES: dict[str, tuple[Declare, str]] = {
    "empty name": (lambda s: s.table("", DATA), "the name of a table must not be empty"),
    "control characters": (lambda s: s.table("a\nb", DATA), "table 'a\\nb' has control characters"),
    "long name": (lambda s: s.table("x" * 1025, DATA), "the table is 1025 bytes long; at most 1024"),
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
    "not a table": (lambda s: s.table("t", 42), "table 't': int is not a table; give a pyarrow table"),
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
    "reference without columns": (
        lambda s: s.reference_table("t", [], schema=pa.schema([])),
        "table s.t has no columns",
    ),
}


def _scalar(function: Any, parameters: Any, returns: Any = INT, name: str = "f") -> Declare:
    return lambda s: s.scalar_function(name, function, parameters=parameters, returns=returns)


def _tabular(function: Any, parameters: Any, schema: Any = COLUMNS) -> Declare:
    return lambda s: s.table_function("f", function, parameters=parameters, schema=schema)


def _in_out(function: Any, parameters: Any, schema: Any = COLUMNS) -> Declare:
    return lambda s: s.table_function_in_out("f", function, parameters=parameters, schema=schema)


class Nothing:
    name = "nothing"


class WrongScalar:
    name = "wrong"
    comment = ""
    signature = FunctionSignature((Parameter("x", INT),))
    stability = Stability.VOLATILE

    def execute(self, rows: pa.RecordBatch) -> pa.Array:
        return rows.column(0)


FUNCTIONS: dict[str, tuple[Declare, str]] = {
    "empty name": (_scalar(lambda: 1, {}, name=""), "the name of a function must not be empty"),
    "not callable": (_scalar(42, {"x": INT}), "function s.f: int is not callable"),
    "too few arguments": (
        _scalar(lambda: 1, {"x": INT}),
        "function s.f: the callable does not fit its parameters: too many positional arguments",
    ),
    "too many arguments": (
        _scalar(lambda x, y: x, {"x": INT}),
        "function s.f: the callable does not fit its parameters: missing a required argument: 'y'",
    ),
    "no result type": (
        _scalar(lambda x: x, {"x": INT}, returns="int"),
        "function s.f: returns= must be an Arrow type",
    ),
    "unusable result": (
        _scalar(lambda x: x, {"x": INT}, returns=pa.float16()),
        "function s.f: the result: DuckDB has no type for halffloat",
    ),
    "parameter of a Python type": (
        _scalar(lambda x: x, {"x": int}),
        "function s.f: parameter 'x' needs an Arrow type or ANY, not <class 'int'>",
    ),
    "unusable parameter": (
        _scalar(lambda x: x, {"x": pa.float16()}),
        "function s.f: parameter 'x': DuckDB has no type for halffloat",
    ),
    "parameter without a name": (
        _scalar(lambda x: x, {"": INT}),
        "the name of a parameter of function s.f must not be empty",
    ),
    "two parameters of one name": (
        _tabular(lambda **_: DATA, [Parameter("x", INT), Parameter("X", INT)]),
        "function s.f has two parameters named 'X' (case is ignored)",
    ),
    "named parameter of a scalar": (
        _scalar(lambda x: x, [Parameter("x", INT, ParameterKind.NAMED)]),
        "function s.f: parameter 'x' is named; a scalar function has positional parameters only",
    ),
    "table parameter of a scalar": (
        _scalar(lambda x: x, [Parameter("x", ANY, ParameterKind.TABLE)]),
        "function s.f: parameter 'x' is table; a scalar function has positional parameters only",
    ),
    "gap in the defaults": (
        _scalar(lambda x, y: x, [Parameter("x", INT, default=1), Parameter("y", INT)]),
        "function s.f: a parameter without a default follows one with",
    ),
    "default of another type": (
        _scalar(lambda x="a": x, {"x": INT}),
        "function s.f: parameter 'x': the default does not fit int64",
    ),
    "default of a table function": (
        _tabular(lambda x="a": DATA, {"x": INT}),
        "function s.f: parameter 'x': the default does not fit int64",
    ),
    "named parameter of any type": (
        _tabular(lambda x=1: DATA, {"x": ANY}),
        "function s.f: parameter 'x' cannot be both named and of any type",
    ),
    "table function that takes a table": (
        _tabular(lambda x: DATA, [Parameter("x", ANY, ParameterKind.TABLE)]),
        "function s.f takes a table: declare it with table_function_in_out",
    ),
    "table function with other arguments": (
        _tabular(lambda y: DATA, {"x": INT}),
        "function s.f: the callable does not fit its parameters: missing a required argument: 'y'",
    ),
    "schema with other arguments": (
        _tabular(lambda x: DATA, {"x": INT}, schema=lambda y: COLUMNS),
        "function s.f: schema: the callable does not fit its parameters",
    ),
    "schema that is neither": (
        _tabular(lambda x: DATA, {"x": INT}, schema="x"),
        "function s.f: schema: str is not callable",
    ),
    "result without columns": (
        _tabular(lambda x: DATA, {"x": INT}, schema=pa.schema([])),
        "function s.f has no columns",
    ),
    "in-out without a place for rows": (
        _in_out(lambda: DATA, {}),
        "function s.f: the callable does not fit its parameters: too many positional arguments",
    ),
    "two tables": (
        _in_out(
            lambda *_, **__: DATA,
            [Parameter(n, ANY, ParameterKind.TABLE) for n in ("a", "b")],
        ),
        "function s.f takes two tables; one is possible",
    ),
    "table before another parameter": (
        _in_out(
            lambda rows, x: DATA, [Parameter("t", ANY, ParameterKind.TABLE), Parameter("x", INT)]
        ),
        "function s.f: the table parameter must be the last one",
    ),
    "no function protocol": (
        lambda s: s.function(Nothing()),
        "function s.nothing has none of the function protocols",
    ),
    "object without a result type": (
        lambda s: s.function(WrongScalar()),
        "function s.wrong: returns= must be an Arrow type",
    ),
    "two scalar overloads of the same types": (
        lambda s: (
            s.scalar_function("f", lambda x: x, parameters={"x": INT}, returns=INT)
            and s.scalar_function("F", lambda y: y, parameters={"y": INT}, returns=INT)
        ),
        "schema 's' has two functions F(int64)",
    ),
    "two table functions of the same types": (
        lambda s: (
            s.table_function("f", lambda x: DATA, parameters={"x": INT}, schema=COLUMNS)
            and s.table_function(
                "f", lambda x, y=1: DATA, parameters={"x": INT, "y": INT}, schema=COLUMNS
            )
        ),
        "schema 's' has two functions f(int64)",
    ),
}


@pytest.mark.parametrize(("declare", "fault"), TABLES.values(), ids=TABLES)
def test_a_wrong_table_is_refused(declare: Declare, fault: str) -> None:
    schema = CatalogBuilder().schema("s")

    with pytest.raises(DefinitionError, match=re.escape(fault)):
        declare(schema)
        schema.build()


@pytest.mark.parametrize(("declare", "fault"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_wrong_function_is_refused(declare: Declare, fault: str) -> None:
    schema = CatalogBuilder().schema("s")

    with pytest.raises(DefinitionError, match=re.escape(fault)):
        declare(schema)
        schema.build()


@pytest.mark.parametrize(
    "name", ["auth_token", "secret", "headers", "ticket", "at_unit", "at_value", "SECRET"]
)
def test_a_named_parameter_cannot_take_a_name_that_the_client_keeps(name: str) -> None:
    schema = CatalogBuilder().schema("s")
    spelled = [Parameter(name, pa.string(), ParameterKind.NAMED, default="")]
    schema.table_function("f", lambda **_: DATA, parameters=spelled, schema=COLUMNS)

    with pytest.raises(DefinitionError, match=f"parameter '{name}' has a name that the client keeps"):
        schema.build()


@pytest.mark.parametrize(
    "type",
    [
        pa.large_string(),
        pa.string_view(),
        pa.date64(),
        pa.time32("s"),
        pa.binary(16),
        pa.dictionary(pa.int8(), pa.string()),
        pa.uuid(),
        pa.list_(pa.large_string()),
        pa.struct([("a", pa.large_binary())]),
        pa.map_(pa.string(), pa.large_string()),
        pa.large_list(pa.int64()),
        pa.null(),
        pa.duration("us"),
    ],
    ids=str,
)
def test_a_scalar_parameter_must_have_a_layout_that_duckdb_produces(type: pa.DataType) -> None:
    schema = CatalogBuilder().schema("s")
    schema.scalar_function("f", lambda x: x, parameters={"x": type}, returns=INT)

    with pytest.raises(DefinitionError, match=re.escape(f"DuckDB does not pass {type} in that layout")):
        schema.build()


@pytest.mark.parametrize(
    "type",
    [
        pa.bool_(),
        pa.uint64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.binary(),
        pa.date32(),
        pa.time64("us"),
        pa.timestamp("ns"),
        pa.timestamp("us", tz="UTC"),
        pa.decimal128(38, 2),
        pa.month_day_nano_interval(),
        pa.list_(pa.struct([("a", pa.map_(pa.string(), pa.int8()))])),
        pa.list_(pa.int64(), 3),
    ],
    ids=str,
)
def test_a_scalar_parameter_may_have_any_layout_that_duckdb_produces(type: pa.DataType) -> None:
    schema = CatalogBuilder().schema("s")
    schema.scalar_function("f", lambda x: x, parameters={"x": type}, returns=INT)

    assert len(schema.build().schemas()[0].scalar_functions()) == 1


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

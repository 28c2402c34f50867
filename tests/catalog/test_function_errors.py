"""Every wrong function fails at `build()` with a sentence that names it and the fault."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lakeport.catalog import (
    ANY,
    CatalogBuilder,
    FunctionSignature,
    Parameter,
    ParameterKind,
    Stability,
)
from lakeport.errors import DefinitionError

INT = pa.int64()
COLUMNS = pa.schema([("x", INT)])
DATA = pa.table({"x": [1]})

# Wrong on purpose, so the builder is untyped here.
Declare = Callable[[Any], Any]


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

    with pytest.raises(
        DefinitionError, match=f"parameter '{name}' has a name that the client keeps"
    ):
        schema.build()


@pytest.mark.parametrize(
    "type",
    [
        pa.large_string(),
        pa.string_view(),
        pa.date64(),
        pa.time32("s"),
        pa.timestamp("s", tz="UTC"),
        pa.timestamp("ms", tz="UTC"),
        pa.timestamp("ns", tz="UTC"),
        pa.list_(pa.timestamp("ns", tz="UTC")),
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

    with pytest.raises(
        DefinitionError, match=re.escape(f"DuckDB does not pass {type} in that layout")
    ):
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

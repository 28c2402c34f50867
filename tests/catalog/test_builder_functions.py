"""Functions of plain Python callables, with Arrow types, defaults and dynamic columns."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakeport.catalog import (
    ANY,
    REQUIRED,
    Arguments,
    FunctionSignature,
    Parameter,
    ParameterKind,
    ScalarFunction,
    ScanOptions,
    SchemaBuilder,
    Stability,
    TableFunction,
    TableFunctionInOut,
)
from lakeport.errors import InternalError


def scalar_of(schema: SchemaBuilder, index: int = 0) -> ScalarFunction:
    return schema.build().schemas()[0].scalar_functions()[index]


def table_function_of(schema: SchemaBuilder) -> TableFunction:
    return schema.build().schemas()[0].table_functions()[0]


def in_out_of(schema: SchemaBuilder) -> TableFunctionInOut:
    return schema.build().schemas()[0].table_functions_in_out()[0]


def arguments(**values: Any) -> Arguments:
    return Arguments({name: pa.scalar(value) for name, value in values.items()})


def test_a_scalar_function_gets_one_array_per_parameter(schema: SchemaBuilder) -> None:
    schema.scalar_function(
        "plus",
        pc.add,
        parameters={"a": pa.int64(), "b": pa.int64()},
        returns=pa.int64(),
        comment="Adds",
        stability=Stability.CONSISTENT,
    )
    plus = scalar_of(schema)

    assert (plus.name, plus.comment, plus.stability) == ("plus", "Adds", Stability.CONSISTENT)
    assert plus.signature == FunctionSignature(
        (Parameter("a", pa.int64()), Parameter("b", pa.int64())), pa.int64()
    )
    assert plus.execute(pa.record_batch({"a": [1, 2], "b": [3, None]})).to_pylist() == [4, None]


def test_a_decorated_scalar_function_stays_an_ordinary_function(schema: SchemaBuilder) -> None:
    @schema.scalar_function(parameters={"x": pa.int64()}, returns=pa.int64())
    def twice(x: Any) -> Any:
        return pc.multiply(x, 2)

    assert scalar_of(schema).name == "twice"
    assert twice(pa.array([2])).to_pylist() == [4]


def test_functions_are_volatile_unless_declared_otherwise(schema: SchemaBuilder) -> None:
    schema.scalar_function("f", lambda x: x, parameters={"x": pa.int64()}, returns=pa.int64())

    assert scalar_of(schema).stability is Stability.VOLATILE


def test_a_default_publishes_one_overload_for_each_number_of_arguments(
    schema: SchemaBuilder,
) -> None:
    @schema.scalar_function(
        parameters={"x": pa.int64(), "by": pa.int64(), "plus": pa.int64()}, returns=pa.int64()
    )
    def scale(x: Any, by: Any = 10, plus: Any = 1) -> Any:
        return pc.add(pc.multiply(x, by), plus)

    overloads = schema.build().schemas()[0].scalar_functions()
    results = {
        len(f.signature.parameters): f.execute(
            pa.record_batch({p.name: [2] for p in f.signature.parameters})
        ).to_pylist()
        for f in overloads
    }

    assert results == {3: [6], 2: [5], 1: [21]}
    assert all(p.is_required for f in overloads for p in f.signature.parameters)


def test_a_function_may_ask_for_the_number_of_rows(schema: SchemaBuilder) -> None:
    @schema.scalar_function(parameters={}, returns=pa.int64())
    def counter(num_rows: int) -> Any:
        return pa.array(range(num_rows))

    no_columns = pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([])))
    assert scalar_of(schema).execute(no_columns).to_pylist() == [0, 1, 2]


def test_a_declared_parameter_called_num_rows_is_an_ordinary_one(schema: SchemaBuilder) -> None:
    @schema.scalar_function(
        parameters={"x": pa.int64(), "num_rows": pa.int64()}, returns=pa.int64()
    )
    def scaled(x: Any, num_rows: Any = 10) -> Any:
        return pc.multiply(x, num_rows)

    given = pa.record_batch({"x": [1, 2], "num_rows": [3, 4]})
    assert scalar_of(schema, 0).execute(given).to_pylist() == [3, 8]
    assert scalar_of(schema, 1).execute(given.select(["x"])).to_pylist() == [10, 20]


def test_an_any_parameter_sees_the_type_that_arrives(schema: SchemaBuilder) -> None:
    @schema.scalar_function(parameters={"x": ANY}, returns=pa.string())
    def type_name(x: Any) -> str:
        return str(x.type)

    execute = scalar_of(schema).execute
    assert execute(pa.record_batch({"x": pa.array([1, 2], pa.int8())})).to_pylist() == ["int8"] * 2
    assert execute(pa.record_batch({"x": ["a"]})).to_pylist() == ["string"]


@pytest.mark.parametrize(
    "result",
    [
        pa.array([7, 7], pa.int8()),
        pa.chunked_array([[7], [7]]),
        pa.scalar(7),
        [7, 7],
        (7, 7),
        7,
        np.int32(7),
        np.array(7),
        np.array([7, 7]),
        pd.Series([7, 7]),
        pl.Series([7, 7]),
    ],
    ids=str,
)
def test_a_result_of_any_kind_becomes_an_array_of_the_declared_type(
    schema: SchemaBuilder, result: Any
) -> None:
    schema.scalar_function("f", lambda x: result, parameters={"x": pa.int64()}, returns=pa.int64())

    got = scalar_of(schema).execute(pa.record_batch({"x": [1, 2]}))

    assert got.type == pa.int64()
    assert got.to_pylist() == [7, 7]


ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


@pytest.mark.parametrize(
    ("value", "returns", "expected"),
    [
        (None, pa.null(), None),
        (None, pa.int64(), None),
        (True, pa.bool_(), True),
        (1.5, pa.float64(), 1.5),
        ("text", pa.string(), "text"),
        (b"blob", pa.binary(), b"blob"),
        (bytearray(b"blob"), pa.binary(), b"blob"),
        (Decimal("1.5"), pa.decimal128(5, 2), Decimal("1.50")),
        (dt.date(2024, 1, 2), pa.date32(), dt.date(2024, 1, 2)),
        (dt.datetime(2024, 1, 2), pa.timestamp("us"), dt.datetime(2024, 1, 2)),
        (np.float64(2.5), pa.float64(), 2.5),
        (ID, pa.uuid(), ID),
        (str(ID), pa.uuid(), ID),
        (pa.scalar(str(ID)), pa.uuid(), ID),
        ({"a": 1}, pa.struct([("a", pa.int64())]), {"a": 1}),
        (
            pa.MonthDayNano([1, 2, 3]),
            pa.month_day_nano_interval(),
            pa.MonthDayNano([1, 2, 3]),
        ),
        ("red", pa.dictionary(pa.uint8(), pa.string()), "red"),
    ],
    ids=str,
)
def test_one_value_stands_for_all_rows(
    schema: SchemaBuilder, value: Any, returns: pa.DataType, expected: Any
) -> None:
    schema.scalar_function("f", lambda x: value, parameters={"x": pa.int64()}, returns=returns)
    execute = scalar_of(schema).execute

    got = execute(pa.record_batch({"x": [1, 2]}))

    assert got.type == returns
    assert got.to_pylist() == [expected] * 2
    assert len(execute(pa.record_batch({"x": pa.array([], pa.int64())}))) == 0


@pytest.mark.parametrize(
    "result", [pa.array([str(ID), None]), [str(ID), None]], ids=["array", "list"]
)
def test_a_result_may_come_in_another_layout(schema: SchemaBuilder, result: Any) -> None:
    schema.scalar_function("f", lambda x: result, parameters={"x": pa.int64()}, returns=pa.uuid())

    assert scalar_of(schema).execute(pa.record_batch({"x": [1, 2]})).to_pylist() == [ID, None]


@pytest.mark.parametrize(
    ("result", "kind"),
    [(object(), "object"), (pa.array(["x"]), "StringArray"), ([2**70], "list"), ("x", "str")],
    ids=["object", "array", "list", "text"],
)
def test_a_result_that_does_not_fit_is_named_in_the_error(
    schema: SchemaBuilder, result: Any, kind: str
) -> None:
    schema.scalar_function("f", lambda x: result, parameters={"x": pa.int64()}, returns=pa.int64())

    with pytest.raises(
        InternalError, match=f"function 'f' returned {kind}, which does not fit int64"
    ):
        scalar_of(schema).execute(pa.record_batch({"x": [1]}))


NUMBERS = pa.schema([("n", pa.int64())])


def test_a_table_function_gets_python_values_by_name(schema: SchemaBuilder) -> None:
    @schema.table_function(parameters={"stop": pa.int64(), "start": pa.int64()}, schema=NUMBERS)
    def series(stop: int, start: int = 0) -> pa.Table:
        return pa.table({"n": range(start, stop)})

    function = table_function_of(schema)
    kinds = [(p.name, p.kind, p.default) for p in function.signature.parameters]

    assert kinds == [
        ("stop", ParameterKind.POSITIONAL, REQUIRED),
        ("start", ParameterKind.NAMED, 0),
    ]
    assert function.schema_for(arguments(stop=3, start=1)).equals(NUMBERS)
    rows = function.execute_table(arguments(stop=3, start=1), ScanOptions()).read_all()
    assert rows.to_pydict() == {"n": [1, 2]}


def test_a_table_function_gets_the_scan_options_if_it_asks(schema: SchemaBuilder) -> None:
    seen: list[ScanOptions] = []

    @schema.table_function(parameters={}, schema=NUMBERS)
    def series(options: ScanOptions) -> pa.Table:
        seen.append(options)
        return NUMBERS.empty_table()

    table_function_of(schema).execute_table(arguments(), ScanOptions(columns=("n",)))

    assert seen == [ScanOptions(columns=("n",))]


def test_a_declared_parameter_called_options_is_an_ordinary_one(schema: SchemaBuilder) -> None:
    @schema.table_function(parameters={"options": pa.string()}, schema=NUMBERS)
    def series(options: str) -> pa.Table:
        return pa.table({"n": [len(options)]})

    rows = table_function_of(schema).execute_table(arguments(options="abc"), ScanOptions())
    assert rows.read_all().to_pydict() == {"n": [3]}


def test_the_columns_of_a_table_function_may_depend_on_its_arguments(
    schema: SchemaBuilder,
) -> None:
    def columns(width: int) -> pa.Schema:
        return pa.schema([(f"c{i}", pa.int64()) for i in range(width)])

    @schema.table_function(parameters={"width": pa.int64()}, schema=columns)
    def wide(width: int) -> pa.Table:
        return pa.table({f"c{i}": [i] for i in range(width)})

    function = table_function_of(schema)
    assert function.schema_for(arguments(width=2)).names == ["c0", "c1"]
    assert function.schema_for(arguments(width=3)).names == ["c0", "c1", "c2"]


def test_a_schema_callable_that_returns_something_else_is_named(schema: SchemaBuilder) -> None:
    schema.table_function("f", lambda: None, parameters={}, schema=lambda: ["n"])

    with pytest.raises(InternalError, match="function 'f': the schema callable returned list"):
        table_function_of(schema).schema_for(arguments())


def test_an_in_out_function_may_be_a_generator(schema: SchemaBuilder) -> None:
    @schema.table_function_in_out(
        parameters={"by": pa.int64()},
        schema=lambda rows, by: rows.append(pa.field("by", pa.int64())),
    )
    def tagged(rows: pa.RecordBatchReader, by: int) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            yield batch.append_column("by", pa.repeat(by, batch.num_rows))

    function = in_out_of(schema)
    given = pa.table({"x": [1, 2]})

    assert [p.kind for p in function.signature.parameters] == [
        ParameterKind.POSITIONAL,
        ParameterKind.TABLE,
    ]
    assert function.schema_for_input(arguments(by=7), given.schema).names == ["x", "by"]
    result = function.execute_in_out(arguments(by=7), given.to_reader(), ScanOptions())
    assert result.read_all().to_pydict() == {"x": [1, 2], "by": [7, 7]}


def test_an_in_out_function_may_ask_for_the_scan_options(schema: SchemaBuilder) -> None:
    seen: list[ScanOptions] = []

    def echo(rows: pa.RecordBatchReader, options: ScanOptions) -> pa.RecordBatchReader:
        seen.append(options)
        return rows

    schema.table_function_in_out("echo", echo, schema=NUMBERS)
    given = pa.table({"n": [1]})
    in_out_of(schema).execute_in_out(arguments(), given.to_reader(), ScanOptions(limit=1))

    assert seen == [ScanOptions(limit=1)]


def test_parameters_can_be_spelled_out(schema: SchemaBuilder) -> None:
    spelled = [
        Parameter("a", pa.int64()),
        Parameter("b", pa.string(), ParameterKind.NAMED, default="x"),
    ]
    schema.table_function(
        "f", lambda a, b: NUMBERS.empty_table(), parameters=spelled, schema=NUMBERS
    )

    assert table_function_of(schema).signature.parameters == tuple(spelled)


class Shout:
    """A function made by hand."""

    name = "shout"
    comment = ""
    signature = FunctionSignature((Parameter("x", pa.string()),), pa.string())
    stability = Stability.CONSISTENT_WITHIN_QUERY

    def execute(self, rows: pa.RecordBatch) -> pa.Array:
        return pc.utf8_upper(rows.column(0))


class Empty:
    name = "empty"
    comment = ""
    signature = FunctionSignature()

    def schema_for(self, arguments: Arguments) -> pa.Schema:
        return NUMBERS

    def execute_table(self, arguments: Arguments, options: ScanOptions) -> pa.RecordBatchReader:
        return NUMBERS.empty_table().to_reader()


class Echo:
    name = "echo"
    comment = ""
    signature = FunctionSignature((Parameter("rows", ANY, ParameterKind.TABLE),))

    def schema_for_input(self, arguments: Arguments, input_schema: pa.Schema) -> pa.Schema:
        return input_schema

    def execute_in_out(
        self, arguments: Arguments, rows: pa.RecordBatchReader, options: ScanOptions
    ) -> pa.RecordBatchReader:
        return rows


def test_objects_with_the_function_protocols_are_used_as_they_are(schema: SchemaBuilder) -> None:
    shout, empty, echo = Shout(), Empty(), Echo()

    built = schema.function(shout).function(empty).function(echo).build().schemas()[0]

    assert list(built.scalar_functions()) == [shout]
    assert list(built.table_functions()) == [empty]
    assert list(built.table_functions_in_out()) == [echo]


def test_overloads_of_one_name_need_other_types(schema: SchemaBuilder) -> None:
    for type in (pa.int64(), pa.string(), ANY):
        schema.scalar_function("f", lambda x: x, parameters={"x": type}, returns=pa.int64())

    assert len(schema.build().schemas()[0].scalar_functions()) == 3


def test_arguments_give_python_values_and_exact_scalars() -> None:
    exact = pa.scalar(1, pa.timestamp("ns"))
    given = Arguments({"a": pa.scalar(1, pa.int8()), "when": exact})

    assert dict(Arguments({"a": pa.scalar(1, pa.int8())})) == {"a": 1}
    assert (len(given), list(given)) == (2, ["a", "when"])
    assert given.scalar("when") is exact
    assert repr(Arguments({"a": pa.scalar(1)})) == "Arguments({'a': 1})"
    with pytest.raises(KeyError):
        given["missing"]

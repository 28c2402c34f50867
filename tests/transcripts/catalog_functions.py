"""The functions of the recording server, written again with the public framework."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.catalog import (
    ANY,
    Arguments,
    FunctionSignature,
    Parameter,
    ParameterKind,
    ScanOptions,
    SchemaBuilder,
    Stability,
)
from lakeport.errors import InternalError

__all__ = ["add_functions"]

WIDE = pa.schema([pa.field(f"result_{i}", pa.int64()) for i in range(20)])
NUMBERS = pa.schema([pa.field("i", pa.int64())])
ROWS = Parameter("data", ANY, ParameterKind.TABLE)


def add_functions(schema: SchemaBuilder) -> None:
    """Declare every function of the schema `utils`."""
    _add_scalar_functions(schema)
    _add_table_functions(schema)
    _add_in_out_functions(schema)


def _add_scalar_functions(schema: SchemaBuilder) -> None:
    int64, text = pa.int64(), pa.string()
    one: dict[str, pa.DataType] = {"a": int64}

    def add(name: str, function: Any, parameters: Any, returns: pa.DataType, **more: Any) -> None:
        schema.scalar_function(
            name,
            function,
            parameters=parameters,
            returns=returns,
            comment=f"{name} description",
            **more,
        )

    add("test_uppercase", pc.utf8_upper, {"value": text}, text, stability=Stability.CONSISTENT)
    add("test_add", pc.add, {"a": int64, "b": int64}, int64)
    add("over", lambda a: [f"int:{value}" for value in a.to_pylist()], one, text)
    add("over", lambda a: [f"str:{value}" for value in a.to_pylist()], {"a": text}, text)
    add("over", lambda a, b: ["two"] * len(a), {"a": int64, "b": int64}, text)
    add("vol", lambda a: a, one, int64)
    add("cons", lambda a: pc.multiply(a, 2), one, int64, stability=Stability.CONSISTENT)
    add(
        "cwq",
        lambda a: pc.multiply(a, 3),
        one,
        int64,
        stability=Stability.CONSISTENT_WITHIN_QUERY,
    )
    add("const0", lambda: 7, {}, int64)
    add("test_any_type", _texts_of_anything, {"value": ANY}, text)
    add("all_args", _all_arguments, ALL_ARGUMENTS, text)
    # On the recording server these two broke the protocol; here they keep it.
    add("bad_schema", lambda a: a, one, int64)
    add("bad_rows", lambda a: a, one, int64)


ALL_ARGUMENTS: dict[str, pa.DataType] = {
    "b": pa.bool_(),
    "i": pa.int32(),
    "d": pa.float64(),
    "s": pa.string(),
    "bl": pa.binary(),
    "dt": pa.date32(),
    "ts": pa.timestamp("us"),
    "dec": pa.decimal128(9, 2),
    "li": pa.list_(pa.int32()),
    "st": pa.struct([("x", pa.int32()), ("y", pa.string())]),
    "mp": pa.map_(pa.string(), pa.int32()),
    "iv": pa.month_day_nano_interval(),
}


def _all_arguments(*columns: pa.Array) -> list[str]:
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    return [repr(dict(zip(ALL_ARGUMENTS, row, strict=True))) for row in rows]


def _texts_of_anything(value: pa.Array) -> list[str | None]:
    storage = value.storage if isinstance(value, pa.ExtensionArray) else value

    def text(item: Any) -> str | None:
        if isinstance(item, bool):
            return str(item).lower()
        return None if item is None else str(item)

    return [text(item) for item in storage.to_pylist()]


class DynamicSchema:
    """Returns its argument, whatever its type."""

    name = "test_dynamic_schema"
    comment = "test_dynamic_schema description"
    signature = FunctionSignature((Parameter("value", ANY),))

    def schema_for(self, arguments: Arguments) -> pa.Schema:
        return pa.schema([pa.field("result", arguments.scalar("value").type)])

    def execute_table(self, arguments: Arguments, options: ScanOptions) -> pa.RecordBatchReader:
        schema = self.schema_for(arguments)
        row = pa.RecordBatch.from_arrays([pa.repeat(arguments.scalar("value"), 1)], schema=schema)
        return pa.RecordBatchReader.from_batches(schema, [row])


class DynamicSchemaNamedParameters:
    """Returns its arguments as a row of their own types."""

    name = "test_dynamic_schema_named_parameters"
    comment = "test_dynamic_schema_named_parameters description"
    signature = FunctionSignature(
        (
            Parameter("name", pa.string()),
            Parameter("location", pa.string(), ParameterKind.NAMED, None),
            Parameter("amount", ANY),
            Parameter("city", pa.string()),
        )
    )

    def schema_for(self, arguments: Arguments) -> pa.Schema:
        return pa.schema(
            [pa.field(f"result_{name}", arguments.scalar(name).type) for name in arguments]
        )

    def execute_table(self, arguments: Arguments, options: ScanOptions) -> pa.RecordBatchReader:
        schema = self.schema_for(arguments)
        columns = [pa.repeat(arguments.scalar(name), 1) for name in arguments]
        row = pa.RecordBatch.from_arrays(columns, schema=schema)
        return pa.RecordBatchReader.from_batches(schema, [row])


def _add_table_functions(schema: SchemaBuilder) -> None:
    text = pa.string()
    result = pa.schema([pa.field("result", text)])

    def add(name: str, function: Any, parameters: Any, columns: pa.Schema) -> None:
        schema.table_function(
            name,
            function,
            parameters=parameters,
            schema=columns,
            comment=f"{name} description",
        )

    add("test_echo", lambda value: _batch(result, [value]), {"value": text}, result)
    add(
        "test_repeat",
        lambda value, times: _batch(result, [value] * times),
        {"value": text, "times": pa.int64()},
        result,
    )
    schema.function(DynamicSchema())
    schema.function(DynamicSchemaNamedParameters())

    named = pa.schema([("i", pa.int64()), ("label", text), ("flag", pa.bool_())])

    def rows_with_labels(
        n: int, label: str | None = None, flag: bool | None = None
    ) -> pa.RecordBatch:
        return _batch(named, list(range(n)), [label] * n, [flag] * n)

    add("named", rows_with_labels, {"n": pa.int64(), "label": text, "flag": pa.bool_()}, named)
    texts = pa.schema([("txt", text)])
    add(
        "structarg",
        lambda st, li: _batch(texts, [str(st), str(li)]),
        {
            "st": pa.struct([("x", pa.int32()), ("y", pa.string())]),
            "li": pa.list_(pa.int64()),
        },
        texts,
    )
    add(
        "noarg",
        lambda: _batch(pa.schema([("v", pa.int32())]), [1, 2]),
        {},
        pa.schema([("v", pa.int32())]),
    )
    v = pa.schema([("v", text)])
    add("overtf", lambda a: _batch(v, ["int"]), {"a": pa.int64()}, v)
    add("overtf", lambda a: _batch(v, ["str"]), {"a": text}, v)
    add("test_wide", _wide, {"count": pa.int64()}, WIDE)
    dictionary = pa.schema([("d", pa.dictionary(pa.int8(), text))])
    letters = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int8()), ["x", "y"])
    add(
        "dictout",
        lambda: pa.RecordBatch.from_arrays([letters], schema=dictionary),
        {},
        dictionary,
    )


PAIRS = pa.schema([("first", pa.string()), ("second", pa.string())])
RESULT = pa.schema([("result", pa.string())])
HUGE = pa.schema([("multiplier", pa.int64()), ("value", pa.string())])
TOTAL = pa.schema([("total", pa.int64())])


def _pair(rows: pa.RecordBatchReader, who: str) -> Iterator[pa.RecordBatch]:
    for batch in rows:
        values = [str(value) for value in batch.column(0).to_pylist()]
        yield _batch(PAIRS, [who] * len(values), values)
    yield _batch(PAIRS, ["last"], ["row"])


def _repeat(rows: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    for batch in rows:
        for _ in range(10):
            yield _batch(RESULT, [str(value) for value in batch.column(0).to_pylist()])


def _multiply(rows: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    for _ in rows:
        for start in range(0, 5000, 1000):
            values = [f"v{i % 13}" for i in range(1000)]
            yield _batch(HUGE, list(range(start, start + 1000)), values)


def _widen(rows: pa.RecordBatchReader, who: str) -> Iterator[pa.RecordBatch]:
    for batch in rows:
        yield _wide(batch.num_rows)


def _add_up(rows: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    yield _batch(TOTAL, [sum(sum(batch.column(0).to_pylist()) for batch in rows)])


def _count_each(rows: pa.RecordBatchReader, n: int) -> Iterator[pa.RecordBatch]:
    for _ in rows:
        yield _batch(NUMBERS, list(range(n)))


def _count_last(rows: pa.RecordBatchReader, n: int) -> Iterator[pa.RecordBatch]:
    for _ in rows:
        pass
    yield _batch(NUMBERS, list(range(n)))


def _fail(rows: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    for _ in rows:
        raise InternalError("boom servererror")
    yield _batch(NUMBERS, [])


def _add_in_out_functions(schema: SchemaBuilder) -> None:
    who, count = Parameter("who", pa.string()), Parameter("n", pa.int64())

    def add(name: str, function: Any, columns: Any, *parameters: Parameter) -> None:
        schema.table_function_in_out(
            name,
            function,
            schema=columns,
            parameters=[*parameters, ROWS],
            comment=f"{name} description",
        )

    add("test_table_in_out", _pair, PAIRS, who)
    add("test_table_in_out_long", _repeat, RESULT)
    add("test_table_in_out_huge", _multiply, HUGE)
    add("test_table_in_out_wide", _widen, WIDE, who)
    add("io_echo", lambda rows: rows, lambda rows: rows)
    add("io_sum", _add_up, TOTAL)
    add("io_fin", _count_each, NUMBERS, count)
    add("io_finlast", _count_last, NUMBERS, count)
    # On the recording server this one answered without rows; here it keeps the protocol.
    add("io_metaonly", lambda rows: _count_each(rows, 1), NUMBERS)
    add("io_err", _fail, NUMBERS)


def _batch(schema: pa.Schema, *columns: list[Any]) -> pa.RecordBatch:
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _wide(count: int) -> pa.RecordBatch:
    return _batch(WIDE, *([i] * count for i in range(20)))

"""Calls of scalar, table and in-out functions, and the choice between overloads."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from typing import Any

import msgpack
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakeport.airport.client import Client
from lakeport.catalog import ANY, CatalogBuilder, ScanOptions, StaticCatalog
from lakeport.errors import InternalError, InvalidArgumentError, InvalidInputError, NotFoundError
from lakeport.filters import col
from tests.client.conftest import Attach
from tests.client.handwritten_server import HandwrittenServer, flight_info


@pytest.fixture(scope="module")
def catalog() -> StaticCatalog:
    schema = CatalogBuilder().schema("f")
    types = [pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.date32()]
    for each in types:
        schema.scalar_function(
            "kind",
            lambda x, name=str(each): pa.repeat(name, len(x)),
            parameters={"x": each},
            returns=pa.string(),
        )
    schema.scalar_function(
        "kind",
        lambda x, y: pa.repeat("two", len(x)),
        parameters={"x": pa.int64(), "y": pa.int64()},
        returns=pa.string(),
    )
    schema.scalar_function(
        "any",
        lambda x: pa.repeat(str(x.type), len(x)),
        parameters={"x": ANY},
        returns=pa.string(),
    )
    schema.scalar_function(
        "add", pc.add_checked, parameters={"a": pa.int64(), "b": pa.int64()}, returns=pa.int64()
    )
    schema.scalar_function(
        "seven", lambda num_rows: pa.repeat(7, num_rows), parameters={}, returns=pa.int64()
    )
    schema.scalar_function(
        "total", pc.list_value_length, parameters={"x": pa.list_(pa.int64())},
        returns=pa.int32(),
    )  # fmt: skip
    schema.scalar_function("fail", _fail, parameters={"x": pa.int64()}, returns=pa.int64())
    schema.table_function(
        "series",
        _series,
        parameters={"n": pa.int64(), "label": pa.string()},
        schema=pa.schema([("i", pa.int64()), ("label", pa.string())]),
    )
    schema.table_function(
        "named", lambda title: pa.table({title: [1]}), parameters={"title": pa.string()},
        schema=lambda title: pa.schema([(title, pa.int64())]),
    )  # fmt: skip
    schema.table_function(
        "nothing",
        lambda: pa.table({"x": [1]}),
        parameters={},
        schema=pa.schema([("x", pa.int64())]),
    )
    schema.table_function(
        "type_of",
        lambda x: pa.table({"t": [type(x).__name__]}),
        parameters={"x": ANY},
        schema=pa.schema([("t", pa.string())]),
    )
    schema.table_function_in_out(
        "plus",
        _plus,
        parameters={"n": pa.int64(), "times": pa.int64()},
        schema=lambda rows, n, times: pa.schema([(rows.names[0], pa.int64())]),
    )
    schema.table_function_in_out("count", _count, schema=pa.schema([("rows", pa.int64())]))
    return schema.build()


def _fail(x: pa.Array) -> pa.Array:
    raise InvalidInputError("7 is too much")


def _series(n: int, options: ScanOptions, label: str = "none") -> pa.Table:
    return pa.table({"i": range(n), "label": pa.repeat(label, n)})


def _plus(rows: pa.RecordBatchReader, n: int, times: int = 1) -> Iterator[pa.RecordBatch]:
    for batch in rows:
        for _ in range(times or 1):
            yield pa.RecordBatch.from_arrays([pc.add(batch.column(0), n)], rows.schema.names[:1])


def _count(rows: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"rows": [sum(batch.num_rows for batch in rows)]})


@pytest.fixture
def client(attach_client: Attach, catalog: StaticCatalog) -> Client:
    return attach_client(catalog)


@pytest.mark.parametrize(
    ("argument", "overload"),
    [
        (1, "int64"),
        (1.5, "double"),
        ("a", "string"),
        (True, "bool"),
        (dt.date(2024, 1, 1), "date32[day]"),
        (pa.array([1], pa.int8()), "int32"),
        (pa.array([1], pa.int32()), "int32"),
        (pa.array([1], pa.uint32()), "int64"),
        (pa.array([1], pa.float32()), "double"),
        (pa.array(["a"], pa.large_string()), "string"),
        (pa.array(["a"]).dictionary_encode(), "string"),
        (np.array([1, 2], dtype=np.int32), "int32"),
        (pd.Series([1.5]), "double"),
        (pa.scalar(5, pa.int16()), "int32"),
        (["a", None], "string"),
    ],
)
def test_the_overload_is_chosen_by_the_type(client: Client, argument: Any, overload: str) -> None:
    assert client.call_scalar("f.kind", argument)[0].as_py() == overload


@pytest.mark.parametrize("values", [[["a"]], [["1"]], [[1]]], ids=str)
def test_an_overload_that_the_values_do_not_fit_is_passed_over(
    attach_client: Attach, values: list[Any]
) -> None:
    schema = CatalogBuilder().schema("f")
    for each in (pa.int64(), pa.string()):
        schema.scalar_function(
            "items",
            lambda x, name=str(each): pa.repeat(name, len(x)),
            parameters={"x": pa.list_(each)},
            returns=pa.string(),
        )
    client = attach_client(schema.build())
    column = pa.array(values)

    chosen = client.call_scalar("f.items", column).to_pylist()

    assert chosen == [str(column.type.value_type)]


def test_values_that_fit_no_overload_are_named(client: Client) -> None:
    with pytest.raises(InvalidInputError, match=r"'x' cannot .*: Failed to parse string: 'a'"):
        client.call_scalar("f.total", pa.array([["a"]]))


def test_the_overload_is_chosen_by_the_number(client: Client) -> None:
    assert client.call_scalar("F.Kind", 1, [2, 3]).to_pylist() == ["two", "two"]


@pytest.mark.parametrize("arguments", [(b"x",), (1, 2, 3), (pa.array([1.5]), 1), ()])
def test_arguments_that_fit_no_overload(client: Client, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidInputError, match=r"function f\.kind does not take \("):
        client.call_scalar("f.kind", *arguments)


@pytest.mark.parametrize(
    ("argument", "type"),
    [
        (1, "int64"),
        (None, "int32"),
        ([None], "int32"),
        (pa.scalar([1]), "list<item: int64>"),
        (pa.scalar(uuid.uuid4().bytes, pa.uuid()), "extension<arrow.uuid>"),
        (pa.array([{"a": 1}]), "struct<a: int64>"),
    ],
)
def test_any_type_takes_every_type(client: Client, argument: Any, type: str) -> None:
    assert client.call_scalar("f.any", argument).to_pylist() == [type]


@pytest.mark.parametrize("rows", [0, 1, 2047, 2048, 2049, 5000])
def test_columns_of_any_length(client: Client, rows: int) -> None:
    result = client.call_scalar("f.add", pa.array(range(rows), pa.int64()), 1)
    assert result.type == pa.int64()
    assert result.to_pylist() == list(range(1, rows + 1))


def test_values_alone_give_one_result_or_as_many_as_asked(client: Client) -> None:
    assert client.call_scalar("f.add", 1, 2).to_pylist() == [3]
    assert client.call_scalar("f.add", 1, 2, num_rows=3).to_pylist() == [3, 3, 3]
    assert client.call_scalar("f.seven").to_pylist() == [7]
    assert client.call_scalar("f.seven", num_rows=3000).to_pylist() == [7] * 3000


def test_a_list_is_a_column_and_a_scalar_of_a_list_is_a_value(client: Client) -> None:
    assert client.call_scalar("f.total", [[1, 2], []]).to_pylist() == [2, 0]
    assert client.call_scalar("f.total", pa.scalar([1, 2, 3])).to_pylist() == [3]
    chunked = pa.chunked_array([[[1]], [[2, 3]]])
    assert client.call_scalar("f.total", chunked).to_pylist() == [1, 2]


def test_columns_must_have_one_length(client: Client) -> None:
    with pytest.raises(InvalidArgumentError, match="different lengths"):
        client.call_scalar("f.add", [1, 2], [1])


def test_an_argument_without_a_type_is_refused(client: Client) -> None:
    with pytest.raises(InvalidInputError, match="no Arrow type"):
        client.call_scalar("f.any", object())


def test_errors_of_a_function_keep_their_kind(client: Client) -> None:
    with pytest.raises(InvalidInputError, match=r"^7 is too much$"):
        client.call_scalar("f.fail", 7)
    with pytest.raises(NotFoundError, match=r"no function 'f\.nothing_like_it'"):
        client.call_scalar("f.nothing_like_it")
    with pytest.raises(InvalidArgumentError, match="not of kind scalar, but table"):
        client.call_scalar("f.series", 1)


def test_a_table_function_is_a_scan(client: Client) -> None:
    scan = client.call_table("f.series", 4, label="x")
    assert scan.schema.names == ["i", "label"]
    assert scan.to_arrow().to_pydict() == {"i": [0, 1, 2, 3], "label": ["x"] * 4}
    assert scan.select("i").filter(col("i") > 1).limit(1).to_arrow().to_pydict() == {"i": [2]}
    assert scan.count() == 4


def test_named_arguments_have_defaults(client: Client) -> None:
    assert client.call_table("f.series", 1).to_arrow().to_pydict() == {"i": [0], "label": ["none"]}
    with pytest.raises(InvalidInputError, match=r"does not take \(int64, color := string\)"):
        client.call_table("f.series", 1, color="red")
    with pytest.raises(InvalidInputError, match=r"does not take \(\)"):
        client.call_table("f.series")


def test_columns_may_depend_on_the_arguments(client: Client) -> None:
    assert client.call_table("f.named", "answer").to_arrow().to_pydict() == {"answer": [1]}
    assert client.call_table("f.nothing").to_arrow().to_pydict() == {"x": [1]}


@pytest.mark.parametrize(
    ("value", "name"), [(1, "int"), ("a", "str"), ([1, 2], "list"), ({"a": 1}, "dict")]
)
def test_table_functions_take_any_type(client: Client, value: Any, name: str) -> None:
    assert client.call_table("f.type_of", value).to_arrow().to_pydict() == {"t": [name]}


@pytest.mark.parametrize("rows", [0, 1, 2048, 4096, 5000])
@pytest.mark.parametrize("times", [1, 3])
def test_rows_in_rows_out(client: Client, rows: int, times: int) -> None:
    source = pa.table({"v": pa.array(range(rows), pa.int64())})
    result = client.call_in_out("f.plus", source, 10, times=times).read_all()
    expected = sorted(value + 10 for value in range(rows) for _ in range(times))
    assert result.schema.names == ["v"]
    assert sorted(result.column("v").to_pylist()) == expected


@pytest.mark.parametrize("rows", [0, 1, 5000])
def test_rows_at_the_end(client: Client, rows: int) -> None:
    source = pa.table({"v": pa.array(range(rows), pa.int64())})
    assert client.call_in_out("f.count", source).read_all().to_pydict() == {"rows": [rows]}


@pytest.mark.parametrize(
    "rows",
    [
        [{"v": 1}, {"v": 2}],
        {"v": [1, 2]},
        pd.DataFrame({"v": [1, 2]}),
        pa.record_batch({"v": [1, 2]}),
        [pa.record_batch({"v": [1]}), pa.record_batch({"v": [2]})],
        pa.table({"v": [1, 2]}).to_reader,
    ],
)
def test_rows_of_every_kind(client: Client, rows: Any) -> None:
    source = rows() if callable(rows) and not isinstance(rows, pd.DataFrame) else rows
    assert client.call_in_out("f.plus", source, 1).read_all().to_pydict() == {"v": [2, 3]}


@pytest.mark.parametrize("rows", [5, "text", [1, 2], None])
def test_what_is_not_rows_is_refused(client: Client, rows: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="rows"):
        client.call_in_out("f.count", rows)


def test_results_come_while_the_input_is_read(client: Client) -> None:
    taken: list[int] = []

    def source() -> Iterator[pa.RecordBatch]:
        for number in range(1000):
            taken.append(number)
            yield pa.record_batch({"v": [number]})

    rows = pa.RecordBatchReader.from_batches(pa.schema([("v", pa.int64())]), source())
    reader = client.call_in_out("f.plus", rows, 1)
    assert reader.read_next_batch().to_pydict() == {"v": [1]}
    del reader
    assert len(taken) == 1


def test_a_failing_input_fails_the_call(client: Client) -> None:
    def source() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"v": [1]})
        raise RuntimeError("the source broke")

    rows = pa.RecordBatchReader.from_batches(pa.schema([("v", pa.int64())]), source())
    with pytest.raises(RuntimeError, match="the source broke"):
        client.call_in_out("f.plus", rows, 1).read_all()


# Servers that do not keep to the protocol

RESULT = pa.schema([("result", pa.int64())])


@pytest.fixture
def odd(handwritten_server: HandwrittenServer) -> HandwrittenServer:
    """The hand-written server with a scalar function `f(a)` and an in-out function `io(t)`."""
    common = {"schema": "w", "catalog": "db"}
    argument = pa.schema([("a", pa.int64())]).serialize().to_pybytes()
    table = pa.schema([pa.field("t", pa.string(), metadata={"is_table_type": "1"})])
    scalar = {**common, "type": "scalar_function", "name": "f", "input_schema": argument}
    in_out = {**common, "type": "table_function", "name": "io"}
    in_out["input_schema"] = table.serialize().to_pybytes()
    handwritten_server.functions = [
        flight_info(RESULT, ["w", "f"], scalar),
        flight_info(pa.schema([]), ["w", "io"], in_out),
    ]
    handwritten_server.replies["table_function_flight_info"] = flight_info(
        RESULT, ["w", "io"], None
    ).serialize()
    return handwritten_server


def _results(*rows: int) -> pa.RecordBatch:
    return pa.record_batch({"result": pa.array(rows, pa.int64())})


def _answering(schema: pa.Schema, *answers: Any) -> Any:
    def exchange(reader: Any, writer: Any) -> None:
        if answers and answers[0] == "parameters":
            reader.read_chunk()
        assert reader.schema is not None
        writer.begin(schema)
        for answer in answers:
            if isinstance(answer, tuple):
                writer.write_with_metadata(*answer)
            elif isinstance(answer, bytes):
                writer.write_metadata(answer)
            elif answer != "parameters":
                writer.write_batch(answer)
        for _ in reader:
            pass

    return exchange


def test_a_scalar_call_is_the_exchange_that_duckdb_makes(
    odd: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    odd.exchange = _answering(RESULT, _results(5))
    assert client_of_handwritten_server.call_scalar("w.f", 1).to_pylist() == [5]
    seen = odd.last("DoExchange")
    assert seen.header("airport-operation") == "scalar_function"
    assert seen.header("return-chunks") == "1"
    assert seen.header("airport-transaction-id") == "tx1"
    assert seen.header("airport-flight-path") == "w/f"
    assert odd.actions_seen() == ["list_schemas", "create_transaction"]


@pytest.mark.parametrize(
    ("exchange", "message"),
    [
        (_answering(pa.schema([("other", pa.int64())]), _results(1)), "declared to return"),
        (_answering(pa.schema([("result", pa.int32())])), "declared to return"),
        (_answering(pa.schema([])), "returns nothing"),
        (_answering(RESULT, _results(1, 2)), "one value for each row"),
        (_answering(RESULT, _results()), "one value for each row"),
        (_answering(RESULT, b"metadata"), "without rows"),
    ],
)
def test_a_wrong_answer_of_a_scalar_function(
    odd: HandwrittenServer, client_of_handwritten_server: Client, exchange: Any, message: str
) -> None:
    odd.exchange = exchange
    with pytest.raises(InternalError, match=message):
        client_of_handwritten_server.call_scalar("w.f", 1)


def test_a_server_that_ends_too_early(
    odd: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    def exchange(reader: Any, writer: Any) -> None:
        writer.begin(RESULT)

    odd.exchange = exchange
    with pytest.raises(InternalError, match="ended the scalar_function too early"):
        client_of_handwritten_server.call_scalar("w.f", 1)


def test_an_in_out_call_is_the_exchange_that_duckdb_makes(
    odd: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    parameters: list[dict[bytes, Any]] = []

    def exchange(reader: Any, writer: Any) -> None:
        chunk = reader.read_chunk()
        assert chunk.data is None
        parameters.append(msgpack.unpackb(chunk.app_metadata.to_pybytes(), raw=True))
        assert reader.schema == pa.schema([("v", pa.int64())])
        writer.begin(RESULT)
        for chunk in reader:
            assert chunk.data.num_rows <= 2048
            writer.write_with_metadata(_results(1), b"chunk_continues")
            writer.write_with_metadata(_results(), b"chunk_finished")

    odd.exchange = exchange
    rows = client_of_handwritten_server.call_in_out("w.io", pa.table({"v": range(3000)})).read_all()
    assert rows.to_pydict() == {"result": [1, 1]}
    (sent,) = parameters
    assert {key for key in sent if sent[key] in (b"", [])} == {
        b"column_ids",
        b"at_unit",
        b"at_value",
    }
    assert pa.ipc.open_stream(sent[b"parameters"]).read_next_batch().num_rows == 1
    request = odd.last("table_function_flight_info").request
    schema = pa.ipc.read_schema(pa.py_buffer(request["table_input_schema"]))
    assert schema == pa.schema([("v", pa.int64())])
    assert odd.last("DoExchange").header("airport-operation") == "table_function_in_out"
    assert odd.last("DoExchange").header("airport-transaction-id") is None


@pytest.mark.parametrize(
    ("exchange", "message"),
    [
        (_answering(pa.schema([("result", pa.string())]), "parameters"), "other columns"),
        (
            _answering(RESULT, "parameters", (_results(1), b"what?")),
            "whether the chunk is finished",
        ),
        (_answering(RESULT, "parameters", _results(1)), "whether the chunk is finished"),
        (_answering(RESULT, "parameters", b"chunk_finished"), "without rows"),
    ],
)
def test_a_wrong_answer_of_an_in_out_function(
    odd: HandwrittenServer, client_of_handwritten_server: Client, exchange: Any, message: str
) -> None:
    odd.exchange = exchange
    with pytest.raises(InternalError, match=message):
        client_of_handwritten_server.call_in_out("w.io", pa.table({"v": [1]})).read_all()


def test_the_server_must_describe_the_function_called(
    odd: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    odd.replies["table_function_flight_info"] = flight_info(
        RESULT, ["w", "other"], None
    ).serialize()
    with pytest.raises(InternalError, match="another function"):
        client_of_handwritten_server.call_in_out("w.io", pa.table({"v": [1]}))

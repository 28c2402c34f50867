"""What the parser reads, what it refuses, and that nothing else can happen."""

from __future__ import annotations

import contextlib
import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeport.errors import InvalidArgumentError, MessageTooLargeError
from lakeport.filters import (
    Between,
    ColumnRef,
    Comparison,
    ComparisonOp,
    Conjunction,
    Constant,
    Expression,
    Filter,
    FunctionCall,
    In,
    LogicalType,
    Unsupported,
    parse_filter,
    to_arrow,
    to_duckdb_sql,
    to_json,
    to_spark_sql,
)

# Errors are in lower case and without a full stop, as all of the package.
MESSAGE = r"^(?![A-Z][a-z]|An? ).*\bfilter\b.*[^.]$"
INTEGER = {"id": "INTEGER", "type_info": None}
COLUMN = {
    "expression_class": "BOUND_COLUMN_REF",
    "type": "BOUND_COLUMN_REF",
    "return_type": INTEGER,
    "binding": {"table_index": 7, "column_index": 1},
}
FIVE = {
    "expression_class": "BOUND_CONSTANT",
    "type": "VALUE_CONSTANT",
    "value": {"type": INTEGER, "is_null": False, "value": 5},
}
ID = ColumnRef("id", LogicalType("INTEGER"))
CONSTANT = Constant(5, LogicalType("INTEGER"))


def read(*filters: Any, names: Any = ("other", "id")) -> Filter:
    document = {"filters": filters, "column_binding_names_by_index": names}
    return parse_filter(json.dumps(document))


def read_one(document: Any) -> Expression:
    (conjunct,) = read(document).conjuncts
    return conjunct


def node(expression_class: str, kind: str, **fields: Any) -> dict[str, Any]:
    return {"expression_class": expression_class, "type": kind, **fields}


@pytest.mark.parametrize(
    "text", [None, "", b"", " ", "null", "{}", '{"filters": []}', '{"filters": null}']
)
def test_no_filters_give_the_empty_filter(text: str | bytes | None) -> None:
    assert parse_filter(text) == Filter.always()


def test_columns_are_found_by_name() -> None:
    assert read_one(
        node("BOUND_COMPARISON", "COMPARE_EQUAL", left=COLUMN, right=FIVE)
    ) == Comparison(ComparisonOp.EQUAL, ID, CONSTANT)


@pytest.mark.parametrize("index", [2, -1, None, "1", True, 1.0])
def test_a_column_that_is_not_named_is_refused(index: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="a column that it does not name"):
        read({**COLUMN, "binding": {"table_index": 0, "column_index": index}})


def test_the_older_structure_is_read_as_well() -> None:
    older = node(
        "BOUND_COMPARISON",
        "COMPARE_GREATERTHAN",
        return_type={"id": "BOOLEAN", "type_info": None},
        children=[
            {k: v for k, v in COLUMN.items() if k != "type"},
            {
                "expression_class": "BOUND_CONSTANT",
                "return_type": {"id": "TIMESTAMP_TZ", "type_info": None},
                "value": {"is_null": False, "value": 7},
            },
        ],
    )
    zoned = LogicalType("TIMESTAMP WITH TIME ZONE")

    assert read_one(older) == Comparison(ComparisonOp.GREATER, ID, Constant(7, zoned))


def test_older_names_of_functions_and_operators_are_read() -> None:
    function = node("BOUND_FUNCTION", "BOUND_FUNCTION", function={"name": "f"}, children=[COLUMN])
    within = node("BOUND_COMPARISON", "COMPARE_IN", children=[COLUMN, FIVE])
    between = node("BOUND_COMPARISON", "COMPARE_BETWEEN", children=[COLUMN, FIVE, FIVE])

    assert read_one(function) == FunctionCall("f", (ID,), LogicalType("UNKNOWN"))
    assert read_one(within) == In(ID, (CONSTANT,))
    assert read_one(between) == Between(ID, CONSTANT, CONSTANT)


@pytest.mark.parametrize(
    "document",
    [
        node("BOUND_LAMBDA", "BOUND_LAMBDA"),
        node("SOMETHING_NEW", "X"),
        node("BOUND_COMPARISON", "COMPARE_NEW", children=[]),
        node("BOUND_COMPARISON", "COMPARE_NEW", left=COLUMN, right=FIVE),
        node("BOUND_CONJUNCTION", "CONJUNCTION_XOR", children=[]),
        node("BOUND_OPERATOR", "OPERATOR_TRY", children=[COLUMN]),
        node(
            "BOUND_CONSTANT", "X", value={"type": {"id": "VARIANT"}, "is_null": False, "value": 1}
        ),
        node(
            "BOUND_FUNCTION",
            "X",
            name="list_filter",
            children=[],
            function_data={"lambda_expr": {}},
        ),
    ],
)
def test_what_is_unknown_is_kept_as_unsupported(document: Any) -> None:
    assert isinstance(read_one(document), Unsupported)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "5",
        '"x"',
        "nonsense",
        b"\xff",
        '{"filters": 5}',
        '{"filters": [5]}',
        '{"filters": [{}]}',
        '{"filters": [], "column_binding_names_by_index": [5]}',
        '{"filters": [], "column_binding_names_by_index": ["\\ud800"]}',
        '{"filters": [' + "9" * 5000 + "]}",
    ],
)
def test_malformed_text_is_refused(text: str | bytes) -> None:
    with pytest.raises(InvalidArgumentError, match=MESSAGE):
        parse_filter(text)


@pytest.mark.parametrize(
    "document",
    [
        node("BOUND_COMPARISON", "COMPARE_EQUAL", left=COLUMN),
        node("BOUND_COMPARISON", "COMPARE_EQUAL", children=[COLUMN]),
        node("BOUND_CONJUNCTION", "CONJUNCTION_AND", children={}),
        node("BOUND_OPERATOR", "OPERATOR_NOT", children=[COLUMN, COLUMN]),
        node("BOUND_FUNCTION", "X", children=[]),
        node("BOUND_FUNCTION", "X", name=5, children=[]),
        node("BOUND_CAST", "OPERATOR_CAST", child=COLUMN),
        node("BOUND_CAST", "OPERATOR_CAST", child=COLUMN, return_type=INTEGER, try_cast="no"),
        node("BOUND_CASE", "CASE_EXPR", case_checks=[5], else_expr=FIVE),
        node("BOUND_CASE", "CASE_EXPR", case_checks=[], else_expr=None),
        node("BOUND_CONSTANT", "VALUE_CONSTANT", value=5),
        node("BOUND_CONSTANT", "VALUE_CONSTANT", value={"is_null": False, "value": 5}),
        {**COLUMN, "return_type": {"id": 5}},
    ],
)
def test_a_wrong_structure_is_refused(document: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=MESSAGE):
        read(document)


def test_size_depth_and_number_of_nodes_are_bounded() -> None:
    deep: Any = COLUMN
    for _ in range(101):
        deep = node("BOUND_OPERATOR", "OPERATOR_NOT", children=[deep])

    with pytest.raises(MessageTooLargeError):
        parse_filter("x" * 11, max_bytes=10)
    with pytest.raises(MessageTooLargeError):
        read(deep)
    with pytest.raises(MessageTooLargeError):
        read(*[COLUMN] * 100_001)
    with pytest.raises(MessageTooLargeError):
        parse_filter(json.dumps({"filters": [COLUMN] * 3}), max_nodes=0)
    with pytest.raises(InvalidArgumentError):
        parse_filter(json.dumps({"filters": [deep]}), max_depth=10**6)


@pytest.mark.parametrize(
    "opening", ["[", '{"a":', '[{"children":', '"\\"[', '{"filters":[{"children":[']
)
def test_deep_nesting_is_refused_whatever_its_form(opening: str) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_filter(opening * 100_000)


def test_a_deep_filter_within_the_bounds_survives_everything() -> None:
    deep: Any = node("BOUND_COMPARISON", "COMPARE_EQUAL", left=COLUMN, right=FIVE)
    for _ in range(97):
        deep = node("BOUND_OPERATOR", "OPERATOR_NOT", children=[deep])

    filter = read(deep)

    assert filter.columns == {"id"}
    assert parse_filter(to_json(filter)) == filter
    assert pickle.loads(pickle.dumps(filter)) == filter
    assert to_duckdb_sql(filter).count("NOT") == 97
    assert to_spark_sql(filter).count("NOT") == 97
    assert to_arrow(filter, pa.schema([("id", pa.int32())])) is not None


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_read_or_refused(text: bytes) -> None:
    read_or_refuse(text)


RECORDED = [
    json.loads(json.loads(line)["json_filters"])
    for line in Path(__file__).with_name("recorded_filters.jsonl").read_text("utf-8").splitlines()
    if "BOUND_" in line
]
JUNK = st.sampled_from(
    [
        *(None, True, -1, 0, 2**200, 1.5, float("nan"), "", "x"),
        *("INTEGER", "LIST", "MAP", "STRUCT", "UNION", "ENUM", "COMPARE_IN", "BOUND_CASE"),
        *([], {}, [None], {"id": "DECIMAL"}, {"children": [1]}),
        *({"upper": 1, "lower": -1}, {"base64": "?"}),
    ]
)


@settings(max_examples=400, deadline=None)
@given(
    document=st.sampled_from(RECORDED), junk=JUNK, steps=st.lists(st.integers(0, 9), max_size=12)
)
def test_damaged_filters_are_read_or_refused(document: Any, junk: Any, steps: list[int]) -> None:
    read_or_refuse(json.dumps(damaged(document, junk, steps)))


def damaged(document: Any, junk: Any, steps: list[int]) -> Any:
    """The document with the part at the end of the steps replaced."""
    if not steps or not isinstance(document, dict | list) or not document:
        return junk
    keys = list(document) if isinstance(document, dict) else list(range(len(document)))
    key = keys[steps[0] % len(keys)]
    copy: Any = document.copy()
    copy[key] = damaged(document[key], junk, steps[1:])
    return copy


def read_or_refuse(text: str | bytes) -> None:
    with contextlib.suppress(InvalidArgumentError):
        assert isinstance(hash(parse_filter(text)), int)


def test_a_conjunction_keeps_its_children() -> None:
    both = read_one(node("BOUND_CONJUNCTION", "CONJUNCTION_AND", children=[COLUMN, COLUMN]))

    assert isinstance(both, Conjunction)
    assert both.children == (ID, ID)

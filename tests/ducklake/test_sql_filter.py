"""Filters of SQL text: every DuckDB that is allowed parses them to the same tree."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from lakeport.ducklake.planning.pruning import pruning_rules
from lakeport.ducklake.reading.row_filter import row_filter
from lakeport.errors import InvalidArgumentError, UnsupportedError
from lakeport.filters import Cast, Comparison, LogicalType, bind, walk
from lakeport.filters.sql import parse_sql_filter
from lakeport.types.columns import Column, arrow_schema

COLUMNS = [
    Column(id=1, name="i", type="int32"),
    Column(id=2, name="name", type="varchar"),
    Column(id=3, name="d", type="date"),
    Column(id=4, name="x", type="float64"),
    Column(id=5, name="t", type="varchar"),
]
ROWS = """
    SELECT * FROM (VALUES (1, 'alpha', DATE '2020-01-02', 1.5::DOUBLE, '7'),
        (2, 'BETA', DATE '2021-03-04', -0.25, '8'), (3, 'a_b', NULL, 'nan', '9'),
        (NULL, NULL, DATE '1999-12-31', NULL, NULL)) v(i, name, d, x, t)
"""
TEXTS = [
    "i + 1 > 2",
    "i * 2 - 1 = 5",
    "CAST(t AS INTEGER) >= 8",
    "TRY_CAST(name AS INTEGER) IS NULL",
    "t::DECIMAL(5,2) = 8.00",
    "CAST(i AS BIGINT) IN (1, 3)",
    "lower(name) = 'beta'",
    "name LIKE 'a%'",
    "name NOT LIKE '%a'",
    "name ILIKE 'ALPHA'",
    r"name LIKE 'a\_b' ESCAPE '\'",
    "starts_with(name, 'al')",
    "length(name) > 3",
    "d > DATE '2020-06-01'",
    "d > '2020-06-01'",
    "year(d) = 2021",
    "x > 1e0",
    "x < 1.75",
    "x = 'nan'",
    "i BETWEEN 2 AND 1 + 2",
    "CASE WHEN i = 1 THEN x > 1 ELSE true END",
    "coalesce(i, 0) = 0",
    "NOT (i = 1 OR i IS NULL)",
    "i",
    "d = DATE '2020-01-01' + 1",
    "name = 'al' || 'pha'",
    "regexp_full_match(name, '[a-z]*')",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_keeps_the_rows_that_duckdb_keeps(text: str) -> None:
    schema = arrow_schema(COLUMNS)
    with duckdb.connect() as connection:
        rows = connection.sql(ROWS).to_arrow_table().cast(schema)
        wanted = [
            row[0] for row in connection.sql(f"SELECT i FROM ({ROWS}) WHERE {text}").fetchall()
        ]
    passing = row_filter(bind(parse_sql_filter(text, COLUMNS), schema), schema, exact=True)

    kept = passing(rows.combine_chunks().to_batches()[0])

    assert kept.column("i").to_pylist() == wanted


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("DECIMAL(5,2)", LogicalType.decimal(5, 2)),
        ("NUMERIC(5)", LogicalType.decimal(5, 0)),
        ("DECIMAL", LogicalType.decimal(18, 3)),
        ("INT[]", LogicalType.list(LogicalType("INTEGER"))),
        ("INT[3]", LogicalType.array(LogicalType("INTEGER"), 3)),
        ("MAP(INT, VARCHAR)", LogicalType.map(LogicalType("INTEGER"), LogicalType("VARCHAR"))),
        ("STRUCT(a INT)", LogicalType.struct({"a": LogicalType("INTEGER")})),
        ("UNION(a INT)", LogicalType.union({"a": LogicalType("INTEGER")})),
        ("TIMESTAMPTZ", LogicalType("TIMESTAMP WITH TIME ZONE")),
        ("LONG", LogicalType("BIGINT")),
        ("VARCHAR(3)", LogicalType("VARCHAR")),
        ("HUGEINT", LogicalType("HUGEINT")),
    ],
)
def test_the_type_of_a_cast_is_read_from_either_syntax_tree(text: str, type: LogicalType) -> None:
    filter = parse_sql_filter(f"CAST(name AS {text}) IS NULL", COLUMNS)

    (found,) = [node for node in walk(filter.conjuncts[0]) if isinstance(node, Cast)]

    assert found.type == type


@pytest.mark.parametrize("text", ["i >", "i = 1; SELECT 2", "true GROUP BY i"])
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="the filter is"):
        parse_sql_filter(text, COLUMNS)


def test_a_json_arrow_and_a_lambda_are_left_to_duckdb_with_a_reason() -> None:
    schema = arrow_schema(COLUMNS)
    filter = bind(parse_sql_filter("list_filter([i], lambda y: y > 1) = [2]", COLUMNS), schema)

    assert isinstance(filter.conjuncts[0], Comparison)
    with pytest.raises(UnsupportedError, match="lambda"):
        row_filter(filter, schema, exact=True)


def test_a_batch_without_rows_passes() -> None:
    schema = arrow_schema(COLUMNS)
    passing = row_filter(bind(parse_sql_filter("i % 2 = 0", COLUMNS), schema), schema, exact=True)

    assert passing(pa.RecordBatch.from_pylist([], schema=schema)).num_rows == 0


WIDE_ROWS = """
    SELECT c, c::INTEGER AS i, c::HUGEINT AS h, (c / 8)::DECIMAL(18,3) AS d, c::FLOAT AS f,
        {'c': c, 'd': (c / 8)::DECIMAL(18,3), 'f': c::FLOAT, 'n': {'h': c::HUGEINT}} AS s
    FROM (SELECT unnest([1, 2, 16777216, 16777217, 16777218, NULL]) AS c)
    UNION ALL
    SELECT c, NULL, c::HUGEINT, NULL, NULL, {'c': c, 'd': NULL, 'f': NULL, 'n': {'h': c::HUGEINT}}
    FROM (SELECT unnest([9007199254740991, 9007199254740992, 9007199254740993, 9007199254740996,
        -9007199254740993, 9223372036854775807]) AS c)
    UNION ALL
    SELECT NULL, NULL, NULL, d::DECIMAL(18,3), f::FLOAT,
        {'c': NULL, 'd': d::DECIMAL(18,3), 'f': f::FLOAT, 'n': NULL}
    FROM (VALUES ('0.100', '0.1'), ('0.300', 'nan'), ('123456789012345.678', 'inf')) v(d, f)
"""
WIDE_COLUMNS = [
    Column(id=1, name="n", type="int64"),
    Column(id=2, name="c", type="int64"),
    Column(id=3, name="i", type="int32"),
    Column(id=4, name="h", type="int128"),
    Column(id=5, name="d", type="decimal(18,3)"),
    Column(id=6, name="f", type="float32"),
    Column(
        id=7,
        name="s",
        type="struct",
        children=(
            Column(id=8, name="c", type="int64"),
            Column(id=9, name="d", type="decimal(18,3)"),
            Column(id=10, name="f", type="float32"),
            Column(
                id=11,
                name="n",
                type="struct",
                children=(Column(id=12, name="h", type="int128"),),
            ),
        ),
    ),
]
MIXED_LISTS = [
    "{c} IN (9007199254740993, 1.5::DOUBLE)",
    "{c} IN (9007199254740992, 1.5::DOUBLE)",
    "{c} NOT IN (9007199254740993, 1.5::DOUBLE)",
    "{c} NOT IN (9007199254740992, 1.5::DOUBLE, NULL)",
    "{c} IN (16777217, 1.5::FLOAT)",
    "{c} IN (9007199254740993, 1.5)",
    "{c} IN (9007199254740993, 1.5, 2e0)",
    "{c} IN (9223372036854775807, 9223372036854775808)",
    "{c} IN (1.5, 2)",
    "{c} NOT IN (1.0, 2.5::DOUBLE)",
    "{h} IN (9007199254740993, 1.5::DOUBLE)",
    "{h} NOT IN (9007199254740993::HUGEINT, 2.0::DOUBLE)",
    "{d} IN (0.1, 0.3::DOUBLE)",
    "{d} IN (0.1::FLOAT, 1)",
    "{d} IN (0.1::DECIMAL(38,20), 0.125)",
    "{d} NOT IN (0.1::DOUBLE, 123456789012345.678)",
    "{d} IN (123456789012345.678, 1.5::DOUBLE)",
    "{f} IN (16777217, 2)",
    "{f} IN (16777217, 0.1::DOUBLE)",
    "{f} IN (0.1, 2)",
    "{f} NOT IN (0.1, 'nan'::DOUBLE)",
    "{c} BETWEEN 9007199254740993 AND 1e18",
    "{c} > 9007199254740992::DOUBLE",
    "9007199254740992::DOUBLE = {c}",
    "{c} = {f}",
    "coalesce({c}, 1::DOUBLE) = 9007199254740992",
    "{d} = 0.1::DOUBLE",
    "{f} = 0.1",
    "{h} = 9007199254740992::DOUBLE",
]
SCALARS = {"c": "c", "h": "h", "d": "d", "f": "f"}
MEMBERS = {"c": "s.c", "h": "s.n.h", "d": "s.d", "f": "s.f"}
EXTRACTED = {
    "c": "s['c']",
    "h": "struct_extract(s.n, 'h')",
    "d": "struct_extract(s, 'D')",
    "f": "s['f']",
}


@pytest.mark.parametrize(
    "text",
    [
        "c = 9007199254740992::DOUBLE",
        "c = 9007199254740992e0",
        "c <> 9007199254740992::DOUBLE",
        "c > 9007199254740992::DOUBLE",
        "c <= -9007199254740992::DOUBLE",
        "9007199254740992::DOUBLE = c",
        "c IS NOT DISTINCT FROM 9007199254740992::DOUBLE",
        "c = 9007199254740991::DOUBLE",
        "c = 9007199254740992.0",
        "c = 9007199254740992",
        "c = 1.0::DOUBLE",
        "c > 1.5::DOUBLE",
        "c < 'nan'::DOUBLE",
        "c < '-inf'::DOUBLE",
        "c = 16777216::FLOAT",
        "c IN (9007199254740993, 1.5::DOUBLE)",
        "c IN (16777217::FLOAT, 1::DOUBLE)",
        "c NOT IN (9007199254740992::DOUBLE)",
        "c BETWEEN 9007199254740993 AND 1e18",
        "c BETWEEN 9223372036854775807::DOUBLE AND 1e20",
        "coalesce(c, 1::DOUBLE) = 9007199254740992",
        "i = 16777216::FLOAT",
        "i = 16777216::DOUBLE",
        "i < 1e300",
        "h = 9007199254740992::DOUBLE",
        "d = 0.1::DOUBLE",
        "d >= 0.1::FLOAT",
        "d = 0.3::FLOAT",
        "d = 0.125::DOUBLE",
        "d = 123456789012345.67::DOUBLE",
        "f = 16777217",
        "f = 0.1",
        "f = 0.1::DOUBLE",
        "f IN (16777217, 2)",
        "s.c = 9007199254740992::DOUBLE",
        "s.c = 1::DOUBLE",
        *(
            text.format_map(names)
            for names in (SCALARS, MEMBERS, EXTRACTED)
            for text in MIXED_LISTS
        ),
    ],
)
def test_numbers_of_different_types_compare_as_in_duckdb(text: str) -> None:
    schema = arrow_schema(WIDE_COLUMNS)
    numbered = f"SELECT row_number() OVER () AS n, * FROM ({WIDE_ROWS})"
    with duckdb.connect() as connection:
        rows = connection.sql(numbered).to_arrow_table()
        expected = connection.sql(f"SELECT n FROM ({numbered}) WHERE {text}").fetchall()
    batch = rows.combine_chunks().to_batches()[0]
    filter = bind(parse_sql_filter(text, WIDE_COLUMNS), schema)

    kept = row_filter(filter, schema, exact=True)(batch).column("n").to_pylist()
    widened = row_filter(filter, schema, exact=False)(batch).column("n").to_pylist()

    assert kept == sorted(n for (n,) in expected)
    assert set(kept) <= set(widened)


@pytest.mark.parametrize(
    ("text", "may_match"),
    [
        ("c = 9007199254740992::DOUBLE", True),
        ("c IN (9007199254740992, 1.5::DOUBLE)", True),
        ("c = 9007199254740992", False),
        ("c = 5e0", False),
        ("s.d = 9007199254740992::DOUBLE", True),
        ("s.d IN (9007199254740992, 1.5::DOUBLE)", True),
        ("s.d IN (9007199254740992, 1.5)", False),
        ("s.d NOT IN (9007199254740992, 1.5)", True),
        ("s.d = 5e0", False),
    ],
)
def test_a_file_is_read_if_its_bounds_match_as_duckdb_compares_them(
    text: str, may_match: bool
) -> None:
    member = Column(id=3, name="d", type="int64")
    columns = [
        Column(id=1, name="c", type="int64"),
        Column(id=2, name="s", type="struct", children=(member,)),
    ]
    filter = bind(parse_sql_filter(text, columns), arrow_schema(columns))
    file: dict[str, object] = {"partition_id": None, "mapping_id": None}
    for id in (1, 3):
        file |= {f"s{id}_min_value": "9007199254740993", f"s{id}_max_value": "9007199254740993"}
        file |= {f"s{id}_value_count": 1, f"s{id}_null_count": 0, f"s{id}_contains_nan": None}

    rules = pruning_rules(filter, columns, {}, frozenset())
    _, by_statistics = rules.keep(pa.Table.from_pylist([file]))

    assert by_statistics.tolist() == [may_match]

"""A table of awkward values, expressions over it, and the engines that judge the encoders."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

from lakeport.filters import (
    Between,
    Case,
    CaseBranch,
    Cast,
    Coalesce,
    ColumnRef,
    Comparison,
    ComparisonOp,
    Conjunction,
    ConjunctionOp,
    Constant,
    Expression,
    FunctionCall,
    In,
    IsNull,
    LogicalType,
    Not,
    from_arrow_type,
)

Reference = Callable[[Expression], list[bool | None]]

_STRINGS = [
    "", "a", "ab", "aba", "b", "A", "%", "_", "a%", "a_b", "a\\b", "it's", '"', "\n", "é", "ß",
    "😀", "a😀b", "$x", "${x}", "\0", " ", "zz",
]  # fmt: skip
_MICROS = [
    0, 1, -1, 1_704_164_645_000_006, 1_704_164_645_000_000, 1_704_153_600_000_000,
    -62_135_596_800_000_000, 253_402_300_799_999_999,
]  # fmt: skip


def _integers(low: int, high: int) -> list[int]:
    return [low, low + 1, 0, 1, 2, 5, 100, high - 1, high]


VALUES: dict[str, list[Any]] = {
    "b": [True, False],
    "i8": _integers(-(2**7), 2**7 - 1),
    "i32": _integers(-(2**31), 2**31 - 1),
    "i64": [*_integers(-(2**63), 2**63 - 1), 2**40, 2**53 + 1],
    "u8": _integers(0, 2**8 - 1),
    "u32": _integers(0, 2**32 - 1),
    "u64": _integers(0, 2**64 - 1),
    "f32": [0.0, -0.0, 1.0, -1.5, 0.10000000149011612, math.nan, math.inf, -math.inf],
    "f64": [0.0, -0.0, 1.0, 1.5, -1.5, 0.1, 1e308, 5e-324, 2.0**53, math.nan, math.inf, -math.inf],
    "d": [Decimal(x) for x in ("0.00", "1.25", "-1.25", "100.00", "9999999.99", "-9999999.99")],
    "w": [Decimal(x) for x in ("0", "1.00000", "-0.00001", "9" * 33 + ".99999", "-1.5")],
    "s": _STRINGS,
    "y": [b"", b"a", b"ab", b"\x00", b"\xff", b"'", b"\\x41", bytes(range(0, 256, 17))],
    "dt": [0, 1, -1, 19724, -719162, 2932896, -141428, 2**31 - 1, -(2**31 - 1)],
    "t": [0, 1, 45_296_000_789, 86_399_999_999],
    "ts": [*_MICROS, 2**63 - 1, -(2**63 - 1)],
    "tss": [0, 1, -1, 1_704_164_645],
    "tms": [0, 1, -1, 1_704_164_645_006],
    "tns": [0, 1, -1, 1_704_164_645_000_006_007],
    "tz": _MICROS,
    "u": [
        uuid.UUID(int=0),
        uuid.UUID("123e4567-e89b-12d3-a456-426614174000"),
        uuid.UUID(int=2**128 - 1),
    ],
}

ARROW_TYPES: dict[str, pa.DataType] = {
    "b": pa.bool_(),
    "i8": pa.int8(),
    "i32": pa.int32(),
    "i64": pa.int64(),
    "u8": pa.uint8(),
    "u32": pa.uint32(),
    "u64": pa.uint64(),
    "f32": pa.float32(),
    "f64": pa.float64(),
    "d": pa.decimal128(9, 2),
    "w": pa.decimal128(38, 5),
    "s": pa.string(),
    "y": pa.binary(),
    "dt": pa.date32(),
    "t": pa.time64("us"),
    "ts": pa.timestamp("us"),
    "tss": pa.timestamp("s"),
    "tms": pa.timestamp("ms"),
    "tns": pa.timestamp("ns"),
    "tz": pa.timestamp("us", tz="UTC"),
    "u": pa.uuid(),
}

ROWS = 240


@pytest.fixture(scope="session")
def table() -> pa.Table:
    """Every value of every column, NULLs, and many combinations of them."""
    columns: dict[str, pa.Array] = {"id": pa.array(range(ROWS), pa.int64())}
    for position, (name, values) in enumerate(VALUES.items()):
        stride = position + 1
        drawn = [
            None if (row + position) % 11 == 0 else values[(row * stride + row // 7) % len(values)]
            for row in range(ROWS)
        ]
        columns[name] = _array(drawn, ARROW_TYPES[name])
    return pa.table(columns)


def _array(values: list[Any], type: pa.DataType) -> pa.Array:
    if isinstance(type, pa.BaseExtensionType):
        storage = pa.array([v if v is None else v.bytes for v in values], type.storage_type)
        return pa.ExtensionArray.from_storage(type, storage)
    if pa.types.is_temporal(type):
        return pa.array(values, pa.int32() if type.bit_width == 32 else pa.int64()).cast(type)
    return pa.array(values, type)


@pytest.fixture(scope="session")
def connection(table: pa.Table) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": "1"}) as connection:
        connection.execute("SET TimeZone = 'Asia/Kathmandu'")
        connection.register("arrow_rows", table)
        connection.execute("CREATE TABLE rows AS FROM arrow_rows")
        yield connection


@pytest.fixture(scope="session")
def reference(table: pa.Table) -> Iterator[Reference]:
    """What DuckDB makes of a boolean expression: one true, false or NULL for each row.

    Without the optimizer, which moves constants across comparisons, not always rightly.
    """
    with duckdb.connect(config={"threads": "1"}) as connection:
        connection.register("arrow_rows", table)
        connection.execute("CREATE TABLE rows AS FROM arrow_rows; PRAGMA disable_optimizer")

        def evaluate(expression: Expression) -> list[bool | None]:
            sql = f"SELECT ({reference_sql(expression)})::BOOLEAN FROM rows ORDER BY id"
            return [row[0] for row in connection.execute(sql).fetchall()]

        yield evaluate


@pytest.fixture(scope="session")
def parquet(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rows in small row groups, in the types that a Spark reader knows."""
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    stored = table.drop_columns(["t", "tns", "u"])
    casts = {"u8": pa.int16(), "u32": pa.int64(), "u64": pa.decimal128(20, 0)}
    for name, type in casts.items():
        index = stored.schema.get_field_index(name)
        stored = stored.set_column(index, name, stored[name].cast(type))
    pq.write_table(stored.sort_by([("f64", "ascending")]), path, row_group_size=20)
    return path


@pytest.fixture(scope="module")
def spark(spark: Any) -> Any:
    """A Spark session in a zone that is not DuckDB's."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    session.conf.set("spark.sql.shuffle.partitions", "1")
    return session


OPAQUE = "opaque"
BOOLEAN, VARCHAR, BIGINT = LogicalType("BOOLEAN"), LogicalType("VARCHAR"), LogicalType("BIGINT")
TYPES = {name: from_arrow_type(type) for name, type in ARROW_TYPES.items()}
WIDER = {"i8": "i32", "i32": "i64", "u8": "u32", "f32": "f64", "d": "w", "dt": "ts", "tss": "ts"}


def reference_sql(expression: Expression) -> str:
    """The expression as DuckDB SQL, written apart from the encoder that is tested."""
    sql = reference_sql
    match expression:
        case ColumnRef(name):
            return name
        case Constant(value, type):
            return f"CAST({_value_sql(value, type)} AS {type.sql()})"
        case Comparison(op, left, right):
            return f"({sql(left)} {op.value} {sql(right)})"
        case Conjunction(op, children):
            return f"({f' {op.value} '.join(map(sql, children))})"
        case Between(value, low, high, low_inclusive, high_inclusive):
            first = f"{sql(value)} {'>=' if low_inclusive else '>'} {sql(low)}"
            return f"({first} AND {sql(value)} {'<=' if high_inclusive else '<'} {sql(high)})"
        case In(probe, items, negated):
            return f"({sql(probe)} {'NOT' if negated else ''} IN ({', '.join(map(sql, items))}))"
        case Not(child):
            return f"(NOT {sql(child)})"
        case IsNull(child, negated):
            return f"({sql(child)} IS {'NOT' if negated else ''} NULL)"
        case Coalesce(children):
            return f"coalesce({', '.join(map(sql, children))})"
        case Case(branches, otherwise):
            checks = " ".join(f"WHEN {sql(b.when)} THEN {sql(b.then)}" for b in branches)
            return f"(CASE {checks} ELSE {sql(otherwise)} END)"
        case Cast(child, type, try_cast):
            return f"{'TRY_CAST' if try_cast else 'CAST'}({sql(child)} AS {type.sql()})"
        case FunctionCall(catalog=catalog) if catalog == OPAQUE:
            return "(CASE WHEN id % 5 = 0 THEN NULL ELSE id % 3 = 0 END)"
        case FunctionCall(name, [left, right], is_operator=True):
            return f"({sql(left)} {name} {sql(right)})"
        case FunctionCall(name, arguments):
            return f"{name}({', '.join(map(sql, arguments))})"
        case _:
            raise TypeError(expression)


def _value_sql(value: Any, type: LogicalType) -> str:
    match type.id:
        case _ if value is None:
            return "NULL"
        case "VARCHAR":
            return f"decode(from_hex('{value.encode().hex()}'))"
        case "BLOB":
            return f"from_hex('{value.hex()}')"
        case "DATE":
            return f"make_date({value})"
        case "TIME" | "TIMESTAMP":
            return f"make_timestamp({value})"
        case "TIMESTAMP_S":
            return f"make_timestamp({value * 10**6})"
        case "TIMESTAMP_MS":
            return f"make_timestamp({value * 10**3})"
        case "TIMESTAMP_NS":
            return f"make_timestamp_ns({value})"
        case "TIMESTAMP WITH TIME ZONE":
            return f"make_timestamptz({value})"
        case _:
            return f"'{value}'"


@pytest.fixture(scope="session")
def predicates() -> st.SearchStrategy[Expression]:
    """Boolean expressions over the table."""
    opaque = FunctionCall("f", (), return_type=BOOLEAN, catalog=OPAQUE, schema="main")
    leaves = st.one_of(
        st.sampled_from(sorted(VALUES)).flatmap(_comparisons),
        st.sampled_from(sorted(VALUES)).flatmap(_comparisons),
        _text_predicates(),
        _arithmetic(),
        st.sampled_from(sorted(VALUES)).map(lambda name: IsNull(_column(name))),
        st.sampled_from([_column("b"), Constant(True, BOOLEAN), Constant(None, BOOLEAN), opaque]),
    )
    return st.recursive(leaves, _combinations, max_leaves=5)


def _combinations(children: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(children, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Conjunction, st.sampled_from(ConjunctionOp), several),
        st.builds(Not, children),
        st.builds(IsNull, children, st.booleans()),
        st.builds(lambda w, t, o: Case((CaseBranch(w, t),), o), children, children, children),
        st.builds(lambda x, y: Comparison(ComparisonOp.NOT_DISTINCT, x, y), children, children),
    )


def _comparisons(name: str) -> st.SearchStrategy[Expression]:
    value = _operands(name)
    constant = _constants(name)
    return st.one_of(
        st.builds(Comparison, st.sampled_from(ComparisonOp), value, constant),
        st.builds(Comparison, st.sampled_from(ComparisonOp), constant, value),
        st.builds(Between, value, constant, constant, st.booleans(), st.booleans()),
        st.builds(In, value, st.lists(constant, min_size=1, max_size=4).map(tuple), st.booleans()),
        st.builds(In, value, st.tuples(constant, value), st.booleans()),
        st.builds(Comparison, st.sampled_from(ComparisonOp), value, value),
    )


def _operands(name: str) -> st.SearchStrategy[Expression]:
    column = _column(name)
    narrow = [_column(source) for source, target in WIDER.items() if target == name]
    casts = [Cast(child, TYPES[name], try_cast=flag) for child in narrow for flag in (True, False)]
    return st.one_of(
        st.just(column),
        st.just(column),
        st.sampled_from([column, *casts]),
        _constants(name).map(lambda constant: Coalesce((column, constant))),
        _constants(name).map(
            lambda constant: Case((CaseBranch(IsNull(_column("b")), constant),), column)
        ),
    )


def _text_predicates() -> st.SearchStrategy[Expression]:
    text = st.sampled_from([x for x in _STRINGS if x != "\0"])
    pattern = st.lists(st.sampled_from(["%", "_", "a", "b", "\\", "!", "é", "😀", "."]), max_size=4)
    patterns = st.one_of(pattern.map("".join), text)
    subject = st.sampled_from([_column("s"), Cast(_column("i32"), VARCHAR)])
    simple = st.sampled_from(["prefix", "suffix", "contains", "starts_with", "ends_with"])
    like = st.sampled_from(["~~", "!~~", "~~*", "!~~*", "~~~"])
    return st.one_of(
        st.builds(_function, simple, st.tuples(subject, text.map(_text))),
        st.builds(
            lambda n, a: _function(n, a, is_operator=True),
            like,
            st.tuples(subject, patterns.map(_text)),
        ),
        st.builds(
            lambda s, p: _function("like_escape", (s, _text(p), _text("!"))), subject, patterns
        ),
        st.builds(
            lambda s, n: Comparison(ComparisonOp.LESS, _function("length", (s,), type=BIGINT), n),
            subject,
            st.integers(0, 4).map(lambda n: Constant(n, BIGINT)),
        ),
        st.builds(
            lambda n, t: Comparison(
                ComparisonOp.EQUAL, _function(n, (_column("s"),), type=VARCHAR), _text(t)
            ),
            st.sampled_from(["lower", "upper"]),
            text,
        ),
        st.builds(
            lambda a, n, t: Comparison(ComparisonOp.GREATER_OR_EQUAL, _substring(a, n), _text(t)),
            st.integers(-1, 3),
            st.integers(0, 3),
            text,
        ),
    )


def _substring(start: int, length: int) -> FunctionCall:
    bounds = (Constant(start, BIGINT), Constant(length, BIGINT))
    return _function("substr", (_column("s"), *bounds), type=VARCHAR)


def _arithmetic() -> st.SearchStrategy[Expression]:
    names = st.sampled_from(["i8", "i32", "i64", "f64"])
    operators = st.sampled_from(["+", "-", "*", "%", "//", "&", "|"])

    def build(name: str, op: str, constant: Constant, bound: Constant) -> Expression:
        op = "+" if name == "f64" and op not in "+-*" else op
        call = _function(op, (_column(name), constant), type=TYPES[name], is_operator=True)
        return Comparison(ComparisonOp.GREATER, call, bound)

    small = st.integers(-2, 3)
    return names.flatmap(
        lambda name: st.builds(
            build,
            st.just(name),
            operators,
            small.map(lambda n: Constant(float(n) if name == "f64" else n, TYPES[name])),
            _constants(name),
        )
    )


def _function(
    name: str, arguments: Any, *, type: LogicalType = BOOLEAN, is_operator: bool = False
) -> FunctionCall:
    return FunctionCall(name, tuple(arguments), type, is_operator, "system", "main")


def _column(name: str) -> ColumnRef:
    return ColumnRef(name, TYPES[name])


def _constants(name: str) -> st.SearchStrategy[Constant]:
    return st.sampled_from([*VALUES[name], None]).map(lambda value: Constant(value, TYPES[name]))


def _text(value: str) -> Constant:
    return Constant(value, VARCHAR)

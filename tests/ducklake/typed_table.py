"""A table with a column of nearly every type, and random filters on it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hypothesis import strategies as st

from lakeport.filters import Expression, col

COLUMNS = """
    i INTEGER, b BIGINT, u UBIGINT, f DOUBLE, r FLOAT, d DECIMAL(9,2), dt DATE, ts TIMESTAMP, tz TIMESTAMPTZ,
    tm TIME, s VARCHAR, u4 UUID, t BOOLEAN, iv INTERVAL, zz TIMETZ, bl BLOB, st STRUCT(x INTEGER, y VARCHAR)
"""
ROWS = """
    SELECT i::INTEGER, (i * 1000003)::BIGINT, i::UBIGINT,
        CASE WHEN i % 11 = 0 THEN 'nan' WHEN i % 13 = 0 THEN '-inf' ELSE i / 3 END::DOUBLE, (i / 7)::FLOAT,
        (i / 4)::DECIMAL(9,2), '2023-11-01'::DATE + i::INTEGER, '2023-12-31 20:00:00'::TIMESTAMP + INTERVAL (i) HOUR,
        '2023-12-31 20:00:00+00'::TIMESTAMPTZ + INTERVAL (i) HOUR, '00:00:00'::TIME + INTERVAL (i * 7) MINUTE,
        CASE WHEN i % 17 = 0 THEN NULL WHEN i % 5 = 0 THEN repeat('é', 200) || i ELSE 'k' || i END,
        ('00000000-0000-0000-0000-' || lpad(i::VARCHAR, 12, '0'))::UUID, i % 2 = 0,
        INTERVAL (i) DAY, '10:00:00+02'::TIMETZ, ('x' || i)::BLOB, CASE WHEN i % 3 = 0 THEN NULL ELSE {'x': i, 'y': 'y' || i} END
    FROM range(:start, :end) r(i)
"""


def rows(start: int, end: int) -> str:
    """SQL of the rows from `start` to `end`; the columns grow with their number."""
    return ROWS.replace(":start", str(start)).replace(":end", str(end))


def filters(
    *, most: int = 420, names: Mapping[str, str] = MappingProxyType({})
) -> st.SearchStrategy[Expression]:
    """Predicates with constants of the first `most` rows, also joined and negated.

    `names` renames columns.
    """
    return st.recursive(
        predicates(most, names),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda pair: pair[0] & pair[1]),
            st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
            inner.map(lambda one: ~one),
        ),
        max_leaves=4,
    )


def constants(most: int) -> dict[str, st.SearchStrategy[Any]]:
    numbers = st.integers(-5, most)
    moment = st.integers(-50, most + 30).map(
        lambda h: dt.datetime(2023, 12, 31, 20) + dt.timedelta(hours=h)
    )
    return {
        "i": numbers,
        "b": numbers.map(lambda n: n * 1000003),
        "u": st.integers(0, most),
        "f": st.one_of(
            numbers.map(lambda n: n / 3), st.sampled_from([float("nan"), float("inf"), -0.0])
        ),
        "r": numbers.map(lambda n: n / 7),
        "d": numbers.map(lambda n: n / 4),
        "dt": st.integers(-5, most).map(lambda n: dt.date(2023, 11, 1) + dt.timedelta(days=n)),
        "ts": moment,
        "tz": moment.map(lambda m: m.replace(tzinfo=dt.UTC)),
        "tm": st.integers(0, 1439).map(lambda n: dt.time(n // 60, n % 60)),
        "s": st.one_of(
            numbers.map(lambda n: f"k{n}"), numbers.map(lambda n: "é" * 200 + str(n)), st.just("é")
        ),
        "t": st.booleans(),
        "later": st.sampled_from([8, 9, 10]),
    }


@st.composite
def predicates(draw: st.DrawFn, most: int, names: Mapping[str, str]) -> Expression:
    name = draw(st.sampled_from(sorted(constants(most))))
    values = constants(most)[name]
    column = col(names.get(name, name))
    kind = draw(
        st.sampled_from(
            ["eq", "ne", "lt", "le", "gt", "ge", "between", "in", "null", "notnull", "prefix"]
        )
    )
    if kind == "between":
        return column.between(draw(values), draw(values))
    if kind == "in":
        return column.is_in(draw(st.lists(values, min_size=1, max_size=4)))
    if kind == "prefix":
        return col(names.get("s", "s")).starts_with(
            draw(st.sampled_from(["k", "k1", "é", "", "z"]))
        )
    if kind in ("null", "notnull"):
        return column.is_null() if kind == "null" else column.is_not_null()
    return getattr(column, f"__{kind}__")(draw(values))  # type: ignore[no-any-return]

"""The SQL of a view and of a query is computed over rows that the caller sees, and over no others.

An error of an expression would show a row that is left out: its existence, and by a condition of
the expression its values too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import duckdb
import pytest

from lakeport.errors import InvalidInputError
from tests.policies.fixtures_policies import Callers, policy, serving
from tests.policies.test_restricted_tasks import Elsewhere

# A scan can apply the first; only DuckDB can apply the second, which costs more than others.
ROW_FILTERS = ("id < 3", "md5(repeat(id::VARCHAR, 3)) IN (md5('000'), md5('111'), md5('222'))")
VIEWS = {
    "casts": "SELECT id, CAST(x AS INTEGER) AS n FROM texts WHERE CAST(x AS INTEGER) >= 10",
    "divides": "SELECT id, 10 // n AS n FROM numbers WHERE 10 // n >= 1",
    "raises": "SELECT id FROM texts WHERE CASE WHEN x LIKE 'SECRET%' THEN error(x) ELSE true END",
    "joins": "SELECT a.id FROM texts a JOIN numbers b ON a.id = b.id AND a.x::INTEGER = b.n * 10",
    "counts": "SELECT count(*) FILTER (x::INTEGER > 0) AS id FROM texts",
    # DuckDB 1.5 does not list these functions as ones that fail, and calls them first.
    "replaces": "SELECT id FROM texts WHERE regexp_replace(x, x, '') = ''",
    "transforms": "SELECT id FROM texts WHERE list_transform([x], lambda e: e::INTEGER)[1] > 0",
    "nested": "SELECT id FROM casts WHERE n + CAST(n AS VARCHAR)::INTEGER > 0",
    "plain": "SELECT id, x FROM texts WHERE x IN ('10', '11', 'SECRET(3', 'SECRET(4')",
    "computed": "SELECT id, CAST(x AS INTEGER) AS n, 10 // (id - 3) AS m FROM texts",
}
EXPECTED = {
    "casts": [(0, 10), (1, 11), (2, 12)],
    "divides": [(0, 10), (1, 5), (2, 3)],
    "raises": [(0,), (1,), (2,)],
    "joins": [(0,)],
    "counts": [(3,)],
    "replaces": [(0,), (1,), (2,)],
    "transforms": [(0,), (1,), (2,)],
    "nested": [(0,), (1,), (2,)],
    "plain": [(0, "10"), (1, "11")],
    "computed": [(0, 10, -3), (1, 11, -5), (2, 12, -10)],
}


@pytest.fixture(scope="module")
def lake(
    reference: duckdb.DuckDBPyConnection, lake_class: Any, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    folder = tmp_path_factory.mktemp("lake")
    lake = lake_class(reference, f"ducklake:{folder}/meta.ducklake", f"{folder}/data/", "")
    lake.execute(
        "CREATE TABLE texts AS SELECT i AS id, "
        "CASE WHEN i < 3 THEN (10 + i)::VARCHAR ELSE 'SECRET(' || i END AS x FROM range(3000) r(i)",
        "CREATE TABLE numbers AS SELECT i AS id, CASE WHEN i < 3 THEN i + 1 ELSE 0 END AS n "
        "FROM range(3000) r(i)",
        *(f"CREATE VIEW {name} AS {sql}" for name, sql in VIEWS.items()),
    )
    lake.detach()
    return lake


@pytest.fixture(scope="module", params=["here", "in tasks"])
def serve(request: pytest.FixtureRequest, lake: Any) -> Iterator[Callable[..., Callers]]:
    engine: Any = "local" if request.param == "here" else Elsewhere()
    with ExitStack() as stack:
        yield lambda *policies: stack.enter_context(serving(lake, *policies, engine=engine))


def rows_of(callers: Callers, name: str, **options: Any) -> list[tuple[Any, ...]]:
    table = callers.client("ada").table(f"public.{name}").scan(**options).to_arrow()
    return sorted(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.parametrize("rows", ROW_FILTERS)
def test_the_sql_of_a_view_sees_no_row_that_is_left_out(
    serve: Callable[..., Callers], rows: str
) -> None:
    callers = serve(policy(rows=rows))

    assert {name: rows_of(callers, name) for name in VIEWS} == EXPECTED


@pytest.mark.parametrize("rows", ROW_FILTERS)
@pytest.mark.parametrize(
    ("filter", "ids"),
    [
        ("n > 10", [1, 2]),
        ("n IN (10, 12, 14)", [0, 2]),
        ("n = 11 OR m = -10", [1, 2]),
        ("m <> -5 AND id IN (1, 2, 3, 4)", [2]),
        ("100 // m < -10 AND CAST(m AS VARCHAR) = '-5'", [1]),
    ],
)
def test_a_filter_of_a_query_on_a_view_sees_no_row_that_is_left_out(
    serve: Callable[..., Callers], rows: str, filter: str, ids: list[int]
) -> None:
    found = rows_of(serve(policy(rows=rows)), "computed", filter=filter)

    assert [row[0] for row in found] == ids


def test_a_mask_is_computed_for_no_row_that_is_left_out(serve: Callable[..., Callers]) -> None:
    mask = {"x": "list_transform([x], lambda e: e::INTEGER + 1)[1]::VARCHAR"}
    callers = serve(policy("*.public.texts", rows=ROW_FILTERS[1], mask=mask))

    for filter, ids in (("x = '11'", [0]), ("x IN ('12', '13')", [1, 2]), ("x > '11'", [1, 2])):
        assert [row[0] for row in rows_of(callers, "texts", filter=filter)] == ids


def test_a_view_reads_masks_instead_of_values(serve: Callable[..., Callers]) -> None:
    callers = serve(policy(mask={"x": "CASE WHEN id < 3 THEN x ELSE '7' END"}))

    assert rows_of(callers, "plain") == EXPECTED["plain"]
    assert rows_of(callers, "counts") == [(3000,)]


def test_an_error_of_the_sql_of_a_view_is_that_of_a_row_that_the_caller_sees(
    serve: Callable[..., Callers],
) -> None:
    callers = serve(policy(rows="id IN (0, 1, 5)"))

    with pytest.raises(InvalidInputError, match=r"SECRET\(5") as caught:
        rows_of(callers, "casts")
    assert "\n" not in str(caught.value)


def test_many_views_over_restricted_tables_run_at_once(serve: Callable[..., Callers]) -> None:
    callers = serve(policy(rows=ROW_FILTERS[1]))
    names = list(VIEWS) * 2
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda name: rows_of(callers, name), names))

    assert found == [EXPECTED[name] for name in names]

"""Random policies and random queries equal the same queries over filtered and masked tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeport import Identity
from lakeport.auth import Policies, Policy, PolicyExpression, Who
from lakeport.catalog import RequestContext, ScanOptions, request_scope
from lakeport.filters import parse_sql_filter
from lakeport.lakehouse import LakeCatalog
from lakeport.types import Column

ROWS = """
    CREATE TABLE t AS SELECT i AS id, (i * 7) % 11 AS n,
    CASE WHEN i % 4 <> 0 THEN 'name ' || (i % 6) END AS name,
    CASE WHEN i % 3 = 0 THEN 'eu' WHEN i % 3 = 1 THEN 'us' END AS region,
    i % 2 = 0 AS flag, (i / 3.0)::DECIMAL(9, 2) AS price, [i, i % 3] AS tags
    FROM range(60) r(i)
"""
COLUMNS = ("id", "n", "name", "region", "flag", "price", "tags")
CALLER = Identity("name 3", frozenset({"a", "b"}), {"region": "eu", "least": "2"})

filters = st.sampled_from(
    [
        "region = user_attribute('region')",
        "name = user()",
        "flag",
        "n > 4",
        "id % 5 = 2",
        "price BETWEEN 3 AND 12.5",
        "list_contains(tags, 2)",
        "region IS NULL OR name LIKE '%1'",
        "in_group('a') AND id < 30",
        "in_group('z')",
        "n >= CAST(user_attribute('least') AS INTEGER)",
        "region = user_attribute('no such')",
        "regexp_matches(name, '[2-4]$')",
        "len(user_groups()) = 2 AND NOT flag",
        "CASE WHEN n > 5 THEN flag ELSE id < 10 END",
    ]
)
masks = {
    "id": ["NULL", "id // 10", "n"],
    "n": ["0::BIGINT", "id", "n % 2"],
    "name": ["'***'", "upper(name)", "coalesce(region, 'none')", "NULL", "user()"],
    "region": ["left(region, 1)", "name"],
    "flag": ["NOT flag", "n > 5", "NULL"],
    "price": ["round(price, 0)::DECIMAL(9, 2)", "NULL"],
    "tags": ["list_slice(tags, 1, 1)", "NULL"],
}
queries = st.sampled_from(
    [
        "id > 20", "n = 3", "name = '***'", "name = 'NAME 2'", "region IN ('eu', 'u')", "flag",
        "price < 5.5", "name IS NULL", "region IS NOT NULL AND n <> 0", "id = 0 OR flag = false",
        "upper(name) = 'NAME 1'", "id + n > 30", "name LIKE 'name%'", "NOT (n > 2 OR flag)",
    ]
)  # fmt: skip


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """A policy with some of a filter, hidden columns and masks."""
    hidden = draw(st.sets(st.sampled_from(COLUMNS[1:]), max_size=2))
    masked = draw(st.sets(st.sampled_from(COLUMNS), max_size=3)) - hidden
    return Policy(
        Who(everyone=True),
        "*.public.t",
        frozenset({"select"}),
        rows=PolicyExpression(draw(filters)) if draw(st.booleans()) else None,
        hide=frozenset(hidden),
        mask={name: PolicyExpression(draw(st.sampled_from(masks[name]))) for name in masked},
    )


@pytest.fixture(scope="module")
def catalog(
    reference: duckdb.DuckDBPyConnection, lake_class: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LakeCatalog]:
    folder = tmp_path_factory.mktemp("lake")
    lake = lake_class(reference, f"ducklake:{folder}/meta.ducklake", f"{folder}/data/", "")
    lake.execute(ROWS, "DELETE FROM t WHERE id IN (11, 12)", "UPDATE t SET n = 4 WHERE id = 20")
    lake.detach()
    with LakeCatalog(lake.uri, engine="local") as catalog:
        yield catalog


@pytest.fixture(scope="module")
def oracle(catalog: LakeCatalog) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB with the whole table."""
    with duckdb.connect() as connection:
        connection.register("t", catalog.lake.table("t").scan().to_arrow())
        yield connection


def expected(found: list[Policy], oracle: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    """The union of the views that policies grant, cell by cell, written without our own SQL."""

    def sql(expression: PolicyExpression) -> str:
        return expression.sql(CALLER)

    admitted = [f"coalesce({sql(p.rows)}, false)" if p.rows else "true" for p in found]
    chosen = []
    for name in COLUMNS:
        if all(name in p.hide for p in found):
            continue
        branches = [
            f"WHEN {a} THEN {name}"
            for p, a in zip(found, admitted, strict=True)
            if name not in p.hide and name not in p.mask
        ]
        branches += [
            f"WHEN {a} THEN CAST({sql(p.mask[name])} AS {_type(oracle, name)})"
            for p, a in zip(found, admitted, strict=True)
            if name in p.mask
        ]
        chosen.append(f"CASE {' '.join(branches)} END AS {name}")
    inner = f"SELECT * FROM t WHERE {' OR '.join(admitted)}"
    return oracle.sql(f"SELECT {', '.join(chosen)} FROM ({inner})")


def _type(oracle: duckdb.DuckDBPyConnection, name: str) -> str:
    return str(oracle.sql(f"SELECT {name} FROM t").types[0])


def scan(
    catalog: LakeCatalog, rules: Policies, options: Callable[[pa.Schema], ScanOptions]
) -> pa.Table:
    """The rows of the table for the caller, as a request reads them."""

    def restriction(schema: str, name: str, verb: str = "select", /) -> Any:
        return rules.restriction(CALLER, "", schema, name, verb)

    request = RequestContext(
        identity=CALLER.user,
        caller=CALLER,
        may=lambda *_: True,
        restriction=restriction,
    )
    with request_scope(request):
        schema = catalog.schema("public")
        assert schema is not None
        table = schema.table("t")
        assert table is not None
        return table.scan(options(table.arrow_schema())).read_all()


def texts(rows: pa.Table) -> list[str]:
    names = sorted(rows.schema.names)
    return sorted(repr([row[name] for name in names]) for row in rows.to_pylist())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(found=st.lists(policies(), min_size=1, max_size=3), query=queries, data=st.data())
def test_a_query_with_policies_is_the_query_over_what_they_grant(
    catalog: LakeCatalog,
    oracle: duckdb.DuckDBPyConnection,
    found: list[Policy],
    query: str,
    data: st.DataObject,
) -> None:
    view = expected(found, oracle)
    columns = data.draw(st.sets(st.sampled_from(view.columns), min_size=1))
    rules = Policies(found)
    kept = tuple(sorted(columns))

    every = scan(catalog, rules, lambda _: ScanOptions(columns=kept))
    assert texts(every) == texts(view.select(*kept).to_arrow_table())

    def pushed(schema: pa.Schema) -> ScanOptions:
        types = {"id": "int64", "n": "int64", "flag": "boolean", "price": "decimal(9,2)"}
        known = [
            Column(id=i, name=name, type=types.get(name, "varchar"))
            for i, name in enumerate(schema.names)
        ]
        return ScanOptions(columns=None, filter=parse_sql_filter(query, known))

    try:
        wanted = view.filter(query).to_arrow_table()
    except duckdb.BinderException:  # the query names a hidden column
        return
    rows = scan(catalog, rules, pushed)
    rows = rows.select([name for name in rows.schema.names if name != "rowid"])
    oracle.register("sent", rows)
    # A pushed filter may leave rows for the client to filter, and must not leave out others.
    again = oracle.sql(f"SELECT * FROM sent WHERE {query}").to_arrow_table()
    assert texts(again) == texts(wanted)
    oracle.unregister("sent")

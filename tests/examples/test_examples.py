"""Every script in `examples/` runs, ends, and prints what its readers are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.scripts import Run, run_fresh, run_on_spark

__all__ = ["run_on_spark"]

EXAMPLES = Path(__file__).parents[2] / "examples"

EXPECTED = {
    "auth": """
        ada sees ['public', 'private']
        bob sees ['public']
        you may not read shop.private.salaries
        the bearer token is not valid
    """,
    "basic": """
        sales.orders(id int64, customer string, price double): Every order
        Ada paid 9.5
        Grace paid 20.0
        Edsger paid 12.0
        3000 squares
    """,
    "dataframe": """
        pandas ['Ada', 'Edsger']
        polars ['London', 'Leiden']
        1 row of the lazy frame
    """,
    "ddl": """
        items(id int32 NOT NULL, name string NOT NULL, price double)
        items(id int64 NOT NULL, title string NOT NULL, price double, stock int32 DEFAULT 0)
        [{'id': 1, 'title': 'tea', 'price': 2.5, 'stock': 0}]
        ['items', 'bargains']
        schema 'shop' has 2 tables; drop them first, or use CASCADE
        []
    """,
    "dml": """
        inserted 2
        refused: a note must have a text
        updated 1
        deleted [{'text': 'milk', 'done': True}]
        left [{'text': 'bread', 'done': False}]
    """,
    "filter": """
        [{'name': 'Grace'}]
        [{'name': 'Grace'}]
    """,
    "functions": """
        ['HELLO!', 'WORLD!']
        ['REALLY?']
        ['double']
        [{'n': 0, 'word': 'word 0'}, {'n': 1, 'word': 'word 1'}]
        [{'name': 'Ada'}, {'name': 'Grace'}]
    """,
    "lake_sql": """
        updated 1 in snapshot 3
        merged 1 1 1
        [('late', 1), ('sent', 2)]
        34.0
        RETURNING of DELETE is not supported here: read the rows with a query afterwards
    """,
    "lake_streams": """
        archive has [('Ada', 4.5), ('Ada', 9.5), ('Bob', 7.0)]
        latest has [('Ada', 4.5), ('Bob', 7.0)]
    """,
    "multi_catalog": """
        ['north', 'south']
        3 orders in the north
        Hello Ada
        5 orders in the west
        there is no catalog 'west'; this server has: 'north', 'south'
    """,
    "spark_dataframe": """
        [{'customer': 'Ada'}, {'customer': 'Grace'}]
        [20.0, 9.5, 4.5]
        [{'customer': 'Ada', 'total': 14.0}, {'customer': 'Grace', 'total': 20.0}]
        only queries are allowed here, and DROP is not one
    """,
    "table_references": """
        the client reads 2 of 2 files
        [7.25, 12.5, 30.0]
        the client reads 1 of 2 files
        [{'year': 2025, 'minutes': 7.25}]
    """,
    "time_travel": """
        now:       [{'item': 'tea', 'price': 3, 'unit': 'EUR'}]
        version 1: [{'item': 'tea', 'price': 2.0}]
        mid 2025:  [{'item': 'tea', 'price': 2.5}, {'item': 'cake', 'price': 4.0}]
        1999:      table prices has no state TIMESTAMP => 1999-01-01 00:00:00+00
    """,
    "tls": """
        grpc+tls
        1 row over TLS
        refused without a certificate
        1 row over mutual TLS
    """,
    "transactions": """
        inside:  {'ada': 70, 'bob': 30}
        outside: {'ada': 100, 'bob': 0}
        after:   {'ada': 70, 'bob': 30}
        after:   {'ada': 70, 'bob': 30}
    """,
}


def test_every_example_is_expected() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.py")) == sorted(EXPECTED)


# The Spark of this process will do. Another example starts its own, as it does for a reader.
ON_SHARED_SPARK = ["lake_sql", "lake_streams"]


def check_printed(name: str, text: str) -> None:
    printed = iter(line.strip() for line in text.splitlines())
    for expected in EXPECTED[name].strip().splitlines():
        assert expected.strip() in printed, f"{expected.strip()!r} is missing in:\n{text}"


@pytest.mark.parametrize("name", [name for name in EXPECTED if name not in ON_SHARED_SPARK])
def test_example_runs_and_prints_what_it_promises(name: str, tmp_path: Path) -> None:
    check_printed(name, run_fresh(EXAMPLES / f"{name}.py", tmp_path))


@pytest.mark.parametrize("name", ON_SHARED_SPARK)
def test_example_runs_on_spark_and_prints_what_it_promises(
    name: str, tmp_path: Path, run_on_spark: Run
) -> None:
    check_printed(name, run_on_spark(EXAMPLES / f"{name}.py", tmp_path))


@pytest.mark.parametrize("name", [name for name in EXPECTED if not name.startswith("lake_")])
def test_example_tells_the_sql_for_duckdb(name: str) -> None:
    docstring = (EXAMPLES / f"{name}.py").read_text().split('"""')[1]

    assert "--serve" in docstring
    assert "ATTACH '" in docstring

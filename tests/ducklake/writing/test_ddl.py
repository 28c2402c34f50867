"""DDL by us and by the reference on two lakes: the same statements leave the same catalogs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa
import pytest

from lakeport import Lake
from lakeport.ducklake.writing import MacroImplementation, MacroParameter
from tests.ducklake.writing.catalog_comparison import assert_same_catalogs
from tests.fixtures_lakes import LakeMaker, RealLake


@dataclass(frozen=True)
class Step:
    """A statement of the reference, and our call for it; without one, both lakes get the statement."""

    sql: str
    ours: Callable[[Lake], Any] | None = None


def in_transaction(*changes: Callable[[Any], Any]) -> Callable[[Lake], Any]:
    def run(lake: Lake) -> None:
        with lake.transaction() as transaction:
            for change in changes:
                change(transaction)

    return run


STRUCT = pa.struct([("a", pa.int32()), ("b", pa.string())])

STEPS = [
    Step(
        "CREATE TABLE t(i INTEGER NOT NULL DEFAULT 7, d DECIMAL(9,2) DEFAULT 1, s VARCHAR, e TIMESTAMP DEFAULT now(),"
        " x INTEGER DEFAULT (1+1), st STRUCT(a INTEGER, b VARCHAR), dt DATE DEFAULT '2024-01-01', l INTEGER[],"
        " m MAP(VARCHAR, STRUCT(q DOUBLE)), nn VARCHAR DEFAULT '', f FLOAT, bo BOOLEAN)",
        lambda lake: lake.create_table(
            "t",
            pa.schema(
                [
                    pa.field("i", pa.int32(), nullable=False),
                    ("d", pa.decimal128(9, 2)),
                    ("s", pa.string()),
                    ("e", pa.timestamp("us")),
                    ("x", pa.int32()),
                    ("st", STRUCT),
                    ("dt", pa.date32()),
                    ("l", pa.list_(pa.int32())),
                    ("m", pa.map_(pa.string(), pa.struct([("q", pa.float64())]))),
                    ("nn", pa.string()),
                    ("f", pa.float32()),
                    ("bo", pa.bool_()),
                ]
            ),
            defaults={"i": 7, "d": 1, "dt": "2024-01-01", "nn": ""},
            default_expressions={"e": "now()", "x": "1+1"},
        ),
    ),
    Step("INSERT INTO t(i, s, e, f, bo) SELECT i, 'n' || i, '2024-01-01', i + 0.1, i % 2 = 0 FROM range(20) r(i)"),
    Step("INSERT INTO t(i, s, e, bo) VALUES (100, 'inlined', '2025-01-01', true)"),
    Step("ALTER TABLE t ADD COLUMN z DECIMAL(10,3) DEFAULT 5", lambda lake: lake.table("t").add_column("z", "DECIMAL(10,3)", default=5)),
    Step(
        "ALTER TABLE t ADD COLUMN z2 TIMESTAMP DEFAULT '2024-01-01'",
        lambda lake: lake.table("t").add_column("z2", pa.timestamp("us"), default="2024-01-01"),
    ),
    Step("ALTER TABLE t ADD COLUMN st3 STRUCT(q INTEGER, w VARCHAR)", lambda lake: lake.table("t").add_column("st3", "STRUCT(q INTEGER, w VARCHAR)")),
    Step("ALTER TABLE t ADD COLUMN st.c INTEGER DEFAULT 9", lambda lake: lake.table("t").add_column(("st", "c"), "INTEGER", default=9)),
    Step("ALTER TABLE t RENAME COLUMN st.a TO aa", lambda lake: lake.table("t").rename_column(("st", "a"), "aa")),
    Step("ALTER TABLE t RENAME COLUMN st TO sst", lambda lake: lake.table("t").rename_column("st", "sst")),
    Step("ALTER TABLE t ALTER i TYPE BIGINT", lambda lake: lake.table("t").alter_column("i", "BIGINT")),
    Step("ALTER TABLE t ALTER d SET DEFAULT 3", lambda lake: lake.table("t").set_default("d", 3)),
    Step("ALTER TABLE t ALTER x DROP DEFAULT", lambda lake: lake.table("t").set_default("x")),
    Step("ALTER TABLE t ALTER i DROP NOT NULL", lambda lake: lake.table("t").set_nullable("i", nullable=True)),
    Step("ALTER TABLE t ALTER s SET NOT NULL", lambda lake: lake.table("t").set_nullable("s", nullable=False)),
    Step(
        "ALTER TABLE t ALTER sst TYPE STRUCT(aa BIGINT, b VARCHAR, c INTEGER, nw INTEGER)",
        lambda lake: lake.table("t").alter_column("sst", "STRUCT(aa BIGINT, b VARCHAR, c INTEGER, nw INTEGER)"),
    ),
    Step("ALTER TABLE t DROP COLUMN sst.b", lambda lake: lake.table("t").drop_column(("sst", "b"))),
    Step("ALTER TABLE t DROP COLUMN l", lambda lake: lake.table("t").drop_column("l")),
    Step("INSERT INTO t(i, s, e) VALUES (101, 'after', NULL)"),
    Step("CREATE SCHEMA s2", lambda lake: lake.create_schema("s2")),
    Step('CREATE SCHEMA "we ird"', lambda lake: lake.create_schema("we ird")),
    Step(
        "CREATE VIEW v AS SELECT i, t.d AS q FROM t WHERE s = 'lake.x'",
        lambda lake: lake.create_view("v", "SELECT i, t.d AS q FROM t WHERE s = 'lake.x'"),
    ),
    Step(
        'CREATE VIEW s2.v2(a, "b ""c") AS SELECT 1, 2',
        lambda lake: lake.create_view("v2", "SELECT 1, 2", "s2", column_aliases=["a", 'b "c']),
    ),
    Step("CREATE OR REPLACE VIEW v AS SELECT 1 AS x", lambda lake: lake.create_view("v", "SELECT 1 AS x", or_replace=True)),
    Step("ALTER VIEW v RENAME TO vv", lambda lake: lake.rename_view("v", "vv")),
    Step("COMMENT ON VIEW vv IS 'c'", lambda lake: lake.comment_on_view("vv", "c")),
    Step("COMMENT ON TABLE t IS 'tc'", lambda lake: lake.table("t").set_comment("tc")),
    Step("COMMENT ON TABLE t IS NULL", lambda lake: lake.table("t").set_comment(None)),
    Step("COMMENT ON COLUMN t.d IS 'cc'", lambda lake: lake.table("t").set_comment("cc", column="d")),
    Step("COMMENT ON COLUMN t.d IS 'cd'", lambda lake: lake.table("t").set_comment("cd", column="d")),
    Step(
        "CREATE MACRO add1(a, b := 5) AS a + b + 1",
        lambda lake: lake.create_macro(
            "add1",
            [MacroImplementation(sql="a + b + 1", parameters=(MacroParameter(name="a"), MacroParameter(name="b", default="5", default_type="int32")))],
        ),
    ),
    Step(
        "CREATE MACRO tm(a) AS TABLE SELECT * FROM range(a)",
        lambda lake: lake.create_macro(
            "tm", [MacroImplementation(sql="SELECT * FROM range(a)", parameters=(MacroParameter(name="a"),))], returns_table=True
        ),
    ),
    Step("DROP MACRO add1", lambda lake: lake.drop_macro("add1")),
    Step("CREATE TABLE p(ts TIMESTAMP, k INTEGER, s VARCHAR)", lambda lake: lake.create_table("p", {"ts": "TIMESTAMP", "k": "INTEGER", "s": "VARCHAR"})),
    Step(
        "ALTER TABLE p SET PARTITIONED BY (year(ts), bucket(4, s), k)",
        lambda lake: lake.table("p").set_partitioning(["year(ts)", "bucket(4, s)", "k"]),
    ),
    Step("INSERT INTO p VALUES ('2024-01-01', 1, 'a')"),
    Step(
        "ALTER TABLE p SET PARTITIONED BY (year(ts), bucket(4, s), k)",
        lambda lake: lake.table("p").set_partitioning(["year(ts)", "bucket(4, s)", "k"]),
    ),
    Step(
        "ALTER TABLE p SET SORTED BY (k DESC, lower(s) ASC NULLS FIRST, k+1)",
        lambda lake: lake.table("p").set_sorting(["k DESC", "lower(s) ASC NULLS FIRST", "k+1"]),
    ),
    Step("ALTER TABLE p RENAME COLUMN k TO kk", lambda lake: lake.table("p").rename_column("k", "kk")),
    Step("ALTER TABLE p RESET SORTED BY", lambda lake: lake.table("p").set_sorting([])),
    Step("ALTER TABLE p RESET PARTITIONED BY", lambda lake: lake.table("p").set_partitioning([])),
    Step("ALTER TABLE p DROP COLUMN kk", lambda lake: lake.table("p").drop_column("kk")),
    Step("ALTER TABLE p RENAME TO p2", lambda lake: lake.table("p").rename("p2")),
    Step("CREATE OR REPLACE TABLE p2(x INTEGER)", lambda lake: lake.create_table("p2", {"x": "INTEGER"}, or_replace=True)),
    Step('CREATE TABLE "t ""q"(x INTEGER)', lambda lake: lake.create_table('t "q', {"x": "INTEGER"})),
    Step("DROP VIEW vv", lambda lake: lake.drop_view("vv")),
    Step("CREATE TABLE s2.inside(x INTEGER)", lambda lake: lake.create_table("inside", {"x": "INTEGER"}, "s2")),
    Step("DROP TABLE s2.inside", lambda lake: lake.drop_table("inside", "s2")),
    Step("DROP SCHEMA s2 CASCADE", lambda lake: lake.drop_schema("s2", cascade=True)),
    Step("DROP TABLE t", lambda lake: lake.drop_table("t")),
    # Several changes of one transaction become one.
    Step(
        "BEGIN; CREATE TABLE c(a INTEGER, b INTEGER); ALTER TABLE c ADD COLUMN d INTEGER; ALTER TABLE c DROP COLUMN b;"
        " ALTER TABLE c RENAME COLUMN d TO e; COMMIT",
        in_transaction(
            lambda tx: tx.create_table("c", {"a": "INTEGER", "b": "INTEGER"}),
            lambda tx: tx.table("c").add_column("d", "INTEGER"),
            lambda tx: tx.table("c").drop_column("b"),
            lambda tx: tx.table("c").rename_column("d", "e"),
        ),
    ),
    Step(
        "BEGIN; ALTER TABLE c ALTER a TYPE BIGINT; ALTER TABLE c ALTER a SET DEFAULT 3; ALTER TABLE c ADD COLUMN n INTEGER;"
        " ALTER TABLE c DROP COLUMN n; COMMENT ON TABLE c IS 'one'; COMMENT ON TABLE c IS 'two'; COMMIT",
        in_transaction(
            lambda tx: tx.table("c").alter_column("a", "BIGINT"),
            lambda tx: tx.table("c").set_default("a", 3),
            lambda tx: tx.table("c").add_column("n", "INTEGER"),
            lambda tx: tx.table("c").drop_column("n"),
            lambda tx: tx.table("c").set_comment("one"),
            lambda tx: tx.table("c").set_comment("two"),
        ),
    ),
    Step(
        "BEGIN; CREATE TABLE gone(a INTEGER); DROP TABLE gone; COMMIT",
        in_transaction(lambda tx: tx.create_table("gone", {"a": "INTEGER"}), lambda tx: tx.drop_table("gone")),
    ),
]  # fmt: skip


@pytest.fixture
def lakes(make_lake: LakeMaker, request: pytest.FixtureRequest) -> tuple[RealLake, RealLake]:
    """Two empty lakes: the first created by us, the second by the reference."""
    kind = request.param
    ours, theirs = make_lake(kind), make_lake(kind)
    Lake.create(ours.uri, data_path=ours.data_path).close()
    theirs.attach()
    theirs.detach()
    return ours, theirs


@pytest.mark.parametrize("lakes", ["duckdb", "sqlite", "postgresql"], indirect=True)
def test_a_new_lake_is_the_same(lakes: tuple[RealLake, RealLake]) -> None:
    ours, theirs = lakes

    assert_same_catalogs(ours.uri, theirs.uri)


@pytest.mark.parametrize("lakes", ["duckdb", "sqlite", "postgresql"], indirect=True)
def test_every_statement_leaves_the_same_rows(lakes: tuple[RealLake, RealLake]) -> None:
    ours, theirs = lakes
    theirs.execute(*(step.sql for step in STEPS))
    theirs.detach()
    for is_ours, steps in groupby(STEPS, key=lambda step: step.ours is not None):
        if is_ours:
            with Lake.open(ours.uri) as lake:
                for step in steps:
                    assert step.ours is not None
                    step.ours(lake)
        else:
            ours.execute(*(step.sql for step in steps))
            ours.detach()

    # Rows of older snapshots stay in the catalog, so this compares what each statement has written.
    assert_same_catalogs(ours.uri, theirs.uri)
    # The reference and we read the same rows from the lake that we have written.
    newest = ours.snapshots()[-1]
    assert ours.check(snapshots=[3, 10, 20, 36, newest]) > 5

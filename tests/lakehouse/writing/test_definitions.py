"""CREATE, ALTER and DROP through a server, beside the same statements of the reference."""

from __future__ import annotations

from collections.abc import Callable

import duckdb
import pyarrow as pa
import pytest

from lakeport.airport.client import RemoteTable
from lakeport.errors import (
    InvalidArgumentError,
    LakeportError,
    NotFoundError,
    UnsupportedError,
)
from tests.fixtures_lakes import RealLake
from tests.lakehouse.writing.conftest import Write
from tests.lakehouse.writing.duckdb_client import DuckDBClient

TABLE = "CREATE TABLE t (id INTEGER, name VARCHAR, place STRUCT(x INTEGER, y INTEGER))"
ROWS = "INSERT INTO t VALUES (1, 'a', {'x': 1, 'y': 2}), (2, 'b', NULL)"
# The reference records an added field as not null, and a renamed one without the type of its
# default. Neither has a meaning.
COLUMNS = (
    "SELECT table_name, column_name, column_type, nulls_allowed OR parent_column IS NOT NULL, "
    "initial_default, default_value, CASE WHEN parent_column IS NULL THEN default_value_type END, "
    "c.column_id FROM meta.ducklake_column c JOIN meta.ducklake_table t USING (table_id) "
    "WHERE c.end_snapshot IS NULL AND t.end_snapshot IS NULL ORDER BY ALL"
)

ALTERATIONS: list[tuple[Callable[[RemoteTable], object], str]] = [
    (lambda t: t.add_column("extra", pa.float64()), "ALTER TABLE t ADD COLUMN extra DOUBLE"),
    (lambda t: t.add_column("shape", pa.list_(pa.date32())), "ALTER TABLE t ADD shape DATE[]"),
    (lambda t: t.rename_column("name", "label"), "ALTER TABLE t RENAME COLUMN name TO label"),
    (lambda t: t.change_type("id", pa.int64()), "ALTER TABLE t ALTER id TYPE BIGINT"),
    (lambda t: t.set_default("id", "42"), "ALTER TABLE t ALTER id SET DEFAULT 42"),
    (
        lambda t: t.set_default("label", "'it''s'"),
        "ALTER TABLE t ALTER label SET DEFAULT 'it''s'",
    ),
    (lambda t: t.set_not_null("id"), "ALTER TABLE t ALTER id SET NOT NULL"),
    (lambda t: t.set_not_null("label"), "ALTER TABLE t ALTER label SET NOT NULL"),
    (lambda t: t.drop_not_null("label"), "ALTER TABLE t ALTER label DROP NOT NULL"),
    (lambda t: t.add_field(["place", "z"], pa.int32()), "ALTER TABLE t ADD COLUMN place.z INTEGER"),
    (
        lambda t: t.rename_field(["place", "x"], "lon"),
        "ALTER TABLE t RENAME COLUMN place.x TO lon",
    ),
    (lambda t: t.drop_field(["place", "y"]), "ALTER TABLE t DROP COLUMN place.y"),
    (lambda t: t.drop_column("shape"), "ALTER TABLE t DROP COLUMN shape"),
]


def test_alterations_are_recorded_as_by_the_reference(write: Write) -> None:
    here = write(TABLE, ROWS)

    for change, sql in ALTERATIONS:
        change(here.client.table("public.t"))
        here.theirs.execute(sql)
    here.theirs.detach()

    assert _columns(here.ours) == _columns(here.theirs)
    here.compare("t")


def test_an_expression_is_a_default_that_clients_compute(write: Write) -> None:
    here = write(TABLE)

    here.client.table("public.t").set_default("id", "1 + 1")

    here.client.table("public.t").insert([{"name": "a"}])
    assert here.ours.query("SELECT id, name FROM t") == [(2, "a")]
    here.ours.execute("INSERT INTO t (name) VALUES ('b')")
    assert here.ours.query("SELECT id, name FROM t WHERE name = 'b'") == [(2, "b")]


def test_a_table_can_be_renamed_dropped_and_created(write: Write) -> None:
    here = write(TABLE, ROWS)
    client = here.client

    client.table("public.t").rename("renamed")
    created = client.create_table(
        "public",
        "fresh",
        pa.schema([("id", pa.int64()), ("tags", pa.list_(pa.string()))]),
        not_null=["id"],
    )
    created.insert([{"id": 1, "tags": ["a"]}])
    client.create_schema("archive")
    client.create_table("archive", "old", pa.schema([("a", pa.int32())]))
    client.create_schema("doomed")
    client.create_table("doomed", "gone", pa.schema([("a", pa.int32())]))
    client.drop_schema("doomed", cascade=True)
    here.reference(
        "ALTER TABLE t RENAME TO renamed",
        "CREATE TABLE fresh (id BIGINT NOT NULL, tags VARCHAR[])",
        "INSERT INTO fresh VALUES (1, ['a'])",
        "CREATE SCHEMA archive",
        "CREATE TABLE archive.old (a INTEGER)",
        "CREATE SCHEMA doomed",
        "CREATE TABLE doomed.gone (a INTEGER)",
        "DROP SCHEMA doomed CASCADE",
    )

    assert _columns(here.ours) == _columns(here.theirs)
    here.compare("renamed", "fresh", "archive.old")

    client.drop_table("public.renamed")
    client.refresh()
    assert [table.name for table in client.tables("public")] == ["fresh"]


def test_a_schema_that_is_not_empty_is_dropped_only_with_cascade(
    write: Write, reference: duckdb.DuckDBPyConnection
) -> None:
    here = write("CREATE SCHEMA filled", "CREATE TABLE filled.t (a INTEGER)")

    with DuckDBClient(here.server.location, here.catalog.name, reference) as duck:
        # DuckDB sends the same for DROP SCHEMA and DROP SCHEMA CASCADE.
        request = {"type": "schema", "catalog_name": "", "schema_name": "", "name": "filled"}
        with pytest.raises(pa.ArrowInvalid, match=r"filled is not empty.*lakeport\.drop_schema"):
            duck.action("drop_schema", **request, ignore_not_found=False)
    with pytest.raises(LakeportError, match="filled still has t"):
        here.client.drop_schema("filled")
    assert {schema.name for schema in here.catalog.lake.schemas()} == {"filled", "main"}

    here.client.call_table("lakeport.drop_schema", "filled", cascade=True).to_arrow()

    here.reference("DROP SCHEMA filled CASCADE")
    assert [schema.name for schema in here.catalog.lake.schemas()] == ["main"]
    assert _columns(here.ours) == _columns(here.theirs) == []


def test_create_table_as_is_one_snapshot_in_an_explicit_transaction(write: Write) -> None:
    here = write(TABLE)
    rows = pa.table({"id": pa.array(range(3000), pa.int64()), "name": ["x"] * 3000})
    before = here.catalog.lake.snapshot().id

    here.client.create_table_as("public", "copied", rows)
    assert here.catalog.lake.snapshot().id == before + 2
    with here.client.transaction(explicit=True):
        here.client.create_table_as("public", "staged", rows)
    assert here.catalog.lake.snapshot().id == before + 3

    query = "SELECT i AS id, 'x' AS name FROM range(3000) r(i)"
    here.reference(f"CREATE TABLE copied AS {query}", f"CREATE TABLE staged AS {query}")
    here.compare("copied", "staged")


@pytest.mark.parametrize(
    ("constraint", "refused"),
    [
        ({"primary_key": "id"}, "a primary key"),
        ({"unique": ["id"]}, "a UNIQUE constraint"),
        ({"check": ["id > 1"]}, "a CHECK constraint"),
    ],
)
def test_constraints_that_ducklake_lacks_are_refused(
    write: Write, constraint: dict[str, object], refused: str
) -> None:
    here = write(TABLE)

    with pytest.raises(UnsupportedError, match=f"public.keyed cannot have {refused}"):
        here.client.create_table("public", "keyed", pa.schema([("id", pa.int64())]), **constraint)  # type: ignore[arg-type]


def test_refusals_name_the_object(write: Write) -> None:
    here = write(TABLE, ROWS, "CREATE VIEW v AS SELECT id FROM t")
    client, one = here.client, pa.schema([("id", pa.int64())])

    with pytest.raises(InvalidArgumentError, match=r"public\.t exists already"):
        client.create_table("public", "t", one)
    with pytest.raises(InvalidArgumentError, match="public exists already"):
        client.create_schema("public")
    with pytest.raises(InvalidArgumentError, match="lakeport exists already"):
        client.create_schema("lakeport")
    with pytest.raises(InvalidArgumentError, match="lakeport cannot be dropped"):
        client.drop_schema("lakeport")
    with pytest.raises(NotFoundError, match="no schema"):
        client.drop_schema("nowhere")
    with pytest.raises(UnsupportedError, match=r"public\.v is a view.*lakeport\.drop_view"):
        client.drop_table("public.v")
    with pytest.raises(UnsupportedError, match="cannot be changed with USING"):
        client.table("public.t").change_type("id", pa.int64(), using="id + 1")
    with pytest.raises(LakeportError, match="id of type int32 cannot become int8"):
        client.table("public.t").change_type("id", pa.int8())
    with pytest.raises(UnsupportedError, match="column 'v' has type"):
        client.create_table(
            "public", "odd", pa.schema([("v", pa.sparse_union([pa.field("a", pa.int64())]))])
        )


def test_a_transaction_of_definitions_and_rows_is_one_snapshot(write: Write) -> None:
    here = write(TABLE, ROWS)
    before = here.catalog.lake.snapshot().id
    client = here.client

    with client.transaction(explicit=True):
        client.create_schema("extra")
        created = client.create_table("extra", "n", pa.schema([("id", pa.int64())]))
        created.insert([{"id": i} for i in range(20)])
        assert created.scan().count() == 20
        client.table("public.t").add_column("score", pa.float64())
        client.table("public.t").insert([{"id": 3, "name": "c", "score": 0.5}])
        assert client.table("public.t").scan().count() == 3
        client.table("public.t").rename("people")
        client.refresh()
        assert {table.name for table in client.tables("public")} == {"people"}
        with pytest.raises(NotFoundError):
            here.catalog.lake.table("people")

    assert here.catalog.lake.snapshot().id == before + 1
    assert here.catalog.lake.table("people").scan().count() == 3
    assert here.catalog.lake.table("n", "extra").scan().count() == 20


def _columns(lake: RealLake) -> list[tuple[object, ...]]:
    rows = lake.query(COLUMNS)
    lake.detach()
    return rows

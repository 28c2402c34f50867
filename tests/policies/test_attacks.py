"""Ways around a policy: earlier names, other schemas, errors, tickets, direct reads, hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport import Client, Identity, Server, connect
from lakeport.airport.protocol.addresses import Address
from lakeport.airport.protocol.tickets import ScanTicket
from lakeport.auth import AccessRequest, Grant, Policies, Restriction, Who
from lakeport.catalog import CatalogBuilder
from lakeport.errors import InvalidInputError, LakeportError, PermissionDeniedError
from lakeport.filters import bind, parse_sql_filter
from lakeport.lakehouse.policies.raw_tables import safe_filter
from lakeport.types import Column
from tests.airport.flight_client import path
from tests.policies.fixtures_policies import CALLERS, Callers, policy, serving, token_of

EVERYONE = Who(everyone=True)


@pytest.fixture(scope="module")
def lake(
    reference: duckdb.DuckDBPyConnection, lake_class: Any, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    folder = tmp_path_factory.mktemp("lake")
    lake = lake_class(reference, f"ducklake:{folder}/meta.ducklake", f"{folder}/data/", "")
    lake.execute(
        "CREATE TABLE people AS SELECT i AS id, 'SECRET' || i AS ssn, i % 2 AS kind "
        "FROM range(10) r(i)",  # 1
        "ALTER TABLE people RENAME COLUMN ssn TO number",  # 2
        "CREATE TABLE old AS SELECT 'SECRET' AS x",  # 3
        "ALTER TABLE old RENAME TO renamed",  # 4
        "ALTER TABLE people ADD COLUMN level INTEGER DEFAULT 1",  # 5
        "CREATE SCHEMA lakeport",  # 6
        "CREATE TABLE lakeport.own AS SELECT 'SECRET' AS x",  # 7
        "CREATE TABLE texts AS SELECT * FROM (VALUES ('1'), ('SECRET')) t(x)",  # 8
        "CREATE VIEW v AS SELECT number FROM people",  # 9
    )
    lake.detach()
    return lake


@pytest.fixture
def served(lake: Any) -> Iterator[Callable[..., Callers]]:
    with ExitStack() as stack:
        yield lambda *policies, **options: stack.enter_context(serving(lake, *policies, **options))


def names_of(client: Client, name: str) -> set[str]:
    """The tables of a schema."""
    return {table.name for table in client.tables(name)}


def seen(call: Callable[[], Any]) -> str:
    """What a caller receives: rows, or the error."""
    try:
        return repr(call())
    except LakeportError as error:
        return f"{type(error).__name__}: {error}"


def test_a_hidden_column_is_hidden_under_its_earlier_name(served: Any) -> None:
    client = served(policy(hide=("number",))).client("ada")
    table = client.table("public.people")

    for version in (1, 2, 5):
        rows = table.scan(version=version).to_arrow()
        assert rows.num_rows == 10
        assert "SECRET" not in repr(rows.to_pylist())
        assert {"ssn", "number"}.isdisjoint(rows.schema.names)


def test_a_column_stays_hidden_or_masked_after_it_was_renamed(served: Any) -> None:
    for rules, columns in (
        (policy(hide=("ssn",)), ["id", "kind", "level"]),
        (policy(mask={"ssn": "'***'"}), ["id", "number", "kind", "level"]),
    ):
        table = served(rules).client("ada").table("public.people")

        for version in (1, 2, None):
            rows = table.scan(version=version).to_arrow()
            assert rows.num_rows == 10
            assert "SECRET" not in repr(rows.to_pylist())
        assert table.schema.names == columns


def test_a_mask_that_reads_the_earlier_name_refuses_the_table(served: Any) -> None:
    rules = policy("*.public.people", mask={"ssn": "left(ssn, 2)"})
    client = served(rules).client("ada")

    assert "SECRET" not in seen(lambda: client.table("public.people").scan().to_arrow().to_pylist())


def test_a_filter_that_reads_another_column_now_refuses_the_earlier_snapshot(served: Any) -> None:
    client = served(policy(rows="number = 'SECRET3'")).client("ada")
    table = client.table("public.people")

    assert table.scan().to_arrow().num_rows == 1
    with pytest.raises(PermissionDeniedError, match="other columns now"):
        table.scan(version=1).to_arrow()
    by_level = served(policy(rows="level > 0")).client("ada").table("public.people")
    with pytest.raises(PermissionDeniedError, match="other columns now"):
        by_level.scan(version=2).to_arrow()


def test_a_table_cannot_be_read_by_its_earlier_name(served: Any) -> None:
    rules = (policy("*.public.old"), policy("*.public.renamed", rows="false"))
    client = served(*rules).client("ada")

    for call in (
        lambda: client.table("public.renamed").scan(version=3).to_arrow().to_pylist(),
        lambda: client.call_table("lakeport_functions.table_changes", "old", 0, 3).to_arrow(),
        lambda: client.call_table("lakeport_functions.list_files", "old", snapshot_version=3),
    ):
        assert "SECRET" not in seen(call)


def test_a_schema_of_the_lake_is_not_taken_for_that_of_functions(served: Any) -> None:
    callers = served(policy("*.public.people"))
    client = callers.client("ada")

    assert {schema.name for schema in client.schemas()} == {"public", "lakeport_functions"}
    with pytest.raises(flight.FlightUnauthorizedError, match="you may not"):
        callers.wire("ada").scan(path("lakeport", "own"))


def test_a_failing_mask_shows_no_value(served: Any) -> None:
    rules = policy("*.public.texts", mask={"x": "CAST(CAST(x AS INTEGER) AS VARCHAR)"})
    client = served(rules).client("ada")

    with pytest.raises(InvalidInputError) as failed:
        client.table("public.texts").scan().to_arrow()

    assert str(failed.value) == (
        "the policies of public.texts cannot be applied: a row filter or a mask has failed"
    )


@pytest.mark.parametrize(
    ("text", "is_pushed"),
    [
        ("x = '1'", True),
        ("x IN ('1', '2') AND n BETWEEN 1 AND 3", True),
        ("x IS NULL OR NOT n > 2", True),
        ("CAST(x AS INTEGER) = 1", False),
        ("1 / n > 0", False),
        ("x = '1' OR sqrt(n) > 1", False),
        ("x = 5", False),
        ("hidden = 'x'", False),
    ],
)
def test_only_what_cannot_fail_of_a_clients_filter_reaches_rows_that_are_left_out(
    text: str, is_pushed: bool
) -> None:
    columns = [Column(id=1, name="x", type="varchar"), Column(id=2, name="n", type="int64")]
    schema = pa.schema([("x", pa.string()), ("n", pa.int64())])

    pushed = safe_filter(bind(parse_sql_filter(text, columns), schema), schema)

    assert bool(pushed) == is_pushed


def test_a_view_over_a_hidden_column_is_not_there(served: Any) -> None:
    callers = served(policy(hide=("number",)))
    client = callers.client("ada")

    assert "v" not in names_of(client, "public")
    wire = callers.wire("ada")
    with pytest.raises(pa.ArrowException) as refused:
        wire.scan(path("public", "v"))
    assert "SECRET" not in str(refused.value)
    definitions = client.table("lakeport_functions.tables").scan().to_arrow().to_pylist()
    assert not any(row["view_definition"] for row in definitions if row["table_name"] == "v")


def test_direct_reads_are_off_for_a_restricted_table(served: Any) -> None:
    callers = served(policy(rows="kind = 1"), direct_reads=True)
    ours = callers.wire("ada").endpoints(path("public", "people"))
    whole = callers.wire("root").endpoints(path("public", "people"))

    assert not any(b"function-call" in location.uri for e in ours for location in e.locations)
    assert len(ours) == 1
    assert whole
    assert callers.client("ada").table("public.people").scan().to_arrow().num_rows == 5


def test_a_ticket_that_names_a_hidden_column_is_refused_like_a_missing_one(served: Any) -> None:
    wire = served(policy(hide=("number",))).wire("ada")
    refused = []
    for column in ("number", "nothing"):
        ticket = ScanTicket(Address("public", "people"), columns=(column,))
        with pytest.raises(Exception, match=column) as told:
            wire.read(ticket.to_bytes())
        refused.append((type(told.value), str(told.value).replace(column, "…")))

    assert refused[0] == refused[1]


def test_a_catalog_that_knows_no_policies_refuses_restricted_tables() -> None:
    rows = pa.table({"x": ["SECRET"]})
    catalog = CatalogBuilder("c").schema("s").table("t", rows).table("u", rows).build()
    rules = Policies([policy("c.s.t", rows="x = ''"), policy("c.s.u")])
    auth = {token_of(user): identity for user, identity in CALLERS.items()}

    with (
        Server({"c": catalog}, auth=auth, authorize=rules) as server,
        connect(server.location, token=token_of("ada"), catalog="c") as client,
    ):
        assert names_of(client, "s") == {"u"}
        assert client.table("s.u").scan().to_arrow().num_rows == 1


def test_a_hook_in_python_restricts_rows_and_columns(lake: Any) -> None:
    from lakeport.lakehouse import LakeCatalog

    class Hook:
        def __call__(self, access: AccessRequest) -> bool:
            return access.identity == "ada"

        def restriction(
            self, caller: Identity, catalog: str, schema: str, name: str, verb: str = "select"
        ) -> Restriction | None:
            grant = Grant(rows="(kind = 1)", hidden=frozenset({"number"}))
            return Restriction((grant,)) if name == "people" else None

    with (
        LakeCatalog(lake.uri, engine="local") as catalog,
        Server(catalog, auth={token_of("ada"): "ada"}, authorize=Hook()) as server,
        connect(server.location, token=token_of("ada")) as client,
    ):
        rows = client.table("public.people").scan().to_arrow()

    assert rows.schema.names == ["id", "kind", "level"]
    assert rows.num_rows == 5


def test_callers_see_the_queries_of_others_only_as_administrators(served: Any) -> None:
    admin = policy(allow=("select", "admin"), who=Who(users=frozenset({"bob"})))
    callers = served(policy("*.public.people", rows="true"), admin)
    callers.client("ada").table("public.people").scan(filter="id = 3").to_arrow()
    table = "lakeport_functions.queries"

    own = callers.client("ada").table(table).scan().to_arrow().column("identity").to_pylist()
    every = callers.client("bob").table(table).scan().to_arrow().column("identity").to_pylist()

    assert set(own) == {"ada"}
    assert {"ada", "bob"} <= set(every)

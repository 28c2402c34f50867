"""Ways around a policy for callers who may write: ALTER, renaming, added files, maintenance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from lakeport import Client
from lakeport.auth import AccessRequest, Operation, Policies, Policy, Who
from lakeport.ducklake import Lake
from lakeport.ducklake.maintenance import MaintenancePolicy
from lakeport.errors import (
    ConstraintError,
    InvalidInputError,
    LakeportError,
    NotFoundError,
    PermissionDeniedError,
)
from tests.policies.fixtures_policies import CALLERS, Callers, policy, serving

WRITES = ("select", "insert", "update", "delete", "alter", "create", "drop")
RULES = (
    policy("*.public.secret", rows="region = 'eu'", hide=("card",), allow=WRITES),
    policy("*.public.mine", allow=WRITES),
    policy("*.public.new*", allow=WRITES),
)
BOB = Who(users=frozenset({"bob"}))


@pytest.fixture(scope="module")
def lake(
    reference: duckdb.DuckDBPyConnection, lake_class: Any, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    folder = tmp_path_factory.mktemp("lake")
    options = "DATA_INLINING_ROW_LIMIT 0"
    lake = lake_class(reference, f"ducklake:{folder}/meta.ducklake", f"{folder}/data/", options)
    rows = "SELECT i AS id, ['eu', 'us'][1 + i % 2] AS region, 'SECRET' || i AS card"
    lake.execute(
        f"CREATE TABLE secret AS {rows} FROM range(8) r(i)",
        f"INSERT INTO secret {rows} FROM range(8, 10) r(i)",
        "CREATE TABLE mine (id BIGINT, region VARCHAR, card VARCHAR)",
        "CREATE TABLE strict (id BIGINT, salary INTEGER NOT NULL)",
    )
    lake.detach()
    with Lake.open(lake.uri, engine="local") as ours:
        ours.maintain(MaintenancePolicy(merge_files=2))
    return lake


@pytest.fixture
def served(lake: Any) -> Iterator[Callable[..., Callers]]:
    with ExitStack() as stack:
        yield lambda *policies: stack.enter_context(serving(lake, *policies, writable=True))


def call(client: Client, name: str, *arguments: Any, **named: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        client.call_table(f"lakeport.{name}", *arguments, **named).to_arrow().to_pylist()
    )
    return rows


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("set_partitioning", (["card"],)),
        ("set_sorting", (["card"],)),
        ("comment_on", ("a comment",)),
        ("restore", (1,)),
    ],
)
def test_no_function_alters_a_restricted_table(
    served: Any, name: str, arguments: tuple[Any, ...]
) -> None:
    client = served(*RULES).client("ada")

    with pytest.raises(PermissionDeniedError, match=r"may not alter public\.secret"):
        call(client, name, "public.secret", *arguments)


def test_a_restricted_table_cannot_be_renamed_to_a_name_without_restriction(served: Any) -> None:
    callers = served(*RULES)
    client = callers.client("ada")
    table = client.table("public.secret")

    for change in (
        lambda: table.rename("new1"),
        lambda: table.rename_column("region", "place"),
        lambda: table.add_column("more", pa.int64()),
        lambda: call(client, "set_option", "target_file_size", "1MB", table_name="public.secret"),
    ):
        with pytest.raises(PermissionDeniedError, match=r"may not alter public\.secret"):
            change()
    assert "SECRET" not in repr(table.scan().to_arrow().to_pylist())
    client.table("public.mine").rename("new2")
    callers.client("root").table("public.new2").rename("mine")


def test_files_of_other_tables_are_not_added_to_a_table_of_the_caller(
    served: Any, lake: Any
) -> None:
    callers = served(*RULES)
    folder = f"{lake.data_path}main/secret"
    live, *_ = (
        row["data_file"] for row in call(callers.client("root"), "list_files", "public.secret")
    )
    merged = {str(path) for path in Path(folder).iterdir()} - {live}
    abandoned = f"{folder}/ducklake-{'0' * 8}-0000-7000-8000-{'0' * 12}.parquet"
    Path(abandoned).write_bytes(Path(live).read_bytes())
    client = callers.client("ada")
    paths = (
        live,
        *merged,
        abandoned,
        f"{lake.data_path}/main//secret/{Path(live).name}",
        f"{folder}/*.parquet",
        f"{folder}/no such file*",
        f"{lake.data_path}main/**/*.parquet",
        f"{lake.data_path}main/*/*.parquet",
        f"{lake.data_path}**",
    )

    for path in paths:
        with pytest.raises(PermissionDeniedError, match="folder of another table"):
            call(client, "add_files", "public.mine", path)
    assert client.table("public.mine").scan().to_arrow().num_rows == 0
    Path(abandoned).unlink()


def test_files_beside_those_of_tables_are_added_once(served: Any, lake: Any) -> None:
    client = served(*RULES).client("ada")
    folder = Path(lake.data_path) / "incoming"
    folder.mkdir()
    rows = "SELECT 1::BIGINT AS id, 'eu' AS region, 'x' AS card"
    duckdb.execute(f"COPY ({rows}) TO '{folder}/a.parquet'")

    call(client, "add_files", "public.mine", f"{folder}/*.parquet")

    assert client.table("public.mine").scan().to_arrow().num_rows == 1
    with pytest.raises(PermissionDeniedError, match="belong to the lake already"):
        call(client, "add_files", "public.mine", f"{folder}/a.parquet")
    with pytest.raises((NotFoundError, PermissionDeniedError)):
        call(client, "add_files", "public.mine", f"{folder}/b.parquet")


def test_no_error_of_a_new_view_shows_a_column_or_table_that_the_caller_does_not_see(
    served: Any,
) -> None:
    client = served(*RULES).client("ada")

    def refusal(sql: str) -> str:
        with pytest.raises(InvalidInputError) as refused:
            call(client, "create_view", "public.new3", sql)
        return str(refused.value)

    hidden, missing = refusal("SELECT card FROM secret"), refusal("SELECT cart FROM secret")
    assert hidden.replace("card", "cart") == missing
    denied, absent = refusal("SELECT * FROM strict"), refusal("SELECT * FROM strikt")
    assert denied.replace("strict", "strikt") == absent
    call(client, "create_view", "public.new3", "SELECT id, region FROM secret")
    client.refresh()
    assert client.table("public.new3").scan().to_arrow().num_rows == 5
    call(client, "drop_view", "public.new3")


def test_no_error_of_an_insert_names_a_hidden_column(served: Any) -> None:
    rules = policy("*.public.strict", hide=("salary",), allow=WRITES)
    table = served(rules).client("ada").table("public.strict")

    with pytest.raises(ConstraintError) as refused:
        table.insert(pa.table({"id": [1]}))

    assert str(refused.value) == "rows of public.strict need values of columns that you do not see"


def test_the_log_of_maintenance_has_no_sizes_of_restricted_tables(served: Any) -> None:
    callers = served(policy("*.public.secret", rows="region = 'eu'"), policy(who=BOB))

    def logged(user: str) -> set[str]:
        log = callers.client(user).table("lakeport.maintenance").scan().to_arrow()
        return set(log["table_name"].to_pylist())

    assert logged("ada") == set()
    assert logged("bob") == {"public.secret"}


def test_maintenance_is_for_those_who_may_maintain(served: Any) -> None:
    one = policy("*.public.mine", allow=("maintain",))
    every = policy("*.*.*", allow=("maintain",), who=BOB)
    callers = served(one, every)
    ada, bob = callers.client("ada"), callers.client("bob")

    for name in ("merge_files", "rewrite_files", "flush"):
        assert call(ada, name, "public.mine") == []
        with pytest.raises(PermissionDeniedError, match=r"may not maintain public\.secret"):
            call(ada, name, "public.secret")
    for name in ("maintain", "clean_up", "doctor", "advise"):
        call(bob, name)
        with pytest.raises(PermissionDeniedError, match="may not maintain this lake"):
            call(ada, name)
    for client in (ada, bob):
        with pytest.raises(LakeportError):
            client.table("public.mine").scan().to_arrow()
        with pytest.raises(PermissionDeniedError, match="may not alter"):
            call(client, "set_sorting", "public.mine", ["id"])


def test_reading_and_altering_of_one_table_are_not_maintaining_the_lake() -> None:
    for on, allow, expected in (
        ("lake.s.*", ("maintain",), False),
        ("lake.*.*", ("select", "alter"), False),
        ("lake.*.*", ("maintain",), True),
        ("*.*.*", ("maintain",), True),
        ("other.*.*", ("maintain",), False),
        ("lake.s.t", ("admin",), True),
    ):
        assert _maintains_lake(policy(on, allow=allow)) == expected, (on, allow)


def _maintains_lake(rule: Policy) -> bool:
    operation = Operation.MAINTAIN
    asked = AccessRequest(
        "ada", operation.kind, "lake", caller=CALLERS["ada"], verb=operation.value
    )
    return Policies([rule])(asked)

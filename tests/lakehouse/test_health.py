"""The functions for operators: findings, advice, the schedule, and what a scan reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakeport import Client, Server, connect
from lakeport.auth import (
    AccessRequest,
    Identity,
    Operation,
    Policies,
    Policy,
    PolicyExpression,
    Who,
)
from lakeport.ducklake import Lake
from lakeport.ducklake.maintenance import MaintenancePolicy
from lakeport.errors import InvalidInputError, NotFoundError, PermissionDeniedError
from lakeport.lakehouse import LakeCatalog, ScheduledMaintenance
from tests.wait import TIMEOUT_SECONDS

FILES = 12


def make_lake(folder: Path, days: int) -> str:
    """Make a lake with a table of small files, two for each day, with ranges of ids."""
    uri = f"ducklake:{folder / 'meta.ducklake'}"
    with Lake.create(uri, data_path=str(folder / "data")) as lake:
        lake.set_option("data_inlining_row_limit", 0)
        lake.create_table("t", {"day": "INTEGER", "id": "BIGINT"}, partition_by=["day"])
        with lake.transaction() as transaction:
            for file in range(2 * days):
                rows = [{"day": file // 2, "id": 10 * file + i} for i in range(10)]
                transaction.table("t").append(rows)
    return uri


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeCatalog]:
    uri = make_lake(tmp_path_factory.mktemp("health"), FILES // 2)
    with LakeCatalog(uri, engine="local", writable=True) as catalog:
        yield catalog


@pytest.fixture(autouse=True)
def unscheduled(catalog: LakeCatalog) -> None:
    catalog.schedule = None


@pytest.fixture(scope="module")
def client(catalog: LakeCatalog) -> Iterator[Client]:
    with (
        Server(catalog) as server,
        connect(server.location, timeout=TIMEOUT_SECONDS) as client,
    ):
        yield client


def called(client: Client, name: str, **arguments: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        client.call_table(f"lakeport.{name}", **arguments).to_arrow().to_pylist()
    )
    return rows


def test_advice_names_the_table_and_what_maintenance_gains(client: Client) -> None:
    [advice] = called(client, "advise")

    assert (advice["table_name"], advice["files"], advice["small_files"]) == ("public.t", 12, 12)
    assert advice["actions"][0].startswith("merge: 12 small files")


def test_the_doctor_finds_a_missing_file(client: Client, tmp_path: Path) -> None:
    assert [row for row in called(client, "doctor") if row["severity"] == "error"] == []
    with pytest.raises(InvalidInputError, match="sample"):
        called(client, "doctor", sample=-1)

    uri = make_lake(tmp_path, 1)
    next((tmp_path / "data").rglob("*.parquet")).unlink()
    with (
        LakeCatalog(uri, engine="local") as catalog,
        Server(catalog) as server,
        connect(server.location, timeout=TIMEOUT_SECONDS) as damaged,
    ):
        found = called(damaged, "doctor", sample=0)
    assert [(row["severity"], row["count"], len(row["examples"])) for row in found] == [
        ("error", 1, 1)
    ]


def test_the_schedule_has_the_thresholds_of_the_server(
    client: Client, catalog: LakeCatalog
) -> None:
    schedule = client.table("lakeport.schedule")
    assert schedule.scan().count() == 0

    policy = MaintenancePolicy(
        merge_files=99,
        expire_older_than="7 days",
        tables={"main.t": MaintenancePolicy(merge_files=5)},
    )
    catalog.schedule = ScheduledMaintenance(every=60.0, policy=policy)

    lake, table = schedule.scan().to_arrow().to_pylist()
    assert (lake["table_name"], lake["every_seconds"], lake["merge_files"]) == (None, 60.0, 99)
    assert lake["expire_older_than"] == "7 days"
    assert (table["table_name"], table["merge_files"]) == ("public.t", 5)


def test_maintenance_by_hand_has_the_thresholds_of_the_schedule(
    client: Client, catalog: LakeCatalog
) -> None:
    policy = MaintenancePolicy(merge_files=1000)
    catalog.schedule = ScheduledMaintenance(every=60.0, policy=policy)
    assert called(client, "maintain", dry_run=True) == []

    catalog.schedule = ScheduledMaintenance(every=60.0, policy=MaintenancePolicy(merge_files=2))
    [planned] = called(client, "maintain", dry_run=True)
    assert (planned["operation"], planned["files_replaced"]) == ("merge", FILES)


def test_only_who_may_maintain_sees_advice_findings_and_the_schedule(catalog: LakeCatalog) -> None:
    def reads_only(access: AccessRequest) -> bool:
        return access.operation is not Operation.ALTER

    catalog.schedule = ScheduledMaintenance(every=60.0, policy=MaintenancePolicy())
    with (
        Server(catalog, authorize=reads_only) as server,
        connect(server.location, timeout=TIMEOUT_SECONDS) as client,
    ):
        for name in ("advise", "doctor"):
            with pytest.raises(PermissionDeniedError, match="may not maintain this lake"):
                called(client, name)
        assert client.table("lakeport.schedule").scan().count() == 0


def test_the_list_of_queries_has_what_a_scan_reads_and_leaves_out(client: Client) -> None:
    table = client.table("public.t")
    assert table.scan(["id"], "day = 1 AND id < 25").to_arrow().num_rows == 5

    rows = client.table("lakeport.queries").scan().to_arrow().to_pylist()
    [scan] = [row for row in rows if row["table"] == "public.t" and row["filter"]]
    assert scan["engine"] == "local"
    assert scan["files"] == FILES
    assert scan["files_pruned_by_partition"] == FILES - 2
    assert scan["files_pruned_by_statistics"] == 1
    assert scan["tasks"] == 1
    assert scan["bytes_to_read"] > 0
    assert scan["progress"] == ""


class Rules(Policies):
    """Policies with a list of callers."""

    def callers(self) -> list[Identity]:
        return [Identity("ada", frozenset({"staff"})), Identity("bob"), Identity("eve")]


def test_administrators_see_what_others_may_do_and_who_reads_a_table(catalog: LakeCatalog) -> None:
    every, few = PolicyExpression("id < 5"), frozenset({"select"})
    rules = Rules(
        [
            Policy(Who(groups=frozenset({"staff"})), "*.*.*", frozenset({"select", "admin"})),
            Policy(Who(users=frozenset({"bob"})), "*.*.t", few, every, hide=frozenset({"day"})),
        ]
    )
    tokens = {
        "token-of-ada-0123456789": Identity("ada", frozenset({"staff"})),
        "token-of-bob-0123456789": Identity("bob"),
    }
    ada, bob = tokens
    with Server(catalog, auth=tokens, authorize=rules) as server:
        with connect(server.location, token=ada, timeout=TIMEOUT_SECONDS) as client:
            [of_bob] = client.call_table("lakeport.access_of", "bob").to_arrow().to_pylist()
            of_eve = client.call_table("lakeport.access_of", "eve").to_arrow()
            in_staff = client.call_table("lakeport.access_of", "eve", groups=["staff"]).to_arrow()
            readers = client.call_table("lakeport.readers", "public.t").to_arrow().to_pylist()
            with pytest.raises(NotFoundError, match="no table public"):
                client.call_table("lakeport.readers", "public.missing").to_arrow()
        assert (of_bob["permissions"], of_bob["columns"]) == (["select"], ["id"])
        assert "5" in of_bob["row_filter"]
        assert (of_eve.num_rows, in_staff.num_rows) == (0, 1)
        assert [(row["identity"], row["all_rows"]) for row in readers] == [
            ("ada", True),
            ("bob", False),
        ]
        with connect(server.location, token=bob, timeout=TIMEOUT_SECONDS) as client:
            [own] = client.table("lakeport.my_access").scan().to_arrow().to_pylist()
            assert "row_filter" not in own
            for name, argument in (("access_of", "ada"), ("readers", "public.t")):
                with pytest.raises(PermissionDeniedError, match="you see your own only"):
                    client.call_table(f"lakeport.{name}", argument).to_arrow()

"""The functions of the schema `lakeport` that maintain a lake."""

from __future__ import annotations

from typing import Any

import pytest

from lakeport import Client, Server, connect
from lakeport.auth import Operation
from lakeport.errors import InvalidInputError, PermissionDeniedError
from lakeport.lakehouse import LakeCatalog
from tests.lakehouse.writing.conftest import Write
from tests.wait import TIMEOUT_SECONDS

LIFE = (
    "CREATE TABLE t (id INTEGER)",
    *(f"INSERT INTO t SELECT i FROM range({n}, {n + 20}) r(i)" for n in (0, 20, 40)),
    "INSERT INTO t VALUES (100)",
    "DELETE FROM t WHERE id < 15",
)


def call(client: Client, name: str, *arguments: Any, **named: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        client.call_table(f"lakeport.{name}", *arguments, **named).to_arrow().to_pylist()
    )
    return rows


def test_a_client_maintains_a_lake(write: Write) -> None:
    here = write(*LIFE)
    [flushed] = call(here.client, "flush", "t")
    assert (flushed["operation"], flushed["table_name"], flushed["rows"]) == (
        "flush",
        "public.t",
        1,
    )
    [planned] = call(here.client, "merge_files", "public.t", dry_run=True)
    [merged] = call(here.client, "merge_files", "public.t")
    assert planned["files_replaced"] == merged["files_replaced"] == 3
    [rewritten] = call(here.client, "rewrite_files", "t", threshold=0.5)
    assert rewritten["deletes"] == 15
    assert call(here.client, "maintain") == []
    [expired] = call(here.client, "expire_snapshots", retain_last=1)
    assert expired["snapshots_expired"] == 9
    assert call(here.client, "clean_up") == []
    assert here.client.table("public.t").scan().count() == 46
    here.ours.check()
    with pytest.raises(InvalidInputError, match="NULL"):
        call(here.client, "flush", None)


def test_a_table_lists_the_newest_maintenance(write: Write) -> None:
    here = write(*LIFE, "CALL lake.set_option('rewrite_delete_threshold', 0.5)")
    table = here.client.table("lakeport.maintenance")
    assert table.scan().count() == 0
    [rewritten] = call(here.client, "maintain")
    [row] = table.scan().to_arrow().to_pylist()
    assert {name: row[name] for name in rewritten} == rewritten
    assert row["time"] is not None
    here.ours.check()


def test_maintenance_needs_the_right_to_alter(write: Write) -> None:
    here = write(*LIFE)

    def reads_only(access: Any) -> bool:
        return access.operation is not Operation.ALTER

    with (
        LakeCatalog(here.ours.uri, writable=True, engine="local") as catalog,
        Server(catalog, authorize=reads_only) as server,
        connect(server.location, timeout=TIMEOUT_SECONDS) as client,
    ):
        for name, arguments in (("maintain", ()), ("merge_files", ("t",)), ("clean_up", ())):
            with pytest.raises(PermissionDeniedError, match="may not maintain"):
                call(client, name, *arguments)

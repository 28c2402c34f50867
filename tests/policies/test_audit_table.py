"""The audit trail as a table of a lake: batched, bounded, and no burden for callers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeport.cli.access.audit import audit_trail
from lakeport.cli.access.server_access import AccessRules, ServerAccess
from lakeport.cli.config import LakeSettings, load_settings
from lakeport.ducklake import Lake
from lakeport.errors import DefinitionError, UnavailableError
from lakeport.observability import AuditTable, AuditTrail
from tests.policies.fixtures_policies import policy, serving, token_of
from tests.wait import wait_until

AT_ONCE = 0.01


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = f"ducklake:sqlite:{tmp_path}/meta.sqlite"
    Lake.create(uri, data_path=f"{tmp_path}/data/", engine="local").close()
    return uri


def events(uri: str, table: str = "events") -> list[dict[str, Any]]:
    with Lake.open(uri, engine="local") as lake:
        rows: list[dict[str, Any]] = lake.table(table, "audit").scan().to_arrow().to_pylist()
        return rows


def test_the_events_of_calls_are_rows_of_a_table(make_lake: Callable[..., Any]) -> None:
    lake = make_lake()
    lake.execute("CREATE TABLE orders AS SELECT i AS id, 'SECRET' || i AS card FROM range(20) r(i)")
    lake.detach()
    table = AuditTable(Lake.open(lake.uri, engine="local"), "audit.events", seconds=AT_ONCE)
    trail = AuditTrail(None, table=table)

    with serving(lake, policy("*.public.orders", rows="id < 7"), observer=trail) as served:
        client = served.client("ada")
        client.table("public.orders").scan(["id"], filter="card <> 'SECRET3'").to_arrow()
    trail.close()
    found = events(lake.uri)

    (scan,) = [event for event in found if event["event"] == "scan"]
    assert (scan["user"], scan["table"], scan["status"]) == ("ada", "public.orders", "OK")
    assert "id" in scan["columns"]
    assert scan["snapshot"]
    assert scan["time"].tzinfo is not None
    assert "SECRET" not in repr(found)
    assert token_of("ada") not in repr(found)
    # The writes of the trail are not calls.
    assert not any(event["event"] == "write" for event in found)


def test_events_that_wait_are_one_snapshot(uri: str) -> None:
    trail = AuditTrail(None, table=AuditTable(Lake.open(uri), "audit.events", seconds=3600))
    with Lake.open(uri) as lake:
        before = lake.snapshot().id
        for number in range(500):
            trail.record("scan", user="ada", rows=number, policies=3)
        trail.close()

        assert lake.snapshot().id == before + 1
    found = events(uri)
    assert [event["rows"] for event in found] == list(range(500))
    assert found[0]["more"] == '{"policies": 3}'


def test_a_table_that_exists_is_continued(uri: str) -> None:
    for _ in range(2):
        trail = AuditTrail(None, table=AuditTable(Lake.open(uri), "audit.events", seconds=AT_ONCE))
        trail.record("scan", user="ada")
        trail.close()

    assert len(events(uri)) == 2


def test_more_events_than_may_wait_are_counted_and_block_no_caller(
    uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = AuditTable(Lake.open(uri), "audit.events", seconds=3600, max_events=3)
    for _ in range(10):
        table.add({"event": "scan"})
    was_failing = table.is_failing
    table.close()
    found = events(uri)

    assert was_failing
    assert caplog.text.count("events are lost") == 1
    assert [event["event"] for event in found] == ["gap", "scan", "scan", "scan"]
    assert found[0]["events_lost"] == 7


def test_a_lake_that_cannot_be_written_is_reported_once_and_written_later(
    uri: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake.open(uri)
    table = AuditTable(lake, "audit.events", seconds=AT_ONCE)
    trail = AuditTrail(None, table=table)
    attempts, works = [], threading.Event()
    find = lake.table

    def failing(*arguments: Any, **options: Any) -> Any:
        attempts.append(arguments)
        if not works.is_set():
            raise UnavailableError("the disk is full")
        return find(*arguments, **options)

    monkeypatch.setattr(lake, "table", failing)
    trail.record("scan", user="ada")
    assert wait_until(lambda: len(attempts) > 2)

    rules = AccessRules.of(load_settings(), {})
    assert trail.is_failing
    assert ServerAccess(rules, required_trail=trail).requires_trail
    assert caplog.text.count("the audit table cannot be written: the disk is full") == 1
    works.set()
    assert wait_until(lambda: not trail.is_failing)
    trail.close()
    assert [event["user"] for event in events(uri)] == ["ada"]


def test_a_table_of_other_columns_is_an_error_at_the_start(uri: str) -> None:
    with Lake.open(uri) as lake:
        lake.create_schema("audit")
        lake.create_table("events", pa.schema([("x", pa.int64())]), "audit")
        with pytest.raises(DefinitionError, match="it has no column"):
            AuditTable(lake, "audit.events")
        with pytest.raises(DefinitionError, match=r"is schema\.table"):
            AuditTable(lake, "events")


def test_the_configuration_names_a_lake_of_the_server(uri: str, tmp_path: Path) -> None:
    file = tmp_path / "lakeport.toml"
    file.write_text('[audit]\ntable = "ops.audit.events"\ntable_seconds = 0.01\n')
    settings = load_settings(file).audit

    with pytest.raises(DefinitionError, match="'ops', which is no lake here"):
        audit_trail(settings, {})
    trail = audit_trail(settings, {"ops": LakeSettings(uri=uri, name="ops")})
    assert trail is not None
    trail.record("policy_reload", policies=1)
    trail.close()

    assert [event["event"] for event in events(uri)] == ["policy_reload"]

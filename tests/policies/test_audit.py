"""The audit trail: which events there are, what they never hold, and a disk that is full."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeport.auth import AccessRequest, Operation
from lakeport.cli.access.server_access import AccessRules, ServerAccess
from lakeport.cli.config import load_settings
from lakeport.errors import DefinitionError, PermissionDeniedError, UnavailableError
from lakeport.observability import AuditTrail
from tests.policies.fixtures_policies import policy, serving, token_of


def events(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_every_attach_scan_and_refusal_is_an_event_without_values(
    make_lake: Callable[..., Any], tmp_path: Path
) -> None:
    lake = make_lake()
    lake.execute("CREATE TABLE orders AS SELECT i AS id, 'SECRET' || i AS card FROM range(20) r(i)")
    file = tmp_path / "audit.jsonl"
    trail = AuditTrail(file)

    with serving(lake, policy("*.public.orders", rows="id < 7"), observer=trail) as served:
        client = served.client("ada")
        scanned = client.table("public.orders").scan(["id"], filter="card <> 'SECRET3'")
        assert scanned.to_arrow().num_rows == 6
        with pytest.raises(PermissionDeniedError):
            served.client("eve").schemas()
    trail.close()

    found = events(file)
    kinds = {event["event"] for event in found}
    assert {"attach", "statement", "scan", "refusal"} <= kinds
    (scan,) = [event for event in found if event["event"] == "scan"]
    assert scan["user"] == "ada"
    assert scan["table"] == "public.orders"
    assert "id" in scan["columns"]
    assert "?" in scan["filter"]
    assert scan["rows"] == 7 or scan["rows"] == 6
    assert scan["snapshot"]
    (refusal, *_) = [event for event in found if event["event"] == "refusal"]
    assert refusal["user"] == "eve"
    assert refusal["status"] == "PERMISSION_DENIED"
    text = file.read_text()
    assert "SECRET" not in text
    assert not any(token_of(user) in text for user in ("ada", "eve"))
    assert file.stat().st_mode & 0o077 == 0


def test_a_full_disk_is_reported_once_and_ends_no_call(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    trail = AuditTrail("/dev/full")

    for _ in range(3):
        trail.record("scan", user="ada")

    was_failing = trail.is_failing
    assert was_failing
    assert caplog.text.count("events are lost") == 1
    file = tmp_path / "audit.jsonl"
    assert trail._descriptor is not None
    os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND), trail._descriptor)
    trail.record("scan", user="ada")
    assert not trail.is_failing
    trail.close()
    assert [event["event"] for event in events(file)] == ["gap", "scan"]
    assert events(file)[0]["events_lost"] == 3


def test_changes_are_refused_without_a_trail_if_it_is_required() -> None:
    trail = AuditTrail("/dev/full")
    rules = AccessRules.of(load_settings(), {})
    access, relaxed = ServerAccess(rules, required_trail=trail), ServerAccess(rules)
    trail.record("scan")

    for operation in (Operation.WRITE, Operation.ALTER):
        with pytest.raises(UnavailableError, match="audit trail"):
            access(AccessRequest("ada", operation, "lake", "s", "t"))
        assert relaxed(AccessRequest("ada", operation, "lake", "s", "t"))
    assert access(AccessRequest("ada", Operation.READ, "lake", "s", "t"))
    trail.close()


def test_a_file_that_cannot_be_written_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="cannot be written"):
        AuditTrail(tmp_path / "no such folder" / "audit.jsonl")

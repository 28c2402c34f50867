"""What operators see and start: findings, advice, the schedule, past runs, maintenance.

Like `facts`: every function takes a client of the server and blocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from lakeport._wording import counted, size_text
from lakeport.airport.client import Client
from lakeport.console.facts import FUNCTIONS, is_lake
from lakeport.errors import NotFoundError

__all__ = [
    "EXAMINED_FILES",
    "Outcome",
    "Verdict",
    "advice",
    "can_maintain",
    "cancel_call",
    "cancel_scans",
    "file_count",
    "findings",
    "health_in_a_line",
    "health_key",
    "maintain",
    "newest_snapshot",
    "past_runs",
    "running_maintenance",
    "schedule",
    "verdict",
]

EXAMINED_FILES: Final = 2000
"""The doctor looks at lakes with at most so many files without being asked: it takes a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one operation of maintenance has done, or would do."""

    time: datetime | None
    operation: str
    table: str
    done: str
    skipped: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the doctor has found, in a line."""

    snapshot: int
    time: datetime
    worst: str
    """The worst severity, empty without a finding."""
    line: str


def can_maintain(client: Client) -> bool:
    """Return whether the server has the functions that change a lake: not if it is read-only."""
    rows = client.table(f"{FUNCTIONS}.functions").scan(["function_name"]).to_arrow()
    return "maintain" in rows["function_name"].to_pylist()


def findings(client: Client, *, deep: bool = False, sample: int = 20) -> list[dict[str, Any]]:
    """Return what the doctor finds, the worst first."""
    called = client.call_table(f"{FUNCTIONS}.doctor", deep=deep, sample=sample)
    rows: list[dict[str, Any]] = called.to_arrow().to_pylist()
    return rows


def health_key(lake: str) -> tuple[str, str]:
    """Return the key by which the last verdict about a lake is remembered."""
    return "health", lake


def health_in_a_line(found: Sequence[dict[str, Any]]) -> tuple[str, str]:
    """Return the worst severity of findings, empty without one, and how many there are."""
    counts = Counter(row["severity"] for row in found)
    worst = next((each for each in ("error", "warning", "note") if counts[each]), "")
    if worst in ("", "note"):
        return worst, "healthy"
    shown = [counted(counts[each], each) for each in ("error", "warning") if counts[each]]
    return worst, f"the doctor found {' and '.join(shown)}"


def newest_snapshot(client: Client) -> int:
    """Return the newest snapshot; -1 if there is none."""
    rows = client.table(f"{FUNCTIONS}.snapshots").scan(["snapshot_id"]).to_arrow()
    return -1 if not rows.num_rows else int(rows["snapshot_id"][-1].as_py())


def verdict(found: Sequence[dict[str, Any]], snapshot: int) -> Verdict:
    """Return the findings of now in a line."""
    worst, line = health_in_a_line(found)
    return Verdict(snapshot=snapshot, time=datetime.now(UTC), worst=worst, line=line)


def file_count(client: Client) -> int:
    """Return how many files the tables have of which the caller sees everything."""
    rows = client.call_table(f"{FUNCTIONS}.table_info").select("file_count").to_arrow()
    return sum(count or 0 for count in rows["file_count"].to_pylist())


def advice(client: Client) -> list[dict[str, Any]]:
    """Return what maintenance would gain, for the lake and for each table that needs some."""
    rows = client.call_table(f"{FUNCTIONS}.advise").to_arrow().to_pylist()
    return [row for row in rows if row["actions"]]


def schedule(client: Client) -> list[dict[str, Any]]:
    """Return how the server maintains the lake by itself: for the lake, then for some tables."""
    rows: list[dict[str, Any]] = client.table(f"{FUNCTIONS}.schedule").scan().to_arrow().to_pylist()
    return rows


def past_runs(client: Client) -> list[Outcome]:
    """Return the newest operations, the newest first."""
    rows = client.table(f"{FUNCTIONS}.maintenance").scan().to_arrow().to_pylist()
    return [_outcome(row) for row in reversed(rows)]


def maintain(client: Client, *, dry_run: bool) -> list[Outcome]:
    """Do the maintenance whose thresholds are reached, or plan it."""
    called = client.call_table(f"{FUNCTIONS}.maintain", dry_run=dry_run)
    return [_outcome(row) for row in called.to_arrow().to_pylist()]


def running_maintenance(client: Client) -> tuple[str, str] | None:
    """Return id and progress of the maintenance that a caller runs; None if there is none."""
    rows = client.table(f"{FUNCTIONS}.queries").scan().to_arrow().to_pylist()
    for row in rows:
        if row["state"] == "RUNNING" and row["table"] == f"{FUNCTIONS}.maintain":
            return str(row["id"]), str(row["progress"])
    return None


def cancel_call(client: Client, id: str) -> bool:
    """End a call that was running a moment ago; return False if it has ended meanwhile."""
    try:
        return bool(client.call_table(f"{FUNCTIONS}.kill", id).to_arrow().num_rows)
    except NotFoundError:
        return False


def cancel_scans(client: Client, trace_id: str) -> None:
    """End the running scans with a trace id, those that wait for their turn too."""
    if not is_lake(client):
        return
    rows = client.table(f"{FUNCTIONS}.queries").scan(["id", "state", "trace_id"]).to_arrow()
    for row in rows.to_pylist():
        if row["state"] == "RUNNING" and row["trace_id"] == trace_id:
            cancel_call(client, row["id"])


def _outcome(row: dict[str, Any]) -> Outcome:
    return Outcome(
        time=row.get("time"),
        operation=row["operation"].replace("_", " "),
        table=row["table_name"] or "",
        done=_done(row),
        skipped=tuple(row["skipped"] or ()),
    )


def _done(row: dict[str, Any]) -> str:
    """Return the numbers of an operation in a line."""
    parts = []
    replaced, written = row["files_replaced"], row["files_written"]
    if replaced and written:
        sizes = f"{size_text(row['bytes_replaced'])} → {size_text(row['bytes_written'])}"
        parts.append(f"{counted(replaced, 'file')} → {written:,} ({sizes})")
    elif replaced:
        parts.append(f"{counted(replaced, 'file')} ({size_text(row['bytes_replaced'])})")
    elif written:
        parts.append(f"{counted(written, 'new file')}")
    for name, noun in (
        ("rows", "row"),
        ("deletes", "deleted row"),
        ("snapshots_expired", "snapshot"),
    ):
        if row[name]:
            parts.append(counted(row[name], noun))
    return ", ".join(parts)

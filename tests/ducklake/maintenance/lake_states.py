"""What a lake holds at each snapshot, as the reference and ours read it, to compare before and after."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.fixtures_lakes import RealLake

__all__ = ["LakeState", "our_feed", "read_state"]

LakeState = dict[str, Any]


def read_state(
    lake: RealLake, snapshots: Iterable[int] | None = None, *, table: str = "t", feed: bool = True
) -> LakeState:
    """Return rows, counts and change feed of a table by the reference.

    With snapshots, which is after the maintenance, ours must read the same.
    """
    wanted = [s for s in lake.snapshots() if s > 0] if snapshots is None else list(snapshots)
    if snapshots is not None:
        lake.check(snapshots=wanted)
    state: LakeState = {}
    for snapshot in wanted:
        at = f"{table} AT (VERSION => {snapshot})"
        rows = lake.query(f"SELECT rowid, snapshot_id, * FROM {at}")
        state[f"rows at {snapshot}"] = sorted(rows, key=repr)
        state[f"count at {snapshot}"] = lake.query(f"SELECT count(*) FROM {at}")
    if feed and wanted:
        state["feed"] = _feed(lake, table, wanted[0], wanted[-1], is_checked=snapshots is not None)
    lake.detach()
    return state


def _feed(lake: RealLake, table: str, first: int, last: int, *, is_checked: bool) -> Any:
    with lake.on_one_thread():
        theirs = lake.query(
            f"SELECT * FROM ducklake_table_changes('lake', 'main', '{table}', {first}, {last})"
        )
    if is_checked:
        assert [row[:3] for row in our_feed(lake, table, first, last)] == sorted(
            r[:3] for r in theirs
        )
    return sorted(theirs, key=repr)


def our_feed(lake: RealLake, table: str, first: int, last: int) -> list[tuple[Any, ...]]:
    """Return the change feed of a table as ours reads it, in the columns of the reference."""
    with lake.open() as ours:
        feed = ours.table(table, version=last).changes(first, last).to_arrow()
    rows = zip(*(feed[name].to_pylist() for name in feed.column_names), strict=True)
    return sorted(rows, key=lambda row: (*row[:3], repr(row)))

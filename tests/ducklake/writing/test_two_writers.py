"""A transaction of the reference is open while we commit: the result is that of some serial order."""

from __future__ import annotations

from typing import Any

import duckdb

from lakeport import Lake
from lakeport.errors import NotFoundError
from tests.fixtures_lakes import LakeMaker, RealLake

# What each does, as SQL for the reference; our calls are in `change`.
CHANGES = {
    "append": "INSERT INTO {t} SELECT 1000 + i, 0 FROM range(20) r(i)",
    "delete": "DELETE FROM {t} WHERE id BETWEEN 20 AND 34",
    "delete_same_file": "DELETE FROM {t} WHERE id BETWEEN 36 AND 49",
    "delete_other_file": "DELETE FROM {t} WHERE id BETWEEN 120 AND 134",
    "update": "UPDATE {t} SET v = v + 1 WHERE id BETWEEN 20 AND 34",
    "delete_all": "DELETE FROM {t}",
    "add_column": "ALTER TABLE {t} ADD COLUMN n INTEGER",
    "drop": "DROP TABLE {t}",
}


def change(lake: Lake, name: str, what: str) -> None:
    table = lake.table(name)
    match what:
        case "append":
            table.append([{"id": 1000 + i, "v": 0} for i in range(20)])
        case "delete" | "delete_same_file" | "delete_other_file":
            table.delete(CHANGES[what].partition("WHERE ")[2])
        case "update":
            table.update({"v": "v + 1"}, "id BETWEEN 20 AND 34")
        case "delete_all":
            table.delete()
        case "add_column":
            table.add_column("n", "INTEGER")
        case "drop":
            lake.drop_table(name)


DELETES = ("delete", "delete_same_file", "update")
PAIRS = [
    *((False, a, b) for a in ("append", "delete", "update", "add_column", "drop") for b in CHANGES),
    *((True, a, b) for a in DELETES for b in (*DELETES, "delete_other_file", "delete_all")),
]


def test_the_result_is_that_of_a_serial_order(make_lake: LakeMaker) -> None:
    """Both files of the table have delete files, or none, before the two transactions begin."""
    wrong = []
    real = make_lake("postgresql")
    Lake.create(real.uri, data_path=real.data_path).close()
    real.execute("CALL ducklake_set_option('lake', 'data_inlining_row_limit', 0)")
    lake = Lake.open(real.uri)
    for number, (has_deletes, theirs, ours) in enumerate(PAIRS):
        name = f"t{number}"
        real.execute(
            f"CREATE TABLE {name}(id INTEGER, v INTEGER)",
            f"INSERT INTO {name} SELECT i, 0 FROM range(100) r(i)",
            f"INSERT INTO {name} SELECT i, 0 FROM range(100, 200) r(i)",
        )
        if has_deletes:
            real.execute(f"DELETE FROM {name} WHERE id % 100 < 12")
        real.execute("BEGIN", CHANGES[theirs].format(t=name))
        change(lake, name, ours)
        try:
            real.execute("COMMIT")
            is_committed = True
        except duckdb.Error:
            is_committed = False
        start = [(i, 0) for i in range(200) if not (has_deletes and i % 100 < 12)]
        orders = [(ours, theirs), (theirs, ours)] if is_committed else [(ours,)]
        found = outcome(real, lake, name)
        if found not in [serial(start, order) for order in orders]:
            wrong.append((has_deletes, theirs, ours, is_committed, len(found or ())))
    lake.close()

    assert wrong == []


def serial(rows: list[tuple[int, int]], order: tuple[str, ...]) -> list[tuple[int, int]] | None:
    """Return the rows after changes one after the other; None if the table was dropped."""
    result = list(rows)
    for what in order:
        ranges = {"delete_same_file": (36, 49), "delete_other_file": (120, 134)}
        low, high = ranges.get(what, (20, 34))
        match what:
            case "append":
                result += [(1000 + i, 0) for i in range(20)]
            case "delete" | "delete_same_file" | "delete_other_file":
                result = [(k, v) for k, v in result if not low <= k <= high]
            case "update":
                result = [(k, v + 1 if low <= k <= high else v) for k, v in result]
            case "delete_all":
                result = []
            case "drop":
                return None
    return sorted(result)


def outcome(real: RealLake, lake: Lake, name: str) -> Any:
    """Return the rows as both read them; the counts of the reference are those of its scans."""
    try:
        found = lake.table(name).scan(["id", "v"]).to_arrow().to_pylist()
    except NotFoundError:
        return None
    rows = sorted((row["id"], row["v"]) for row in found)
    scanned, counted = (
        real.query(f"SELECT id, v FROM {name}"),
        real.query(f"SELECT count(*) FROM {name}"),
    )
    return rows if sorted(scanned) == rows and counted == [(len(rows),)] else [*scanned, counted]

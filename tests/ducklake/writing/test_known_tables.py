"""An append uses the definition that was read before, and only as long as it is right."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from lakeport import Lake
from lakeport.errors import ConflictError, NotFoundError


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    uri = f"ducklake:sqlite:{tmp_path}/meta.sqlite"
    with Lake.create(uri, data_path=f"{tmp_path}/data/") as created:
        created.create_table("t", {"i": "INTEGER"}).append([{"i": 1}])
        yield created


@pytest.fixture
def other(lake: Lake, tmp_path: Path) -> Iterator[Lake]:
    """The lake, opened by somebody else."""
    with Lake.open(f"ducklake:sqlite:{tmp_path}/meta.sqlite") as opened:
        yield opened


def rows(lake: Lake, name: str = "t") -> list[dict[str, Any]]:
    return sorted(lake.table(name).scan().to_arrow().to_pylist(), key=repr)


@pytest.mark.parametrize("has_base", [False, True])
def test_an_append_does_not_read_the_columns_again(lake: Lake, has_base: bool) -> None:
    table = lake.table("t")
    table.append([{"i": 2}])
    base = lake.snapshot().id if has_base else None
    sent: list[str] = []

    def record(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        sent.append(statement)

    sa.event.listen(lake.catalog.database.engine, "before_cursor_execute", record)
    with lake.transaction(version=base) as transaction:
        transaction.table("t").append([{"i": 3}])

    assert [statement for statement in sent if "ducklake_snapshot" in statement]
    assert not [statement for statement in sent if "ducklake_column" in statement]
    assert rows(lake) == [{"i": 1}, {"i": 2}, {"i": 3}]


def test_a_transaction_with_an_older_base_has_the_columns_of_then(lake: Lake, other: Lake) -> None:
    lake.table("t").append([{"i": 2}])
    base = lake.snapshot().id
    other.table("t").append([{"i": 3}])
    lake.table("t").append([{"i": 4}])

    with lake.transaction(version=base) as transaction:
        transaction.table("t").append([{"i": 5}])

    assert [row["i"] for row in rows(lake)] == [1, 2, 3, 4, 5]
    other.table("t").add_column("s", "VARCHAR")
    with pytest.raises(ConflictError), lake.transaction(version=base) as transaction:
        transaction.table("t").append([{"i": 6}])


def test_columns_that_somebody_else_has_changed_are_read(lake: Lake, other: Lake) -> None:
    table = lake.table("t")
    table.append([{"i": 2}])
    other.table("t").add_column("s", "VARCHAR", default="new")
    table.append([{"i": 3}])
    other.table("t").rename_column("i", "j")
    table.append([{"j": 4, "s": "x"}] * 20)

    assert rows(lake)[:4] == [
        {"j": 1, "s": "new"},
        {"j": 2, "s": "new"},
        {"j": 3, "s": "new"},
        {"j": 4, "s": "x"},
    ]
    assert len(rows(other)) == 23


def test_a_table_that_was_replaced_or_dropped_is_noticed(lake: Lake, other: Lake) -> None:
    table = lake.table("t")
    table.append([{"i": 2}])
    other.create_table("t", {"k": "INTEGER"}, or_replace=True)
    with pytest.raises(ConflictError, match="another table"):
        table.append([{"i": 3}])
    lake.table("t").append([{"k": 1}])
    other.drop_table("t")
    with pytest.raises(NotFoundError):
        lake.table("t").append([{"k": 1}])


def test_options_that_somebody_else_has_set_are_read(lake: Lake, other: Lake) -> None:
    table = lake.table("t")
    table.append([{"i": 2}])
    other.set_option("data_inlining_row_limit", 0)

    assert table.append([{"i": 3}]).files_added == 1


def test_changes_of_rows_see_what_was_committed_since(lake: Lake, other: Lake) -> None:
    table = lake.table("t")
    table.append([{"i": 2}])
    other.table("t").append([{"i": number} for number in range(3, 30)])

    assert table.delete("i > 1").rows_deleted == 28
    assert rows(lake) == [{"i": 1}]


def test_a_restored_copy_of_the_catalog_is_noticed(lake: Lake, tmp_path: Path, other: Lake) -> None:
    catalog, copy = tmp_path / "meta.sqlite", tmp_path / "copy.sqlite"
    shutil.copy(catalog, copy)
    lake.table("t").add_column("s", "VARCHAR")
    lake.table("t").append([{"i": 2, "s": "x"}])
    before = lake.snapshot()
    shutil.copy(copy, catalog)
    # The schema version is the same again, and snapshots have the same ids.
    other.table("t").rename_column("i", "j")
    other.table("t").append([{"j": 2}])
    other.table("t").append([{"j": 3}])

    assert lake.snapshot().id > before.id
    assert lake.snapshot().schema_version == before.schema_version
    lake.table("t").append([{"j": 4}])

    assert rows(lake) == [{"j": 1}, {"j": 2}, {"j": 3}, {"j": 4}]

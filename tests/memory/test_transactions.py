"""Transactions: one snapshot plus their own changes, private until committed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakeport.catalog import (
    AddColumnOptions,
    CreateSchemaOptions,
    CreateTableOptions,
    DropSchemaOptions,
    DropTableOptions,
    RenameTableOptions,
    ScanOptions,
    SetDefaultOptions,
    TransactionState,
)
from lakeport.errors import (
    AlreadyExistsError,
    ConstraintError,
    InvalidInputError,
    NotFoundError,
    UnavailableError,
)
from tests.memory.fixtures_catalog import (
    PEOPLE,
    Workbench,
    at_version,
    delete,
    ids,
    insert,
    read,
    returning,
    rowids,
    update,
)

AGE = pa.schema([("age", pa.int32())])


def test_a_transaction_sees_its_own_changes_and_nobody_else_does(memory_catalog: Workbench) -> None:
    table = memory_catalog.people()
    mine = memory_catalog.catalog.begin_transaction()
    with memory_catalog.within(mine):
        insert(table, [{"id": 4}])
        update(table, [0], id=[10])
        delete(table, 1)
        assert ids(table) == [3, 4, 10]
    assert ids(table) == [1, 2, 3]
    memory_catalog.catalog.commit_transaction(mine)
    assert ids(table) == [3, 4, 10]


def test_a_transaction_sees_one_snapshot(memory_catalog: Workbench) -> None:
    table = memory_catalog.people()
    other = memory_catalog.create(name="other")
    mine = memory_catalog.catalog.begin_transaction()
    insert(table, [{"id": 4}])
    insert(other, [{"id": 1}])
    with memory_catalog.within(mine):
        assert ids(table) == [1, 2, 3]
        assert ids(other) == []
        assert table.size(ScanOptions()).rows == 3
    assert ids(table) == [1, 2, 3, 4]


def test_a_rolled_back_transaction_leaves_nothing(memory_catalog: Workbench) -> None:
    table = memory_catalog.people()
    mine = memory_catalog.catalog.begin_transaction()
    with memory_catalog.within(mine):
        insert(table, [{"id": 4}])
    memory_catalog.catalog.rollback_transaction(mine)
    assert ids(table) == [1, 2, 3]
    assert memory_catalog.catalog.transaction_status(mine) is TransactionState.ABORTED
    with memory_catalog.within(mine):
        assert ids(table) == [1, 2, 3]
        with pytest.raises(InvalidInputError, match="rolled back"):
            insert(table, [{"id": 5}])
    with pytest.raises(InvalidInputError, match="rolled back"):
        memory_catalog.catalog.commit_transaction(mine)
    assert len(table.versions()) == 2


def test_the_state_of_a_transaction_is_told(memory_catalog: Workbench) -> None:
    catalog = memory_catalog.catalog
    mine = catalog.begin_transaction()
    assert catalog.transaction_status(mine) is TransactionState.ACTIVE
    catalog.commit_transaction(mine)
    assert catalog.transaction_status(mine) is TransactionState.COMMITTED
    catalog.rollback_transaction(mine)
    assert catalog.transaction_status(mine) is TransactionState.COMMITTED
    assert catalog.transaction_status("unknown") is None


def test_an_unknown_transaction_reads_what_is_committed_and_writes_at_once(
    memory_catalog: Workbench,
) -> None:
    table = memory_catalog.people()
    with memory_catalog.within("never begun"):
        insert(table, [{"id": 4}])
        assert ids(table) == [1, 2, 3, 4]
    memory_catalog.catalog.commit_transaction("never begun")
    memory_catalog.catalog.rollback_transaction("never begun")
    assert ids(table) == [1, 2, 3, 4]


def test_a_transaction_goes_on_after_a_commit(memory_catalog: Workbench) -> None:
    table = memory_catalog.people()
    mine = memory_catalog.catalog.begin_transaction()
    with memory_catalog.within(mine):
        insert(table, [{"id": 4}])
    memory_catalog.catalog.commit_transaction(mine)
    insert(table, [{"id": 100}])
    with memory_catalog.within(mine):
        # Its own change is there, what others did since is not.
        assert ids(table) == [1, 2, 3, 4]
        update(table, [rowids(table)[4]], id=[40])
        insert(table, [{"id": 5}])
    assert ids(table) == [1, 2, 3, 4, 100]
    memory_catalog.catalog.commit_transaction(mine)
    assert ids(table) == [1, 2, 3, 5, 40, 100]
    with memory_catalog.within(mine):
        assert ids(table) == [1, 2, 3, 5, 40]
    memory_catalog.catalog.commit_transaction(mine)
    assert ids(table) == [1, 2, 3, 5, 40, 100]


def test_the_inserts_of_two_transactions_are_merged(memory_catalog: Workbench) -> None:
    table = memory_catalog.create()
    one, two = (
        memory_catalog.catalog.begin_transaction(),
        memory_catalog.catalog.begin_transaction(),
    )
    for number in range(10):
        with memory_catalog.within(one):
            insert(table, [{"id": number}])
        with memory_catalog.within(two):
            insert(table, [{"id": 100 + number}])
    memory_catalog.catalog.commit_transaction(two)
    memory_catalog.catalog.commit_transaction(one)
    assert ids(table) == [*range(10), *range(100, 110)]
    where = rowids(table)
    assert len(set(where.values())) == 20
    assert delete(table, *(where[number] for number in range(100, 110))) == 10
    assert ids(table) == list(range(10))


@pytest.mark.parametrize("action", ["update", "delete"])
@pytest.mark.parametrize("other", ["update", "delete"])
def test_the_first_to_commit_wins_a_row(memory_catalog: Workbench, action: str, other: str) -> None:
    table = memory_catalog.people()
    one, two = (
        memory_catalog.catalog.begin_transaction(),
        memory_catalog.catalog.begin_transaction(),
    )
    for transaction, what in ((one, action), (two, other)):
        with memory_catalog.within(transaction):
            if what == "update":
                update(table, [1], name=[transaction])
            else:
                delete(table, 1)
    memory_catalog.catalog.commit_transaction(one)
    after_one = read(table)
    with pytest.raises(UnavailableError, match=r"s\.t .* another transaction; try again"):
        memory_catalog.catalog.commit_transaction(two)
    assert read(table) == after_one
    assert memory_catalog.catalog.transaction_status(two) is TransactionState.ABORTED


def test_changes_of_different_rows_do_not_conflict(memory_catalog: Workbench) -> None:
    table = memory_catalog.people(5)
    one, two = (
        memory_catalog.catalog.begin_transaction(),
        memory_catalog.catalog.begin_transaction(),
    )
    with memory_catalog.within(one):
        update(table, [0], id=[10])
        delete(table, 1)
    with memory_catalog.within(two):
        update(table, [2], id=[30])
        delete(table, 3)
        insert(table, [{"id": 6}])
    memory_catalog.catalog.commit_transaction(one)
    memory_catalog.catalog.commit_transaction(two)
    assert ids(table) == [5, 6, 10, 30]
    with memory_catalog.within(two):
        assert ids(table) == [1, 2, 5, 6, 30]


def test_a_row_that_another_wrote_back_is_still_a_conflict(memory_catalog: Workbench) -> None:
    table = memory_catalog.people(2)
    mine = memory_catalog.catalog.begin_transaction()
    with memory_catalog.within(mine):
        update(table, [0], name=["mine"])
    update(table, [0], name=["p1"])
    with pytest.raises(UnavailableError):
        memory_catalog.catalog.commit_transaction(mine)


def test_keys_are_checked_again_at_commit(memory_catalog: Workbench) -> None:
    table = memory_catalog.people(primary_key=("id",))
    mine = memory_catalog.catalog.begin_transaction()
    with memory_catalog.within(mine):
        insert(table, [{"id": 4}])
    insert(table, [{"id": 4}])
    with pytest.raises(ConstraintError, match="id = 4"):
        memory_catalog.catalog.commit_transaction(mine)
    assert ids(table) == [1, 2, 3, 4]


def test_a_statement_that_fails_leaves_the_others_of_its_transaction(
    memory_catalog: Workbench,
) -> None:
    table = memory_catalog.people(primary_key=("id",))
    mine = memory_catalog.catalog.begin_transaction()
    with memory_catalog.within(mine):
        insert(table, [{"id": 4}])
        with pytest.raises(ConstraintError):
            insert(table, [{"id": 5}, {"id": 4}])
        assert ids(table) == [1, 2, 3, 4]
    memory_catalog.catalog.commit_transaction(mine)
    assert ids(table) == [1, 2, 3, 4]


def test_a_transaction_is_one_version_of_each_table(memory_catalog: Workbench) -> None:
    table, other = memory_catalog.people(), memory_catalog.create(name="other")
    mine = memory_catalog.catalog.begin_transaction()
    with memory_catalog.within(mine):
        insert(table, [{"id": 4}])
        insert(table, [{"id": 5}])
        insert(other, [{"id": 1}])
    memory_catalog.catalog.commit_transaction(mine)
    assert [version.rows.count for version in table.versions()] == [0, 3, 5]
    assert table.versions()[-1].committed == other.versions()[-1].committed


def test_the_past_is_the_same_in_every_transaction(memory_catalog: Workbench) -> None:
    table = memory_catalog.people()
    mine = memory_catalog.catalog.begin_transaction()
    insert(table, [{"id": 4}])
    with memory_catalog.within(mine):
        assert ids(table, time_point=at_version(3)) == [1, 2, 3, 4]
        insert(table, [{"id": 5}])
        with pytest.raises(NotFoundError):
            read(table, time_point=at_version(4))


def test_rows_of_a_transaction_are_returned_and_scanned_in_one_part(
    memory_catalog: Workbench,
) -> None:
    table = memory_catalog.people()
    options, emitted = returning()
    mine = memory_catalog.catalog.begin_transaction()
    with memory_catalog.within(mine):
        insert(table, pa.table({"id": range(300_000)}))
        assert len(table.endpoints(ScanOptions())) == 1
        rows = pa.table({"rowid": [1, 5]})
        assert table.delete_rows(rows.to_reader(), options).affected_rows == 2
    assert [row["id"] for row in emitted[0].to_pylist()] == [2, 2]


def test_ddl_of_a_transaction_is_private_until_committed(memory_catalog: Workbench) -> None:
    memory_catalog.people()
    memory_catalog.create(name="gone")
    catalog = memory_catalog.catalog
    before = catalog.catalog_version()
    mine = catalog.begin_transaction()
    with memory_catalog.within(mine):
        catalog.create_schema("new", CreateSchemaOptions())
        schema = catalog.schema("new")
        assert schema is not None
        created = schema.create_table("x", PEOPLE, CreateTableOptions())
        insert(created, [{"id": 1}])
        memory_catalog.table().add_column(AGE, AddColumnOptions())
        insert(memory_catalog.table(), [{"id": 4, "age": 40}])
        memory_catalog.schema.drop_table("gone", DropTableOptions())
        memory_catalog.schema.rename_table("t", "u", RenameTableOptions())
        assert catalog.catalog_version() != before
        assert {table.name for table in memory_catalog.schema.tables()} == {"u"}
    assert catalog.catalog_version() == before
    assert catalog.schema("new") is None
    assert {table.name for table in memory_catalog.schema.tables()} == {"t", "gone"}
    catalog.commit_transaction(mine)
    assert catalog.catalog_version().version > before.version
    assert [row["age"] for row in read(memory_catalog.table("u"))] == [None, None, None, 40]
    schema = catalog.schema("new")
    assert schema is not None
    assert ids(created) == [1]
    with memory_catalog.within(mine):
        assert ids(created) == [1]
        insert(created, [{"id": 2}])
    catalog.commit_transaction(mine)
    assert ids(created) == [1, 2]


def test_no_two_structures_have_the_same_version(memory_catalog: Workbench) -> None:
    catalog = memory_catalog.catalog
    one, two = catalog.begin_transaction(), catalog.begin_transaction()
    seen = {catalog.catalog_version().version}
    for number, transaction in enumerate((one, two)):
        with memory_catalog.within(transaction):
            memory_catalog.create(name=f"t{number}")
            seen.add(catalog.catalog_version().version)
    memory_catalog.create(name="t2")
    seen.add(catalog.catalog_version().version)
    assert len(seen) == 4


def test_two_transactions_cannot_create_the_same_table(memory_catalog: Workbench) -> None:
    one, two = (
        memory_catalog.catalog.begin_transaction(),
        memory_catalog.catalog.begin_transaction(),
    )
    for transaction in (one, two):
        with memory_catalog.within(transaction):
            memory_catalog.create()
    memory_catalog.catalog.commit_transaction(one)
    with pytest.raises(AlreadyExistsError):
        memory_catalog.catalog.commit_transaction(two)


@pytest.mark.parametrize("action", ["alter", "drop", "rename", "drop schema"])
def test_a_table_that_others_changed_is_neither_altered_nor_dropped(
    memory_catalog: Workbench, action: str
) -> None:
    table = memory_catalog.people()
    mine = memory_catalog.catalog.begin_transaction()
    with memory_catalog.within(mine):
        if action == "alter":
            table.add_column(AGE, AddColumnOptions())
        elif action == "drop":
            memory_catalog.schema.drop_table("t", DropTableOptions())
        elif action == "rename":
            memory_catalog.schema.rename_table("t", "u", RenameTableOptions())
        else:
            memory_catalog.catalog.drop_schema("s", DropSchemaOptions(cascade=True))
    insert(table, [{"id": 4}])
    with pytest.raises(UnavailableError, match=r"s\.t was changed"):
        memory_catalog.catalog.commit_transaction(mine)
    assert ids(memory_catalog.table()) == [1, 2, 3, 4]


def test_rows_do_not_get_into_a_table_that_was_altered_or_dropped(
    memory_catalog: Workbench,
) -> None:
    table, other = memory_catalog.people(), memory_catalog.create(name="other")
    one, two = (
        memory_catalog.catalog.begin_transaction(),
        memory_catalog.catalog.begin_transaction(),
    )
    with memory_catalog.within(one):
        insert(table, [{"id": 4}])
    with memory_catalog.within(two):
        insert(other, [{"id": 4}])
    table.add_column(AGE, AddColumnOptions())
    memory_catalog.schema.drop_table("other", DropTableOptions())
    with pytest.raises(UnavailableError, match="columns"):
        memory_catalog.catalog.commit_transaction(one)
    with pytest.raises(UnavailableError, match="dropped"):
        memory_catalog.catalog.commit_transaction(two)


def test_ddl_outside_of_a_transaction_is_seen_inside(memory_catalog: Workbench) -> None:
    """DuckDB sends no transaction with DDL, and goes on with the new columns at once."""
    table = memory_catalog.people()
    kept = memory_catalog.people(2, name="kept")
    mine = memory_catalog.catalog.begin_transaction()
    with memory_catalog.within(mine):
        insert(kept, [{"id": 3}])
    created = memory_catalog.create(name="created")
    insert(kept, [{"id": 100}])
    table.add_column(AGE, AddColumnOptions())
    kept.set_default("id", "7", SetDefaultOptions())
    with memory_catalog.within(mine):
        assert table.arrow_schema().names == ["id", "name", "age", "rowid"]
        assert insert(created, [{"id": 1}]) == 1
        # Rows stay as they were wherever the columns did.
        assert ids(kept) == [1, 2, 3]
        assert kept.arrow_schema().field("id").metadata == {b"default": b"7"}
    memory_catalog.catalog.commit_transaction(mine)
    assert ids(created) == [1]
    assert ids(kept) == [1, 2, 3, 100]
    memory_catalog.schema.drop_table("kept", DropTableOptions())
    with memory_catalog.within(mine):
        assert memory_catalog.schema.table("kept") is None


def test_old_pins_are_given_up_and_read_what_is_committed() -> None:
    memory_catalog = Workbench(keep_versions=1)
    table = memory_catalog.people()
    oldest = memory_catalog.catalog.begin_transaction()
    writing = memory_catalog.catalog.begin_transaction()
    with memory_catalog.within(writing):
        insert(table, [{"id": 10}])
    for _ in range(1_000):
        memory_catalog.catalog.begin_transaction()
    insert(table, [{"id": 4}])
    with memory_catalog.within(oldest):
        assert ids(table) == [1, 2, 3, 4]
        insert(table, [{"id": 5}])
    assert ids(table) == [1, 2, 3, 4]
    memory_catalog.catalog.commit_transaction(oldest)
    # What has changes of its own is never given up.
    with memory_catalog.within(writing):
        assert ids(table) == [1, 2, 3, 10]
    memory_catalog.catalog.commit_transaction(writing)
    assert ids(table) == [1, 2, 3, 4, 5, 10]


def test_old_transactions_are_forgotten_unless_they_have_changes(memory_catalog: Workbench) -> None:
    table = memory_catalog.people()
    writing, reading = (
        memory_catalog.catalog.begin_transaction(),
        memory_catalog.catalog.begin_transaction(),
    )
    with memory_catalog.within(writing):
        insert(table, [{"id": 4}])
    for _ in range(10_010):
        memory_catalog.catalog.begin_transaction()
    assert memory_catalog.catalog.transaction_status(reading) is None
    memory_catalog.catalog.commit_transaction(writing)
    assert ids(table) == [1, 2, 3, 4]

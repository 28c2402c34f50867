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
from tests.memory.workbench import (
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


def test_a_transaction_sees_its_own_changes_and_nobody_else_does(bench: Workbench) -> None:
    table = bench.people()
    mine = bench.catalog.begin_transaction()
    with bench.within(mine):
        insert(table, [{"id": 4}])
        update(table, [0], id=[10])
        delete(table, 1)
        assert ids(table) == [3, 4, 10]
    assert ids(table) == [1, 2, 3]
    bench.catalog.commit_transaction(mine)
    assert ids(table) == [3, 4, 10]


def test_a_transaction_sees_one_snapshot(bench: Workbench) -> None:
    table = bench.people()
    other = bench.create(name="other")
    mine = bench.catalog.begin_transaction()
    insert(table, [{"id": 4}])
    insert(other, [{"id": 1}])
    with bench.within(mine):
        assert ids(table) == [1, 2, 3]
        assert ids(other) == []
        assert table.size(ScanOptions()).rows == 3
    assert ids(table) == [1, 2, 3, 4]


def test_a_rolled_back_transaction_leaves_nothing(bench: Workbench) -> None:
    table = bench.people()
    mine = bench.catalog.begin_transaction()
    with bench.within(mine):
        insert(table, [{"id": 4}])
    bench.catalog.rollback_transaction(mine)
    assert ids(table) == [1, 2, 3]
    assert bench.catalog.transaction_status(mine) is TransactionState.ABORTED
    with bench.within(mine):
        assert ids(table) == [1, 2, 3]
        with pytest.raises(InvalidInputError, match="rolled back"):
            insert(table, [{"id": 5}])
    with pytest.raises(InvalidInputError, match="rolled back"):
        bench.catalog.commit_transaction(mine)
    assert len(table.versions()) == 2


def test_the_state_of_a_transaction_is_told(bench: Workbench) -> None:
    catalog = bench.catalog
    mine = catalog.begin_transaction()
    assert catalog.transaction_status(mine) is TransactionState.ACTIVE
    catalog.commit_transaction(mine)
    assert catalog.transaction_status(mine) is TransactionState.COMMITTED
    catalog.rollback_transaction(mine)
    assert catalog.transaction_status(mine) is TransactionState.COMMITTED
    assert catalog.transaction_status("unknown") is None


def test_an_unknown_transaction_reads_what_is_committed_and_writes_at_once(
    bench: Workbench,
) -> None:
    table = bench.people()
    with bench.within("never begun"):
        insert(table, [{"id": 4}])
        assert ids(table) == [1, 2, 3, 4]
    bench.catalog.commit_transaction("never begun")
    bench.catalog.rollback_transaction("never begun")
    assert ids(table) == [1, 2, 3, 4]


def test_a_transaction_goes_on_after_a_commit(bench: Workbench) -> None:
    table = bench.people()
    mine = bench.catalog.begin_transaction()
    with bench.within(mine):
        insert(table, [{"id": 4}])
    bench.catalog.commit_transaction(mine)
    insert(table, [{"id": 100}])
    with bench.within(mine):
        # Its own change is there, what others did since is not.
        assert ids(table) == [1, 2, 3, 4]
        update(table, [rowids(table)[4]], id=[40])
        insert(table, [{"id": 5}])
    assert ids(table) == [1, 2, 3, 4, 100]
    bench.catalog.commit_transaction(mine)
    assert ids(table) == [1, 2, 3, 5, 40, 100]
    with bench.within(mine):
        assert ids(table) == [1, 2, 3, 5, 40]
    bench.catalog.commit_transaction(mine)
    assert ids(table) == [1, 2, 3, 5, 40, 100]


def test_the_inserts_of_two_transactions_are_merged(bench: Workbench) -> None:
    table = bench.create()
    one, two = bench.catalog.begin_transaction(), bench.catalog.begin_transaction()
    for number in range(10):
        with bench.within(one):
            insert(table, [{"id": number}])
        with bench.within(two):
            insert(table, [{"id": 100 + number}])
    bench.catalog.commit_transaction(two)
    bench.catalog.commit_transaction(one)
    assert ids(table) == [*range(10), *range(100, 110)]
    where = rowids(table)
    assert len(set(where.values())) == 20
    assert delete(table, *(where[number] for number in range(100, 110))) == 10
    assert ids(table) == list(range(10))


@pytest.mark.parametrize("action", ["update", "delete"])
@pytest.mark.parametrize("other", ["update", "delete"])
def test_the_first_to_commit_wins_a_row(bench: Workbench, action: str, other: str) -> None:
    table = bench.people()
    one, two = bench.catalog.begin_transaction(), bench.catalog.begin_transaction()
    for transaction, what in ((one, action), (two, other)):
        with bench.within(transaction):
            if what == "update":
                update(table, [1], name=[transaction])
            else:
                delete(table, 1)
    bench.catalog.commit_transaction(one)
    after_one = read(table)
    with pytest.raises(UnavailableError, match=r"s\.t .* another transaction; try again"):
        bench.catalog.commit_transaction(two)
    assert read(table) == after_one
    assert bench.catalog.transaction_status(two) is TransactionState.ABORTED


def test_changes_of_different_rows_do_not_conflict(bench: Workbench) -> None:
    table = bench.people(5)
    one, two = bench.catalog.begin_transaction(), bench.catalog.begin_transaction()
    with bench.within(one):
        update(table, [0], id=[10])
        delete(table, 1)
    with bench.within(two):
        update(table, [2], id=[30])
        delete(table, 3)
        insert(table, [{"id": 6}])
    bench.catalog.commit_transaction(one)
    bench.catalog.commit_transaction(two)
    assert ids(table) == [5, 6, 10, 30]
    with bench.within(two):
        assert ids(table) == [1, 2, 5, 6, 30]


def test_a_row_that_another_wrote_back_is_still_a_conflict(bench: Workbench) -> None:
    table = bench.people(2)
    mine = bench.catalog.begin_transaction()
    with bench.within(mine):
        update(table, [0], name=["mine"])
    update(table, [0], name=["p1"])
    with pytest.raises(UnavailableError):
        bench.catalog.commit_transaction(mine)


def test_keys_are_checked_again_at_commit(bench: Workbench) -> None:
    table = bench.people(primary_key=("id",))
    mine = bench.catalog.begin_transaction()
    with bench.within(mine):
        insert(table, [{"id": 4}])
    insert(table, [{"id": 4}])
    with pytest.raises(ConstraintError, match="id = 4"):
        bench.catalog.commit_transaction(mine)
    assert ids(table) == [1, 2, 3, 4]


def test_a_statement_that_fails_leaves_the_others_of_its_transaction(bench: Workbench) -> None:
    table = bench.people(primary_key=("id",))
    mine = bench.catalog.begin_transaction()
    with bench.within(mine):
        insert(table, [{"id": 4}])
        with pytest.raises(ConstraintError):
            insert(table, [{"id": 5}, {"id": 4}])
        assert ids(table) == [1, 2, 3, 4]
    bench.catalog.commit_transaction(mine)
    assert ids(table) == [1, 2, 3, 4]


def test_a_transaction_is_one_version_of_each_table(bench: Workbench) -> None:
    table, other = bench.people(), bench.create(name="other")
    mine = bench.catalog.begin_transaction()
    with bench.within(mine):
        insert(table, [{"id": 4}])
        insert(table, [{"id": 5}])
        insert(other, [{"id": 1}])
    bench.catalog.commit_transaction(mine)
    assert [version.rows.count for version in table.versions()] == [0, 3, 5]
    assert table.versions()[-1].committed == other.versions()[-1].committed


def test_the_past_is_the_same_in_every_transaction(bench: Workbench) -> None:
    table = bench.people()
    mine = bench.catalog.begin_transaction()
    insert(table, [{"id": 4}])
    with bench.within(mine):
        assert ids(table, time_point=at_version(3)) == [1, 2, 3, 4]
        insert(table, [{"id": 5}])
        with pytest.raises(NotFoundError):
            read(table, time_point=at_version(4))


def test_rows_of_a_transaction_are_returned_and_scanned_in_one_part(bench: Workbench) -> None:
    table = bench.people()
    options, emitted = returning()
    mine = bench.catalog.begin_transaction()
    with bench.within(mine):
        insert(table, pa.table({"id": range(300_000)}))
        assert len(table.endpoints(ScanOptions())) == 1
        rows = pa.table({"rowid": [1, 5]})
        assert table.delete_rows(rows.to_reader(), options).affected_rows == 2
    assert [row["id"] for row in emitted[0].to_pylist()] == [2, 2]


def test_ddl_of_a_transaction_is_private_until_committed(bench: Workbench) -> None:
    bench.people()
    bench.create(name="gone")
    catalog = bench.catalog
    before = catalog.catalog_version()
    mine = catalog.begin_transaction()
    with bench.within(mine):
        catalog.create_schema("new", CreateSchemaOptions())
        schema = catalog.schema("new")
        assert schema is not None
        created = schema.create_table("x", PEOPLE, CreateTableOptions())
        insert(created, [{"id": 1}])
        bench.table().add_column(AGE, AddColumnOptions())
        insert(bench.table(), [{"id": 4, "age": 40}])
        bench.schema.drop_table("gone", DropTableOptions())
        bench.schema.rename_table("t", "u", RenameTableOptions())
        assert catalog.catalog_version() != before
        assert {table.name for table in bench.schema.tables()} == {"u"}
    assert catalog.catalog_version() == before
    assert catalog.schema("new") is None
    assert {table.name for table in bench.schema.tables()} == {"t", "gone"}
    catalog.commit_transaction(mine)
    assert catalog.catalog_version().version > before.version
    assert [row["age"] for row in read(bench.table("u"))] == [None, None, None, 40]
    schema = catalog.schema("new")
    assert schema is not None
    assert ids(created) == [1]
    with bench.within(mine):
        assert ids(created) == [1]
        insert(created, [{"id": 2}])
    catalog.commit_transaction(mine)
    assert ids(created) == [1, 2]


def test_no_two_structures_have_the_same_version(bench: Workbench) -> None:
    catalog = bench.catalog
    one, two = catalog.begin_transaction(), catalog.begin_transaction()
    seen = {catalog.catalog_version().version}
    for number, transaction in enumerate((one, two)):
        with bench.within(transaction):
            bench.create(name=f"t{number}")
            seen.add(catalog.catalog_version().version)
    bench.create(name="t2")
    seen.add(catalog.catalog_version().version)
    assert len(seen) == 4


def test_two_transactions_cannot_create_the_same_table(bench: Workbench) -> None:
    one, two = bench.catalog.begin_transaction(), bench.catalog.begin_transaction()
    for transaction in (one, two):
        with bench.within(transaction):
            bench.create()
    bench.catalog.commit_transaction(one)
    with pytest.raises(AlreadyExistsError):
        bench.catalog.commit_transaction(two)


@pytest.mark.parametrize("action", ["alter", "drop", "rename", "drop schema"])
def test_a_table_that_others_changed_is_neither_altered_nor_dropped(
    bench: Workbench, action: str
) -> None:
    table = bench.people()
    mine = bench.catalog.begin_transaction()
    with bench.within(mine):
        if action == "alter":
            table.add_column(AGE, AddColumnOptions())
        elif action == "drop":
            bench.schema.drop_table("t", DropTableOptions())
        elif action == "rename":
            bench.schema.rename_table("t", "u", RenameTableOptions())
        else:
            bench.catalog.drop_schema("s", DropSchemaOptions(cascade=True))
    insert(table, [{"id": 4}])
    with pytest.raises(UnavailableError, match=r"s\.t was changed"):
        bench.catalog.commit_transaction(mine)
    assert ids(bench.table()) == [1, 2, 3, 4]


def test_rows_do_not_get_into_a_table_that_was_altered_or_dropped(bench: Workbench) -> None:
    table, other = bench.people(), bench.create(name="other")
    one, two = bench.catalog.begin_transaction(), bench.catalog.begin_transaction()
    with bench.within(one):
        insert(table, [{"id": 4}])
    with bench.within(two):
        insert(other, [{"id": 4}])
    table.add_column(AGE, AddColumnOptions())
    bench.schema.drop_table("other", DropTableOptions())
    with pytest.raises(UnavailableError, match="columns"):
        bench.catalog.commit_transaction(one)
    with pytest.raises(UnavailableError, match="dropped"):
        bench.catalog.commit_transaction(two)


def test_ddl_outside_of_a_transaction_is_seen_inside(bench: Workbench) -> None:
    """DuckDB sends no transaction with DDL, and goes on with the new columns at once."""
    table = bench.people()
    kept = bench.people(2, name="kept")
    mine = bench.catalog.begin_transaction()
    with bench.within(mine):
        insert(kept, [{"id": 3}])
    created = bench.create(name="created")
    insert(kept, [{"id": 100}])
    table.add_column(AGE, AddColumnOptions())
    kept.set_default("id", "7", SetDefaultOptions())
    with bench.within(mine):
        assert table.arrow_schema().names == ["id", "name", "age", "rowid"]
        assert insert(created, [{"id": 1}]) == 1
        # Rows stay as they were wherever the columns did.
        assert ids(kept) == [1, 2, 3]
        assert kept.arrow_schema().field("id").metadata == {b"default": b"7"}
    bench.catalog.commit_transaction(mine)
    assert ids(created) == [1]
    assert ids(kept) == [1, 2, 3, 100]
    bench.schema.drop_table("kept", DropTableOptions())
    with bench.within(mine):
        assert bench.schema.table("kept") is None


def test_old_pins_are_given_up_and_read_what_is_committed() -> None:
    bench = Workbench(keep_versions=1)
    table = bench.people()
    oldest = bench.catalog.begin_transaction()
    writing = bench.catalog.begin_transaction()
    with bench.within(writing):
        insert(table, [{"id": 10}])
    for _ in range(1_000):
        bench.catalog.begin_transaction()
    insert(table, [{"id": 4}])
    with bench.within(oldest):
        assert ids(table) == [1, 2, 3, 4]
        insert(table, [{"id": 5}])
    assert ids(table) == [1, 2, 3, 4]
    bench.catalog.commit_transaction(oldest)
    # What has changes of its own is never given up.
    with bench.within(writing):
        assert ids(table) == [1, 2, 3, 10]
    bench.catalog.commit_transaction(writing)
    assert ids(table) == [1, 2, 3, 4, 5, 10]


def test_old_transactions_are_forgotten_unless_they_have_changes(bench: Workbench) -> None:
    table = bench.people()
    writing, reading = bench.catalog.begin_transaction(), bench.catalog.begin_transaction()
    with bench.within(writing):
        insert(table, [{"id": 4}])
    for _ in range(10_010):
        bench.catalog.begin_transaction()
    assert bench.catalog.transaction_status(reading) is None
    bench.catalog.commit_transaction(writing)
    assert ids(table) == [1, 2, 3, 4]

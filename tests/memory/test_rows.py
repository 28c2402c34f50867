"""INSERT, UPDATE, DELETE and scans of a table."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakeport.catalog import DMLOptions, Partition, ScanOptions, rowid_field
from lakeport.errors import InvalidArgumentError, InvalidInputError, NotFoundError, NullRowIdError
from lakeport.filters import parse_filter
from tests.memory.fixtures_catalog import (
    PEOPLE,
    Workbench,
    delete,
    ids,
    insert,
    read,
    returning,
    rowids,
    update,
)

ID_IS_2 = json.dumps(
    {
        "filters": [
            {
                "expression_class": "BOUND_COMPARISON",
                "type": "COMPARE_EQUAL",
                "alias": "",
                "query_location": 0,
                "left": {
                    "expression_class": "BOUND_COLUMN_REF",
                    "type": "BOUND_COLUMN_REF",
                    "alias": "",
                    "query_location": 0,
                    "return_type": {"id": "BIGINT", "type_info": None},
                    "binding": {"table_index": 0, "column_index": 0},
                    "depth": 0,
                },
                "right": {
                    "expression_class": "BOUND_CONSTANT",
                    "type": "VALUE_CONSTANT",
                    "alias": "",
                    "query_location": 0,
                    "value": {
                        "type": {"id": "BIGINT", "type_info": None},
                        "is_null": False,
                        "value": 2,
                    },
                },
            }
        ],
        "column_binding_names_by_index": ["id"],
    }
)


def failing(table: pa.Table) -> pa.RecordBatchReader:
    """A reader whose connection breaks after its rows."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield from table.to_batches()
        raise pa.ArrowInvalid("the connection broke")

    return pa.RecordBatchReader.from_batches(table.schema, batches())


def test_inserted_rows_can_be_read(memory_catalog: Workbench) -> None:
    table = memory_catalog.create()
    assert insert(table, [{"id": 1, "name": "a"}, {"id": 2, "name": None}]) == 2
    assert read(table) == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]


def test_an_empty_statement_changes_nothing(memory_catalog: Workbench) -> None:
    table = memory_catalog.people()
    assert insert(table, []) == 0
    assert delete(table) == 0
    assert update(table, [], name=[]) == 0
    assert len(table.versions()) == 2


def test_columns_go_by_name_and_missing_ones_are_null(memory_catalog: Workbench) -> None:
    table = memory_catalog.create()
    insert(table, pa.table({"NAME": ["a"], "id": pa.array([1], pa.int32())}))
    insert(table, pa.table({"id": [2]}))
    assert read(table) == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]


def test_unknown_columns_are_refused(memory_catalog: Workbench) -> None:
    table = memory_catalog.create()
    with pytest.raises(NotFoundError, match="'age'"):
        insert(table, pa.table({"id": [1], "age": [2]}))


def test_values_that_do_not_fit_are_refused_with_the_column(memory_catalog: Workbench) -> None:
    table = memory_catalog.create(pa.schema([("n", pa.int8())]))
    with pytest.raises(InvalidInputError, match=r"'n' of table s\.t"):
        insert(table, pa.table({"n": [1000]}))
    with pytest.raises(InvalidInputError, match="'n'"):
        insert(table, pa.table({"n": ["many"]}))


def test_returning_gives_what_was_stored(memory_catalog: Workbench) -> None:
    table = memory_catalog.create()
    options, emitted = returning()
    rows = pa.table({"name": ["a", "b"], "id": pa.array([1, 2], pa.int16())})
    table.insert(rows.to_reader(max_chunksize=1), options)
    assert [batch.to_pylist() for batch in emitted] == [
        [{"id": 1, "name": "a"}],
        [{"id": 2, "name": "b"}],
    ]
    assert emitted[0].schema.field("id").type == pa.int64()


def test_each_batch_is_answered_before_the_next_one_is_read(memory_catalog: Workbench) -> None:
    table = memory_catalog.people(4)
    options, emitted = returning()

    def asked(rows: pa.Table) -> pa.RecordBatchReader:
        def batches() -> Iterator[pa.RecordBatch]:
            for number, batch in enumerate(rows.to_batches(max_chunksize=2)):
                assert len(emitted) == number
                yield batch

        return pa.RecordBatchReader.from_batches(rows.schema, batches())

    table.insert(asked(pa.table({"id": [5, 6, 7, 8]})), options)
    emitted.clear()
    table.update_rows(asked(pa.table({"id": [5, 6, 7, 8], "rowid": [0, 1, 2, 3]})), options)
    emitted.clear()
    table.delete_rows(asked(pa.table({"rowid": [0, 1, 2, 3]})), options)


def test_nothing_is_inserted_when_reading_fails(memory_catalog: Workbench) -> None:
    table = memory_catalog.people()
    with pytest.raises(pa.ArrowInvalid):
        table.insert(failing(pa.table({"id": [4]})), DMLOptions())
    with pytest.raises(pa.ArrowInvalid):
        table.update_rows(failing(pa.table({"id": [4], "rowid": [0]})), DMLOptions())
    with pytest.raises(pa.ArrowInvalid):
        table.delete_rows(failing(pa.table({"rowid": [0]})), DMLOptions())
    assert ids(table) == [1, 2, 3]


def test_an_update_sets_the_columns_that_come(memory_catalog: Workbench) -> None:
    table = memory_catalog.people()
    where = rowids(table)
    assert update(table, [where[3], where[1]], name=["c", "a"]) == 2
    assert read(table) == [
        {"id": 1, "name": "a"},
        {"id": 2, "name": "p2"},
        {"id": 3, "name": "c"},
    ]
    assert rowids(table) == where


def test_the_last_value_counts_when_a_row_comes_twice(memory_catalog: Workbench) -> None:
    table = memory_catalog.people()
    where = rowids(table)
    assert update(table, [where[1], where[2], where[1]], name=["x", "y", "z"]) == 2
    assert [row["name"] for row in read(table)] == ["z", "y", "p3"]


def test_update_returning_gives_whole_rows_in_the_order_received(memory_catalog: Workbench) -> None:
    table = memory_catalog.people()
    options, emitted = returning()
    rows = pa.table({"name": ["c", "b"], "rowid": [2, 1]})
    table.update_rows(rows.to_reader(), options)
    assert pa.Table.from_batches(emitted).to_pylist() == [
        {"id": 3, "name": "c", "rowid": 2},
        {"id": 2, "name": "b", "rowid": 1},
    ]


def test_rows_that_are_gone_are_passed_over(memory_catalog: Workbench) -> None:
    table = memory_catalog.people()
    options, emitted = returning()
    delete(table, 1)
    assert update(table, [0, 1, 99], name=["x", "y", "z"]) == 1
    assert delete(table, 1, 99) == 0
    rows = pa.table({"name": ["q", "q"], "rowid": [1, 2]})
    assert table.update_rows(rows.to_reader(), options).affected_rows == 1
    assert [row["rowid"] for batch in emitted for row in batch.to_pylist()] == [2]
    assert update(table, [99], name=["z"]) == 0


def test_a_marked_rowid_column_is_found_whatever_its_name(memory_catalog: Workbench) -> None:
    table = memory_catalog.people()
    schema = pa.schema([rowid_field("key"), pa.field("name", pa.string())])
    rows = pa.table([pa.array([0]), pa.array(["x"])], schema=schema)
    table.update_rows(rows.to_reader(), DMLOptions())
    assert read(table)[0] == {"id": 1, "name": "x"}


def test_a_null_rowid_is_refused(memory_catalog: Workbench) -> None:
    table = memory_catalog.people()
    with pytest.raises(NullRowIdError):
        delete(table, 0, None)
    with pytest.raises(NullRowIdError):
        update(table, [0, None], name=["x", "y"])
    assert ids(table) == [1, 2, 3]


def test_rows_without_row_ids_are_refused(memory_catalog: Workbench) -> None:
    table = memory_catalog.people()
    with pytest.raises(InvalidArgumentError, match="no row id column"):
        table.delete_rows(pa.table({"id": [1]}).to_reader(), DMLOptions())


def test_a_row_that_comes_twice_is_deleted_once(memory_catalog: Workbench) -> None:
    table = memory_catalog.people()
    options, emitted = returning()
    rows = pa.table({"rowid": [0, 0, 2, 0]})
    result = table.delete_rows(rows.to_reader(max_chunksize=2), options)
    assert result.affected_rows == 2
    assert pa.Table.from_batches(emitted).to_pylist() == [
        {"id": 1, "name": "p1", "rowid": 0},
        {"id": 3, "name": "p3", "rowid": 2},
    ]
    assert ids(table) == [2]


def test_row_ids_are_never_used_again(memory_catalog: Workbench) -> None:
    table = memory_catalog.people()
    delete(table, 0, 1, 2)
    insert(table, [{"id": 9}])
    assert rowids(table) == {9: 3}


def test_a_scan_sees_one_state_while_rows_change(memory_catalog: Workbench) -> None:
    table = memory_catalog.create()
    insert(table, pa.table({"id": range(50_000)}))
    reader = table.scan(ScanOptions(batch_size=1000))
    first = reader.read_next_batch()
    delete(table, *range(0, 50_000, 2))
    update(table, list(range(1, 50_000, 2)), name=["changed"] * 25_000)
    insert(table, [{"id": -1}])
    rest = reader.read_all()
    assert first.num_rows + rest.num_rows == 50_000
    assert rest.column("name").null_count == rest.num_rows
    assert table.size(ScanOptions()).rows == 25_001


def test_a_scan_reads_the_columns_asked_for_and_those_of_the_filter(
    memory_catalog: Workbench,
) -> None:
    table = memory_catalog.people()
    only_names = table.scan(ScanOptions(columns=("name",)))
    assert only_names.schema.names == ["name"]
    with_filter = table.scan(ScanOptions(columns=("name",), filter=parse_filter(ID_IS_2)))
    assert with_filter.schema.names == ["id", "name"]
    assert with_filter.read_all().to_pylist() == [{"id": 2, "name": "p2"}]
    assert table.scan(ScanOptions(columns=())).read_all().num_rows == 3
    with pytest.raises(NotFoundError, match="'age'"):
        table.scan(ScanOptions(columns=("age",)))


def test_a_scan_keeps_to_batch_size_and_limit(memory_catalog: Workbench) -> None:
    table = memory_catalog.people(50)
    batches = list(table.scan(ScanOptions(batch_size=20)))
    assert max(batch.num_rows for batch in batches) <= 20
    assert table.scan(ScanOptions(limit=7)).read_all().num_rows == 7
    assert table.scan(ScanOptions(limit=0)).read_all().num_rows == 0
    # The client applies the filter again, so that a limit could leave too little.
    limited = table.scan(ScanOptions(limit=1, filter=parse_filter(ID_IS_2)))
    assert limited.read_all().num_rows == 1


def test_many_small_inserts_are_read_in_few_batches(memory_catalog: Workbench) -> None:
    table = memory_catalog.create()
    for number in range(300):
        insert(table, [{"id": number}])
    assert ids(table) == list(range(300))
    assert len(list(table.scan(ScanOptions()))) == 1
    assert len(table.versions()[-1].rows.chunks) < 20


def test_a_large_table_is_read_in_parts_of_one_version(memory_catalog: Workbench) -> None:
    table = memory_catalog.create()
    insert(table, pa.table({"id": range(600_000)}))
    parts = table.endpoints(ScanOptions())
    assert len(parts) > 1
    delete(table, *range(0, 600_000, 3))
    tokens = [part.token for part in parts]
    rows = [table.scan(ScanOptions(partition=token)).read_all() for token in tokens]
    assert sorted(pa.concat_tables(rows).column("id").to_pylist()) == list(range(600_000))
    sizes = [table.size(ScanOptions(partition=token)).rows for token in tokens]
    assert sizes == [part.num_rows for part in rows]


def test_a_small_table_is_read_in_one_part(memory_catalog: Workbench) -> None:
    assert memory_catalog.people().endpoints(ScanOptions()) == [Partition(b"")]


@pytest.mark.parametrize("token", [b"x", b"1", b"1:2", b"1:3-2", b"1:-2-3", b"\xff", b"a:1-2"])
def test_tokens_that_no_scan_gave_out_are_refused(memory_catalog: Workbench, token: bytes) -> None:
    with pytest.raises(InvalidArgumentError):
        memory_catalog.people().scan(ScanOptions(partition=token))


def test_a_token_of_an_unknown_version_is_refused(memory_catalog: Workbench) -> None:
    with pytest.raises(NotFoundError, match="versions 1 to 2"):
        memory_catalog.people().scan(ScanOptions(partition=b"99:0-1"))


def test_the_size_is_told(memory_catalog: Workbench) -> None:
    table = memory_catalog.people(100)
    size = table.size(ScanOptions())
    assert size.rows == 100
    assert size.bytes is not None
    assert 1000 < size.bytes < 10_000
    assert memory_catalog.create(name="empty").size(ScanOptions()).bytes == 0


def test_columns_can_be_asked_for_by_name(memory_catalog: Workbench) -> None:
    assert memory_catalog.create().arrow_schema(["name"]).names == ["name"]
    assert memory_catalog.table().arrow_schema().names == [*PEOPLE.names, "rowid"]


def test_an_opened_scan_has_the_size_and_the_rows_of_one_version(memory_catalog: Workbench) -> None:
    table = memory_catalog.people()
    size, reader = table.open_scan(ScanOptions())
    insert(table, [{"id": 4}])

    assert size.rows == 3
    assert reader.read_all().column("id").to_pylist() == [1, 2, 3]


def test_row_ids_stay_with_their_rows_through_deletes_merges_and_updates(
    memory_catalog: Workbench,
) -> None:
    table = memory_catalog.create()
    insert(table, [{"id": number} for number in range(10_000)])
    delete(table, *range(1, 10_000, 3))
    insert(table, [{"id": 10_000}])
    insert(table, [{"id": 10_001}])
    update(table, [3, 10_001], id=[-3, -10_001])

    kept = {number: number for number in range(10_002) if number % 3 != 1 or number >= 10_000}
    assert {row: id for id, row in rowids(table).items()} == {**kept, 3: -3, 10_001: -10_001}

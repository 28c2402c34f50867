"""A million rows: bounded memory, and nothing that grows faster than the rows."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakeport.catalog import DMLOptions, ScanOptions
from lakeport.memory import MemoryTable
from tests.memory.fixtures_catalog import Workbench, insert

ROWS = 1_000_000
BATCH = 2048
MIB = 1 << 20


@pytest.fixture
def table(memory_catalog: Workbench) -> MemoryTable:
    """A million rows of two numbers and a text: 16 MB and 14 MB."""
    table = memory_catalog.create(
        pa.schema([("id", pa.int64()), ("value", pa.int64()), ("name", pa.string())])
    )
    numbers = pa.arange(0, ROWS)
    names = pc.binary_join_element_wise("name", numbers.cast(pa.string()), "")
    insert(table, pa.table({"id": numbers, "value": numbers, "name": names}))
    return table


def statement(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(schema, batches)


def shuffled(count: int) -> pa.Array:
    """All numbers below a count that is no multiple of 7919, far from their order."""
    factor = pa.scalar(7919, pa.int64())
    product = pc.multiply(pa.arange(0, count), factor)
    return pc.subtract(product, pc.multiply(pc.divide(product, count), count))


@pytest.fixture
def peak() -> Iterator[Callable[[], int]]:
    """Tells the most Arrow memory that was in use at once since the fixture was set up."""
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    # Arrays that outlive the test give their memory back to the pool, so it must never go.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(pool))
    pa.set_memory_pool(pool)
    yield pool.max_memory
    pa.set_memory_pool(before)


@pytest.mark.parametrize("order", ["in order", "shuffled"])
def test_a_million_rows_are_updated_in_bounded_memory(
    table: MemoryTable, peak: Callable[[], int], order: str
) -> None:
    everything = pa.arange(0, ROWS) if order == "in order" else shuffled(ROWS)
    schema = pa.schema([("value", pa.int64()), ("rowid", pa.int64())])

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, ROWS, BATCH):
            rowids = everything.slice(start, BATCH)
            yield pa.record_batch([pc.negate(rowids), rowids], schema=schema)

    result = table.update_rows(statement(schema, batches()), DMLOptions())
    used = peak()
    assert result.affected_rows == ROWS
    values = table.scan(ScanOptions(columns=("id", "value"))).read_all()
    assert pc.all(pc.equal(values.column("value"), pc.negate(values.column("id")))).as_py()
    # New values and row ids are 16 MB, what is kept of both versions another 16 MB.
    assert used < 80 * MIB
    assert len(table.versions()) == 3


@pytest.mark.parametrize("order", ["in order", "shuffled"])
def test_a_million_rows_are_deleted_in_bounded_memory(
    table: MemoryTable, peak: Callable[[], int], order: str
) -> None:
    everything = pa.arange(0, ROWS) if order == "in order" else shuffled(ROWS)
    schema = pa.schema([("rowid", pa.int64())])

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, ROWS, BATCH):
            yield pa.record_batch([everything.slice(start, BATCH)], schema=schema)

    result = table.delete_rows(statement(schema, batches()), DMLOptions())
    assert result.affected_rows == ROWS
    assert table.size(ScanOptions()).rows == 0
    assert peak() < 64 * MIB


def test_a_version_with_few_rows_deleted_shares_the_rest(
    table: MemoryTable, peak: Callable[[], int]
) -> None:
    for start in range(0, ROWS, ROWS // 100):
        rows = pa.table({"rowid": [start]})
        assert table.delete_rows(rows.to_reader(), DMLOptions()).affected_rows == 1
    assert len(table.versions()) == 102
    assert peak() < 2 * MIB


def test_a_version_with_one_row_updated_copies_one_column_of_one_chunk(
    table: MemoryTable, peak: Callable[[], int]
) -> None:
    for start in range(0, ROWS, ROWS // 100):
        rows = pa.table({"value": [0], "rowid": [start]})
        assert table.update_rows(rows.to_reader(), DMLOptions()).affected_rows == 1
    assert peak() < 16 * MIB


def test_a_million_keys_are_checked(memory_catalog: Workbench) -> None:
    table = memory_catalog.create(pa.schema([("id", pa.int64())]), primary_key=("id",))
    insert(table, pa.table({"id": shuffled(ROWS)}))
    assert insert(table, pa.table({"id": pa.arange(ROWS, 2 * ROWS)})) == ROWS

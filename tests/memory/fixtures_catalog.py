"""Short ways to fill, change and read a memory catalog in tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from lakeport.catalog import (
    CreateSchemaOptions,
    CreateTableOptions,
    DMLOptions,
    RequestContext,
    ScanOptions,
    TimePoint,
    TimeUnit,
    request_scope,
)
from lakeport.memory import MemoryCatalog, MemorySchema, MemoryTable

PEOPLE = pa.schema([("id", pa.int64()), ("name", pa.string())])


class Clock:
    """A clock that goes on by one second whenever it is read."""

    def __init__(self) -> None:
        self.now = datetime(2024, 1, 1, tzinfo=UTC)
        self.step = timedelta(seconds=1)

    def __call__(self) -> datetime:
        self.now += self.step
        return self.now


class Workbench:
    """A catalog with one schema `s`, and shortcuts around it."""

    def __init__(self, **options: Any) -> None:
        self.clock = Clock()
        self.catalog = MemoryCatalog(clock=self.clock, **options)
        self.catalog.create_schema("s", CreateSchemaOptions())

    @property
    def schema(self) -> MemorySchema:
        schema = self.catalog.schema("s")
        assert schema is not None
        return schema

    def table(self, name: str = "t") -> MemoryTable:
        table = self.schema.table(name)
        assert table is not None
        return table

    def create(self, columns: pa.Schema = PEOPLE, name: str = "t", **options: Any) -> MemoryTable:
        return self.schema.create_table(name, columns, CreateTableOptions(**options))

    def people(self, count: int = 3, **options: Any) -> MemoryTable:
        """A table of people with the ids 1, 2, 3, …"""
        table = self.create(**options)
        insert(table, [{"id": i, "name": f"p{i}"} for i in range(1, count + 1)])
        return table

    @contextmanager
    def within(self, transaction_id: str) -> Iterator[None]:
        with request_scope(RequestContext(transaction_id=transaction_id)):
            yield


def insert(table: MemoryTable, rows: Sequence[Mapping[str, Any]] | pa.Table) -> int:
    if not isinstance(rows, pa.Table):
        columns = pa.schema([pa.field(f.name, f.type) for f in table.arrow_schema()][:-1])
        rows = pa.Table.from_pylist(list(rows), schema=columns)
    return table.insert(rows.to_reader(), DMLOptions()).affected_rows


def update(table: MemoryTable, rowids: Sequence[int | None], **values: Any) -> int:
    """Set columns, each given as a list or an Arrow array, in the rows of these ids."""
    arrays = {
        name: array
        if isinstance(array, pa.Array)
        else pa.array(array, table.arrow_schema().field(name).type)
        for name, array in values.items()
    }
    rows = pa.table({**arrays, "rowid": pa.array(rowids, pa.int64())})
    return table.update_rows(rows.to_reader(), DMLOptions()).affected_rows


def delete(table: MemoryTable, *rowids: int | None) -> int:
    rows = pa.table({"rowid": pa.array(rowids, pa.int64())})
    return table.delete_rows(rows.to_reader(), DMLOptions()).affected_rows


def returning() -> tuple[DMLOptions, list[pa.RecordBatch]]:
    """Options of a statement with RETURNING, and the list its rows are put into."""
    emitted: list[pa.RecordBatch] = []
    return DMLOptions(returning=True, emit=emitted.append), emitted


def read(table: MemoryTable, **options: Any) -> list[dict[str, Any]]:
    """The rows, without their row ids."""
    rows = table.scan(ScanOptions(**options)).read_all()
    visible: list[dict[str, Any]] = rows.drop_columns(["rowid"]).to_pylist()
    return visible


def ids(table: MemoryTable, **options: Any) -> list[Any]:
    """The values of the column `id`, in order."""
    return sorted(row["id"] for row in read(table, **options))


def rowids(table: MemoryTable) -> dict[Any, int]:
    """Row ids by the values of the column `id`."""
    rows = table.scan(ScanOptions()).read_all().to_pylist()
    return {row["id"]: row["rowid"] for row in rows}


def at_version(number: int | str) -> TimePoint:
    return TimePoint(TimeUnit.VERSION, str(number))


def at_timestamp(text: str) -> TimePoint:
    return TimePoint(TimeUnit.TIMESTAMP, text)

"""Tables of the recording server that need more than rows: endpoints, references, errors."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgpack
import pyarrow as pa
import pyarrow.types as pt

from lakeport.catalog import (
    DMLOptions,
    DMLResult,
    Endpoint,
    FileFormat,
    FileReference,
    FunctionReference,
    Partition,
    ScanOptions,
    find_rowid_column,
    project_schema,
    without_rowid,
)
from lakeport.errors import (
    CancelledError,
    ConstraintError,
    InternalError,
    InvalidArgumentError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnavailableError,
    UnsupportedError,
)

__all__ = [
    "ERRORS",
    "BatchedTable",
    "EndpointsTable",
    "FailingTable",
    "KeyedTable",
    "UpdatableKeyedTable",
    "reference_of",
]

ERRORS: dict[str, Exception] = {
    "internal": InternalError("boom internal"),
    "unavailable": UnavailableError("boom unavailable"),
    "cancelled": CancelledError("boom cancelled"),
    "unauthenticated": UnauthenticatedError("boom unauthenticated"),
    "unauthorized": PermissionDeniedError("boom unauthorized"),
    "invalid": InvalidArgumentError("boom invalid"),
    "value": InvalidArgumentError("boom value"),
    "key": NotFoundError("boom key"),
    "notimpl": UnsupportedError("boom notimpl"),
    "generic": RuntimeError("boom generic"),
    "servererror": InternalError("boom servererror"),
    "timedout": TimeoutError("boom timedout"),
    "x_constraint": ConstraintError("typed message"),
    "x_permission": PermissionDeniedError("typed message"),
    "x_invalid": InvalidInputError("typed message"),
    # The recording server sent details that no client can read; a catalog has no way to do that.
    "x_unknown": RuntimeError("boom"),
    "x_garbage": RuntimeError("boom"),
    "x_json": RuntimeError("boom"),
}
"""What a catalog raises for the kinds of errors in the recordings."""


class KeyedTable:
    """Rows that can be changed, identified by a column of any type at any place."""

    def __init__(self, name: str, data: pa.Table) -> None:
        self.name = name
        self.comment = ""
        self._lock = threading.Lock()
        self._data = data
        self._created = data.num_rows

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        return project_schema(self._data.schema, columns)

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        return self._data.to_reader()

    def insert(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        added = []
        for batch in rows:
            added.append(self._with_keys(batch))
            options.emit(batch)
        with self._lock:
            self._data = pa.concat_tables([self._data, *added])
        return DMLResult(sum(table.num_rows for table in added))

    def _with_keys(self, batch: pa.RecordBatch) -> pa.Table:
        columns = {name: batch.column(name) for name in batch.schema.names}
        position = find_rowid_column(self._data.schema)
        if position is not None:
            field = self._data.schema.field(position)
            numbers = range(self._created, self._created + batch.num_rows)
            columns[field.name] = pa.array([_key(n, field.type) for n in numbers], field.type)
        self._created += batch.num_rows
        arrays = [columns[name] for name in self._data.schema.names]
        return pa.Table.from_arrays(arrays, schema=self._data.schema)


class UpdatableKeyedTable(KeyedTable):
    """Rows with a key, which can also be updated and deleted."""

    def update(self, row_ids: pa.Array, rows: pa.RecordBatch, options: DMLOptions) -> DMLResult:
        changes = dict(zip(map(repr, row_ids.to_pylist()), rows.to_pylist(), strict=True))
        with self._lock:
            stored = self._data.to_pylist()
            found = []
            for row in stored:
                if repr(row[self._key_name]) in changes:
                    row.update(changes[repr(row[self._key_name])])
                    found.append(row)
            self._data = pa.Table.from_pylist(stored, self._data.schema)
        self._emit(found, options)
        return DMLResult(len(found))

    def delete(self, row_ids: pa.Array, options: DMLOptions) -> DMLResult:
        wanted = set(map(repr, row_ids.to_pylist()))
        with self._lock:
            stored = self._data.to_pylist()
            found = [row for row in stored if repr(row[self._key_name]) in wanted]
            kept = [row for row in stored if repr(row[self._key_name]) not in wanted]
            self._data = pa.Table.from_pylist(kept, self._data.schema)
        self._emit(found, options)
        return DMLResult(len(found))

    @property
    def _key_name(self) -> str:
        position = find_rowid_column(self._data.schema)
        assert position is not None
        return str(self._data.schema.field(position).name)

    def _emit(self, rows: list[dict[str, Any]], options: DMLOptions) -> None:
        for batch in pa.Table.from_pylist(rows, without_rowid(self._data.schema)).to_batches():
            options.emit(batch)


class EndpointsTable(UpdatableKeyedTable):
    """Rows that are read through the endpoints it is told to give."""

    def __init__(
        self, name: str, data: pa.Table, endpoints: Callable[[], Sequence[Endpoint]]
    ) -> None:
        super().__init__(name, data)
        self._endpoints = endpoints

    @classmethod
    def in_parts(cls, name: str, data: pa.Table, parts: int) -> EndpointsTable:
        """Rows cut into parts of about the same length."""
        bounds = [data.num_rows * part // parts for part in range(parts + 1)]
        ranges = list(pairwise(bounds))
        return cls(name, data, lambda: [Partition(f"{a}:{b}".encode()) for a, b in ranges])

    def endpoints(self, options: ScanOptions) -> Sequence[Endpoint]:
        return self._endpoints()

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        data = self._data
        if options.partition:
            start, stop = map(int, options.partition.split(b":"))
            data = data.slice(start, stop - start)
        return data.to_reader()


class BatchedTable(KeyedTable):
    """Rows in batches of one, optionally with empty batches between them."""

    def __init__(self, name: str, data: pa.Table, *, with_empty: bool = False) -> None:
        super().__init__(name, data)
        self._with_empty = with_empty

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self._data.schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._data.to_batches(max_chunksize=1):
            if self._with_empty:
                yield batch.slice(0, 0)
            yield batch


class FailingTable(UpdatableKeyedTable):
    """Fails at the place and in the way that its name says: `doget__key`, `exch_batch__value`."""

    def __init__(self, name: str, data: pa.Table) -> None:
        super().__init__(name, data)
        self._place, _, kind = name.partition("__")
        self._error = ERRORS[kind]

    def endpoints(self, options: ScanOptions) -> Sequence[Endpoint]:
        self._fail_at("endpoints")
        return [Partition(b"")]

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        self._fail_at("doget")
        return pa.RecordBatchReader.from_batches(self._data.schema, self._batches())

    def insert(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        self._fail_at("exch_open")
        changed = 0
        for batch in rows:
            self._fail_at("exch_batch")
            options.emit(batch)
            changed += batch.num_rows
        self._fail_at("exch_final")
        return DMLResult(changed)

    def update(self, row_ids: pa.Array, rows: pa.RecordBatch, options: DMLOptions) -> DMLResult:
        self._fail_at("exch_batch")
        return super().update(row_ids, rows, options)

    def delete(self, row_ids: pa.Array, options: DMLOptions) -> DMLResult:
        self._fail_at("exch_batch")
        return super().delete(row_ids, options)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._data.to_batches()
        self._fail_at("doget_mid")

    def _fail_at(self, place: str) -> None:
        if self._place == place:
            raise self._error


def _key(number: int, type: pa.DataType) -> Any:
    if pt.is_string(type):
        return f"r{number}"
    if pt.is_struct(type):
        return {"a": number, "b": f"r{number}"}
    return number


def reference_of(uri: str) -> FunctionReference | FileReference:
    """What a recorded `data:` URI refers to."""
    media_type, _, text = uri.removeprefix("data:").removeprefix("//").partition(",")
    content = msgpack.unpackb(base64.b64decode(text))
    if media_type == "application/msgpack;base64":
        return FileReference(content["uri"], FileFormat(content["format"]))
    row: dict[str, Any] = pa.ipc.open_stream(content["data"]).read_next_batch().to_pylist()[0]
    positional = [name for name in row if name.startswith("arg_")]
    return FunctionReference(
        content["function_name"],
        tuple(row[name] for name in positional),
        {name: value for name, value in row.items() if name not in positional},
    )

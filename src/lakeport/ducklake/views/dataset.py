"""A table of a lake as a pyarrow dataset, into which DuckDB pushes columns and filters.

DuckDB reads a dataset by `Dataset.scanner(columns=…, filter=…).to_reader()`, and applies no pushed
filter again: a scan of the lake applies it exactly, as DuckDB would, and prunes files and row
groups by it. Arrow applies what a scan cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lakeport.ducklake.reading.row_filter import row_filter
from lakeport.filters import Expression, Filter, Unsupported, bind, pushed_filter, walk

__all__ = ["ReadTable", "TableDataset", "filtered"]

ReadTable = Callable[[Sequence[str], Filter], pa.RecordBatchReader]
"""Reads columns of a table: all rows that pass the filter, and no others."""


def filtered(
    rows: pa.RecordBatchReader, columns: Sequence[str], filter: Filter
) -> pa.RecordBatchReader:
    """Return some columns of the rows that pass a filter, which is applied here."""
    passing = row_filter(bind(filter, rows.schema, zoned_nanoseconds=True), rows.schema, exact=True)

    def batches() -> Generator[pa.RecordBatch]:
        with rows:
            for batch in rows:
                yield passing(batch).select(list(columns))

    schema = pa.schema([rows.schema.field(name) for name in columns])
    return pa.RecordBatchReader.from_batches(schema, batches())


class TableDataset(ds.Dataset):  # type: ignore[misc]
    """The rows of a table, read while DuckDB runs a query."""

    def __init__(self, schema: pa.Schema, read: ReadTable) -> None:
        # pyarrow.dataset.Dataset cannot be initialised from Python, and needs not be.
        self._own_schema = schema
        self._read = read
        self.error: Exception | None = None
        """The error that ended a read: DuckDB keeps only the text of it."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        return self._own_schema

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,
        **_: Any,
    ) -> _Scanner:
        """Return a scanner of some columns and the rows that pass a filter."""
        names = list(self._own_schema.names if columns is None else columns)
        return _Scanner(self, names, filter)

    def batches(self, names: list[str], filter: pc.Expression | None) -> Generator[pa.RecordBatch]:
        """Read the rows that pass the filter."""
        pushed = Filter.always() if filter is None else pushed_filter(filter)
        understood = [part for part in pushed.conjuncts if not _is_unsupported(part)]
        try:
            with self._read(names, Filter(tuple(understood))) as reader:
                if len(understood) == len(pushed.conjuncts):
                    yield from reader
                    return
                for batch in reader:
                    yield from pa.Table.from_batches([batch]).filter(filter).to_batches()
        except Exception as error:
            self.error = error
            raise


class _Scanner:
    """What DuckDB uses of `pyarrow.dataset.Scanner`."""

    def __init__(
        self, dataset: TableDataset, names: list[str], filter: pc.Expression | None
    ) -> None:
        self._dataset, self._names, self._filter = dataset, names, filter

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows while they are read."""
        schema = pa.schema([self._dataset.schema.field(name) for name in self._names])
        batches = self._dataset.batches(self._names, self._filter)
        return pa.RecordBatchReader.from_batches(schema, batches)


def _is_unsupported(expression: Expression) -> bool:
    return any(isinstance(node, Unsupported) for node in walk(expression))

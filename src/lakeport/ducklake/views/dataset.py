"""A table of a lake as a pyarrow dataset, into which DuckDB pushes columns and filters.

DuckDB reads a dataset by `Dataset.scanner(columns=…, filter=…).to_reader()`, and applies no pushed
comparison again: a scan of the lake applies it exactly, as DuckDB would, and prunes files and row
groups by it. DuckDB applies a pushed list again, so a scan may leave it out.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lakeport.ducklake.reading.row_filter import row_filter
from lakeport.errors import InvalidInputError
from lakeport.filters import (
    ColumnRef,
    Constant,
    Expression,
    Filter,
    In,
    Unsupported,
    bind,
    lit,
    pushed_filter,
    walk,
)
from lakeport.types import from_arrow_type

__all__ = ["InexactFilterError", "ReadTable", "TableDataset", "filtered"]

# In microseconds, as constants have them.
_LAST_MOMENTS: Final = frozenset(
    {lit(datetime.min).value, lit(datetime.max).value}  # noqa: DTZ901 - plain TIMESTAMPs
)

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


class InexactFilterError(InvalidInputError):
    """A pushed filter is not the condition of the query, and DuckDB would not apply that again."""

    def __init__(self) -> None:
        super().__init__("DuckDB cannot run the view: it cannot push down one of its conditions")


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
        try:
            with self._read(names, self._understood(filter)) as reader:
                yield from reader
        except Exception as error:
            self.error = error
            raise

    def _understood(self, filter: pc.Expression | None) -> Filter:
        """Return a pushed filter without lists whose values DuckDB may have changed."""
        conjuncts = () if filter is None else pushed_filter(filter).conjuncts
        kept = tuple(part for part in conjuncts if not self._has_inexact_list(part))
        if any(_is_inexact(part) for part in kept):
            raise InexactFilterError
        return Filter(kept)

    def _has_inexact_list(self, part: Expression) -> bool:
        """Return whether a condition has a list that may lack values of the query.

        DuckDB 1.5 makes Python's values of a list: they have no nanoseconds, and an infinite
        timestamp is the last one that Python has.
        """
        return any(isinstance(node, In) and not self._is_exact(node) for node in walk(part))

    def _is_exact(self, values: In) -> bool:
        if not isinstance(values.probe, ColumnRef):
            return False
        field = self._own_schema.field(values.probe.name)
        if not pa.types.is_temporal(field.type):
            return not pa.types.is_nested(field.type)
        column = from_arrow_type(field.type)
        return all(
            isinstance(item, Constant) and item.type == column and item.value not in _LAST_MOMENTS
            for item in values.items
        )


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


def _is_inexact(part: Expression) -> bool:
    """Return whether a condition is not understood, or is the `true` of `x <= 'nan'`.

    DuckDB 1.5 pushes that condition so, although NULL does not pass it.
    """
    is_true = isinstance(part, Constant) and part.value is True
    return is_true or any(isinstance(node, Unsupported) for node in walk(part))

"""Tables from Arrow tables, data frames, reader factories and scan callables."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.arrow import RowsLike, arrow_table, as_reader
from lakeport.catalog.model import Table
from lakeport.catalog.options import ScanOptions
from lakeport.catalog.results import ColumnStats, Endpoint, Partition, TableSize
from lakeport.catalog.schemas import project_schema
from lakeport.errors import DefinitionError, InvalidArgumentError, NotFoundError
from lakeport.filters.encoders import to_arrow

__all__ = [
    "ArrowTable",
    "ReferenceTable",
    "ScanTable",
    "StatisticsArrowTable",
    "TableSource",
    "statistics_of",
    "table_from",
]

# Parts that were asked for by number, and parts by default: a thread should be worth its call.
_MIN_PARTITION_ROWS = 1 << 14
_DEFAULT_PARTITION_ROWS = 1 << 17
_DEFAULT_PARTITIONS = 8


@runtime_checkable
class TableSource(Protocol):
    """A table without a name, such as a `lakeport.spark.SparkTable`."""

    def named(self, name: str, comment: str = "") -> Table:
        """Return the table with this name."""
        ...


def table_from(
    name: str,
    source: Any,
    *,
    schema: pa.Schema | None = None,
    comment: str = "",
    endpoints: int | None = None,
    statistics: bool = False,
) -> Table:
    """Return a table of data or of a callable."""
    if isinstance(source, TableSource):
        if schema is not None or endpoints not in (None, 1) or statistics:
            raise DefinitionError(
                f"table {name!r}: schema, endpoints and statistics do not apply to a "
                f"{type(source).__name__}"
            )
        return source.named(name, comment)
    if callable(source):
        if endpoints not in (None, 1) or statistics:
            raise DefinitionError(
                f"table {name!r}: endpoints and statistics do not apply to a callable"
            )
        return ScanTable.from_callable(name, source, schema=schema, comment=comment)
    data = _data(name, source)
    if schema is not None:
        data = _cast(name, data, schema)
    kind = StatisticsArrowTable if statistics else ArrowTable
    return kind(name, data, comment=comment, endpoints=endpoints)


class ArrowTable:
    """A table whose rows are in memory. A scan returns slices of them without a copy.

    By default, a table of 262,144 rows or more is read in up to eight parts at once, so its rows
    arrive in no order. With `endpoints=1` they arrive in the order of the data.
    """

    def __init__(
        self, name: str, data: pa.Table, *, comment: str = "", endpoints: int | None = None
    ) -> None:
        if endpoints is not None and endpoints < 1:
            raise DefinitionError(f"table {name!r}: endpoints must be at least 1, not {endpoints}")
        self.name = name
        self.comment = comment
        self._data = data
        self._endpoints = endpoints

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the columns of the table."""
        return project_schema(self._data.schema, columns)

    def size(self, options: ScanOptions) -> TableSize:
        """Return the exact size in memory, of the table or of a part of it."""
        data = self._partition(options.partition)
        return TableSize(rows=data.num_rows, bytes=data.nbytes)

    def endpoints(self, options: ScanOptions) -> Sequence[Endpoint]:  # noqa: ARG002
        """Return row ranges of about equal length, at most as many as declared."""
        rows = self._data.num_rows
        if self._endpoints is None:
            parts = max(1, min(_DEFAULT_PARTITIONS, rows // _DEFAULT_PARTITION_ROWS))
        else:
            parts = max(1, min(self._endpoints, rows // _MIN_PARTITION_ROWS))
        bounds = [rows * part // parts for part in range(parts + 1)]
        return [Partition(f"{start}:{stop}".encode()) for start, stop in pairwise(bounds)]

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        """Return slices of the rows. The filter is applied as far as Arrow supports it."""
        data = self._partition(options.partition)
        if options.columns is not None:
            needed = options.filter.columns | set(options.columns)
            data = data.select([name for name in data.column_names if name in needed])
        predicate = to_arrow(options.filter, data.schema, in_memory=True)
        if predicate is not None and all(_can_be_filtered(type) for type in data.schema.types):
            import pyarrow.dataset as ds  # imports pandas, which is slow

            return ds.dataset(data).scanner(filter=predicate).to_reader()
        # The limit counts only rows that pass the filter.
        if options.limit is not None and not options.filter:
            data = data.slice(0, options.limit)
        return data.to_reader(max_chunksize=options.batch_size)

    def _partition(self, token: bytes | None) -> pa.Table:
        if token is None:
            return self._data
        try:
            start, stop = (int(part) for part in token.split(b":"))
        except ValueError:
            raise InvalidArgumentError(f"not a partition of table {self.name!r}") from None
        if not 0 <= start <= stop <= self._data.num_rows:
            raise InvalidArgumentError(f"not a partition of table {self.name!r}")
        return self._data.slice(start, stop - start)


class StatisticsArrowTable(ArrowTable):
    """A table in memory that also sends the bounds of its columns to DuckDB."""

    def __init__(
        self, name: str, data: pa.Table, *, comment: str = "", endpoints: int | None = None
    ) -> None:
        super().__init__(name, data, comment=comment, endpoints=endpoints)
        # Not locked: in a race two threads compute the same value.
        self._statistics: dict[str, ColumnStats] = {}

    def column_statistics(self, column: str, duckdb_type: str) -> ColumnStats:  # noqa: ARG002
        """Return exact statistics, computed once per column."""
        statistics = self._statistics.get(column)
        if statistics is None:
            if self._data.schema.get_field_index(column) < 0:
                raise NotFoundError(f"table {self.name!r} has no column {column!r}")
            statistics = self._statistics[column] = statistics_of(self._data.column(column))
        return statistics


class ScanTable:
    """A table whose rows are returned by a callable, which is called for every scan.

    A scan of an immediate table starts at once, and counts for no limit of the caller.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        scan: Callable[[ScanOptions], RowsLike],
        *,
        comment: str = "",
        is_immediate: bool = False,
    ) -> None:
        self.name = name
        self.comment = comment
        self.is_immediate = is_immediate
        self._schema = schema
        self._scan = scan

    @classmethod
    def from_callable(
        cls,
        name: str,
        function: Callable[..., RowsLike],
        *,
        schema: pa.Schema | None,
        comment: str = "",
    ) -> ScanTable:
        """Return a table of a scan callable (one argument: the options) or a reader factory."""
        takes_options = _positional_count(name, function) == 1
        scan = function if takes_options else (lambda _options: function())
        if schema is None:
            if takes_options:
                raise DefinitionError(f"table {name!r}: a scan callable needs schema=…")
            rows = function()
            table = arrow_table(rows)
            schema = getattr(rows if table is None else table, "schema", None)
            if not isinstance(schema, pa.Schema):
                raise DefinitionError(
                    f"table {name!r}: the factory returns {type(rows).__name__}, which has no "
                    "Arrow schema; declare one with schema=…"
                )
            if isinstance(rows, pa.RecordBatchReader):
                rows.close()
        return cls(name, schema, scan, comment=comment)

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the declared columns."""
        return project_schema(self._schema, columns)

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        """Return the rows of the callable as a reader."""
        return as_reader(self._scan(options), self._schema, f"table {self.name!r}")


class ReferenceTable:
    """A table that the client reads itself, with DuckDB functions or from files."""

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        references: Sequence[Endpoint] | Callable[[ScanOptions], Sequence[Endpoint]],
        *,
        comment: str = "",
    ) -> None:
        self.name = name
        self.comment = comment
        self._schema = schema
        self._references = references

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the declared columns, which the references must provide by name and type."""
        return project_schema(self._schema, columns)

    def endpoints(self, options: ScanOptions) -> Sequence[Endpoint]:
        """Return the references to read."""
        return self._references(options) if callable(self._references) else self._references

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:  # noqa: ARG002
        """Raise InvalidArgumentError: the client reads the rows itself."""
        raise InvalidArgumentError(f"table {self.name!r} is read by the client from its references")


def statistics_of(column: pa.ChunkedArray) -> ColumnStats:
    """Return exact bounds and null counts of a column."""
    if pa.types.is_run_end_encoded(column.type):
        # The nulls are in the runs; null_count does not count them.
        try:
            column = pc.run_end_decode(column)
        except pa.ArrowNotImplementedError:
            return ColumnStats()
    # Arrow values, because Python has no nanoseconds and no years after 9999.
    bounds: Mapping[str, pa.Scalar | None] = {"min": None, "max": None}
    with suppress(pa.ArrowNotImplementedError, pa.ArrowInvalid):
        bounds = pc.min_max(_comparable(column))
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    is_blob = pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
    longest = pc.max(pc.binary_length(column)).as_py() if is_text or is_blob else None
    return ColumnStats(
        has_not_null=column.null_count < len(column),
        has_null=column.null_count > 0,
        min=bounds["min"],
        max=bounds["max"],
        max_string_length=longest,
        contains_unicode=_contains_unicode(column) if is_text else None,
    )


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    # NaN is the greatest value for DuckDB; Arrow ignores it and would return a wrong bound.
    if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
        raise pa.ArrowInvalid("NaN")
    return column


def _contains_unicode(column: pa.ChunkedArray) -> bool:
    return pc.all(pc.string_is_ascii(column)).as_py() is False


def _can_be_filtered(type: pa.DataType) -> bool:
    """Return whether Arrow can filter arrays of this type; it cannot filter views."""
    try:
        pa.nulls(0, type).filter(pa.array([], pa.bool_()))
    except pa.ArrowNotImplementedError:
        return False
    return True


def _data(name: str, source: Any) -> pa.Table:
    table = arrow_table(source)
    if table is not None:
        return table
    if type(source).__module__.partition(".")[0] == "pyspark":
        raise DefinitionError(f"table {name!r}: wrap the DataFrame in a lakeport.spark.SparkTable")
    if hasattr(source, "__arrow_c_stream__"):
        return pa.table(source)
    raise DefinitionError(
        f"table {name!r}: {type(source).__name__} is not a table; pass a pyarrow table, a pandas "
        "or polars frame, a callable, or an object with the Table protocol"
    )


def _cast(name: str, data: pa.Table, schema: pa.Schema) -> pa.Table:
    try:
        return data.select(schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError, ValueError) as error:
        raise DefinitionError(f"table {name!r}: the data does not fit schema=: {error}") from None


def _positional_count(name: str, function: Callable[..., Any]) -> int:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 0
    required = [
        parameter
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and parameter.default is parameter.empty
    ]
    if len(required) > 1:
        raise DefinitionError(
            f"table {name!r}: the callable takes {len(required)} arguments; it must take none "
            "(a reader factory) or one (the ScanOptions)"
        )
    return len(required)

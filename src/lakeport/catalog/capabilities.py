"""What a table, schema or catalog can do besides being read, as small protocols.

The server checks them with `isinstance`, so having the methods is enough. If a capability is
missing, the client receives an error that names it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, Protocol, TypeGuard, runtime_checkable

import pyarrow as pa

from lakeport.catalog.model import Catalog, Schema, Table
from lakeport.catalog.options import (
    AddColumnOptions,
    AddFieldOptions,
    ChangeColumnTypeOptions,
    CreateSchemaOptions,
    CreateTableOptions,
    DMLOptions,
    DropNotNullOptions,
    DropSchemaOptions,
    DropTableOptions,
    RemoveColumnOptions,
    RemoveFieldOptions,
    RenameColumnOptions,
    RenameFieldOptions,
    RenameTableOptions,
    ScanOptions,
    SetDefaultOptions,
    SetNotNullOptions,
    TimePoint,
)
from lakeport.catalog.results import (
    Action,
    CatalogVersion,
    ColumnStats,
    DMLResult,
    Endpoint,
    TableSize,
    TransactionState,
)

__all__ = [
    "STATISTICS_ROWS",
    "ActionCatalog",
    "DeletableBatchTable",
    "DeletableTable",
    "DynamicCatalog",
    "DynamicSchema",
    "DynamicTable",
    "EndpointTable",
    "HistoricSchema",
    "InsertableTable",
    "ListingStateCatalog",
    "OpenScanTable",
    "PolicyCatalog",
    "SizedTable",
    "StagingCatalog",
    "StatisticsTable",
    "TimeTravelTable",
    "TransactionManager",
    "UpdatableBatchTable",
    "UpdatableTable",
    "VersionedCatalog",
    "has_endpoints",
    "has_open_scan",
    "has_size",
    "has_statistics",
    "offers_statistics",
]


@runtime_checkable
class InsertableTable(Table, Protocol):
    """A table that takes new rows."""

    def insert(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        """Add the rows of one statement: all of them, or none when reading them fails.

        The batches have all columns of the table but the rowid, in the table's types. Pass the
        stored rows of a batch to `options.emit` before reading the next batch.
        """
        ...


@runtime_checkable
class UpdatableTable(Table, Protocol):
    """A table whose rows can be changed, with row ids beside the rows."""

    def update(self, row_ids: pa.Array, rows: pa.RecordBatch, options: DMLOptions) -> DMLResult:
        """Change the rows with these ids; the batch has the changed columns, in the ids' order.

        Called for every batch of a statement. Where that has to be all or nothing, make the
        catalog a `TransactionManager`, or implement `UpdatableBatchTable` instead.
        """
        ...


@runtime_checkable
class DeletableTable(Table, Protocol):
    """A table whose rows can be deleted, with row ids alone."""

    def delete(self, row_ids: pa.Array, options: DMLOptions) -> DMLResult:
        """Delete the rows with these ids; an id may repeat.

        Called for every batch of a statement. Where that has to be all or nothing, make the
        catalog a `TransactionManager`, or implement `DeletableBatchTable` instead.
        """
        ...


@runtime_checkable
class UpdatableBatchTable(Table, Protocol):
    """A table whose rows can be changed, with the rowid column in the batches.

    Preferred over `UpdatableTable` when a table has both.
    """

    def update_rows(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        """Change the rows of one statement: all of them, or none when reading them fails.

        The batches have the changed columns (and possibly others, unchanged) and the rowid, at
        position `find_rowid_column(rows.schema)`. Raise `NullRowIdError` for a null rowid. Pass
        the new rows of a batch, with all columns, to `options.emit` before reading the next.
        """
        ...


@runtime_checkable
class DeletableBatchTable(Table, Protocol):
    """A table whose rows can be deleted, with the rowid column in the batches.

    Preferred over `DeletableTable` when a table has both.
    """

    def delete_rows(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        """Delete the rows of one statement: all of them, or none when reading them fails.

        The batches have the rowid column; an id may repeat. Raise `NullRowIdError` for a null
        rowid. Pass the deleted rows, with all columns, to `options.emit` before reading the next.
        """
        ...


STATISTICS_ROWS: Final = 400_000
"""From how many rows for each column on statistics save more time than their requests take.

A column costs two calls, about two milliseconds of CPU; bounds save five nanoseconds a row where
DuckDB groups by a column with few values.
"""


@runtime_checkable
class StatisticsTable(Table, Protocol):
    """A table with statistics of its columns.

    DuckDB requests them twice for each column of every statement. A table that is too small for
    this to pay has an attribute `offers_statistics` that is False.
    """

    def column_statistics(self, column: str, duckdb_type: str) -> ColumnStats:
        """Return statistics of a column; `duckdb_type` is its type as DuckDB spells it."""
        ...


def has_statistics(table: Table) -> TypeGuard[StatisticsTable]:
    """Return whether a table is a `StatisticsTable`.

    `isinstance` with a protocol looks at every member of the table, which takes a tenth of the time
    of a small request. So does no function here that is called by most requests.
    """
    return hasattr(table, "column_statistics")


def offers_statistics(table: Table) -> bool:
    """Return whether a listing offers the statistics of a table to clients."""
    return has_statistics(table) and bool(getattr(table, "offers_statistics", True))


@runtime_checkable
class SizedTable(Table, Protocol):
    """A table with an estimate of its size."""

    def size(self, options: ScanOptions) -> TableSize:
        """Return an estimate of what a scan with these options reads."""
        ...


def has_size(table: Table) -> TypeGuard[SizedTable]:
    """Return whether a table is a `SizedTable`."""
    return hasattr(table, "size")


@runtime_checkable
class OpenScanTable(Table, Protocol):
    """A table that finds the size and the rows of a scan in one step.

    The server then calls `open_scan` to read a ticket, instead of `size` and `scan`.
    """

    def open_scan(self, options: ScanOptions) -> tuple[TableSize, pa.RecordBatchReader]:
        """Return what `size` and `scan` return for these options."""
        ...


def has_open_scan(table: Table) -> TypeGuard[OpenScanTable]:
    """Return whether a table is an `OpenScanTable`."""
    return hasattr(table, "open_scan")


@runtime_checkable
class EndpointTable(Table, Protocol):
    """A table that is read in several parts, or by the client itself."""

    def endpoints(self, options: ScanOptions) -> Sequence[Endpoint]:
        """Return the parts of a scan. An empty sequence means no rows."""
        ...


def has_endpoints(table: Table) -> TypeGuard[EndpointTable]:
    """Return whether a table is an `EndpointTable`."""
    return hasattr(table, "endpoints")


@runtime_checkable
class TimeTravelTable(Table, Protocol):
    """A table with a history. Its `scan` reads the state of `ScanOptions.time_point`."""

    def schema_at(self, time_point: TimePoint) -> pa.Schema:
        """Return the columns at a time point; `NotFoundError` if the table did not exist."""
        ...


@runtime_checkable
class DynamicTable(Table, Protocol):
    """A table whose columns can be changed."""

    def add_column(self, column_schema: pa.Schema, options: AddColumnOptions) -> None:
        """Add the one field of `column_schema` as a column."""
        ...

    def remove_column(self, name: str, options: RemoveColumnOptions) -> None:
        """Remove a column."""
        ...

    def rename_column(self, old_name: str, new_name: str, options: RenameColumnOptions) -> None:
        """Rename a column."""
        ...

    def change_column_type(
        self, column_schema: pa.Schema, expression: str, options: ChangeColumnTypeOptions
    ) -> None:
        """Change a column to the type of the one field; `expression` is SQL that converts it."""
        ...

    def set_not_null(self, column: str, options: SetNotNullOptions) -> None:
        """Reject nulls in a column from now on."""
        ...

    def drop_not_null(self, column: str, options: DropNotNullOptions) -> None:
        """Accept nulls in a column from now on."""
        ...

    def set_default(self, column: str, expression: str, options: SetDefaultOptions) -> None:
        """Set the SQL expression for inserted rows that have no value for the column."""
        ...

    def add_field(
        self, path: Sequence[str], column_schema: pa.Schema, options: AddFieldOptions
    ) -> None:
        """Add the one field of `column_schema` to the struct at `path`."""
        ...

    def rename_field(self, path: Sequence[str], new_name: str, options: RenameFieldOptions) -> None:
        """Rename the field at `path`."""
        ...

    def remove_field(self, path: Sequence[str], options: RemoveFieldOptions) -> None:
        """Remove the field at `path`."""
        ...


@runtime_checkable
class HistoricSchema(Protocol):
    """A schema that can explain why it has no table of a name."""

    def why_missing(self, name: str) -> str | None:
        """Return a sentence about a name that `table` returns None for, or None.

        The caller may read a table of that name, as it is spelled here.
        """
        ...


@runtime_checkable
class DynamicSchema(Schema, Protocol):
    """A schema whose tables can be created, dropped and renamed."""

    def create_table(self, name: str, schema: pa.Schema, options: CreateTableOptions) -> Table:
        """Create a table, or return the existing one with `OnConflict.IGNORE`."""
        ...

    def drop_table(self, name: str, options: DropTableOptions) -> None:
        """Drop a table."""
        ...

    def rename_table(self, old_name: str, new_name: str, options: RenameTableOptions) -> None:
        """Rename a table."""
        ...


@runtime_checkable
class DynamicCatalog(Catalog, Protocol):
    """A catalog whose schemas can be created and dropped."""

    def create_schema(self, name: str, options: CreateSchemaOptions) -> Schema:
        """Create a schema."""
        ...

    def drop_schema(self, name: str, options: DropSchemaOptions) -> None:
        """Drop a schema."""
        ...


@runtime_checkable
class VersionedCatalog(Catalog, Protocol):
    """A catalog with a version number."""

    def catalog_version(self) -> CatalogVersion:
        """Return the current version."""
        ...


@runtime_checkable
class ListingStateCatalog(Catalog, Protocol):
    """A catalog whose listing may change without a new version."""

    def listing_state(self) -> Hashable:
        """Return a value that differs between two listings of one version that differ."""
        ...


@runtime_checkable
class TransactionManager(Protocol):
    """A catalog with transactions.

    Reads and writes belong to the transaction `current_request().transaction_id`. The server
    commits it after every statement that succeeds and rolls it back after one that fails, unless
    the client has begun a transaction of several statements. An identifier must stay valid after a
    commit, because DuckDB uses it until its own transaction ends. The server rolls back
    transactions that have been idle for too long.
    """

    def begin_transaction(self) -> str:
        """Start a transaction and return its identifier.

        The identifier must be unguessable, for example a random UUID.
        """
        ...

    def commit_transaction(self, transaction_id: str) -> None:
        """Make the changes of a transaction durable."""
        ...

    def rollback_transaction(self, transaction_id: str) -> None:
        """Drop the changes of a transaction."""
        ...

    def transaction_status(self, transaction_id: str) -> TransactionState | None:
        """Return the state of a transaction, or None if it is unknown."""
        ...


@runtime_checkable
class StagingCatalog(TransactionManager, Protocol):
    """A catalog that can stage writes until its client commits them.

    A staged transaction belongs to the DuckDB process that began it. The catalog may end it by
    itself, for example in a function `commit`: then `transaction_status` returns `COMMITTED` or
    None for its identifier.
    """

    @property
    def stages_writes(self) -> bool:
        """Whether every write of a client waits for an explicit commit."""
        ...


@runtime_checkable
class ActionCatalog(Catalog, Protocol):
    """A catalog with Flight actions of its own."""

    def actions(self) -> Sequence[Action]:
        """Return the actions. DuckDB users call them with `airport_action`."""
        ...


@runtime_checkable
class PolicyCatalog(Catalog, Protocol):
    """A catalog that shows each caller only what `current_request().restriction` leaves.

    It applies the restrictions of rows and columns wherever data of a table leaves: scans, columns,
    sizes, statistics, functions. Without this capability, a caller with a restriction of a table
    cannot use the table.
    """

    def describes_itself(self, schema: str) -> bool:
        """Return whether a schema holds tables and functions about the catalog itself.

        Their rows must be about objects that the caller may list or read.
        """
        ...

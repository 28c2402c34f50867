"""What the files of a table inside a transaction are like, and rows that fit its columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakeport.ducklake.model import PartitionField, PartitionSpec, SortField
from lakeport.ducklake.storage.filesystems import Storage
from lakeport.ducklake.storage.paths import as_directory, resolve
from lakeport.ducklake.writing.ddl.definitions import TableDefinition
from lakeport.ducklake.writing.files import FileOptions, FileTarget, RowFitter, sorted_batches
from lakeport.ducklake.writing.options import Options

if TYPE_CHECKING:
    from lakeport.ducklake.writing.table_writer import TableWriter

__all__ = ["directory_of", "file_target", "fitted", "sort_order", "table_target"]

_OPTIONS: Final = (
    "parquet_compression",
    "parquet_compression_level",
    "parquet_version",
    "parquet_row_group_size",
    "parquet_row_group_size_bytes",
    "target_file_size",
    "hive_file_pattern",
    "per_thread_output",
    "sort_on_insert",
    "write_deletion_vectors",
)


def file_target(writer: TableWriter, *, in_order: bool = False) -> FileTarget:
    """Return how files of the table are written; `in_order` leaves rows in their order."""
    return table_target(
        writer.definition,
        writer.transaction.options,
        directory=directory_of(writer),
        storage=writer.transaction.lake.storage,
        in_order=in_order,
    )


def table_target(
    definition: TableDefinition,
    options: Options,
    *,
    directory: str,
    storage: Storage,
    in_order: bool = False,
) -> FileTarget:
    """Return how files of a table are written, from its definition and its options."""
    scope = {"schema_id": definition.schema.id, "table_id": definition.id}
    texts = {name: options.get(name, **scope) for name in _OPTIONS}
    given = {name: text for name, text in texts.items() if text is not None}
    if options.is_encrypted:
        given.setdefault("hive_file_pattern", "false")
    spec = None
    if definition.partition_id is not None and definition.partition_keys:
        keys = (PartitionField(key.column_id, key.transform) for key in definition.partition_keys)
        spec = PartitionSpec(definition.partition_id, tuple(keys))
    return FileTarget(
        columns=definition.tree,
        directory=directory,
        storage=storage,
        partition_spec=spec,
        sort_order=() if in_order else sort_order(definition),
        encrypted=options.is_encrypted,
        options=FileOptions.from_mapping(given),
    )


def sort_order(definition: TableDefinition) -> tuple[SortField, ...]:
    """Return how rows within files of a table are sorted."""
    return tuple(
        SortField(
            expression=key.expression,
            dialect=key.dialect,
            descending=key.direction == "DESC",
            nulls_first=key.null_order == "NULLS_FIRST",
        )
        for key in definition.sort_keys
    )


def directory_of(writer: TableWriter) -> str:
    """Return the directory of the table's files, which may not exist yet."""
    if writer.layout is not None:
        return writer.layout.path
    definition, lake = writer.definition, writer.transaction.lake
    schema = definition.schema
    folder = as_directory(
        resolve(lake.data_root(lake.option_rows()), schema.path, relative=schema.path_is_relative)
    )
    return as_directory(resolve(folder, definition.path, relative=definition.path_is_relative))


def fitted(target: FileTarget, rows: pa.Table) -> pa.Table:
    """Return a few rows in the columns, types and sort order of the table."""
    fit = RowFitter(rows.schema, target.columns)
    batches: Iterator[pa.RecordBatch] = (fit(batch) for batch in rows.to_batches())
    if target.sort_order and target.options.sort_on_insert:
        batches = sorted_batches(batches, fit.schema, target.sort_order)
    return pa.Table.from_batches(list(batches), fit.schema)

"""Create the catalog of a new lake: the tables, the first snapshot and the schema `main`."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Final

from lakeport._version import __version__
from lakeport.ducklake.metadata.catalog_tables import probe_statement
from lakeport.ducklake.metadata.database import Database
from lakeport.ducklake.metadata.location import DatabaseKind
from lakeport.ducklake.metadata.rows import (
    CATALOG_ROWS,
    CatalogRow,
    ColumnRow,
    DataFileRow,
    DeleteFileRow,
    FileColumnStatsRow,
    FilePartitionValueRow,
    InlinedDataTableRow,
    MetadataRow,
    SchemaRow,
    SchemaVersionRow,
    SnapshotChangesRow,
    SnapshotRow,
    TableColumnStatsRow,
    TableRow,
    TableStatsRow,
    ViewColumnTagRow,
    table_name,
)
from lakeport.ducklake.storage.paths import as_directory, is_local
from lakeport.ducklake.writing.database import CatalogWriter, WriteDatabase
from lakeport.ducklake.writing.database.versions import WRITTEN_VERSION
from lakeport.errors import AlreadyExistsError, InvalidArgumentError

__all__ = ["create_catalog"]

_INDEXES: Final[tuple[tuple[type[CatalogRow], tuple[str, ...]], ...]] = (
    (TableRow, ("table_id",)),
    (ColumnRow, ("table_id",)),
    (SchemaVersionRow, ("table_id",)),
    (InlinedDataTableRow, ("table_id",)),
    (TableStatsRow, ("table_id",)),
    (TableColumnStatsRow, ("table_id",)),
    (DataFileRow, ("table_id",)),
    (DeleteFileRow, ("table_id",)),
    (DeleteFileRow, ("data_file_id",)),
    (FileColumnStatsRow, ("table_id", "column_id")),
    (FilePartitionValueRow, ("table_id",)),
)


def create_catalog(database: Database, data_path: str | None, *, encrypted: bool) -> None:
    """Create the tables of a lake; raise AlreadyExistsError if the database has some of them."""
    path = _data_path(database, data_path)
    if database.location.path and not Path(database.location.path).parent.is_dir():
        raise InvalidArgumentError(
            f"the folder of the catalog database {database.location.path!r} does not exist"
        )
    writer = WriteDatabase(database)
    try:
        with writer.transaction() as transaction:
            _check_empty(transaction)
            _create_tables(transaction)
            _create_indexes(transaction)
            _insert_first_rows(transaction, path, encrypted=encrypted)
            transaction.commit()
    except database.errors as error:
        message = str(getattr(error, "orig", None) or error)
        raise database.error(message, locked=writer.dialect.is_collision(error)) from None
    finally:
        writer.dispose()


def _data_path(database: Database, data_path: str | None) -> str:
    """Return the path to record: absolute, because a relative one depends on the process."""
    if data_path is None:
        if database.kind != "duckdb":
            raise InvalidArgumentError(
                "data_path is missing: only a lake in a DuckDB file has a default, the folder "
                "beside it"
            )
        data_path = f"{database.location.path}.files"
    if not data_path:
        raise InvalidArgumentError("data_path is empty")
    if is_local(data_path) and not data_path.startswith("file:"):
        data_path = str(Path(data_path).absolute())
    return as_directory(data_path)


def _check_empty(writer: CatalogWriter) -> None:
    found = sorted(
        {row[0] for row in writer.connection.execute(probe_statement(writer.database)).all()}
    )
    if found:
        raise AlreadyExistsError(
            f"{writer.database.location} has a table {found[0]} already: a lake is never "
            "overwritten"
        )


def _create_tables(writer: CatalogWriter) -> None:
    schema, kind = writer.database.schema, writer.database.kind
    if schema is not None and _needs_schema(kind, schema):
        writer.execute(f"CREATE SCHEMA IF NOT EXISTS {writer.dialect.identifier(schema)}")
    for row in CATALOG_ROWS:
        if row is not ViewColumnTagRow:  # a table of format 1.1
            writer.execute(writer.dialect.create_table(schema, row))


def _create_indexes(writer: CatalogWriter) -> None:
    """Create indexes, so that a commit on a large lake costs what it costs on a small one.

    The reference has none and ignores them. DuckDB scans columns quickly, and an index on a column
    would slow down its updates.
    """
    if writer.database.kind == "duckdb":
        return
    quote = writer.dialect.identifier
    for row, columns in _INDEXES:
        name = quote(f"lakeport_{row.branch}_{columns[0]}")
        table = writer.dialect.table(writer.database.schema, table_name(row))
        keys = ", ".join(quote(column) for column in columns)
        writer.execute(f"CREATE INDEX {name} ON {table} ({keys})")


def _needs_schema(kind: DatabaseKind, schema: str) -> bool:
    return (kind == "duckdb" and schema != "main") or (kind == "postgresql" and schema != "public")


def _insert_first_rows(writer: CatalogWriter, data_path: str, *, encrypted: bool) -> None:
    now = writer.now.strftime("%Y-%m-%d %H:%M:%S.%f+00")
    writer.insert(
        [
            MetadataRow("version", WRITTEN_VERSION, None, None),
            MetadataRow("created_by", f"Lakeport {__version__}", None, None),
            MetadataRow("data_path", data_path, None, None),
            MetadataRow("encrypted", "true" if encrypted else "false", None, None),
            SnapshotRow(0, now, 0, 1, 0),
            SnapshotChangesRow(0, 'created_schema:"main"', None, None, None),
            SchemaRow(0, str(uuid.uuid4()), 0, None, "main", "main/", path_is_relative=True),
        ]
    )

"""`RemoteTable`: a table of a server, to read, write and alter."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lakeport.airport.client.catalog import AttachedCatalog
from lakeport.airport.client.entries import Column, TableEntry, columns_of
from lakeport.airport.client.predicates import FilterLike
from lakeport.airport.client.replies import (
    REPLY_LIMITS,
    FlightDescription,
    decoding_reply,
    read_flight_description,
)
from lakeport.airport.client.scan import Bound, Scan
from lakeport.airport.client.statements.ddl import alter, one_field
from lakeport.airport.client.statements.statement import Statement
from lakeport.airport.client.statements.writes import (
    WriteResult,
    delete_rows,
    insert_rows,
    update_rows,
)
from lakeport.airport.protocol.codec import read_one_row
from lakeport.arrow import RowSource
from lakeport.catalog import ColumnStats, check_constraints, without_rowid
from lakeport.errors import InternalError, InvalidArgumentError, NotFoundError, UnsupportedError
from lakeport.types import duckdb_identifier, fold_name, from_arrow_type

__all__ = ["CAN_PRODUCE_STATISTICS", "RemoteTable", "column_statistics"]


class RemoteTable:
    """A table of a server, as the client's listing describes it, including the client's changes."""

    def __init__(self, catalog: AttachedCatalog, schema_name: str, name: str) -> None:
        self._catalog = catalog
        self._schema_name = schema_name
        self._name = name

    def __repr__(self) -> str:
        return f"RemoteTable({self._schema_name}.{self._name})"

    @property
    def name(self) -> str:
        """Return the name of the table."""
        return self._name

    @property
    def schema_name(self) -> str:
        """Return the name of the table's schema."""
        return self._schema_name

    @property
    def comment(self) -> str:
        """Return the comment, or an empty string."""
        return self._entry.comment

    @property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema without the row identifier."""
        return without_rowid(self._entry.schema)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns with NOT NULL, defaults and comments."""
        return columns_of(self._entry.schema)

    @property
    def rowid_type(self) -> pa.DataType | None:
        """Return the type of the row identifier; None if rows cannot be changed."""
        rowid = self._entry.rowid
        return None if rowid is None else rowid.type

    @property
    def check_constraints(self) -> tuple[str, ...]:
        """Return the SQL expressions that every row satisfies."""
        with decoding_reply("check constraints"):
            return check_constraints(self._entry.schema)

    @property
    def has_statistics(self) -> bool:
        """Return whether the server has `statistics` of the table."""
        return bool((self._entry.schema.metadata or {}).get(CAN_PRODUCE_STATISTICS))

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: FilterLike | None = None,
        *,
        version: int | str | None = None,
        timestamp: dt.datetime | dt.date | str | None = None,
        limit: int | None = None,
    ) -> Scan:
        """Return a scan of the table. Nothing is read before a method of the scan is called.

        Args:
            columns: The columns to read, in this order; `rowid` is the row identifier.
            filter: The condition of the rows: `col("id") > 5`, or SQL such as `"id > 5"`.
            version: The table as of this version.
            timestamp: The table as of this time; the server chooses the zone if there is none.
            limit: The largest number of rows.
        """
        unit, value = _time_point(version, timestamp)
        scan = Scan(
            self._catalog.connection,
            lambda: self._bind(unit, value),
            _known_schema=None if unit else self._entry.schema,
            _subject=f"table {self._entry}" + (f" at {unit.lower()} {value}" if unit else ""),
        )
        if columns is not None:
            scan = scan.select(*columns)
        if limit is not None:
            scan = scan.limit(limit)
        return scan if filter is None else scan.filter(filter)

    def statistics(self, column: str) -> ColumnStats:
        """Return the server's statistics of a column."""
        return column_statistics(self._catalog, self._entry, self._column(column))

    def insert(self, rows: RowSource, *, returning: bool = False) -> WriteResult:
        """Add rows. Columns are matched by name; omitted columns get their default, or null.

        Args:
            rows: An Arrow table, batch or reader, a pandas or polars frame, or a list of dicts.
            returning: Whether to return the rows as the server stored them.
        """
        return insert_rows(self._catalog, self._entry, rows, returning=returning)

    def update(self, rows: RowSource, *, returning: bool = False) -> WriteResult:
        """Set columns of rows: each row has its `rowid`, as scanned, and the new values.

        With `returning`, the result has the same columns with their new values.
        """
        return update_rows(self._catalog, self._entry, rows, returning=returning)

    def delete(self, rowids: Any, *, returning: bool = False) -> WriteResult:
        """Delete the rows with these identifiers: an array, a list, or rows with a `rowid`."""
        return delete_rows(self._catalog, self._entry, rowids, returning=returning)

    def rename(self, new_name: str) -> None:
        """Rename the table."""
        self._name = self._alter("rename_table", new_table_name=new_name).name

    def add_column(self, name: str, type: pa.DataType, *, if_not_exists: bool = False) -> None:
        """Add a column of nulls."""
        self._alter(
            "add_column", if_column_not_exists=if_not_exists, column_schema=one_field(name, type)
        )

    def drop_column(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Remove a column."""
        self._alter(
            "remove_column", removed_column=name, if_column_exists=if_exists, cascade=cascade
        )

    def rename_column(self, name: str, new_name: str) -> None:
        """Rename a column."""
        self._alter("rename_column", new_name=new_name, old_name=name)

    def change_type(self, column: str, type: pa.DataType, *, using: str | None = None) -> None:
        """Change the type of a column; `using` is SQL that converts a value, by default a cast."""
        cast = f"CAST({duckdb_identifier(column)} AS {from_arrow_type(type).sql()})"
        self._alter(
            "change_column_type", column_schema=one_field(column, type), expression=using or cast
        )

    def set_default(self, column: str, expression: str) -> None:
        """Set the SQL expression for inserted rows without a value for the column."""
        self._alter("set_default", column_name=column, expression=expression)

    def set_not_null(self, column: str) -> None:
        """Reject nulls in a column from now on."""
        self._alter("set_not_null", column_name=column)

    def drop_not_null(self, column: str) -> None:
        """Accept nulls in a column from now on."""
        self._alter("drop_not_null", column_name=column)

    def add_field(
        self, path: Sequence[str], type: pa.DataType, *, if_not_exists: bool = False
    ) -> None:
        """Add a field to a struct column: `["address", "city"]` adds `city` to `address`."""
        *parent, name = path
        if not parent:
            raise InvalidArgumentError("a field is named by the path to it, such as ['s', 'f']")
        self._alter(
            "add_field",
            if_field_not_exists=if_not_exists,
            column_schema=one_field(name, type),
            column_path=parent,
        )

    def drop_field(
        self, path: Sequence[str], *, if_exists: bool = False, cascade: bool = False
    ) -> None:
        """Remove a field from a struct column."""
        self._alter(
            "remove_field", column_path=list(path), if_column_exists=if_exists, cascade=cascade
        )

    def rename_field(self, path: Sequence[str], new_name: str) -> None:
        """Rename a field of a struct column."""
        self._alter("rename_field", column_path=list(path), new_name=new_name)

    @property
    def _entry(self) -> TableEntry:
        return self._catalog.table(self._name, self._schema_name)

    def _column(self, name: str) -> pa.Field:
        for field in without_rowid(self._entry.schema):
            if fold_name(field.name) == fold_name(name):
                return field
        raise NotFoundError(f"table {self._entry} has no column {name!r}")

    def _alter(self, action: str, **fields: Any) -> TableEntry:
        return alter(self._catalog, self._entry, action, **fields)

    def _bind(self, at_unit: str, at_value: str) -> Bound:
        entry = self._entry
        if not at_unit:
            statement = self._catalog.begin()
            headers = statement.stream_headers(entry.descriptor)
            return Bound(entry.descriptor, entry.schema, headers)
        statement = self._catalog.begin(fetch_version=False)
        # DuckDB sends this call twice: to look up the table, and to bind the scan.
        self._flight_info(entry, statement, at_unit, at_value, is_lookup=True)
        self._catalog.fetch_version()
        info = self._flight_info(entry, statement, at_unit, at_value, is_lookup=False)
        headers = statement.stream_headers(entry.descriptor)
        return Bound(entry.descriptor, info.schema, headers, at_unit=at_unit, at_value=at_value)

    def _flight_info(
        self, entry: TableEntry, statement: Statement, unit: str, value: str, *, is_lookup: bool
    ) -> FlightDescription:
        request = {"descriptor": entry.descriptor.serialize(), "at_unit": unit, "at_value": value}
        headers = statement.headers() if is_lookup else statement.stream_headers(entry.descriptor)
        info = read_flight_description(
            self._catalog.connection.request("flight_info", request, headers)
        )
        if info.descriptor != entry.descriptor:
            raise InternalError(f"the server described another table than {entry}")
        return info


def _time_point(
    version: int | str | None, timestamp: dt.datetime | dt.date | str | None
) -> tuple[str, str]:
    """Return the unit and value of AT as DuckDB writes them."""
    if version is not None and timestamp is not None:
        raise InvalidArgumentError("pass version or timestamp, not both")
    if version is not None:
        return "VERSION", str(version)
    match timestamp:
        case None:
            return "", ""
        case dt.datetime() if timestamp.tzinfo is not None:
            text = timestamp.astimezone(dt.UTC).replace(tzinfo=None).isoformat(" ")
            return "TIMESTAMP", f"{text}+00"
        case dt.datetime():
            return "TIMESTAMP", timestamp.isoformat(" ")
        case _:
            return "TIMESTAMP", str(timestamp)


CAN_PRODUCE_STATISTICS = b"can_produce_statistics"


def column_statistics(catalog: AttachedCatalog, entry: TableEntry, column: pa.Field) -> ColumnStats:
    """Return the server's statistics of a column."""
    if not (entry.schema.metadata or {}).get(CAN_PRODUCE_STATISTICS):
        raise UnsupportedError(f"table {entry} has no statistics")
    statement = catalog.begin()
    request = {
        "flight_descriptor": entry.descriptor.serialize(),
        "column_name": column.name,
        "type": from_arrow_type(column.type).sql(),
    }
    # DuckDB sends the name of this action twice.
    headers = [*statement.statistics_headers(), ("airport-action-name", "column_statistics")]
    body = catalog.connection.request("column_statistics", request, headers)
    return _decode(body)


@decoding_reply("statistics of a column")
def _decode(body: bytes) -> ColumnStats:
    row = read_one_row(body, "statistics", limits=REPLY_LIMITS)
    values = {name: _value(row.column(i)[0]) for i, name in enumerate(row.schema.names)}
    missing = {"min", "max", "has_not_null", "has_null", "distinct_count"} - values.keys()
    if missing:
        raise InvalidArgumentError(f"there is no {sorted(missing)[0]}")
    return ColumnStats(
        has_not_null=values["has_not_null"],
        has_null=values["has_null"],
        distinct_count=values["distinct_count"] or None,
        min=values["min"],
        max=values["max"],
        max_string_length=values.get("max_string_length"),
        contains_unicode=values.get("contains_unicode"),
    )


def _value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        # The value is outside the range of Python's dates.
        return scalar

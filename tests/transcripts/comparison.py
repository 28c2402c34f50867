"""Whether our replies say the same as the recorded ones, identifiers that vary aside."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import duckdb
import msgpack
import pyarrow as pa
import pyarrow.types as pt
from pyarrow import flight

from lakeport.filters import parse_filter, to_duckdb_sql
from tests.transcripts import reply_checks
from tests.transcripts.duckdb_side import OFFLINE
from tests.transcripts.recording import Rpc
from tests.transcripts.reply_checks import Entry, Listing, require

__all__ = [
    "RecordedRows",
    "has_columns",
    "has_filter",
    "same_columns",
    "same_endpoints",
    "same_entries",
    "same_listing",
    "same_scan",
    "same_statistics",
    "true_statistics",
    "without_dictionaries",
]

_ROW = "recorded_row_number"


# -- discovery --------------------------------------------------------------------------------


def same_listing(ours: Listing, recorded: Listing) -> None:
    """The same schemas with the same contents."""
    require(ours.is_fixed == recorded.is_fixed, "list_schemas: is_fixed differs")
    names = [schema.name for schema in ours.schemas]
    require(sorted(names) == sorted(s.name for s in recorded.schemas), f"schemas: {names}")
    by_name = {schema.name: schema for schema in ours.schemas}
    for schema in recorded.schemas:
        our = by_name[schema.name]
        require(our.description == schema.description, f"{schema.name}: description")
        require(our.tags == schema.tags, f"{schema.name}: tags")
        same_entries(our.entries, schema.entries)


def same_entries(
    ours: Sequence[Entry], recorded: Sequence[Entry], *, any_layout: bool = False
) -> None:
    """The same tables and functions, with the same columns and parameters."""
    by_key = {entry.key: entry for entry in ours}
    missing = [entry.key for entry in recorded if entry.key not in by_key]
    require(not missing, f"not listed: {missing[:3]}")
    require(len(ours) == len(recorded), f"{len(ours)} entries, not {len(recorded)}")
    for entry in recorded:
        _same_entry(by_key[entry.key], entry, any_layout=any_layout)


def _same_entry(ours: Entry, recorded: Entry, *, any_layout: bool) -> None:
    where = f"{recorded.schema_name}.{recorded.name}"
    reply_checks.check_advertised_statistics(ours)
    if recorded.kind == "table":
        require((ours.comment or "") == (recorded.comment or ""), f"{where}: comment")
        same_columns(ours.schema, recorded.schema, any_layout=any_layout)
        return
    require((ours.description or "") == (recorded.description or ""), f"{where}: description")
    require(ours.stability == recorded.stability, f"{where}: stability {ours.stability}")
    if recorded.kind == "scalar_function":
        require(ours.schema.equals(recorded.schema), f"{where}: returns {ours.schema}")
    assert ours.input_schema is not None
    assert recorded.input_schema is not None
    for our, their in zip(ours.input_schema, recorded.input_schema, strict=True):
        require(our.name == their.name, f"{where}: parameter {our.name}, not {their.name}")
        require((our.metadata or {}) == (their.metadata or {}), f"{where}: {our.name}: metadata")


def same_columns(ours: pa.Schema, recorded: pa.Schema, *, any_layout: bool = False) -> None:
    """The same fields in the same order, with the metadata that the client reads.

    With `any_layout` a server may choose among the Arrow layouts of one DuckDB type.
    """
    require(ours.names == recorded.names, f"columns {ours.names}, not {recorded.names}")
    for our, their in zip(ours, recorded, strict=True):
        wanted = plain_layout(their.type) if any_layout else their.type
        found = plain_layout(our.type) if any_layout else our.type
        require(found == wanted, f"{our.name} is {our.type}, not {their.type}")
        require(our.nullable == their.nullable, f"{our.name}: nullable is {our.nullable}")
        read = (b"is_rowid", b"comment", b"default")
        for key in read:
            left, right = (our.metadata or {}).get(key), (their.metadata or {}).get(key)
            same = bool(left) == bool(right) if key == b"is_rowid" else left == right
            require(same, f"{our.name}: {key.decode()} is {left!r}, not {right!r}")
    checks = b"check_constraints"
    left, right = (ours.metadata or {}).get(checks), (recorded.metadata or {}).get(checks)
    require(_unpacked(left) == _unpacked(right), f"constraints {left!r}, not {right!r}")


def plain_layout(type: pa.DataType) -> pa.DataType:
    """The plain one among the Arrow layouts of a DuckDB type."""
    if isinstance(type, pa.BaseExtensionType):
        return type
    if pt.is_large_string(type) or pt.is_string_view(type):
        return pa.string()
    if pt.is_large_binary(type) or pt.is_binary_view(type):
        return pa.binary()
    if pt.is_map(type):
        return pa.map_(plain_layout(type.key_type), plain_layout(type.item_type))
    if pt.is_struct(type):
        return pa.struct([field.with_type(plain_layout(field.type)) for field in type.fields])
    if pt.is_fixed_size_list(type):
        return pa.list_(plain_layout(type.value_type), type.list_size)
    if type.num_fields == 1 and "list" in str(type):
        return pa.list_(plain_layout(type.value_type))
    return type


def has_columns(ours: pa.Schema, recorded: pa.Schema) -> None:
    """At least the recorded columns, where a server is free to add some."""
    for field in recorded:
        position = ours.get_field_index(field.name)
        require(position >= 0, f"no column {field.name}")
        require(ours.field(position).type == field.type, f"{field.name}: another type")


def without_dictionaries(schema: pa.Schema) -> pa.Schema:
    """The schema that a function should announce: the client misreads dictionaries there."""
    return pa.schema(
        [
            field.with_type(field.type.value_type) if pt.is_dictionary(field.type) else field
            for field in schema
        ]
    )


def same_statistics(ours: Mapping[str, Any], recorded: Mapping[str, Any]) -> None:
    """The same facts; bounds may be told where the recording server did not know them."""
    for flag in ("has_not_null", "has_null"):
        require(ours[flag] == recorded[flag], f"statistics: {flag} is {ours[flag]}")
    for bound in ("min", "max"):
        told = recorded[bound] is None or ours[bound] == recorded[bound]
        require(told, f"statistics: {bound} is {ours[bound]!r}, not {recorded[bound]!r}")
    for optional in ("max_string_length", "contains_unicode"):
        if optional in ours and optional in recorded:
            require(ours[optional] == recorded[optional], f"statistics: {optional}")
    known = ours["distinct_count"] in (0, recorded["distinct_count"])
    require(known, f"statistics: distinct_count is {ours['distinct_count']}")


def true_statistics(ours: Mapping[str, Any], column: pa.ChunkedArray) -> None:
    """Nothing that the rows contradict: DuckDB trusts what it is told."""
    values = [value for value in column.to_pylist() if value is not None]
    require(ours["has_null"] or not column.null_count, "statistics: there are nulls")
    require(ours["has_not_null"] or not values, "statistics: there are values")
    if values and not column.type.num_fields:
        low, high = ours["min"], ours["max"]
        require(low is None or low <= min(values), f"statistics: {min(values)} is below {low}")
        require(high is None or high >= max(values), f"statistics: {max(values)} is above {high}")


# -- scans ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecordedRows:
    """The rows of a scan in the recording: the whole table, since that server never filtered."""

    table: pa.Table | None
    """None when the rows were too many to keep."""
    count: int

    @classmethod
    def of(cls, gets: Sequence[Rpc]) -> RecordedRows:
        """The rows of all DoGets of a scan."""
        messages = [message for get in gets for message in get.messages]
        schema = next((m.schema for m in messages if m.schema is not None), pa.schema([]))
        rows = [m for m in messages if m.rows is not None]
        count = sum(message.rows or 0 for message in rows)
        if any(message.batch is None for message in rows):
            return cls(None, count)
        return cls(pa.Table.from_batches([m.batch for m in rows], schema), count)


def has_filter(json_filters: str) -> bool:
    """Whether a predicate was pushed."""
    return bool(json_filters and json.loads(json_filters)["filters"])


def same_scan(
    ours: pa.Table, recorded: RecordedRows, columns: Sequence[str], *, json_filters: str
) -> None:
    """No row that is not in the table, and no row missing that the predicate keeps."""
    filtered = has_filter(json_filters)
    if recorded.table is None:
        require(filtered or ours.num_rows == recorded.count, f"{ours.num_rows} rows")
        return
    kept = [name for name in columns if name in recorded.table.schema.names]
    received, table = rows_of(ours, kept), rows_of(recorded.table, kept)
    require(received <= table, f"rows that are not in the table: {received - table}")
    if not filtered:
        require(received == table, f"missing rows: {table - received}")
        return
    wanted = rows_of(_matching(recorded.table, json_filters), kept)
    require(wanted <= received, f"missing rows: {wanted - received}")


def rows_of(table: pa.Table, columns: Sequence[str]) -> Counter[str]:
    """Rows as a multiset, for tables whose order means nothing."""
    values = [_values(table.column(name)) for name in columns]
    if not values:
        return Counter({"": table.num_rows})
    return Counter(repr(row) for row in zip(*values, strict=True))


def _matching(table: pa.Table, json_filters: str) -> pa.Table:
    """The rows that a pushed predicate keeps, by DuckDB itself as far as it can be written."""
    condition = to_duckdb_sql(parse_filter(json_filters))
    kept: list[int] = []
    if condition:
        numbered = table.append_column(_ROW, pa.array(range(table.num_rows)))
        connection = _duckdb()
        connection.register("recorded", numbered)
        found = connection.execute(f"SELECT {_ROW} FROM recorded WHERE {condition}").fetchall()
        connection.unregister("recorded")
        kept = [row for (row,) in found]
    return pa.concat_tables([table.slice(0, 0), *(table.slice(row, 1) for row in kept)])


@cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config=OFFLINE)


def _values(column: pa.ChunkedArray) -> list[Any]:
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    try:
        return list(array.to_pylist())
    except (ValueError, OverflowError):
        # Some values of DuckDB have no Python counterpart; their bits do.
        return list(array.view(pa.int64()).to_pylist())


def same_endpoints(
    ours: Sequence[flight.FlightEndpoint], recorded: Sequence[flight.FlightEndpoint]
) -> None:
    """The same number of parts, and the same references for the client to read."""
    require(len(ours) == len(recorded), f"{len(ours)} endpoints, not {len(recorded)}")
    for our, their in zip(ours, recorded, strict=True):
        left, right = our.locations[0].uri.decode(), their.locations[0].uri.decode()
        if not right.startswith("data:"):
            require(not left.startswith("data:"), "a reference instead of rows")
            continue
        require(
            reply_checks.data_reference(left) == reply_checks.data_reference(right),
            f"refers to {reply_checks.data_reference(left)}",
        )


def _unpacked(packed: bytes | None) -> Any:
    return msgpack.unpackb(packed) if packed else None

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
from tests.transcripts import acceptance
from tests.transcripts.acceptance import CHUNK_ROWS, Entry, Listing, require
from tests.transcripts.duckdb_side import OFFLINE
from tests.transcripts.recording import Outcome, Rpc
from tests.transcripts.wire import Answers, CallFailedError, Chunk

from lakeport.filters import parse_filter, to_duckdb_sql

__all__ = [
    "RecordedRows",
    "clean_failure",
    "has_columns",
    "has_filter",
    "same_changes",
    "same_columns",
    "same_endpoints",
    "same_entries",
    "same_failure",
    "same_in_out_answers",
    "same_listing",
    "same_scalar_answers",
    "same_scan",
    "same_statistics",
    "without_dictionaries",
]

_ROW = "recorded_row_number"
_DUCKDB_KINDS = {
    "Constraint Error": "ConstraintException",
    "Permission Error": "PermissionException",
    "Invalid Input Error": "InvalidInputException",
}


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
    acceptance.check_advertised_statistics(ours)
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
            acceptance.data_reference(left) == acceptance.data_reference(right),
            f"refers to {acceptance.data_reference(left)}",
        )


# -- exchanges --------------------------------------------------------------------------------


def same_scalar_answers(
    answers: Answers, rpc: Rpc, declared: Entry | None, *, values: bool
) -> None:
    """As many results as rows, batch by batch, in exactly the declared column."""
    if declared is not None:
        require(answers.schema.equals(declared.schema), f"{answers.schema} was not announced")
    _no_chunks(answers.at_end, "a scalar function ends without a message")
    sent = [m for m in rpc.messages if m.from_client and m.batch is not None]
    recorded = [m.batch for m in rpc.messages if not m.from_client and m.batch is not None]
    for position, (message, replies) in enumerate(zip(sent, answers.per_batch, strict=True)):
        (reply,) = replies
        require(reply.batch is not None, "an answer without rows")
        require(reply.metadata is None, "an answer with metadata")
        assert reply.batch is not None
        require(reply.batch.num_rows == message.rows, f"{reply.batch.num_rows} results")
        if values and position < len(recorded):
            ours = reply.batch.to_pylist()
            require(ours == recorded[position].to_pylist(), f"results {ours[:3]}")


def same_in_out_answers(answers: Answers, rpc: Rpc, *, values: bool) -> None:
    """Well-formed chunks, and the same rows in the same order for each batch."""
    for replies in answers.per_batch:
        _check_chunks(replies, must_finish=True)
    _check_chunks(answers.at_end, must_finish=False)
    ours = [_rows(replies) for replies in [*answers.per_batch, answers.at_end]]
    if values:
        schema = next(m.schema for m in rpc.messages if not m.from_client and m.schema is not None)
        same_columns(answers.schema, without_dictionaries(schema))
        recorded = _recorded_rows(rpc)
        require(ours == recorded, f"rows {str(ours)[:200]}, not {str(recorded)[:200]}")


def same_changes(answers: Answers, rpc: Rpc, operation: str, *, returning: bool) -> int:
    """The same count, and with RETURNING the same rows, batch by batch."""
    sent = [m for m in rpc.messages if m.from_client and m.batch is not None]
    recorded = [m.batch for m in rpc.messages if not m.from_client and m.batch is not None]
    if returning:
        _check_returned_schema(answers, rpc, operation)
        for replies, message in zip(answers.per_batch, sent, strict=True):
            (reply,) = replies
            require(reply.batch is not None, "an answer without rows crashes the client")
            assert reply.batch is not None
            require(reply.batch.num_rows <= CHUNK_ROWS, f"{reply.batch.num_rows} rows in a chunk")
            require(reply.batch.num_rows <= (message.rows or 0), "more rows than were sent")
        for replies, their in zip(answers.per_batch, recorded, strict=False):
            ours = replies[0].batch
            assert ours is not None
            names = [name for name in their.schema.names if name in ours.schema.names]
            left = rows_of(pa.Table.from_batches([ours]), names)
            right = rows_of(pa.Table.from_batches([their]), names)
            require(left == right, f"returned {left}, not {right}")
    (last,) = answers.at_end
    require(last.batch is None, "the last message has rows")
    changed = acceptance.check_total_changed(last.metadata)
    final = [m.metadata for m in rpc.messages if not m.from_client and m.metadata is not None]
    if final:
        expected = acceptance.check_total_changed(final[-1])
        require(changed == expected, f"{changed} rows changed, not {expected}")
    return changed


def _check_returned_schema(answers: Answers, rpc: Rpc, operation: str) -> None:
    sent = next(m.schema for m in rpc.messages if m.from_client and m.schema is not None)
    if operation == "update":
        require(answers.schema.names == sent.names, f"UPDATE answers {answers.schema.names}")
        for ours, theirs in zip(answers.schema, sent, strict=True):
            require(ours.type == theirs.type, f"UPDATE answers {ours.type} for {theirs.type}")
        return
    recorded = [m.schema for m in rpc.messages if not m.from_client and m.schema is not None]
    expected = sent if operation == "insert" else recorded[0] if recorded else pa.schema([])
    for field in expected:
        wanted = not (field.metadata or {}).get(b"is_rowid") and field.name != "rowid"
        found = field.name in answers.schema.names
        require(found or not wanted, f"RETURNING lacks column {field.name}")


def _check_chunks(chunks: Sequence[Chunk], *, must_finish: bool) -> None:
    for position, chunk in enumerate(chunks):
        require(chunk.batch is not None, "an in-out answer without rows crashes the client")
        assert chunk.batch is not None
        last = position == len(chunks) - 1
        known = {b"chunk_finished"} if last else {b"chunk_continues"}
        require(chunk.metadata in known, f"chunk {position} is marked {chunk.metadata!r}")
        if last:
            rows = chunk.batch.num_rows
            require(rows == 0 or rows % CHUNK_ROWS, f"{rows} rows in a last chunk hang the client")
    require(chunks or not must_finish, "no answer to a batch")


def _no_chunks(chunks: Sequence[Chunk], message: str) -> None:
    require(not chunks, message)


def _rows(chunks: Sequence[Chunk]) -> list[dict[str, Any]]:
    return [row for chunk in chunks if chunk.batch is not None for row in chunk.batch.to_pylist()]


def _recorded_rows(rpc: Rpc) -> list[list[dict[str, Any]]]:
    """The rows that came after each batch of the client, and after its last one."""
    groups: list[list[dict[str, Any]]] = []
    for message in rpc.messages:
        if message.from_client and (message.batch is not None or message.is_end):
            groups.append([])
        elif message.batch is not None:
            groups[-1].extend(message.batch.to_pylist())
    return groups


# -- errors -----------------------------------------------------------------------------------


def clean_failure(failure: CallFailedError) -> None:
    """One sentence, no traceback, and a detail that the client can read where there is one."""
    require(failure.message, "an error without a message")
    for leaked in ("Traceback", 'File "', ".py"):
        require(leaked not in failure.message, f"leaks {leaked!r}: {failure.message}")
    if not failure.detail:
        return
    require(failure.method != "DoAction", "an action error with msgpack, which is ignored there")
    detail = msgpack.unpackb(failure.detail)
    require(detail["exception_type"] in _DUCKDB_KINDS.values(), f"unknown type {detail}")
    require(isinstance(detail["message"], str) and detail["message"], "a detail without message")


def same_failure(failures: Sequence[CallFailedError], outcome: Outcome) -> None:
    """An error that DuckDB showed as one of its own types is typed here too, with its text."""
    kind, _, message = outcome.error.partition(": ")
    expected = _DUCKDB_KINDS.get(kind)
    if expected is None or not failures:
        return
    details = [msgpack.unpackb(failure.detail) for failure in failures if failure.detail]
    wanted = {"exception_type": expected, "message": message}
    require(wanted in details, f"{details}, not {wanted}")


def _unpacked(packed: bytes | None) -> Any:
    return msgpack.unpackb(packed) if packed else None

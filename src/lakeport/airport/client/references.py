"""`data:` endpoints: rows that the client reads by itself, with DuckDB or from Arrow files.

Only functions that read files are run, whatever the server names.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Iterator
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs

from lakeport.airport.client.replies import REPLY_LIMITS, Reply, read_map, understanding
from lakeport.airport.codec import read_one_row
from lakeport.catalog.layouts import conform
from lakeport.ducklake.paths import check_regular
from lakeport.errors import (
    InternalError,
    InvalidArgumentError,
    LakeportError,
    UnavailableError,
    UnsupportedError,
)
from lakeport.filters import from_arrow_type
from lakeport.filters.types import quote_identifier

__all__ = ["DATA_SCHEME", "open_reference"]

DATA_SCHEME: Final = "data:"

_FUNCTION_CALL = "application/x-msgpack-duckdb-function-call;base64"
_FILE = "application/msgpack;base64"
_FUNCTIONS: Final = frozenset(
    {
        "read_parquet", "parquet_scan", "read_csv", "read_csv_auto", "read_json", "read_json_auto",
        "read_ndjson", "read_ndjson_auto", "read_ndjson_objects", "read_json_objects", "read_xlsx",
        "delta_scan", "iceberg_scan", "ducklake_scan", "st_read", "range", "generate_series",
    }
)  # fmt: skip


def open_reference(
    uri: str, schema: pa.Schema, wanted: Collection[int]
) -> Iterator[pa.RecordBatch]:
    """The rows of a `data:` URI in the bound schema; columns that are not wanted are null."""
    media_type, payload = _decode(uri)
    if media_type == _FUNCTION_CALL:
        function, positional, named = _function_call(payload)
        return _run(function, positional, named, schema, wanted)
    if media_type != _FILE:
        raise UnsupportedError(f"this client cannot read {media_type[:80]!r}")
    with understanding("file reference"):
        kind, location = payload.text("format"), payload.text("uri")
    match kind:
        case "parquet":
            return _run("parquet_scan", [location], {}, schema, wanted)
        case "ipc-stream" | "ipc-file":
            return _read_ipc(kind, location, schema)
    raise UnsupportedError(f"this client cannot read files of format {kind[:80]!r}")


@understanding("data: endpoint")
def _decode(uri: str) -> tuple[str, Reply]:
    REPLY_LIMITS.check(len(uri), REPLY_LIMITS.ticket_bytes, "the data: URI")
    media_type, _, text = uri.removeprefix(DATA_SCHEME).partition(",")
    try:
        content = base64.b64decode(text, validate=True)
    except binascii.Error:
        raise InvalidArgumentError("it is not base64") from None
    return media_type, read_map(content, "content")


@understanding("function call")
def _function_call(payload: Reply) -> tuple[str, list[Any], dict[str, Any]]:
    function = payload.text("function_name").lower()
    row = read_one_row(payload.blob("data"), "arguments", limits=REPLY_LIMITS)
    values = {name: row.column(i)[0].as_py() for i, name in enumerate(row.schema.names)}
    positional = [values.pop(f"arg_{i}") for i in range(len(values)) if f"arg_{i}" in values]
    if any(name.startswith("arg_") for name in values):
        raise InvalidArgumentError("its positional arguments are not contiguous")
    return function, positional, values


def _run(
    function: str,
    positional: list[Any],
    named: dict[str, Any],
    schema: pa.Schema,
    wanted: Collection[int],
) -> Iterator[pa.RecordBatch]:
    if function not in _FUNCTIONS:
        raise UnsupportedError(f"the server asks to run {function[:80]!r}, which reads no files")
    try:
        import duckdb
    except ImportError:
        raise UnsupportedError(
            f"the rows are to be read with DuckDB's {function}; install the duckdb package"
        ) from None
    marks = [*("?" for _ in positional), *(f"{quote_identifier(name)} := ?" for name in named)]
    query = f"SELECT * FROM {function}({', '.join(marks)})"  # noqa: S608
    lossless = any(isinstance(field.type, pa.BaseExtensionType) for field in schema)
    try:
        with duckdb.connect(config={"arrow_lossless_conversion": str(lossless)}) as connection:
            relation = connection.sql(query, params=[*positional, *named.values()])
            columns = ", ".join(quote_identifier(name) for name in _names(schema, wanted, relation))
            rows = relation.project(columns).to_arrow_reader()
            yield from _aligned(rows, schema, wanted, function)
    except duckdb.Error as error:
        raise UnavailableError(f"{function} failed: {str(error).partition(chr(10))[0]}") from None


def _names(schema: pa.Schema, wanted: Collection[int], relation: Any) -> list[str]:
    names = [schema.field(index).name for index in sorted(wanted)]
    missing = [name for name in names if name not in relation.columns]
    if missing:
        raise InternalError(f"the referenced rows have no column {missing[0]!r}")
    return names


def _aligned(
    rows: pa.RecordBatchReader, schema: pa.Schema, wanted: Collection[int], function: str
) -> Iterator[pa.RecordBatch]:
    for name in rows.schema.names:
        found, expected = rows.schema.field(name).type, schema.field(name).type
        if from_arrow_type(found) != from_arrow_type(expected):
            raise InternalError(
                f"{function} gives {found} for column {name!r}, which the table declares {expected}"
            )
    for batch in rows:
        arrays = [
            conform(batch.column(field.name), field.type, f"column {field.name!r}")
            if index in wanted
            else pa.nulls(batch.num_rows, field.type)
            for index, field in enumerate(schema)
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=schema.names)


def _read_ipc(kind: str, location: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    try:
        filesystem, path = _filesystem(location)
        if isinstance(filesystem, fs.LocalFileSystem):
            check_regular(path, what="the referenced file")
        if kind == "ipc-stream":
            with filesystem.open_input_stream(path) as file, pa.ipc.open_stream(file) as stream:
                _check_same(stream.schema, schema, location)
                yield from stream
            return
        with filesystem.open_input_file(path) as file, pa.ipc.open_file(file) as reader:
            _check_same(reader.schema, schema, location)
            for index in range(reader.num_record_batches):
                yield reader.get_batch(index)
    except LakeportError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise UnavailableError(f"{location[:200]} cannot be read: {error}") from None


def _filesystem(location: str) -> tuple[fs.FileSystem, str]:
    if "://" in location or location.startswith("file:"):
        pair: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(location)
        return pair
    return fs.LocalFileSystem(), location


def _check_same(found: pa.Schema, expected: pa.Schema, location: str) -> None:
    if not found.equals(expected, check_metadata=False):
        raise InternalError(f"the columns of {location[:200]} are not those of the table")

"""Metadata of Arrow schemas that DuckDB reads: row ids, comments, defaults, constraints."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgpack
import pyarrow as pa

from lakeport.errors import InvalidArgumentError, NotFoundError
from lakeport.types import GEOARROW_WKB

__all__ = [
    "CHECK_CONSTRAINTS",
    "IS_ROWID",
    "check_constraints",
    "column",
    "field_is_rowid",
    "find_rowid_column",
    "geometry_column",
    "geometry_crs",
    "is_geometry",
    "project_schema",
    "rowid_field",
    "with_check_constraints",
    "without_rowid",
]

IS_ROWID = b"is_rowid"
CHECK_CONSTRAINTS = b"check_constraints"


def find_rowid_column(schema: pa.Schema) -> int | None:
    """Return the position of the marked row identifier, else of a field named `rowid`, or None."""
    for index, field in enumerate(schema):
        if field_is_rowid(field):
            return index
    for index, field in enumerate(schema):
        if field.name == "rowid":
            return index
    return None


def field_is_rowid(field: pa.Field) -> bool:
    """Return whether a field is marked as the row identifier of its table."""
    return bool((field.metadata or {}).get(IS_ROWID))


def project_schema(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """Return the schema with only these columns, in this order; all of them for None."""
    if columns is None:
        return schema
    missing = [name for name in columns if schema.get_field_index(name) < 0]
    if missing:
        raise NotFoundError(f"there is no column {missing[0]!r}")
    return pa.schema([schema.field(name) for name in columns], metadata=schema.metadata)


def without_rowid(schema: pa.Schema) -> pa.Schema:
    """Return the schema without its marked row identifier."""
    return pa.schema([f for f in schema if not field_is_rowid(f)], metadata=schema.metadata)


def rowid_field(name: str = "rowid", type: pa.DataType | None = None) -> pa.Field:
    """Return a field that identifies rows for UPDATE and DELETE. Put it last in the schema."""
    return pa.field(name, type or pa.int64(), metadata={IS_ROWID: b"1"})


def column(
    name: str,
    type: pa.DataType,
    *,
    nullable: bool = True,
    comment: str = "",
    default: str | None = None,
) -> pa.Field:
    """Return a field with NOT NULL, a comment and an SQL default expression for DuckDB."""
    metadata: dict[str, str] = {}
    if comment:
        metadata["comment"] = comment
    if default is not None:
        metadata["default"] = default
    return pa.field(name, type, nullable=nullable, metadata=metadata or None)


def with_check_constraints(schema: pa.Schema, expressions: Iterable[str]) -> pa.Schema:
    """Return the schema with SQL expressions that DuckDB checks on every INSERT."""
    packed = msgpack.packb({"constraints": list(expressions)})
    return schema.with_metadata({**(schema.metadata or {}), CHECK_CONSTRAINTS: packed})


def check_constraints(schema: pa.Schema) -> tuple[str, ...]:
    """Return the SQL expressions that rows of this schema must satisfy."""
    packed = (schema.metadata or {}).get(CHECK_CONSTRAINTS)
    if not packed:
        return ()
    try:
        return tuple(msgpack.unpackb(packed)["constraints"])
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidArgumentError("the schema's check constraints cannot be decoded") from error


_NAME = b"ARROW:extension:name"
_METADATA = b"ARROW:extension:metadata"


def geometry_column(
    name: str,
    *,
    crs: str | Mapping[str, Any] | None = None,
    nullable: bool = True,
    comment: str = "",
) -> pa.Field:
    """Return a column of geometries in well-known binary.

    `crs` is a coordinate reference system by name (`"EPSG:4326"`) or as PROJJSON.
    """
    extension = {} if crs is None else {"crs": crs}
    metadata = {**GEOARROW_WKB, _METADATA: json.dumps(extension).encode()}
    if comment:
        metadata[b"comment"] = comment.encode()
    return pa.field(name, pa.binary(), nullable=nullable, metadata=metadata)


def is_geometry(field: pa.Field) -> bool:
    """Return whether a field holds GeoArrow WKB geometries."""
    return bool((field.metadata or {}).get(_NAME) == GEOARROW_WKB[_NAME])


def geometry_crs(field: pa.Field) -> str | dict[str, Any] | None:
    """Return the coordinate reference system of a geometry column, or None."""
    crs: str | dict[str, Any] | None = json.loads(
        (field.metadata or {}).get(_METADATA) or b"{}"
    ).get("crs")
    return crs

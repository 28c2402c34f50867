"""Geometry columns: GeoArrow WKB, which DuckDB's spatial extension reads as GEOMETRY."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

__all__ = ["geometry_column", "geometry_crs", "is_geometry"]

_NAME = b"ARROW:extension:name"
_METADATA = b"ARROW:extension:metadata"
_WKB = b"geoarrow.wkb"


def geometry_column(
    name: str,
    *,
    crs: str | Mapping[str, Any] | None = None,
    nullable: bool = True,
    comment: str = "",
) -> pa.Field:
    """A column of geometries in well-known binary.

    `crs` is a coordinate reference system by name (`"EPSG:4326"`) or as PROJJSON.
    """
    extension = {} if crs is None else {"crs": crs}
    metadata = {_NAME: _WKB, _METADATA: json.dumps(extension).encode()}
    if comment:
        metadata[b"comment"] = comment.encode()
    return pa.field(name, pa.binary(), nullable=nullable, metadata=metadata)


def is_geometry(field: pa.Field) -> bool:
    """Whether a field holds GeoArrow WKB geometries."""
    return bool((field.metadata or {}).get(_NAME) == _WKB)


def geometry_crs(field: pa.Field) -> str | dict[str, Any] | None:
    """The coordinate reference system of a geometry column, if it names one."""
    crs: str | dict[str, Any] | None = json.loads(
        (field.metadata or {}).get(_METADATA) or b"{}"
    ).get("crs")
    return crs

"""The types of columns that clients create."""

from __future__ import annotations

import pyarrow as pa

from lakeport.ducklake.writing import TypeLike

__all__ = ["type_of"]


def type_of(field: pa.Field) -> TypeLike:
    """Return the type of a field; a geometry is known by its metadata only."""
    metadata = field.metadata or {}
    if metadata.get(b"ARROW:extension:name") == b"geoarrow.wkb":
        return "geometry"
    return field.type

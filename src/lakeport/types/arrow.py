"""DuckDB's types and constants in Arrow, and Arrow's types in DuckDB."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from lakeport.types.logical import UNKNOWN, VARCHAR, Field, LogicalType
from lakeport.types.table import BY_ID, GEOARROW_WKB
from lakeport.types.values import Interval

__all__ = ["from_arrow_type", "to_arrow_scalar", "to_arrow_type"]


def to_arrow_type(type: LogicalType) -> pa.DataType | None:
    """Return the Arrow type that DuckDB reads as this type, ``None`` if there is none."""
    if type.alias == "JSON" and type.id == "VARCHAR":
        return pa.json_(pa.string())
    if type.alias and type.id == "BLOB":
        return None
    match type.id:
        case "DECIMAL":
            return pa.decimal128(type.width or 18, type.scale or 0)
        case "ENUM":
            return pa.dictionary(pa.uint32(), pa.string())
        case "LIST" | "ARRAY" | "MAP" | "STRUCT" | "UNION":
            return _nested_type(type)
        case _:
            return _PLAIN.get(type.id)


def from_arrow_type(type: pa.DataType) -> LogicalType:
    """Return the DuckDB type that a column of this Arrow type has, ``UNKNOWN`` if there is none."""
    if isinstance(type, pa.BaseExtensionType):
        return _from_extension(type)
    if pa.types.is_dictionary(type) or pa.types.is_run_end_encoded(type):
        return from_arrow_type(type.value_type)
    if pa.types.is_decimal(type):
        return LogicalType.decimal(type.precision, type.scale) if type.precision <= 38 else UNKNOWN
    if pa.types.is_timestamp(type):
        return LogicalType("TIMESTAMP WITH TIME ZONE" if type.tz else _TIMESTAMPS[type.unit])
    if pa.types.is_fixed_size_binary(type):
        return LogicalType("BLOB")
    if pa.types.is_nested(type):
        return _from_nested(type)
    id = _BY_NAME.get(str(type))
    return UNKNOWN if id is None else LogicalType(id)


def to_arrow_scalar(value: Any, logical: LogicalType) -> pa.Scalar | None:
    """Return a value as an Arrow scalar of `to_arrow_type`, None if it cannot be one."""
    type = to_arrow_type(logical)
    if type is None:
        return None
    if value is None:
        return pa.scalar(None, type)
    try:
        return _scalar(value, logical, type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None


def _scalar(value: Any, logical: LogicalType, type: pa.DataType) -> pa.Scalar:
    if isinstance(type, pa.BaseExtensionType):
        storage = pa.scalar(_storage_value(value, logical), type.storage_type)
        return pa.ExtensionScalar.from_storage(type, storage)
    if pa.types.is_temporal(type) and isinstance(value, int):
        # From the integer, because Python's dates have neither infinity nor nanoseconds.
        return pa.scalar(value, pa.int32() if type.bit_width == 32 else pa.int64()).cast(type)
    if isinstance(value, Interval):
        return pa.scalar((value.months, value.days, value.micros * 1000), type)
    if logical.id == "ENUM":
        return pa.array([value]).cast(type)[0]
    if pa.types.is_nested(type):
        return _nested_array(value, logical, type)[0]
    return pa.scalar(value, type)


def _storage_value(value: Any, logical: LogicalType) -> Any:
    match logical.id:
        case "UUID":
            return value.bytes
        case "HUGEINT":
            return value.to_bytes(16, "little", signed=True)
        case "UHUGEINT":
            return value.to_bytes(16, "little")
        case "TIME WITH TIME ZONE":
            return value.to_bytes(8, "little")
        case "VARCHAR" if isinstance(value, str):
            return value
        case _:
            raise TypeError(logical.id)


def _nested_array(value: Any, logical: LogicalType, type: pa.DataType) -> pa.Array:
    match logical.id:
        case "LIST":
            return pa.ListArray.from_arrays(
                [0, len(value)], _child_array(value, logical.child, type)
            )
        case "ARRAY":
            return pa.FixedSizeListArray.from_arrays(
                _child_array(value, logical.child, type), type=type
            )
        case "MAP":
            keys = [_require(key, logical.key_type) for key, _ in value]
            values = [_require(item, logical.value_type) for _, item in value]
            return pa.MapArray.from_arrays(
                [0, len(value)], pa.array(keys, type.key_type), pa.array(values, type.item_type)
            )
        case "STRUCT":
            members = [
                pa.array([_require(item, field.type)], type.field(index).type)
                for index, (item, field) in enumerate(zip(value, logical.fields, strict=True))
            ]
            return pa.StructArray.from_arrays(members, fields=list(type))
        case _:
            raise TypeError(logical.id)


def _child_array(values: Any, child: LogicalType | None, type: pa.DataType) -> pa.Array:
    scalars = [_require(value, child or UNKNOWN) for value in values]
    return pa.array(scalars, type.value_type)


def _require(value: Any, logical: LogicalType) -> pa.Scalar:
    scalar = to_arrow_scalar(value, logical)
    if scalar is None:
        raise TypeError(logical.id)
    return scalar


def _nested_type(type: LogicalType) -> pa.DataType | None:
    if type.id == "MAP":
        key, value = to_arrow_type(type.key_type), to_arrow_type(type.value_type)
        return None if key is None or value is None else pa.map_(key, value)
    if type.id in ("LIST", "ARRAY"):
        child = None if type.child is None else to_arrow_type(type.child)
        if child is None:
            return None
        return pa.list_(child) if type.id == "LIST" else pa.list_(child, type.size)
    members = [(field.name, to_arrow_type(field.type)) for field in type.fields]
    if any(member is None for _, member in members):
        return None
    fields = [pa.field(name, member) for name, member in members]
    return pa.struct(fields) if type.id == "STRUCT" else pa.sparse_union(fields)


def _from_extension(type: pa.BaseExtensionType) -> LogicalType:
    match type.extension_name:
        case "arrow.uuid":
            return LogicalType("UUID")
        case "arrow.json":
            return LogicalType("VARCHAR", alias="JSON")
        case "arrow.bool8":
            return LogicalType("BOOLEAN")
        case "arrow.opaque" if type.vendor_name == "DuckDB":
            return LogicalType(_OPAQUE.get(type.type_name, "UNKNOWN"))
        case "geoarrow.wkb":
            return LogicalType("BLOB", alias="GEOMETRY")
        case _:
            return from_arrow_type(type.storage_type)


def _from_nested(type: pa.DataType) -> LogicalType:
    if pa.types.is_map(type):
        return LogicalType.map(_from_member(type.key_field), _from_member(type.item_field))
    if pa.types.is_fixed_size_list(type):
        return LogicalType.array(_from_member(type.value_field), type.list_size)
    if pa.types.is_struct(type) or pa.types.is_union(type):
        members = (type.field(index) for index in range(type.num_fields))
        fields = tuple(Field(member.name, _from_member(member)) for member in members)
        return LogicalType("STRUCT" if pa.types.is_struct(type) else "UNION", fields=fields)
    return LogicalType.list(_from_member(type.value_field))


def _from_member(field: pa.Field) -> LogicalType:
    """Return the type of a field inside of a type; a geometry is known by its metadata only."""
    name = GEOARROW_WKB[b"ARROW:extension:name"]
    if field.metadata and field.metadata.get(b"ARROW:extension:name") == name:
        return LogicalType("BLOB", alias="GEOMETRY")
    return from_arrow_type(field.type)


_PLAIN: Final[dict[str, pa.DataType]] = {
    **{id: row.arrow for id, row in BY_ID.items() if id != "DECIMAL"},
    # Types of DuckDB that no lake has.
    "BIT": pa.opaque(pa.binary(), "bit", "DuckDB"),
    "BIGNUM": pa.opaque(pa.binary(), "bignum", "DuckDB"),
    "NULL": pa.null(),
}

_OPAQUE: Final = {
    type.type_name: id for id, type in _PLAIN.items() if isinstance(type, pa.OpaqueType)
}

_TIMESTAMPS: Final = {
    type.unit: id for id, type in _PLAIN.items() if pa.types.is_timestamp(type) and not type.tz
}

_BY_NAME: Final = {
    **{str(type): id for id, type in _PLAIN.items() if not isinstance(type, pa.BaseExtensionType)},
    **dict.fromkeys(("large_string", "string_view"), VARCHAR.id),
    **dict.fromkeys(("large_binary", "binary_view"), "BLOB"),
    "date64[ms]": "DATE",
    **dict.fromkeys(("time32[s]", "time32[ms]"), "TIME"),
    **dict.fromkeys((f"duration[{unit}]" for unit in ("s", "ms", "us", "ns")), "INTERVAL"),
}

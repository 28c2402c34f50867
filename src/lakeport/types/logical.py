"""The DuckDB types that a pushed-down predicate mentions.

``LogicalType`` mirrors DuckDB's own JSON (``{"id": ..., "type_info": ...}``), in both directions,
and renders itself as DuckDB SQL. Its type in Arrow is defined in ``lakeport.types.arrow``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lakeport.errors import InvalidArgumentError
from lakeport.types.names import duckdb_identifier, duckdb_string

__all__ = ["BOOLEAN", "UNKNOWN", "VARCHAR", "Field", "LogicalType", "canonical_id"]


@dataclass(frozen=True, slots=True)
class Field:
    """A member of a STRUCT or UNION."""

    name: str
    type: LogicalType


@dataclass(frozen=True, slots=True, repr=False)
class LogicalType:
    """A DuckDB type.

    ``id`` is DuckDB's own name, such as ``INTEGER`` or ``TIMESTAMP WITH TIME ZONE``. ``alias`` is
    the name of a type built on another one, such as ``JSON`` on ``VARCHAR``. ``width`` and
    ``scale`` belong to DECIMAL, ``child`` to LIST, ARRAY and MAP (there a STRUCT of key and
    value), ``size`` to ARRAY, ``fields`` to STRUCT and UNION, ``values`` to ENUM.
    """

    id: str
    alias: str = ""
    width: int | None = None
    scale: int | None = None
    child: LogicalType | None = None
    fields: tuple[Field, ...] = ()
    size: int | None = None
    values: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<{self.alias or self.sql()}>"

    @classmethod
    def decimal(cls, width: int, scale: int) -> LogicalType:
        """Return DECIMAL(width, scale)."""
        return cls("DECIMAL", width=width, scale=scale)

    @classmethod
    def list(cls, child: LogicalType) -> LogicalType:
        """Return a list of any length."""
        return cls("LIST", child=child)

    @classmethod
    def array(cls, child: LogicalType, size: int) -> LogicalType:
        """Return a list of a fixed length."""
        return cls("ARRAY", child=child, size=size)

    @classmethod
    def struct(cls, fields: Mapping[str, LogicalType]) -> LogicalType:
        """Return a struct with these members, in order."""
        return cls("STRUCT", fields=tuple(Field(name, type) for name, type in fields.items()))

    @classmethod
    def map(cls, key: LogicalType, value: LogicalType) -> LogicalType:
        """Return a map from key to value."""
        return cls("MAP", child=cls.struct({"key": key, "value": value}))

    @classmethod
    def union(cls, members: Mapping[str, LogicalType]) -> LogicalType:
        """Return a tagged union of these members, in order."""
        return cls("UNION", fields=tuple(Field(name, type) for name, type in members.items()))

    @classmethod
    def enum(cls, *values: str) -> LogicalType:
        """Return an enumeration of these labels, in order."""
        return cls("ENUM", values=values)

    @classmethod
    def parse(cls, document: Any) -> LogicalType:
        """Read the JSON form of a type; raise ``InvalidArgumentError`` for a wrong structure."""
        if not isinstance(document, dict) or not isinstance(document.get("id"), str):
            raise InvalidArgumentError("a type of the filter is not an object with an id")
        info = document.get("type_info")
        if info is None:
            info = {}
        if not isinstance(info, dict):
            raise InvalidArgumentError("the type_info of a type of the filter is not an object")
        id = canonical_id(document["id"])
        alias = info.get("alias")
        return cls(id, alias=alias if isinstance(alias, str) else "", **_type_parameters(id, info))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form that the client writes."""
        return {"id": self.id, "type_info": _type_info(self)}

    @property
    def key_type(self) -> LogicalType:
        """Return the type of a MAP's keys."""
        return self._map_entry(0)

    @property
    def value_type(self) -> LogicalType:
        """Return the type of a MAP's values."""
        return self._map_entry(1)

    def _map_entry(self, index: int) -> LogicalType:
        if self.id != "MAP" or self.child is None or len(self.child.fields) != 2:
            raise InvalidArgumentError(f"{self.id} is not a map of keys and values")
        return self.child.fields[index].type

    def sql(self) -> str:
        """Return the type as DuckDB SQL."""
        match self.id:
            case "DECIMAL":
                return f"DECIMAL({self.width},{self.scale})"
            case "LIST":
                return f"{_child(self).sql()}[]"
            case "ARRAY":
                return f"{_child(self).sql()}[{self.size}]"
            case "STRUCT" | "UNION":
                members = ", ".join(
                    f"{duckdb_identifier(f.name)} {f.type.sql()}" for f in self.fields
                )
                return f"{self.id}({members})"
            case "MAP" if self.child is not None:
                return f"MAP({', '.join(field.type.sql() for field in self.child.fields)})"
            case "ENUM":
                return f"ENUM({', '.join(duckdb_string(value) for value in self.values)})"
            case id if id in _SIMPLE_IDS:
                return id
            case other:
                return duckdb_identifier(other)


def canonical_id(id: str) -> str:
    """Return DuckDB's own name of a type from an older or shorter spelling."""
    upper = " ".join(id.upper().split())
    return _SPELLINGS.get(upper, upper)


def _type_parameters(id: str, info: dict[str, Any]) -> dict[str, Any]:
    match id:
        case "DECIMAL":
            return _decimal_parameters(info)
        case "LIST" | "MAP":
            return {"child": LogicalType.parse(info.get("child_type"))}
        case "ARRAY":
            return {
                "child": LogicalType.parse(info.get("child_type")),
                "size": _size(info.get("size")),
            }
        case "STRUCT":
            return {"fields": _fields(info)}
        case "UNION":
            fields = _fields(info)
            tagged = bool(fields) and fields[0].name == "" and fields[0].type.id == "UTINYINT"
            return {"fields": fields[1:] if tagged else fields}
        case "ENUM":
            return {"values": _labels(info.get("values"))}
        case _:
            return {}


def _decimal_parameters(info: dict[str, Any]) -> dict[str, Any]:
    width, scale = info.get("width", 18), info.get("scale", 3)
    if not (_is_int(width) and _is_int(scale) and 1 <= width <= 38 and 0 <= scale <= width):
        raise InvalidArgumentError("a DECIMAL type of the filter has an impossible width or scale")
    return {"width": width, "scale": scale}


def _fields(info: dict[str, Any]) -> tuple[Field, ...]:
    members = info.get("child_types")
    if not isinstance(members, list):
        raise InvalidArgumentError("a STRUCT or UNION type of the filter has no list of members")
    fields = []
    for member in members:
        if not isinstance(member, dict) or not isinstance(member.get("first"), str):
            raise InvalidArgumentError(
                "a member of a STRUCT or UNION type of the filter has no name"
            )
        fields.append(Field(member["first"], LogicalType.parse(member.get("second"))))
    return tuple(fields)


def _size(size: Any) -> int:
    if not _is_int(size) or not 0 < size < 2**32:
        raise InvalidArgumentError("an ARRAY type of the filter has an impossible size")
    return int(size)


def _labels(labels: Any) -> tuple[str, ...]:
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise InvalidArgumentError("an ENUM type of the filter has no list of labels")
    return tuple(labels)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _type_info(type: LogicalType) -> dict[str, Any] | None:
    kind = _TYPE_INFO_KINDS.get(type.id)
    if kind is None and not type.alias:
        return None
    info: dict[str, Any] = {
        "type": kind or "GENERIC_TYPE_INFO",
        "alias": type.alias,
        "extension_info": None,
    }
    match type.id:
        case "DECIMAL":
            info |= {"width": type.width, "scale": type.scale}
        case "LIST" | "MAP":
            info |= {"child_type": _child(type).to_json()}
        case "ARRAY":
            info |= {"child_type": _child(type).to_json(), "size": type.size}
        case "STRUCT":
            info |= {"child_types": _members(type.fields)}
        case "UNION":
            tag = Field("", LogicalType("UTINYINT"))
            info |= {"child_types": _members((tag, *type.fields))}
        case "ENUM":
            info |= {"values_count": len(type.values), "values": list(type.values)}
    return info


def _members(fields: tuple[Field, ...]) -> list[dict[str, Any]]:
    return [{"first": field.name, "second": field.type.to_json()} for field in fields]


def _child(type: LogicalType) -> LogicalType:
    return UNKNOWN if type.child is None else type.child


_TYPE_INFO_KINDS: Final = {
    "DECIMAL": "DECIMAL_TYPE_INFO",
    "LIST": "LIST_TYPE_INFO",
    "MAP": "LIST_TYPE_INFO",
    "ARRAY": "ARRAY_TYPE_INFO",
    "STRUCT": "STRUCT_TYPE_INFO",
    "UNION": "STRUCT_TYPE_INFO",
    "ENUM": "ENUM_TYPE_INFO",
}

_SIMPLE_IDS: Final = frozenset(
    {
        "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT",
        "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE", "VARCHAR", "BLOB",
        "BIT", "BIGNUM", "DATE", "TIME", "TIME_NS", "TIME WITH TIME ZONE", "TIMESTAMP",
        "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "INTERVAL",
        "UUID",
    }
)  # fmt: skip

_SPELLINGS: Final = {
    "TIMESTAMP_TZ": "TIMESTAMP WITH TIME ZONE",
    "TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE",
    "TIMESTAMP_US": "TIMESTAMP",
    "TIMESTAMP_SEC": "TIMESTAMP_S",
    "DATETIME": "TIMESTAMP",
    "TIME_TZ": "TIME WITH TIME ZONE",
    "TIMETZ": "TIME WITH TIME ZONE",
    "VARINT": "BIGNUM",
    "SQLNULL": "NULL",
    "BOOL": "BOOLEAN",
    "INT8": "BIGINT",
    "INT4": "INTEGER",
    "INT": "INTEGER",
    "INT2": "SMALLINT",
    "INT1": "TINYINT",
    "INT128": "HUGEINT",
    "REAL": "FLOAT",
    "FLOAT4": "FLOAT",
    "FLOAT8": "DOUBLE",
    "NUMERIC": "DECIMAL",
    "CHAR": "VARCHAR",
    "TEXT": "VARCHAR",
    "STRING": "VARCHAR",
    "BYTEA": "BLOB",
    "VARBINARY": "BLOB",
    "BINARY": "BLOB",
    "BITSTRING": "BIT",
    "BPCHAR": "VARCHAR",
    "DEC": "DECIMAL",
    "GUID": "UUID",
    "INT16": "SMALLINT",
    "INT32": "INTEGER",
    "INT64": "BIGINT",
    "INTEGRAL": "INTEGER",
    "LOGICAL": "BOOLEAN",
    "LONG": "BIGINT",
    "NVARCHAR": "VARCHAR",
    "OID": "BIGINT",
    "SHORT": "SMALLINT",
    "SIGNED": "INTEGER",
    "UINT8": "UTINYINT",
    "UINT16": "USMALLINT",
    "UINT32": "UINTEGER",
    "UINT64": "UBIGINT",
    "UINT128": "UHUGEINT",
}

BOOLEAN: Final = LogicalType("BOOLEAN")
VARCHAR: Final = LogicalType("VARCHAR")
UNKNOWN: Final = LogicalType("UNKNOWN")

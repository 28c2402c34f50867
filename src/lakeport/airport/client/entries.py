"""The objects of a catalog: schemas, tables with their columns, functions with their overloads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa
from pyarrow import flight

from lakeport.airport.client.replies import (
    REPLY_LIMITS,
    FlightDescription,
    Reply,
    decoding_reply,
    read_map,
)
from lakeport.airport.protocol.codec import read_schema
from lakeport.catalog import ANY, Parameter, ParameterKind, Stability, field_is_rowid
from lakeport.errors import InvalidArgumentError

__all__ = [
    "Column",
    "FunctionKind",
    "FunctionOverload",
    "RemoteFunction",
    "RemoteSchema",
    "TableEntry",
    "columns_of",
    "read_entry",
]


@dataclass(frozen=True, slots=True)
class RemoteSchema:
    """A schema of the catalog."""

    name: str
    comment: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    type: pa.DataType
    comment: str = ""
    default: str | None = None
    """The SQL expression for inserted rows without a value for the column."""
    not_null: bool = False


class FunctionKind(Enum):
    """How a function is called."""

    SCALAR = "scalar"
    TABLE = "table"
    IN_OUT = "in_out"


@dataclass(frozen=True, slots=True)
class FunctionOverload:
    """One form of a function."""

    kind: FunctionKind
    parameters: tuple[Parameter, ...]
    """The parameters of the call; optional ones have the default None."""
    returns: pa.Field | None
    """The one column that a scalar function returns; None for functions that return tables."""
    comment: str
    stability: Stability | None
    """None for functions that return tables."""
    descriptor: flight.FlightDescriptor = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class RemoteFunction:
    """A function with all its overloads."""

    schema_name: str
    name: str
    overloads: tuple[FunctionOverload, ...]

    def __str__(self) -> str:
        return f"{self.schema_name}.{self.name}"


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A table as the server last described it."""

    schema_name: str
    name: str
    comment: str
    descriptor: flight.FlightDescriptor
    schema: pa.Schema
    """All fields, the rowid included."""

    def __str__(self) -> str:
        return f"{self.schema_name}.{self.name}"

    @property
    def rowid(self) -> pa.Field | None:
        """Return the field of the row identifier, or None."""
        return next((each for each in self.schema if field_is_rowid(each)), None)


@dataclass(frozen=True, slots=True)
class FunctionEntry:
    """One overload of a function, with its name."""

    schema_name: str
    name: str
    overload: FunctionOverload


def read_entry(
    info: FlightDescription, *, catalog: str, schema: str
) -> TableEntry | FunctionEntry | None:
    """Return the table or function that a FlightInfo describes; None without app_metadata."""
    if not info.app_metadata:
        return None
    with decoding_reply(f"description of an object in schema {schema!r}"):
        metadata = read_map(info.app_metadata, "app_metadata")
        for name, expected in (("schema", schema), ("catalog", catalog)):
            if metadata.text(name, "") != expected:
                raise InvalidArgumentError(f"it belongs to another {name}")
        name = metadata.text("name")
        match metadata.text("type"):
            case "table":
                comment = metadata.optional_text("comment") or ""
                return TableEntry(schema, name, comment, info.descriptor, info.schema)
            case "scalar_function":
                return FunctionEntry(schema, name, _scalar_overload(info, metadata))
            case "table_function":
                return FunctionEntry(schema, name, _table_overload(info, metadata))
            case other:
                raise InvalidArgumentError(f"{other[:80]!r} is neither a table nor a function")


def columns_of(schema: pa.Schema) -> tuple[Column, ...]:
    """Return the columns without the row identifier."""
    return tuple(
        Column(
            name=each.name,
            type=each.type,
            comment=_metadata(each, b"comment"),
            default=_metadata(each, b"default") or None,
            not_null=not each.nullable,
        )
        for each in schema
        if not field_is_rowid(each)
    )


def _scalar_overload(info: FlightDescription, metadata: Reply) -> FunctionOverload:
    if len(info.schema) != 1:
        raise InvalidArgumentError("a scalar function must return one column")
    extra = metadata.optional_blob("extra_data")
    stability = read_map(extra, "extra_data").text("stability", "volatile") if extra else "volatile"
    return FunctionOverload(
        FunctionKind.SCALAR,
        _parameters(metadata),
        info.schema.field(0),
        _comment(metadata),
        Stability(stability),
        info.descriptor,
    )


def _table_overload(info: FlightDescription, metadata: Reply) -> FunctionOverload:
    parameters = _parameters(metadata)
    takes_table = any(p.kind is ParameterKind.TABLE for p in parameters)
    return FunctionOverload(
        FunctionKind.IN_OUT if takes_table else FunctionKind.TABLE,
        parameters,
        None,
        _comment(metadata),
        None,
        info.descriptor,
    )


def _parameters(metadata: Reply) -> tuple[Parameter, ...]:
    fields = read_schema(metadata.blob("input_schema"), "input_schema", limits=REPLY_LIMITS)
    return tuple(_parameter(each) for each in fields)


def _parameter(each: pa.Field) -> Parameter:
    if _metadata(each, b"is_table_type"):
        return Parameter(each.name, ANY, ParameterKind.TABLE)
    type = ANY if _metadata(each, b"is_any_type") else each.type
    if _metadata(each, b"is_named_parameter"):
        return Parameter(each.name, type, ParameterKind.NAMED, default=None)
    return Parameter(each.name, type)


def _comment(metadata: Reply) -> str:
    return metadata.optional_text("description") or metadata.optional_text("comment") or ""


def _metadata(each: pa.Field, key: bytes) -> str:
    value: bytes = (each.metadata or {}).get(key, b"")
    return value.decode(errors="replace")

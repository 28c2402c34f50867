"""Catalogs as the client reads them: FlightInfos of tables and functions, and whole listings.

A listing of a catalog with a version is built once per version, caller and name of the catalog.
The cache has a bounded number of entries and of bytes.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt
from pyarrow import flight

from lakeport.airport.protocol.addresses import Address, table_tag
from lakeport.airport.protocol.codec import compress_container, encode, write_schema
from lakeport.airport.protocol.limits import MIB
from lakeport.airport.protocol.signatures import input_schema, output_schema, tag_of
from lakeport.airport.server.routing import CatalogRoute
from lakeport.arrow import readable_columns
from lakeport.auth import Operation
from lakeport.catalog import (
    CatalogVersion,
    DynamicCatalog,
    ListingStateCatalog,
    ScalarFunction,
    Schema,
    Table,
    TableFunction,
    TableFunctionInOut,
    VersionedCatalog,
    current_request,
    field_is_rowid,
    is_geometry,
    offers_statistics,
)

__all__ = [
    "ListingCache",
    "catalog_version",
    "function_infos",
    "schema_contents",
    "schema_infos",
    "table_info",
    "wire_schema",
]

_CAN_PRODUCE_STATISTICS = b"can_produce_statistics"

# The client accepts statistics of these types only; it ignores those of nested types.
_KINDS_WITH_STATISTICS: Final[tuple[Callable[[pa.DataType], bool], ...]] = (
    pt.is_boolean,
    pt.is_integer,
    pt.is_floating,
    pt.is_decimal,
    pt.is_string,
    pt.is_large_string,
    pt.is_string_view,
    pt.is_binary,
    pt.is_large_binary,
    pt.is_binary_view,
    pt.is_fixed_size_binary,
    pt.is_date,
    pt.is_time,
    pt.is_timestamp,
    pt.is_list,
    pt.is_large_list,
    pt.is_list_view,
    pt.is_large_list_view,
    pt.is_fixed_size_list,
    pt.is_map,
    pt.is_struct,
)
# The numbers of the most frequent of these types.
_IDS_WITH_STATISTICS: Final = frozenset(
    type.id
    for type in (
        *(pa.bool_(), pa.string(), pa.date32(), pa.float32(), pa.float64(), pa.timestamp("us")),
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.decimal128(1)),
    )
)
_EXTENSIONS_WITH_STATISTICS: Final = frozenset(
    {"arrow.uuid", "arrow.json", "arrow.bool8", "hugeint", "uhugeint", "time_tz"}
)


class ListingCache:
    """A least-recently-used cache of replies to `list_schemas`, each for one version."""

    def __init__(self, *, max_entries: int = 64, max_bytes: int = 64 * MIB) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._replies: OrderedDict[tuple[Any, ...], tuple[object, bytes]] = OrderedDict()

    def list_schemas(self, route: CatalogRoute) -> bytes:
        """Return the compressed listing of a catalog."""
        version = catalog_version(route)
        request = current_request()
        # A transaction reads its own changes, which have no version yet. An authorizer may change
        # its decisions without a new version of the catalog.
        if (
            not isinstance(route.catalog, VersionedCatalog)
            or request.transaction_id is not None
            or route.authorizer is not None
        ):
            return _list_schemas(route, version)
        state = (
            route.catalog.listing_state()
            if isinstance(route.catalog, ListingStateCatalog)
            else None
        )
        who = (request.identity, request.caller)
        key = (id(route.catalog), route.name, who, version.version, state)
        with self._lock:
            cached = self._replies.get(key)
            if cached is not None:
                self._replies.move_to_end(key)
                return cached[1]
        reply = _list_schemas(route, version)
        with self._lock:
            # The reference to the catalog prevents that another object gets the same id.
            self._replies[key] = (route.catalog, reply)
            while len(self._replies) > self._max_entries or self._bytes() > self._max_bytes:
                self._replies.popitem(last=False)
        return reply

    def _bytes(self) -> int:
        return sum(len(reply) for _, reply in self._replies.values())

    def remove(self, catalog: object) -> None:
        """Remove the replies of a catalog that is no longer served."""
        with self._lock:
            for key in [key for key, (owner, _) in self._replies.items() if owner is catalog]:
                del self._replies[key]


def catalog_version(route: CatalogRoute) -> CatalogVersion:
    """Return the version of a catalog; a fixed one if it reports none and cannot change."""
    if isinstance(route.catalog, VersionedCatalog):
        return route.catalog.catalog_version()
    return CatalogVersion(version=1, is_fixed=not isinstance(route.catalog, DynamicCatalog))


def table_info(
    route: CatalogRoute,
    schema_name: str,
    table: Table,
    *,
    schema: pa.Schema | None = None,
    descriptor: flight.FlightDescriptor | None = None,
    endpoints: Sequence[flight.FlightEndpoint] = (),
    total_records: int = -1,
    total_bytes: int = -1,
    is_fixed: bool | None = None,
) -> flight.FlightInfo:
    """Return the FlightInfo of a table; `schema` and `descriptor` replace the present ones.

    `is_fixed` is whether the catalog's version is fixed. If it is left out, it is read from the
    catalog.
    """
    columns = schema if schema is not None else table.arrow_schema()
    if descriptor is None:
        if is_fixed is None:
            is_fixed = catalog_version(route).is_fixed
        tag = "" if is_fixed else table_tag(columns)
        descriptor = Address(schema_name, table.name, catalog=route.name, tag=tag).descriptor()
    return _table_info(
        route,
        schema_name,
        table,
        wire_schema(table, columns),
        descriptor,
        endpoints=endpoints,
        total_records=total_records,
        total_bytes=total_bytes,
    )


def _table_info(
    route: CatalogRoute,
    schema_name: str,
    table: Table,
    published: pa.Schema,
    descriptor: flight.FlightDescriptor,
    *,
    endpoints: Sequence[flight.FlightEndpoint] = (),
    total_records: int = -1,
    total_bytes: int = -1,
) -> flight.FlightInfo:
    metadata = {
        "type": "table",
        "schema": schema_name,
        "catalog": route.name,
        "name": table.name,
        "comment": table.comment or None,
        "input_schema": None,
        "action_name": None,
        "description": None,
        "extra_data": None,
    }
    return flight.FlightInfo(
        published,
        descriptor,
        list(endpoints),
        total_records,
        total_bytes,
        ordered=False,
        app_metadata=encode(metadata),
    )


def wire_schema(table: Table, columns: pa.Schema) -> pa.Schema:
    """Return the schema to publish for a table: its columns, and whether it offers statistics."""
    metadata = {k: v for k, v in (columns.metadata or {}).items() if k != _CAN_PRODUCE_STATISTICS}
    if offers_statistics(table) and _can_produce_statistics(columns):
        metadata[_CAN_PRODUCE_STATISTICS] = b"1"
    return readable_columns(columns).with_metadata(metadata or None)


def schema_infos(
    route: CatalogRoute, schema: Schema, *, is_fixed: bool
) -> Iterator[flight.FlightInfo]:
    """Yield the FlightInfos of a schema that the caller may list; `is_fixed` as in `table_info`."""
    # Many tables of a catalog may share one schema object.
    known: dict[tuple[int, bool], tuple[pa.Schema, pa.Schema, str]] = {}
    allows = route.permissions(current_request().caller)
    for table in schema.tables():
        if allows(Operation.LIST, schema.name, table.name):
            columns = table.arrow_schema()
            key = (id(columns), offers_statistics(table))
            if key not in known:
                tag = "" if is_fixed else table_tag(columns)
                known[key] = (columns, wire_schema(table, columns), tag)
            _, published, tag = known[key]
            address = Address(schema.name, table.name, catalog=route.name, tag=tag)
            yield _table_info(route, schema.name, table, published, address.descriptor())
    yield from function_infos(route, schema)


def function_infos(route: CatalogRoute, schema: Schema) -> Iterator[flight.FlightInfo]:
    """Yield the FlightInfos of the functions of a schema that the caller may list."""
    functions: list[ScalarFunction | TableFunction | TableFunctionInOut] = [
        *schema.scalar_functions(),
        *schema.table_functions(),
        *schema.table_functions_in_out(),
    ]
    for function in functions:
        if route.allows(Operation.LIST, schema.name, function.name):
            yield function_info(route, schema.name, function)


def function_info(
    route: CatalogRoute,
    schema_name: str,
    function: ScalarFunction | TableFunction | TableFunctionInOut,
) -> flight.FlightInfo:
    """Return the FlightInfo of a function."""
    is_scalar = isinstance(function, ScalarFunction)
    address = Address(schema_name, function.name, catalog=route.name, tag=tag_of(function))
    metadata = {
        "type": "scalar_function" if is_scalar else "table_function",
        "schema": schema_name,
        "catalog": route.name,
        "name": function.name,
        "comment": function.comment or None,
        "input_schema": write_schema(input_schema(function.signature)),
        "action_name": None,
        "description": function.comment or None,
        "extra_data": encode({"stability": function.stability.value})
        if isinstance(function, ScalarFunction)
        else None,
    }
    return flight.FlightInfo(
        output_schema(function) if isinstance(function, ScalarFunction) else pa.schema([]),
        address.descriptor(),
        [],
        -1,
        -1,
        ordered=False,
        app_metadata=encode(metadata),
    )


def schema_contents(infos: Sequence[flight.FlightInfo]) -> dict[str, Any]:
    """Return the contents of one schema, inline, with their digest."""
    blob = compress_container(encode([info.serialize() for info in infos]))
    return {"sha256": hashlib.sha256(blob).hexdigest(), "url": None, "serialized": blob}


def _list_schemas(route: CatalogRoute, version: CatalogVersion) -> bytes:
    root = {
        "contents": {"sha256": "", "url": None, "serialized": None},
        "schemas": [
            {
                "name": schema.name,
                "description": schema.comment or "",
                "tags": {str(k): str(v) for k, v in getattr(schema, "tags", {}).items()},
                "contents": schema_contents(
                    list(schema_infos(route, schema, is_fixed=version.is_fixed))
                ),
                "is_default": position == 0,
            }
            for position, schema in enumerate(route.schemas())
        ],
        "version_info": {
            "catalog_version": int(version.version),
            "is_fixed": bool(version.is_fixed),
        },
    }
    return compress_container(encode(root))


def _can_produce_statistics(schema: pa.Schema) -> bool:
    # The client fails a query over types without statistics, and requests those of the wrong
    # column if the rowid is not the last one.
    last = len(schema) - 1
    for position, field in enumerate(schema):
        # Most fields have no metadata, and are neither row identifiers nor geometries.
        if field.metadata is None and field.type.id in _IDS_WITH_STATISTICS:
            continue
        if field_is_rowid(field):
            if position != last:
                return False
        elif not _has_statistics(field):
            return False
    return True


def _has_statistics(field: pa.Field) -> bool:
    """Return whether the client accepts statistics of this type; it fails queries over others."""
    return _type_has_statistics(field.type) and not is_geometry(field)


@lru_cache(maxsize=4096)
def _type_has_statistics(type: pa.DataType) -> bool:
    if isinstance(type, pa.BaseExtensionType):
        name = getattr(type, "type_name", "") or type.extension_name
        return name in _EXTENSIONS_WITH_STATISTICS
    return any(is_kind(type) for is_kind in _KINDS_WITH_STATISTICS)

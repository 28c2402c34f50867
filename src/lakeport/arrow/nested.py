"""The layouts of Arrow types: the one that tables store, and values under another type."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lakeport._cache import cached_by_identity

__all__ = [
    "readable_columns",
    "readable_type",
    "rebuild_list",
    "rebuild_map",
    "rebuild_struct",
    "relabel",
    "storage_type",
    "stored_type",
    "with_children",
]


def stored_type(type: pa.DataType) -> pa.DataType:
    """Return the layout that a table stores. Arrow cannot take rows from string views."""
    if isinstance(type, pa.BaseExtensionType):
        return _stored_extension(type)
    if pt.is_string_view(type):
        return pa.string()
    if pt.is_binary_view(type):
        return pa.binary()
    if pt.is_run_end_encoded(type):
        return stored_type(type.value_type)
    nested = with_children(type, stored_type)
    if pt.is_list_view(nested):
        return pa.list_(nested.value_field)
    if pt.is_large_list_view(nested):
        return pa.large_list(nested.value_field)
    if pt.is_union(nested):
        fields = [nested.field(i) for i in range(nested.num_fields)]
        return pa.sparse_union(fields, nested.type_codes)
    return nested


def with_children(type: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a type with other types of its fields; one without fields stays as it is."""

    def changed(field: pa.Field) -> pa.Field:
        return field.with_type(change(field.type))

    if pt.is_struct(type):
        return pa.struct([changed(type.field(i)) for i in range(type.num_fields)])
    if pt.is_map(type):
        return pa.map_(changed(type.key_field), changed(type.item_field), type.keys_sorted)
    if pt.is_fixed_size_list(type):
        return pa.list_(changed(type.value_field), type.list_size)
    if pt.is_union(type):
        fields = [changed(type.field(i)) for i in range(type.num_fields)]
        return pa.union(fields, mode=type.mode, type_codes=type.type_codes)
    for is_kind, kind in _LISTS:
        if is_kind(type):
            return kind(changed(type.value_field))
    return type


_LISTS = (
    (pt.is_list, pa.list_),
    (pt.is_large_list, pa.large_list),
    (pt.is_list_view, pa.list_view),
    (pt.is_large_list_view, pa.large_list_view),
)


def _stored_extension(type: pa.BaseExtensionType) -> pa.BaseExtensionType:
    storage = stored_type(type.storage_type)
    if isinstance(type, pa.JsonType):
        return pa.json_(storage)
    if isinstance(type, pa.OpaqueType):
        return pa.opaque(storage, type.type_name, type.vendor_name)
    return type


@cached_by_identity
def readable_columns(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a table in the layouts in which DuckDB reads them."""
    # Arrow computes the hash of a type from its text, which takes a microsecond.
    if not any(type.num_fields or type.id == _DICTIONARY for type in schema.types):
        return schema
    types = [readable_type(type, in_column=True) for type in schema.types]
    if types == schema.types:
        return schema
    fields = [field.with_type(type) for field, type in zip(schema, types, strict=True)]
    return pa.schema(fields, metadata=schema.metadata)


_DICTIONARY = pa.dictionary(pa.int32(), pa.string()).id


@lru_cache(maxsize=4096)
def readable_type(type: pa.DataType, *, in_column: bool = False) -> pa.DataType:
    """Return the layout of the same values in which DuckDB reads all of them.

    DuckDB 1.5.5 decodes dictionaries and runs of a table's column if their values are flat. In
    other places it reads some of them as numbers, and its session ends at a list of dictionaries
    without items, or a dictionary of structs.
    """
    if pt.is_dictionary(type) or pt.is_run_end_encoded(type):
        return type if in_column and _is_flat(type.value_type) else readable_type(type.value_type)
    return type if pt.is_union(type) else with_children(type, readable_type)


def _is_flat(type: pa.DataType) -> bool:
    return not (type.num_fields or pt.is_dictionary(type) or pt.is_run_end_encoded(type))


def storage_type(type: pa.DataType) -> pa.DataType:
    """Return the type of the same values without extensions, at every level."""
    if isinstance(type, pa.BaseExtensionType):
        return storage_type(type.storage_type)
    if pt.is_struct(type) or pt.is_list(type) or pt.is_map(type):
        return with_children(type, storage_type)
    return type


def relabel(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return the same values under another type of the same layout: names, zones, extensions."""
    if array.type == target and not pa.types.is_nested(target):
        return array
    if isinstance(array, pa.ExtensionArray) and not isinstance(target, pa.BaseExtensionType):
        return relabel(array.storage, target)
    if isinstance(target, pa.BaseExtensionType):
        storage = array.storage if isinstance(array, pa.ExtensionArray) else array
        return pa.ExtensionArray.from_storage(target, relabel(storage, target.storage_type))
    if pa.types.is_struct(target):
        return rebuild_struct(
            array, target, [relabel(array.field(i), f.type) for i, f in enumerate(target)]
        )
    if pa.types.is_map(target):
        keys, items = relabel(array.keys, target.key_type), relabel(array.items, target.item_type)
        return rebuild_map(array, target, keys, items)
    if pa.types.is_list(target):
        return rebuild_list(array, target, relabel(array.values, target.value_type))
    if pa.types.is_boolean(target) and pa.types.is_int8(array.type):
        return pc.not_equal(array, 0)
    if pa.types.is_timestamp(target):
        return array.view(target)
    return array.cast(target)


def rebuild_struct(array: pa.Array, target: pa.DataType, children: list[pa.Array]) -> pa.Array:
    """Return a struct with other children and the same nulls."""
    if not children:
        return pa.array([{}] * len(array), target)
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def rebuild_list(array: pa.Array, target: pa.DataType, values: pa.Array) -> pa.Array:
    """Return a list with other values and the same offsets and nulls."""
    return pa.Array.from_buffers(
        target, len(array), array.buffers()[:2], array.null_count, array.offset, children=[values]
    )


def rebuild_map(array: pa.Array, target: pa.DataType, keys: pa.Array, items: pa.Array) -> pa.Array:
    """Return a map with other keys and items and the same offsets and nulls."""
    entries = pa.StructArray.from_arrays(
        [keys, items], fields=[target.key_field, target.item_field]
    )
    return pa.Array.from_buffers(
        target, len(array), array.buffers()[:2], array.null_count, array.offset, children=[entries]
    )

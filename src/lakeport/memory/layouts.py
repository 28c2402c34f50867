"""The Arrow layout in which a table keeps its values."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

__all__ = ["stored_type"]


def stored_type(type: pa.DataType) -> pa.DataType:
    """The layout in which a table keeps a type: Arrow cannot pick rows out of string views."""
    if isinstance(type, pa.BaseExtensionType):
        return type
    if pt.is_string_view(type):
        return pa.string()
    if pt.is_binary_view(type):
        return pa.binary()
    if pt.is_run_end_encoded(type):
        return stored_type(type.value_type)
    if pt.is_struct(type):
        return pa.struct([_stored_field(type.field(i)) for i in range(type.num_fields)])
    if pt.is_list(type) or pt.is_list_view(type):
        return pa.list_(_stored_field(type.value_field))
    if pt.is_large_list(type) or pt.is_large_list_view(type):
        return pa.large_list(_stored_field(type.value_field))
    if pt.is_fixed_size_list(type):
        return pa.list_(_stored_field(type.value_field), type.list_size)
    if pt.is_map(type):
        return pa.map_(
            _stored_field(type.key_field), _stored_field(type.item_field), type.keys_sorted
        )
    if pt.is_union(type):
        fields = [_stored_field(type.field(i)) for i in range(type.num_fields)]
        return pa.sparse_union(fields, type.type_codes)
    return type


def _stored_field(field: pa.Field) -> pa.Field:
    return field.with_type(stored_type(field.type))

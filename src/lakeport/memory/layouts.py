"""Arrow layouts: what a table stores its values in, and how values in other layouts get there."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from lakeport.errors import InvalidInputError
from lakeport.memory.expressions import convert

__all__ = ["conform", "stored_type"]

# Extension types whose storage is the plain layout of the same values.
_PLAIN_STORAGE = {"arrow.json", "arrow.bool8", "bit", "bignum"}


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


def conform(values: pa.Array, type: pa.DataType, what: str) -> pa.Array:
    """The same values in another layout; `what` names their column in errors."""
    if values.type == type:
        return values
    try:
        return _cast(values, type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        reason = str(error).partition("\n")[0]
    except InvalidInputError as error:
        reason = str(error)
    raise InvalidInputError(f"{what} cannot take these values: {reason}") from None


def _cast(values: pa.Array, type: pa.DataType) -> pa.Array:
    if values.type == type:
        return values
    if pt.is_dictionary(values.type) and not pt.is_dictionary(type):
        return _cast(values.dictionary_decode(), type)
    if pt.is_dictionary(type):
        return _encode(values, type)
    source, target = _plain(values.type), _plain(type)
    if source is not None and target is not None:
        plain = values.storage if isinstance(values, pa.ExtensionArray) else values
        try:
            return _wrap(plain.cast(target), type)
        except pa.ArrowNotImplementedError:
            pass
    converted = convert(values, type)
    return converted if converted.type == type else converted.cast(type)


def _encode(values: pa.Array, type: pa.DataType) -> pa.Array:
    if pt.is_dictionary(values.type):
        values = values.dictionary_decode()
    encoded = _cast(values, type.value_type).dictionary_encode()
    return pa.DictionaryArray.from_arrays(
        encoded.indices.cast(type.index_type), encoded.dictionary, ordered=type.ordered
    )


def _plain(type: pa.DataType) -> pa.DataType | None:
    """The type whose values mean the same without an extension; None if there is none."""
    if isinstance(type, pa.BaseExtensionType):
        name = getattr(type, "type_name", "") or type.extension_name
        return type.storage_type if name in _PLAIN_STORAGE else None
    return None if _has_extension(type) else type


def _has_extension(type: pa.DataType) -> bool:
    if isinstance(type, pa.BaseExtensionType):
        return True
    return any(_has_extension(type.field(index).type) for index in range(type.num_fields))


def _wrap(values: pa.Array, type: pa.DataType) -> pa.Array:
    if isinstance(type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type, values)
    return values


def _stored_field(field: pa.Field) -> pa.Field:
    return field.with_type(stored_type(field.type))

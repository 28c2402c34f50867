"""Read the filters that DuckDB pushes into a scan of a pyarrow dataset.

DuckDB passes them as expressions of pyarrow, with its own meaning: in `x > 1` NaN is the greatest
value. pyarrow has no public functions that take an expression apart. It pickles one as an IPC
file: the nodes are entries of the schema's metadata, in the order of the tree, and the constants
are the columns of a batch of one row.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import LakeportError
from lakeport.filters.expressions import (
    ColumnRef,
    Comparison,
    ComparisonOp,
    Conjunction,
    ConjunctionOp,
    Expression,
    Filter,
    FunctionCall,
    In,
    IsNull,
    Not,
    Unsupported,
)
from lakeport.filters.literals import lit
from lakeport.types import UNKNOWN

__all__ = ["pushed_filter"]

_COMPARISONS: Final = {
    "equal": ComparisonOp.EQUAL,
    "not_equal": ComparisonOp.NOT_EQUAL,
    "less": ComparisonOp.LESS,
    "less_equal": ComparisonOp.LESS_OR_EQUAL,
    "greater": ComparisonOp.GREATER,
    "greater_equal": ComparisonOp.GREATER_OR_EQUAL,
}
_CONJUNCTIONS: Final = {
    "and": ConjunctionOp.AND,
    "and_kleene": ConjunctionOp.AND,
    "or": ConjunctionOp.OR,
    "or_kleene": ConjunctionOp.OR,
}


def pushed_filter(expression: pc.Expression) -> Filter:
    """Return the filter that DuckDB pushed; parts that are not understood are `Unsupported`."""
    try:
        message = pa.ipc.open_file(expression.__reduce__()[1][0])
        tree = _Reader(_metadata(message.schema), message.get_batch(0)).read()
    except (pa.ArrowException, LakeportError, LookupError, TypeError, ValueError) as error:
        tree = Unsupported(str(error))
    return Filter.of(tree)


class _Reader:
    """Builds a tree from the entries of a pickled expression."""

    def __init__(self, entries: list[tuple[str, str]], constants: pa.RecordBatch) -> None:
        self._entries = entries
        self._position = 0
        self._constants = constants

    def read(self) -> Expression:
        """Return the next node, with everything below it."""
        kind, value = self._next()
        match kind:
            case "literal":
                return self._constant(int(value))
            case "field_ref":
                return ColumnRef(value)
            case "nested_field_ref":
                return self._field(int(value))
            case "call":
                return self._call(value)
        raise ValueError(f"a node of kind {kind!r} is not understood")

    def _next(self) -> tuple[str, str]:
        self._position += 1
        return self._entries[self._position - 1]

    def _call(self, name: str) -> Expression:
        arguments: list[Expression] = []
        options: Any = None
        while self._entries[self._position][0] != "end":
            if self._entries[self._position][0] == "options":
                options = self._constants.column(int(self._next()[1]))[0]
            else:
                arguments.append(self.read())
        self._next()
        return _call(name, arguments, options)

    def _field(self, names: int) -> Expression:
        field: Expression = ColumnRef(self._next()[1])
        for _ in range(names - 1):
            field = FunctionCall("struct_extract", (field, lit(self._next()[1])), UNKNOWN)
        return field

    def _constant(self, column: int) -> Expression:
        try:
            return lit(self._constants.column(column)[0])
        except LakeportError as error:
            return Unsupported(str(error))


def _call(name: str, arguments: list[Expression], options: Any) -> Expression:
    if name in _COMPARISONS and len(arguments) == 2:
        return Comparison(_COMPARISONS[name], arguments[0], arguments[1])
    if name in _CONJUNCTIONS:
        return Conjunction(_CONJUNCTIONS[name], tuple(arguments))
    if name == "invert" and len(arguments) == 1:
        return Not(arguments[0])
    if name == "is_valid" and len(arguments) == 1:
        return IsNull(arguments[0], negated=True)
    if name == "is_null" and len(arguments) == 1 and not options["nan_is_null"].as_py():
        return IsNull(arguments[0])
    if name == "is_nan" and len(arguments) == 1:
        return Comparison(ComparisonOp.EQUAL, arguments[0], lit(math.nan))
    if name == "is_in" and len(arguments) == 1:
        values = options["value_set"]
        items = values.values if hasattr(values, "values") else values
        if items.null_count == 0:
            return In(arguments[0], tuple(lit(item) for item in items))
    return Unsupported(f"the function {name} of Arrow")


class _CSchema(ctypes.Structure):
    """The first members of `struct ArrowSchema` of Arrow's C data interface."""

    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
    )


def _metadata(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return all metadata of a schema: `Schema.metadata` is a dict and drops repeated keys."""
    capsule = schema.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = _CSchema.from_address(pointer(capsule, b"arrow_schema")).metadata
    if not address:
        return []
    position = address

    def number() -> int:
        nonlocal position
        position += 4
        return ctypes.c_int32.from_address(position - 4).value

    def text() -> str:
        nonlocal position
        length = number()
        position += length
        return ctypes.string_at(position - length, length).decode()

    return [(text(), text()) for _ in range(number())]

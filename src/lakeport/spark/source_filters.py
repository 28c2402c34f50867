"""Filters that Spark pushes down to a Python data source, as a `lakeport.filters` tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from lakeport.ducklake import Column
from lakeport.errors import UnsupportedError
from lakeport.filters import Expression, Filter, Not, Term, col

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter as SparkFilter

__all__ = ["pushed_filter"]

# Types whose values and order are the same in Spark; others become texts or numbers there.
_SAME: Final = frozenset(
    {
        "boolean", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float32", "float64", "varchar", "date", "timestamp", "timestamptz",
    }
)  # fmt: skip


def pushed_filter(filters: Iterable[SparkFilter], columns: Sequence[Column]) -> Filter:
    """The conjuncts that mean the same for a lake; the others are left to Spark."""
    usable = {column.name for column in columns if _is_same(column)}
    conjuncts = []
    for pushed in filters:
        try:
            expression = _expression(pushed, usable)
        except UnsupportedError:
            # A constant of a type that the tree does not know.
            continue
        if expression is not None:
            conjuncts.append(expression)
    return Filter.of(*conjuncts)


def _is_same(column: Column) -> bool:
    return column.type in _SAME or column.type.startswith("decimal")


def _expression(pushed: Any, usable: set[str]) -> Expression | None:
    kind = type(pushed).__name__
    if kind == "Not":
        child = _expression(pushed.child, usable)
        return None if child is None else Not(child)
    if kind not in _PREDICATES or len(pushed.attribute) != 1 or pushed.attribute[0] not in usable:
        return None
    return _PREDICATES[kind](col(pushed.attribute[0]), getattr(pushed, "value", None))


# By the names of Spark's classes, which this module does not import.
_PREDICATES: Final[dict[str, Callable[[Term, Any], Expression]]] = {
    "EqualTo": lambda column, value: column == value,
    "EqualNullSafe": lambda column, value: column.is_not_distinct_from(value),
    "GreaterThan": lambda column, value: column > value,
    "GreaterThanOrEqual": lambda column, value: column >= value,
    "LessThan": lambda column, value: column < value,
    "LessThanOrEqual": lambda column, value: column <= value,
    "In": lambda column, value: column.is_in(value),
    "IsNull": lambda column, _: column.is_null(),
    "IsNotNull": lambda column, _: column.is_not_null(),
    "StringStartsWith": lambda column, value: column.starts_with(value),
    "StringEndsWith": lambda column, value: column.ends_with(value),
    "StringContains": lambda column, value: column.contains(value),
}

"""Predicates of Spark's planner as a filter over the columns of a table.

Catalyst's expressions come as JSON. What has no translation is `Unsupported`, which excludes
no file, also below a NOT.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from lakeport.filters import (
    Cast,
    ColumnRef,
    Comparison,
    ComparisonOp,
    Conjunction,
    ConjunctionOp,
    Constant,
    Expression,
    Filter,
    FunctionCall,
    In,
    IsNull,
    LogicalType,
    Not,
    Unsupported,
    walk,
)
from lakeport.spark.frames.parquet_columns import FileColumn
from lakeport.spark.frames.parquet_scans import ParquetScan
from lakeport.spark.frames.values import not_held, spark_data_type
from lakeport.types import TYPES, Column, to_float32

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

__all__ = ["ComparedColumns", "compared_columns", "stored_columns", "translate_predicates"]

ComparedColumns = Mapping[str, "tuple[Column, DataType]"]
"""The columns of a table, and their Spark types, by the names that predicates have for them."""

_UNKNOWN: Final = Unsupported("Spark's predicate has no translation")

_COMPARISONS: Final[Mapping[str, ComparisonOp]] = {
    "EqualTo": ComparisonOp.EQUAL,
    "EqualNullSafe": ComparisonOp.NOT_DISTINCT,
    "LessThan": ComparisonOp.LESS,
    "LessThanOrEqual": ComparisonOp.LESS_OR_EQUAL,
    "GreaterThan": ComparisonOp.GREATER,
    "GreaterThanOrEqual": ComparisonOp.GREATER_OR_EQUAL,
}
_INTEGERS: Final = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INTEGER", "long": "BIGINT"}
# Casts that change no value and no order, by the type of the column.
_EXACT_CASTS: Final[Mapping[str, frozenset[str]]] = {
    "byte": frozenset({"short", "integer", "long", "float", "double"}),
    "short": frozenset({"integer", "long", "float", "double"}),
    "integer": frozenset({"long", "double"}),
    "float": frozenset({"double"}),
}


# Types whose values are the same in Spark and in the lake; others become texts or numbers.
_SAME: Final = frozenset(
    row.name
    for row in TYPES
    if row.spark_reads_parquet and row.spark_form == "same" and row.name not in ("blob", "json")
) | {"decimal"}


def stored_columns(scan: ParquetScan) -> ComparedColumns:
    """Return the columns of a scan's files, under their names in the files."""
    read = scan.files[0].task.context.read_columns
    return {
        stored.name: (column, stored.type)
        for stored, column in zip(scan.layout.columns, read, strict=True)
        if isinstance(stored, FileColumn) and isinstance(column, Column)
    }


def compared_columns(columns: Iterable[Column | str]) -> ComparedColumns:
    """Return the columns of a DataFrame whose values Spark compares as the lake does."""
    return {
        column.name: (column, spark_data_type(column))
        for column in columns
        if isinstance(column, Column) and _is_same(column) and not not_held(column)
    }


def _is_same(column: Column) -> bool:
    if column.type == "struct":
        return all(_is_same(child) for child in column.children)
    return not column.children and column.type.partition("(")[0] in _SAME


def translate_predicates(columns: ComparedColumns, predicates: Sequence[Any]) -> Filter | None:
    """Return a filter that every row passes which passes the predicates; None if all rows do."""
    translator = _Translator(columns)
    parts = [translator.expression(_parse(predicate)) for predicate in predicates]
    useful = [part for part in parts if any(isinstance(node, ColumnRef) for node in walk(part))]
    return Filter(tuple(useful)) if useful else None


@dataclass(eq=False)
class _Node:
    """An expression of Catalyst."""

    name: str
    fields: Mapping[str, Any]
    find: Callable[[], Any]
    children: tuple[_Node, ...] = ()

    @cached_property
    def in_java(self) -> Any:
        """The expression itself; each step to it is a call into the JVM."""
        return self.find()

    def child_in_java(self, position: int) -> Any:
        """Return a child of the expression itself."""
        return self.in_java.children().apply(position)


def _parse(predicate: Any) -> _Node:
    return _tree(iter(json.loads(predicate.toJSON())), lambda: predicate)


def _tree(nodes: Iterator[Mapping[str, Any]], find: Callable[[], Any]) -> _Node:
    """Return the next node of a JSON array, in which each node stands before its children."""
    fields = next(nodes)
    node = _Node(fields["class"].rpartition(".")[2], fields, find)
    node.children = tuple(
        _tree(nodes, partial(node.child_in_java, position))
        for position in range(fields["num-children"])
    )
    return node


class _Translator:
    """Translates expressions over columns."""

    def __init__(self, columns: ComparedColumns) -> None:
        self._columns = columns

    def expression(self, node: _Node) -> Expression:
        """Return a condition, `Unsupported` where there is no exact translation."""
        match node.name:
            case "And" | "Or":
                op = ConjunctionOp.AND if node.name == "And" else ConjunctionOp.OR
                return Conjunction(op, tuple(self.expression(child) for child in node.children))
            case "Not":
                return Not(self.expression(node.children[0]))
            case "IsNull" | "IsNotNull":
                value = self._value(node.children[0])
                if value is None or isinstance(value, Cast | Constant):
                    return _UNKNOWN
                return IsNull(value, node.name == "IsNotNull")
            case "In" | "InSet":
                return self._in(node)
            case "StartsWith":
                return self._starts_with(node)
            case "AttributeReference" | "GetStructField" if _type_of(node) == "boolean":
                column = self._column(node)
                return _UNKNOWN if column is None else column
            case name if name in _COMPARISONS:
                left, right = (self._value(child) for child in node.children)
                if left is None or right is None:
                    return _UNKNOWN
                return Comparison(_COMPARISONS[name], left, right)
            case _:
                return _UNKNOWN

    def _in(self, node: _Node) -> Expression:
        probe = self._value(node.children[0])
        if node.name == "In":
            items = [_literal(child) for child in node.children[1:]]
        else:
            items = list(_items_of_set(node, _type_of(node.children[0])))
        known = tuple(item for item in items if item is not None)
        if probe is None or not known or len(known) < len(items):
            return _UNKNOWN
        return In(probe, known)

    def _starts_with(self, node: _Node) -> Expression:
        column, prefix = self._column(node.children[0]), _literal(node.children[1])
        if column is None or prefix is None or not isinstance(prefix.value, str):
            return _UNKNOWN
        return FunctionCall("starts_with", (column, prefix), LogicalType("BOOLEAN"))

    def _value(self, node: _Node) -> Expression | None:
        if node.name == "Literal":
            return _literal(node)
        if node.name != "Cast":
            return self._column(node)
        column = self._column(node.children[0])
        source, target = _type_of(node.children[0]), _type_of(node)
        if column is None or source is None or target is None:
            return None
        if target in _EXACT_CASTS.get(source, ()) or _widens_decimal(source, target):
            return column
        # Both Spark and DuckDB round to the nearest number, which keeps the order.
        if source in _INTEGERS and target in ("float", "double"):
            return Cast(column, LogicalType(target.upper()))
        return None

    def _column(self, node: _Node) -> Expression | None:
        """Return the table's column of a field, also where it is hidden from Spark's reader."""
        found = self._field(node)
        return None if found is None else found[0]

    def _field(self, node: _Node) -> tuple[Expression, Column, Any] | None:
        """Return a column or a field of a struct, and its Spark type in the file."""
        match node.name:
            case "NaNvl" | "Coalesce":
                first, *others = node.children
                same = first.name == "AttributeReference" and all(
                    other.fields.get("exprId") == first.fields["exprId"] for other in others
                )
                return self._field(first) if same else None
            # The columns of `_metadata` have the names of columns, too, and metadata.
            case "AttributeReference" if not node.fields.get("metadata"):
                if node.fields["name"] not in self._columns:
                    return None
                column, type = self._columns[node.fields["name"]]
                return ColumnRef(column.name), column, type
            case "GetStructField":
                return self._member(node)
            case _:
                return None

    def _member(self, node: _Node) -> tuple[Expression, Column, Any] | None:
        parent = self._field(node.children[0])
        name = _member_name(node)
        if parent is None or name is None:
            return None
        expression, column, type = parent
        if column.type != "struct" or name not in type.fieldNames():
            return None
        position = type.fieldNames().index(name)
        child = column.children[position]
        text = Constant(child.name, LogicalType("VARCHAR"))
        member = FunctionCall("struct_extract", (expression, text), LogicalType("UNKNOWN"))
        return member, child, type.fields[position].dataType


def _member_name(node: _Node) -> str | None:
    """Return the name of a struct's field in the file, by its place in the struct that is read."""
    struct = _type_of(node.children[0])
    if not isinstance(struct, dict) or struct.get("type") != "struct":
        return None
    name: str = struct["fields"][node.fields["ordinal"]]["name"]
    return name


def _type_of(node: _Node) -> Any:
    """Return the type of a field, literal or cast as in JSON; None of another expression."""
    match node.name:
        case "AttributeReference" | "Literal" | "Cast":
            return node.fields["dataType"]
        case "NaNvl" | "Coalesce":
            return _type_of(node.children[0])
        case "GetStructField":
            struct = _type_of(node.children[0])
            if isinstance(struct, dict) and struct.get("type") == "struct":
                return struct["fields"][node.fields["ordinal"]]["type"]
    return None


def _literal(node: _Node) -> Constant | None:
    """Return a constant; None if it is NULL or has another type."""
    if node.name != "Literal" or node.fields.get("value") is None:
        return None
    type = node.fields["dataType"]
    if type == "timestamp":
        # Its text is a local time, which may stand for two instants.
        return _constant(type, str(node.in_java.value()))
    if type == "date":
        try:
            day = dt.date.fromisoformat(node.fields["value"])
        except ValueError:
            return None
        return _constant(type, str(day.toordinal() - _EPOCH))
    return _constant(type, node.fields["value"])


_EPOCH: Final = dt.date(1970, 1, 1).toordinal()


def _items_of_set(node: _Node, type: Any) -> Sequence[Constant | None]:
    """Return the items of a long IN list, which are not part of the JSON."""
    items = node.in_java.hset()
    if items.contains(None):
        return [None]
    separator = uuid.uuid4().hex
    return [_constant(type, text) for text in items.mkString(separator).split(separator)]


def _constant(type: Any, text: str) -> Constant | None:
    """Return a constant of the text of an internal value of Spark."""
    match type:
        case "string":
            # Bytes that are not UTF-8 were replaced.
            return None if "\ufffd" in text else Constant(text, LogicalType("VARCHAR"))
        case "boolean":
            return Constant(text == "true", LogicalType("BOOLEAN"))
        case "double":
            return Constant(float(text), LogicalType("DOUBLE"))
        case "float":
            return Constant(to_float32(float(text)), LogicalType("FLOAT"))
        case "date":
            return Constant(int(text), LogicalType("DATE"))
        case "timestamp":
            return Constant(int(text), LogicalType("TIMESTAMP WITH TIME ZONE"))
        case "timestamp_ntz":
            return Constant(int(text), LogicalType("TIMESTAMP"))
        case str() if type in _INTEGERS:
            return Constant(int(text), LogicalType(_INTEGERS[type]))
        case str() if (size := _decimal(type)) is not None:
            return Constant(Decimal(text), LogicalType.decimal(*size))
        case _:
            return None


def _decimal(type: Any) -> tuple[int, int] | None:
    """Return precision and scale of a decimal type."""
    if not isinstance(type, str) or not type.startswith("decimal("):
        return None
    precision, _, scale = type.removeprefix("decimal(").rstrip(")").partition(",")
    return int(precision), int(scale)


_DIGITS: Final = {"byte": 3, "short": 5, "integer": 10, "long": 19}


def _widens_decimal(source: Any, target: Any) -> bool:
    """Return whether a cast to a decimal changes no value."""
    to = _decimal(target)
    if to is None:
        return False
    if source in _DIGITS:
        return to[0] - to[1] >= _DIGITS[source]
    of = _decimal(source)
    return of is not None and to[1] >= of[1] and to[0] - to[1] >= of[0] - of[1]

"""Rules on the statistics and the partition values that the catalog records for each file.

A rule translates a comparison to SQL over the columns of a table of files (`s1_min_value`, `p0`).
It returns None if the catalog records nothing that decides the comparison.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from lakeport.ducklake.model import PartitionField, PartitionSpec
from lakeport.ducklake.planning.partitioning import bucket_of
from lakeport.filters import ComparisonOp, Constant
from lakeport.types import BY_ID, Column, LogicalType, duckdb_type, find_type

__all__ = [
    "ComparedColumn",
    "ComparedLiteral",
    "PartitionRules",
    "Rules",
    "StatisticsRules",
    "all_of",
    "any_of",
    "family",
    "family_of",
]

Op = ComparisonOp
_MANY_ITEMS: Final = 200
# DuckLake 1.5 records whether the last row group has NaN; DuckDB's row groups have so many rows.
_ONE_ROW_GROUP: Final = 122_880


@dataclass(frozen=True, slots=True)
class ComparedColumn:
    """A column, or a field of a struct, perhaps under a cast that keeps the order of values."""

    column: Column
    cast: LogicalType | None = None


@dataclass(frozen=True, slots=True)
class ComparedLiteral:
    """A constant of a filter, and the same as DuckDB SQL."""

    constant: Constant
    sql: str


class Rules(Protocol):
    """Rules on the statistics of files, or on their partition values."""

    def compare(
        self, op: ComparisonOp, target: ComparedColumn, literals: Sequence[ComparedLiteral]
    ) -> str | None:
        """Return SQL: may a row compare so with one of the literals? None if undecided."""

    def null(self, target: ComparedColumn, *, negated: bool) -> str | None:
        """Return SQL: may a row be NULL, or if `negated`, not NULL?"""


class StatisticsRules:
    """Rules on the column statistics of a file."""

    def __init__(self, columns_with_older_types: frozenset[int]) -> None:
        self._columns_with_older_types = columns_with_older_types
        self.used: set[int] = set()

    def compare(
        self, op: ComparisonOp, target: ComparedColumn, literals: Sequence[ComparedLiteral]
    ) -> str | None:
        """Return SQL: may a row compare so with one of the literals?"""
        column = target.column
        if not self._trusted(column):
            return None
        self.used.add(column.id)
        low, high = (self._bound(target, name) for name in ("min_value", "max_value"))
        value_count = f"s{column.id}_value_count"
        is_float = _is_floating(column)
        nan = "FALSE"
        if is_float:
            flag = f"s{column.id}_contains_nan <> 0 OR record_count > {_ONE_ROW_GROUP}"
            nan = f"coalesce({flag}, TRUE)"
        constants = [literal.sql for literal in literals]
        if op is Op.EQUAL and len(constants) > _MANY_ITEMS:
            least, greatest = f"least({', '.join(constants)})", f"greatest({', '.join(constants)})"
            condition = f"({low} <= {greatest} AND {high} >= {least}) OR {nan}"
        else:
            condition = any_of(
                [self._one(op, low, high, k, nan, is_float=is_float) for k in constants]
            )
        return f"(coalesce({value_count} > 0, TRUE) AND coalesce({condition}, TRUE))"

    def null(self, target: ComparedColumn, *, negated: bool) -> str | None:
        """Return SQL: may a row be NULL, or if `negated`, not NULL?"""
        column = target.column
        row = find_type(column.type)
        if target.cast or column.children or (row is not None and not row.counted):
            return None
        self.used.add(column.id)
        return f"coalesce(s{column.id}_{'value' if negated else 'null'}_count > 0, TRUE)"

    def _trusted(self, column: Column) -> bool:
        row = find_type(column.type)
        if row is None or row.bounds == "none":
            return False
        # Bounds of an older type are exact only in that type.
        return row.bounds == "exact" or column.id not in self._columns_with_older_types

    def _bound(self, target: ComparedColumn, name: str) -> str:
        sql = f"TRY_CAST(s{target.column.id}_{name} AS {duckdb_type(target.column)})"
        return f"TRY_CAST({sql} AS {target.cast.sql()})" if target.cast else sql

    def _one(
        self, op: ComparisonOp, low: str, high: str, k: str, nan: str, *, is_float: bool
    ) -> str:
        """Return SQL for one literal. NaN is above every number and is not part of the bounds."""
        match op:
            case Op.EQUAL:
                equal = f"({low} <= {k} AND {high} >= {k})"
                return f"({equal} OR (isnan(CAST({k} AS DOUBLE)) AND {nan}))" if is_float else equal
            case Op.NOT_EQUAL:
                return f"({low} <> {k} OR {high} <> {k} OR {nan})"
            case Op.LESS | Op.LESS_OR_EQUAL:
                return f"({low} {op.value} {k})"
            case _:
                return f"({high} {op.value} {k} OR {nan})"


class PartitionRules:
    """Rules on the partition values of a file, by the spec that the file was written with."""

    def __init__(self, spec: PartitionSpec, columns_with_older_types: frozenset[int]) -> None:
        self._fields = [
            (i, f) for i, f in enumerate(spec.fields) if f.column_id not in columns_with_older_types
        ]

    def compare(
        self, op: ComparisonOp, target: ComparedColumn, literals: Sequence[ComparedLiteral]
    ) -> str | None:
        """Return SQL: may a row compare so with one of the literals?"""
        if target.cast:
            return None
        fields = [(i, field) for i, field in self._fields if field.column_id == target.column.id]
        conditions = [
            self._field(op, index, field, target.column, literals) for index, field in fields
        ]
        if not any(conditions):
            return None
        return all_of(f"coalesce({sql}, TRUE)" for sql in conditions if sql)

    def number(self, key: str) -> str:
        """Return SQL for the number in a partition value."""
        return f"TRY_CAST({key} AS BIGINT)"

    def transformed(self, sql: str) -> str | None:
        """Return SQL for a literal to which a transform has been applied."""
        return sql

    def identity(
        self, op: ComparisonOp, key: str, column: Column, literals: Sequence[ComparedLiteral]
    ) -> str | None:
        """Return SQL: may a partition value that is a value of the column compare so?"""
        value = f"TRY_CAST({key} AS {duckdb_type(column)})"
        return any_of([f"({value} {op.value} {literal.sql})" for literal in literals])

    def null(self, target: ComparedColumn, *, negated: bool) -> str | None:  # noqa: ARG002
        """Return SQL: may a row be NULL, or if `negated`, not NULL?"""
        return None

    def _field(
        self,
        op: ComparisonOp,
        index: int,
        field: PartitionField,
        column: Column,
        literals: Sequence[ComparedLiteral],
    ) -> str | None:
        key = f"p{index}"
        if field.transform == "identity":
            # Equal values of these types have several texts.
            inexact = _is_floating(column) or family(column.type) == "timestamptz"
            return None if inexact else self.identity(op, key, column, literals)
        bucket = re.fullmatch(r"bucket\((\d+)\)", field.transform)
        if bucket:
            return self._bucket(op, key, column, literals, int(bucket.group(1)))
        part = _TRANSFORMS.get(field.transform)
        if part is None or (
            family(column.type) != "timestamp" and not field.transform.startswith("epoch_")
        ):
            return None
        parts = [self.transformed(part(literal.sql)) for literal in literals]
        if any(sql is None for sql in parts):
            return None
        value = self.number(key)
        if op is Op.EQUAL:
            return any_of([f"({value} = {sql})" for sql in parts])
        if field.transform not in _ORDER_PRESERVING:
            return None
        if op in (Op.LESS, Op.LESS_OR_EQUAL):
            return f"({value} <= {parts[0]})"
        return f"({value} >= {parts[0]})" if op in (Op.GREATER, Op.GREATER_OR_EQUAL) else None

    def _bucket(
        self,
        op: ComparisonOp,
        key: str,
        column: Column,
        literals: Sequence[ComparedLiteral],
        count: int,
    ) -> str | None:
        if op is not Op.EQUAL or len(literals) > _MANY_ITEMS:
            return None
        buckets = [bucket_of(literal.sql, column, count) for literal in literals]
        if any(bucket is None for bucket in buckets):
            return None
        return f"({self.number(key)} IN ({', '.join(str(bucket) for bucket in buckets)}))"


_TRANSFORMS: Final[Mapping[str, Callable[[str], str]]] = {
    "year": lambda k: f"year({k})",
    "month": lambda k: f"month({k})",
    "day": lambda k: f"day({k})",
    "hour": lambda k: f"hour({k})",
    "epoch_year": lambda k: f"year({k}) - 1970",
    "epoch_month": lambda k: f"(year({k}) - 1970) * 12 + month({k}) - 1",
    "epoch_day": lambda k: f"date_diff('day', DATE '1970-01-01', CAST({k} AS DATE))",
    "epoch_hour": lambda k: f"CAST(floor(epoch({k}) / 3600) AS BIGINT)",
}
_ORDER_PRESERVING: Final = frozenset(
    {"year", "epoch_year", "epoch_month", "epoch_day", "epoch_hour"}
)


def family(type: str) -> str | None:
    """Return the family of a type whose bounds in data files can be trusted, else None."""
    row = find_type(type)
    return None if row is None or row.bounds == "none" else row.family


def family_of(type: LogicalType) -> str | None:
    """Return the family of a constant's type."""
    row = None if type.alias else BY_ID.get(type.id)
    return None if row is None else row.family


def _is_floating(column: Column) -> bool:
    row = find_type(column.type)
    return row is not None and row.is_floating


def all_of(parts: Iterable[str]) -> str:
    """Join conditions with AND, without those that are always true."""
    conditions = [part for part in parts if part != "TRUE"]
    return f"({' AND '.join(conditions)})" if conditions else "TRUE"


def any_of(parts: Iterable[str]) -> str:
    """Join conditions with OR; TRUE if one of them is always true."""
    conditions = list(parts)
    if not conditions or "TRUE" in conditions:
        return "TRUE"
    return f"({' OR '.join(conditions)})"

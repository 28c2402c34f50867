"""What is known of a file before it is opened: bounds of its columns, and its partition values.

Each rule answers a comparison with SQL over the columns of a table of files (`s1_min_value`, `p0`),
or with None where nothing is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from lakeport.ducklake.model import PartitionField, PartitionSpec
from lakeport.ducklake.planning.partitioning import bucket_of
from lakeport.filters import ComparisonOp
from lakeport.types import BY_ID, Column, LogicalType, duckdb_type, find_type

__all__ = [
    "ComparedColumn",
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


@dataclass(frozen=True, slots=True)
class ComparedColumn:
    """A column, or a field of a struct, perhaps under a cast that keeps the order of values."""

    column: Column
    cast: LogicalType | None = None


class Rules(Protocol):
    """What is known of a file: its statistics, or its partition values."""

    def compare(
        self, op: ComparisonOp, target: ComparedColumn, literals: Sequence[str]
    ) -> str | None:
        """May some row compare so with one of the literals? None if nothing is known."""

    def null(self, target: ComparedColumn, *, negated: bool) -> str | None:
        """May some row be NULL, or not NULL?"""


class StatisticsRules:
    """What the column statistics of a file say."""

    def __init__(self, retyped: frozenset[int]) -> None:
        self._retyped = retyped
        self.used: set[int] = set()

    def compare(
        self, op: ComparisonOp, target: ComparedColumn, literals: Sequence[str]
    ) -> str | None:
        """May some row compare so?"""
        column = target.column
        if not self._trusted(column):
            return None
        self.used.add(column.id)
        low, high = (self._bound(target, name) for name in ("min_value", "max_value"))
        known = f"s{column.id}_value_count"
        is_float = _is_floating(column)
        nan = f"coalesce(s{column.id}_contains_nan <> 0, TRUE)" if is_float else "FALSE"
        if op is Op.EQUAL and len(literals) > _MANY_ITEMS:
            least, greatest = f"least({', '.join(literals)})", f"greatest({', '.join(literals)})"
            asked = f"({low} <= {greatest} AND {high} >= {least}) OR {nan}"
        else:
            asked = any_of(
                [self._one(op, low, high, literal, nan, is_float=is_float) for literal in literals]
            )
        return f"(coalesce({known} > 0, TRUE) AND coalesce({asked}, TRUE))"

    def null(self, target: ComparedColumn, *, negated: bool) -> str | None:
        """May some row be NULL, or not NULL?"""
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
        # The text of old bounds is exact in the old type only.
        return row.bounds == "exact" or column.id not in self._retyped

    def _bound(self, target: ComparedColumn, name: str) -> str:
        sql = f"TRY_CAST(s{target.column.id}_{name} AS {duckdb_type(target.column)})"
        return f"TRY_CAST({sql} AS {target.cast.sql()})" if target.cast else sql

    def _one(
        self, op: ComparisonOp, low: str, high: str, k: str, nan: str, *, is_float: bool
    ) -> str:
        """NaN is above every number and outside the bounds."""
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
    """What the partition values of a file say, by the spec that the file was written with."""

    def __init__(self, spec: PartitionSpec, retyped: frozenset[int]) -> None:
        self._fields = [(i, f) for i, f in enumerate(spec.fields) if f.column_id not in retyped]

    def compare(
        self, op: ComparisonOp, target: ComparedColumn, literals: Sequence[str]
    ) -> str | None:
        """May some row compare so?"""
        if target.cast:
            return None
        mine = [(i, field) for i, field in self._fields if field.column_id == target.column.id]
        questions = [
            self._field(op, index, field, target.column, literals) for index, field in mine
        ]
        return (
            all_of(f"coalesce({sql}, TRUE)" for sql in questions if sql) if any(questions) else None
        )

    def null(self, target: ComparedColumn, *, negated: bool) -> str | None:  # noqa: ARG002
        """May some row be NULL, or not NULL?"""
        return None

    def _field(
        self,
        op: ComparisonOp,
        index: int,
        field: PartitionField,
        column: Column,
        literals: Sequence[str],
    ) -> str | None:
        key = f"p{index}"
        if field.transform == "identity":
            return self._identity(op, key, column, literals)
        bucket = re.fullmatch(r"bucket\((\d+)\)", field.transform)
        if bucket:
            return self._bucket(op, key, column, literals, int(bucket.group(1)))
        part = _TRANSFORMS.get(field.transform)
        if part is None or (
            family(column.type) != "moment" and not field.transform.startswith("epoch_")
        ):
            return None
        value = f"TRY_CAST({key} AS BIGINT)"
        if op is Op.EQUAL:
            return any_of([f"({value} = {part(literal)})" for literal in literals])
        if field.transform not in _MONOTONE:
            return None
        if op in (Op.LESS, Op.LESS_OR_EQUAL):
            return f"({value} <= {part(literals[0])})"
        return (
            f"({value} >= {part(literals[0])})" if op in (Op.GREATER, Op.GREATER_OR_EQUAL) else None
        )

    def _identity(
        self, op: ComparisonOp, key: str, column: Column, literals: Sequence[str]
    ) -> str | None:
        if _is_floating(column) or family(column.type) == "instant":
            return None
        value = f"TRY_CAST({key} AS {duckdb_type(column)})"
        return any_of([f"({value} {op.value} {literal})" for literal in literals])

    def _bucket(
        self, op: ComparisonOp, key: str, column: Column, literals: Sequence[str], count: int
    ) -> str | None:
        if op is not Op.EQUAL or len(literals) > _MANY_ITEMS:
            return None
        buckets = [bucket_of(literal, column, count) for literal in literals]
        if any(bucket is None for bucket in buckets):
            return None
        return f"(TRY_CAST({key} AS BIGINT) IN ({', '.join(str(bucket) for bucket in buckets)}))"


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
_MONOTONE: Final = frozenset({"year", "epoch_year", "epoch_month", "epoch_day", "epoch_hour"})


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
    """AND, without what is always true."""
    said = [part for part in parts if part != "TRUE"]
    return f"({' AND '.join(said)})" if said else "TRUE"


def any_of(parts: Iterable[str]) -> str:
    """OR, which is true as soon as one part is."""
    said = list(parts)
    return "TRUE" if not said or "TRUE" in said else f"({' OR '.join(said)})"

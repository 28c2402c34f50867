"""Translate a filter to SQL of the catalog database, so that it returns only files that may match.

A condition is translated only where the database compares exactly as DuckDB does, or keeps more
files. Values are compared only if their text is the usual one of their type. PostgreSQL raises an
error for other texts; then the caller reads the files without these conditions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, Final, Literal

from lakeport.arrow import thread_connection
from lakeport.ducklake.metadata.location import DatabaseKind
from lakeport.ducklake.metadata.statements import Exclusions
from lakeport.ducklake.model import PartitionSpec
from lakeport.ducklake.planning.pruning import may_match
from lakeport.ducklake.planning.pruning_rules import (
    ComparedColumn,
    ComparedLiteral,
    PartitionRules,
    StatisticsRules,
    all_of,
    any_of,
)
from lakeport.filters import ComparisonOp, Filter
from lakeport.types import BY_ID, Column, find_type, fold_name

__all__ = ["PushedFilter", "pushed_filter"]

Op = ComparisonOp
Kind = Literal["integer", "date", "second", "text"]

_INTEGERS: Final = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"})
_MANY_ITEMS: Final = 20
_LEAST, _GREATEST = -(2**63), 2**63 - 1
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 (timestamps without a zone)


@dataclass(frozen=True, slots=True)
class PushedFilter:
    """The parts of a filter that a database applies."""

    exclusions: Exclusions = field(default_factory=Exclusions)
    parameters: Mapping[str, object] = field(default_factory=dict)
    decides_statistics: bool = False
    """Whether statistics of the remaining files would exclude no more of them."""


def pushed_filter(
    kind: DatabaseKind,
    filter: Filter,
    columns: Sequence[Column],
    specs: Mapping[int, PartitionSpec],
    columns_with_older_types: frozenset[int],
) -> PushedFilter:
    """Translate a filter. DuckDB itself evaluates the exact rules on all files quickly."""
    sql = _DATABASES.get(kind)
    if sql is None:
        return PushedFilter()
    by_name = {fold_name(column.name): column for column in columns}
    values = _Values(sql)
    decides, conditions = True, dict[int, list[str]]()
    for part in filter.conjuncts:
        rules = _Statistics(values, columns_with_older_types)
        condition = may_match(part, by_name, rules)
        decides = decides and rules.is_exact
        if condition == "TRUE":
            continue
        if len(rules.used) > 1:  # each row of statistics is of one column
            decides = False
            continue
        conditions.setdefault(rules.used.pop(), []).append(condition)
    by_column = [
        f"WHEN {column} THEN NOT {all_of(parts)}" for column, parts in sorted(conditions.items())
    ]
    # CASE keeps the order of evaluation: rows of other columns and tables have other texts.
    statistics = (
        f"CASE WHEN table_id = :table_id THEN CASE column_id {' '.join(by_column)} END END"
        if by_column
        else None
    )
    by_key = []
    for spec in specs.values():
        for index in range(len(spec.fields)):
            keys = _PartitionKey(values, spec, index, columns_with_older_types)
            condition = all_of(may_match(part, by_name, keys) for part in filter.conjuncts)
            if condition != "TRUE":
                key = f"partition_id = {spec.id} AND partition_key_index = {index}"
                by_key.append(f"WHEN {key} THEN NOT {condition}")
    partition = f"CASE {' '.join(by_key)} END" if by_key else None
    return PushedFilter(Exclusions(statistics, partition), values.parameters, decides)


class _Values:
    """Values of the catalog and constants of a filter in the SQL of one database."""

    def __init__(self, sql: Mapping[Kind, tuple[str, str]]) -> None:
        self._sql = sql
        self.parameters: dict[str, object] = {}

    def of(self, kind: Kind, column: str) -> str:
        """Return a text of the catalog as a value that can be compared; NULL if it is unusual."""
        return self._sql[kind][0].replace("@", column)

    def parameter(self, kind: Kind, value: object) -> str:
        """Return a parameter of the statement."""
        name = f"k{len(self.parameters)}"
        self.parameters[name] = value
        return self._sql[kind][1].replace("@", f":{name}")


class _Statistics:
    """Rules on one row of `ducklake_file_column_stats`."""

    def __init__(self, values: _Values, columns_with_older_types: frozenset[int]) -> None:
        self._values = values
        self._exact = StatisticsRules(columns_with_older_types)
        self.used: set[int] = set()
        self.is_exact = True

    def compare(
        self, op: ComparisonOp, target: ComparedColumn, literals: Sequence[ComparedLiteral]
    ) -> str | None:
        """Return SQL: may a row compare so with one of the literals?"""
        if self._exact.compare(op, target, literals) is None:
            return None
        kind = None if target.cast else _kind(target.column)
        constants = [_constant(kind, literal) for literal in literals]
        if kind is None or any(constant is None for constant in constants):
            self.is_exact = False
            return None
        if kind == "second":
            self.is_exact = False
            if op is Op.NOT_EQUAL:
                return None
            op = {Op.LESS: Op.LESS_OR_EQUAL, Op.GREATER: Op.GREATER_OR_EQUAL}.get(op, op)
        self.used.add(target.column.id)
        condition = self._condition(op, kind, constants)
        return f"(coalesce(value_count > 0, TRUE) AND coalesce({condition}, TRUE))"

    def null(self, target: ComparedColumn, *, negated: bool) -> str | None:
        """Return SQL: may a row be NULL, or if `negated`, not NULL?"""
        if self._exact.null(target, negated=negated) is None:
            return None
        self.used.add(target.column.id)
        return f"coalesce({'value' if negated else 'null'}_count > 0, TRUE)"

    def _condition(self, op: ComparisonOp, kind: Kind, constants: Sequence[Any]) -> str:
        low, high = self._values.of(kind, "min_value"), self._values.of(kind, "max_value")
        if op is Op.EQUAL:
            if len(constants) > _MANY_ITEMS:
                self.is_exact = False
                spans = [(min(constants), max(constants))]
            else:
                spans = [(constant, constant) for constant in constants]
            return any_of(
                f"({low} <= {self._values.parameter(kind, last)}"
                f" AND {high} >= {self._values.parameter(kind, first)})"
                for first, last in spans
            )
        k = self._values.parameter(kind, constants[0])
        if op is Op.NOT_EQUAL:
            return f"({low} <> {k} OR {high} <> {k})"
        return f"({low if op in (Op.LESS, Op.LESS_OR_EQUAL) else high} {op.value} {k})"


class _PartitionKey(PartitionRules):
    """Rules on one partition value of a file."""

    def __init__(
        self,
        values: _Values,
        spec: PartitionSpec,
        index: int,
        columns_with_older_types: frozenset[int],
    ) -> None:
        super().__init__(spec, columns_with_older_types)
        self._fields = [(i, field) for i, field in self._fields if i == index]
        self._values = values

    def number(self, key: str) -> str:  # noqa: ARG002
        """Return SQL for the number in a partition value."""
        return self._values.of("integer", "partition_value")

    def transformed(self, sql: str) -> str | None:
        """Return a parameter for a literal to which a transform has been applied."""
        import duckdb

        try:
            ((value,),) = thread_connection().execute(f"SELECT CAST({sql} AS BIGINT)").fetchall()
        except duckdb.Error:
            return None
        return None if value is None else self._values.parameter("integer", value)

    def identity(
        self,
        op: ComparisonOp,
        key: str,  # noqa: ARG002
        column: Column,
        literals: Sequence[ComparedLiteral],
    ) -> str | None:
        """Return SQL: may a partition value that is a value of the column compare so?"""
        kind = _kind(column)
        constants: list[Any] = [_constant(kind, literal) for literal in literals]
        if kind is None or kind == "second" or any(constant is None for constant in constants):
            return None
        value = self._values.of(kind, "partition_value")
        if op is Op.EQUAL and len(constants) > _MANY_ITEMS:
            first = self._values.parameter(kind, min(constants))
            last = self._values.parameter(kind, max(constants))
            return f"({value} >= {first} AND {value} <= {last})"
        return any_of(
            f"({value} {op.value} {self._values.parameter(kind, constant)})"
            for constant in constants
        )


def _kind(column: Column) -> Kind | None:
    """Return how values of a column are compared; None if only DuckDB compares them exactly."""
    if column.type in _INTEGERS:
        return "integer"
    row = find_type(column.type)
    if column.type in ("date", "varchar"):
        return "date" if column.type == "date" else "text"
    return "second" if row is not None and row.family == "timestamp" else None


def _constant(kind: Kind | None, literal: ComparedLiteral) -> Any:
    """Return a constant as a parameter; None if it has none that compares exactly."""
    value, type = literal.constant.value, literal.constant.type
    row = BY_ID.get(type.id)
    if row is None or type.alias:
        return None
    match kind:
        case "integer" if row.range is not None and isinstance(value, int):
            return int(value) if _LEAST <= value <= _GREATEST else None
        case "text" if row.name == "varchar" and isinstance(value, str):
            return value.encode()
        case "date" if row.name == "date":
            return _text(date(1970, 1, 1), timedelta(days=1), value)
        case "second" if row.name == "date":
            return _text(_EPOCH, timedelta(days=1), value)
        case "second" if row.per_second is not None and row.family == "timestamp":
            return _text(_EPOCH, timedelta(seconds=1), value // row.per_second)
    return None


def _text(epoch: date, unit: timedelta, count: int) -> str | None:
    try:
        return str(epoch + unit * count)
    except OverflowError:
        return None


# For each kind the value in a text `@` of the catalog, and the constant in a parameter `@`.
_SQLITE: Final[Mapping[Kind, tuple[str, str]]] = {
    "integer": ("CASE WHEN CAST(CAST(@ AS INTEGER) AS TEXT) = @ THEN CAST(@ AS INTEGER) END", "@"),
    "date": ("CASE WHEN date(@) = @ THEN @ END", "@"),
    "second": (
        (
            "CASE WHEN datetime(substr(@, 1, 19)) = substr(@, 1, 19)"
            " AND substr(@, 20) NOT GLOB '*[^.0-9]*' THEN substr(@, 1, 19) END"
        ),
        "@",
    ),
    # The order of bytes is that of DuckDB if the database stores UTF-8.
    "text": ("CASE WHEN CAST('a' AS BLOB) = X'61' THEN CAST(@ AS BLOB) END", "@"),
}
_POSTGRESQL: Final[Mapping[Kind, tuple[str, str]]] = {
    "integer": ("CAST(@ AS BIGINT)", "CAST(@ AS BIGINT)"),
    "date": ("CAST(@ AS DATE)", "CAST(@ AS DATE)"),
    "second": (
        (
            "CASE WHEN translate(substr(@, 20), '0123456789', '') IN ('', '.')"
            " THEN CAST(substr(@, 1, 19) AS TIMESTAMP) END"
        ),
        "CAST(@ AS TIMESTAMP)",
    ),
    "text": ("convert_to(@, 'UTF8')", "@"),
}
_MYSQL_SECONDS: Final = "^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]*)?$"
_MYSQL: Final[Mapping[Kind, tuple[str, str]]] = {
    "integer": (
        (
            "CASE WHEN CAST(CAST(@ AS SIGNED) AS BINARY) = CAST(@ AS BINARY)"
            " THEN CAST(@ AS SIGNED) END"
        ),
        "@",
    ),
    "date": (
        "CASE WHEN @ REGEXP '^[0-9]{4}-[0-9]{2}-[0-9]{2}$' THEN CAST(@ AS DATE) END",
        "CAST(@ AS DATE)",
    ),
    "second": (
        (f"CASE WHEN @ REGEXP '{_MYSQL_SECONDS}' THEN CAST(substr(@, 1, 19) AS DATETIME) END"),
        "CAST(@ AS DATETIME)",
    ),
    "text": ("CAST(CONVERT(@ USING utf8mb4) AS BINARY)", "@"),
}
_DATABASES: Final[Mapping[DatabaseKind, Mapping[Kind, tuple[str, str]]]] = {
    "sqlite": _SQLITE,
    "postgresql": _POSTGRESQL,
    "mysql": _MYSQL,
}

"""Subqueries of conditions and expressions: Spark runs them first, and their values replace them.

The kernel evaluates an expression over the rows of one table, where there is nothing to query. A
subquery must not name columns of the statement's table: MERGE joins rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lakeport.ducklake.writing.changes import open_workspace
from lakeport.errors import InvalidInputError, UnsupportedError
from lakeport.spark.frames.columns import arrow_schema, frame_columns, select
from lakeport.spark.sql.statements.model import (
    Assignment,
    Delete,
    Insert,
    Merge,
    MergeClause,
    Query,
    Statement,
    Update,
    Values,
)
from lakeport.spark.sql.statements.sources import Queries
from lakeport.spark.sql.statements.tokens import Token, tokens_of
from lakeport.spark.transport.frame_stream import stream_dataframe
from lakeport.types import duckdb_string

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["without_subqueries"]

_MAX_VALUES: Final = 10_000


def without_subqueries(queries: Queries, statement: Statement) -> Statement:
    """Return a statement in whose conditions and expressions values replace the subqueries.

    `IN (SELECT …)` becomes a list of values, `EXISTS (SELECT …)` true or false, and any other
    subquery one value.
    """

    def text(given: str) -> str:
        return _replaced(queries, given)

    def optional(given: str | None) -> str | None:
        return None if given is None else text(given)

    def assigned(given: tuple[Assignment, ...]) -> tuple[Assignment, ...]:
        return tuple((path, text(value)) for path, value in given)

    def clause(given: MergeClause) -> MergeClause:
        values = assigned(given.values) if isinstance(given.values, tuple) else given.values
        return replace(given, condition=optional(given.condition), values=values)

    match statement:
        case Update():
            values, where = assigned(statement.assignments), optional(statement.where)
            return replace(statement, assignments=values, where=where)
        case Insert(source=Values(rows)):
            source = Values(tuple(tuple(map(text, row)) for row in rows))
            return replace(statement, source=source, where=optional(statement.where))
        case Delete() | Insert():
            return replace(statement, where=optional(statement.where))
        case Merge():
            clauses = tuple(map(clause, statement.clauses))
            return replace(statement, on=text(statement.on), clauses=clauses)
        case _:
            return statement


def _replaced(queries: Queries, text: str) -> str:
    tokens = tokens_of(text)
    for first, last in reversed(list(_groups(tokens))):
        query = Query(text[tokens[first].end : tokens[last].start])
        words = [token.keyword for token in tokens[max(first - 2, 0) : first]]
        start = tokens[first].start
        if words[-1:] in (["ANY"], ["SOME"], ["ALL"]):
            raise UnsupportedError(f"{words[-1]} of a subquery is not supported here: write IN")
        if words[-1:] == ["EXISTS"]:
            start = tokens[first - 1].start
            value = "true" if _frame(queries, query).limit(1).count() else "false"
        elif words[-1:] == ["IN"]:
            found = _values(_frame(queries, query).distinct(), _MAX_VALUES)
            value = f"({', '.join(found)})"
            if not found:
                # SQL has no empty list of values. Nothing is in it, not even NULL.
                is_not = words == ["NOT", "IN"]
                start = tokens[first - 1 - is_not].start
                value = "IS NOT NULL IS NOT NULL" if is_not else "IS NULL IS NULL"
        else:
            value = next(iter(_values(_frame(queries, query), 1)), "NULL")
        text = text[:start] + value + text[tokens[last].end :]
    return text


def _frame(queries: Queries, query: Query) -> DataFrame:
    try:
        return queries.frame(query)
    except InvalidInputError as error:
        if "UNRESOLVED_COLUMN" not in str(error):
            raise
        raise UnsupportedError(
            f"a subquery cannot name columns of the statement's table, because it runs before the "
            f"statement: join the tables with MERGE, UPDATE … FROM or DELETE … USING; {error}"
        ) from None


def _groups(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yield where subqueries that are in no other subquery begin and end."""
    position = 0
    while position < len(tokens) - 1:
        if tokens[position].keyword != "(" or tokens[position + 1].keyword not in (
            "SELECT",
            "WITH",
        ):
            position += 1
            continue
        depth, last = 1, position
        while depth and last < len(tokens) - 1:
            last += 1
            depth += {"(": 1, ")": -1}.get(tokens[last].keyword, 0)
        if depth:
            raise InvalidInputError("a subquery has no closing parenthesis")
        yield position, last
        position = last + 1


def _values(frame: DataFrame, most: int) -> list[str]:
    """Return the values of a query of one column as SQL."""
    columns = frame_columns(frame.schema)
    if len(columns) != 1:
        raise InvalidInputError(f"a subquery has {len(columns)} columns, and must have one")
    frame = select(frame.toDF(*(column.name for column in columns)), columns).limit(most + 1)
    with stream_dataframe(frame, arrow_schema(columns)) as reader:
        rows = reader.read_all().rename_columns(["v"])
    if rows.num_rows > most:
        hint = "write MERGE INTO, which joins rows" if most > 1 else "it must have one"
        raise UnsupportedError(f"a subquery has more than {most} rows: {hint}")
    with open_workspace() as workspace:
        workspace.register("found", rows)
        found = workspace.execute("SELECT CAST(v AS VARCHAR), typeof(v) FROM found")
    return [
        "NULL" if value is None else f"CAST({duckdb_string(value)} AS {type})"
        for value, type in found
    ]

"""Parse INSERT, UPDATE, DELETE, TRUNCATE and MERGE."""

from __future__ import annotations

from typing import Final, Literal

from lakeport.spark.sql.statements.model import (
    Assignment,
    Delete,
    Insert,
    Merge,
    MergeClause,
    ObjectName,
    Query,
    Truncate,
    Update,
    Values,
)
from lakeport.spark.sql.statements.tokens import TokenReader
from lakeport.types import spark_identifier

__all__ = [
    "object_name",
    "parse_delete",
    "parse_insert",
    "parse_merge",
    "parse_truncate",
    "parse_update",
]

_QUERY_WORDS: Final = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
_JOIN_HINT: Final = "write MERGE INTO, which joins tables"
_UPSERT_HINT: Final = "write MERGE INTO, which updates rows that exist"


def object_name(reader: TokenReader) -> ObjectName:
    """Read the name of a table or view: `orders`, or `sales.orders`."""
    path = reader.path()
    if len(path) > 2:
        reader.unsupported(f"the name {'.'.join(path)}", "write the schema and the table")
    return ObjectName(path[0], path[1]) if len(path) == 2 else ObjectName("main", path[0])


def parse_insert(reader: TokenReader) -> Insert:
    """Parse what follows INSERT."""
    reader.refuse("OR", hint=_UPSERT_HINT)
    overwrite = reader.accept("OVERWRITE")
    if not overwrite:
        reader.expect("INTO")
    reader.accept("TABLE")
    table = object_name(reader)
    reader.refuse("PARTITION", hint="the rows contain the values of the partition keys")
    by_name = reader.accept("BY", "NAME")
    where = None
    if not overwrite and reader.accept("REPLACE", "WHERE"):
        where = reader.until(*_QUERY_WORDS)
    columns = None
    if reader.peek("(") and not any(reader.peek(word, offset=1) for word in _QUERY_WORDS):
        columns = reader.names()
    by_name |= reader.accept("BY", "NAME")
    if by_name and columns is not None:
        reader.unsupported("BY NAME with a list of columns", "write one of both")
    source = _source(reader)
    if by_name and isinstance(source, Values):
        reader.unsupported("BY NAME with VALUES", "write a list of columns")
    return Insert(
        table=table,
        source=source,
        columns=columns,
        by_name=by_name,
        overwrite=overwrite or where is not None,
        where=where,
    )


def _source(reader: TokenReader) -> Query | Values:
    reader.refuse("DEFAULT", "VALUES", hint="write VALUES (DEFAULT, …)")
    if not reader.accept("VALUES"):
        query = Query(reader.until("RETURNING"))
        _end(reader)
        return query
    rows = [tuple(reader.list())]
    while reader.accept(","):
        rows.append(tuple(reader.list()))
    _end(reader)
    return Values(tuple(rows))


def parse_update(reader: TokenReader) -> Update:
    """Parse what follows UPDATE."""
    table = object_name(reader)
    alias = reader.alias("SET")
    reader.expect("SET")
    assignments = [_assignment(reader, "FROM", "WHERE", "RETURNING")]
    while reader.accept(","):
        assignments.append(_assignment(reader, "FROM", "WHERE", "RETURNING"))
    reader.refuse("FROM", hint=_JOIN_HINT)
    return Update(table=table, alias=alias, assignments=tuple(assignments), where=_where(reader))


def parse_delete(reader: TokenReader) -> Delete:
    """Parse what follows DELETE."""
    reader.expect("FROM")
    table = object_name(reader)
    alias = reader.alias("USING", "WHERE", "RETURNING")
    reader.refuse("USING", hint=_JOIN_HINT)
    return Delete(table=table, alias=alias, where=_where(reader))


def parse_truncate(reader: TokenReader) -> Truncate:
    """Parse what follows TRUNCATE."""
    reader.accept("TABLE")
    table = object_name(reader)
    reader.refuse("PARTITION", hint="write DELETE FROM … WHERE")
    reader.finish()
    return Truncate(table)


def parse_merge(reader: TokenReader) -> Merge:
    """Parse what follows MERGE."""
    reader.refuse("WITH", hint="add the columns with ALTER TABLE … ADD COLUMN first")
    reader.expect("INTO")
    table = object_name(reader)
    alias = reader.alias("USING")
    reader.expect("USING")
    source, source_name = _merge_source(reader)
    on, using = "", tuple[str, ...]()
    if reader.accept("USING"):
        using = reader.names()
    else:
        reader.expect("ON")
        on = reader.until("WHEN", "RETURNING")
    clauses = []
    while reader.accept("WHEN"):
        clauses.append(_clause(reader))
    if not clauses:
        reader.fail("expected WHEN MATCHED or WHEN NOT MATCHED")
    _end(reader)
    return Merge(
        table=table,
        alias=alias,
        source=source,
        source_name=source_name,
        on=on,
        using=using,
        clauses=tuple(clauses),
    )


def _merge_source(reader: TokenReader) -> tuple[Query, tuple[str, ...]]:
    """Read a table or a query in parentheses; return it and its name in expressions."""
    path: tuple[str, ...] = ()
    if reader.peek("("):
        text = reader.group()
    else:
        path = reader.path()
        text = ".".join(map(spark_identifier, path)) + _version(reader)
    alias = reader.alias("ON", "USING")
    if alias is None and not path:
        reader.fail("expected an alias of the query, such as AS source")
    if reader.peek("("):
        text += f" AS source({', '.join(map(spark_identifier, reader.names()))})"
    return Query(f"SELECT * FROM {text}"), (alias,) if alias else path


def _version(reader: TokenReader) -> str:
    reader.accept("FOR")
    for word in ("VERSION", "TIMESTAMP"):
        if reader.accept(word, "AS", "OF"):
            return f" {word} AS OF {reader.literal()}"
    return ""


def _clause(reader: TokenReader) -> MergeClause:
    rows: Literal["matched", "not_matched", "not_matched_by_source"] = "matched"
    if reader.accept("NOT", "MATCHED", "BY", "SOURCE"):
        rows = "not_matched_by_source"
    elif reader.accept("NOT", "MATCHED"):
        reader.accept("BY", "TARGET")
        rows = "not_matched"
    else:
        reader.expect("MATCHED")
    condition = reader.until("THEN") if reader.accept("AND") else None
    reader.expect("THEN")
    reader.refuse("DO", "NOTHING", hint="exclude these rows by the conditions of the other clauses")
    reader.refuse("ERROR")
    if rows == "not_matched":
        reader.expect("INSERT")
        return MergeClause(rows=rows, condition=condition, values=_inserted(reader))
    if reader.accept("DELETE"):
        return MergeClause(rows=rows, condition=condition, values=None)
    reader.expect("UPDATE")
    values = _updated(reader)
    if values == "*" and rows == "not_matched_by_source":
        reader.unsupported("UPDATE SET * of rows without a source", "name the columns")
    return MergeClause(rows=rows, condition=condition, values=values)


def _inserted(reader: TokenReader) -> tuple[Assignment, ...] | Literal["*"]:
    if reader.accept("*") or reader.accept("BY", "NAME"):
        return "*"
    if not reader.peek("("):
        reader.fail("write INSERT * or INSERT (columns) VALUES (expressions)")
    columns = _paths(reader)
    reader.expect("VALUES")
    values = reader.list()
    if len(columns) != len(values):
        reader.fail(f"INSERT has {len(columns)} columns and {len(values)} values")
    return tuple(zip(columns, values, strict=True))


def _paths(reader: TokenReader) -> list[tuple[str, ...]]:
    reader.expect("(")
    found = [reader.path()]
    while reader.accept(","):
        found.append(reader.path())
    reader.expect(")")
    return found


def _updated(reader: TokenReader) -> tuple[Assignment, ...] | Literal["*"]:
    if reader.accept("BY", "NAME"):
        return "*"
    reader.expect("SET")
    if reader.accept("*"):
        return "*"
    found = [_assignment(reader, "WHEN", "RETURNING")]
    while reader.accept(","):
        found.append(_assignment(reader, "WHEN", "RETURNING"))
    return tuple(found)


def _assignment(reader: TokenReader, *ends: str) -> Assignment:
    """Read `column = expression`; the column may be qualified by the table."""
    reader.refuse("(", hint="write column = expression for each column")
    path = reader.path()
    reader.expect("=")
    return path, reader.until(",", *ends)


def _where(reader: TokenReader) -> str | None:
    where = reader.until("RETURNING") if reader.accept("WHERE") else None
    _end(reader)
    return where


def _end(reader: TokenReader) -> None:
    """Refuse what DuckDB has at the end of statements, and everything else that is left."""
    reader.refuse("RETURNING", hint="read the rows with a query afterwards")
    reader.refuse("ON", "CONFLICT", hint=_UPSERT_HINT)
    reader.finish()

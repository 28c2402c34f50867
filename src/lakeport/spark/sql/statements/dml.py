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
_JOIN_HINT: Final = "write a query in parentheses and its name"
_JOINS: Final = (",", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL")
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
    partition = _partition(reader)
    by_name = reader.accept("BY", "NAME")
    where = None
    if not overwrite and reader.accept("REPLACE", "WHERE"):
        where = reader.until(*_QUERY_WORDS)
    columns = None
    if reader.peek("(") and not any(reader.peek(word, offset=1) for word in _QUERY_WORDS):
        columns = reader.names()
    reader.refuse("PARTITION", hint="write it before the list of columns")
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
        partition=partition,
    )


def _partition(reader: TokenReader) -> tuple[tuple[str, str | None], ...]:
    """Read `PARTITION (day = '2026-01-01', station)`."""
    if not reader.accept("PARTITION"):
        return ()
    reader.expect("(")
    found: list[tuple[str, str | None]] = []
    while not found or reader.accept(","):
        name = reader.name()
        found.append((name, reader.until(",", ")") if reader.accept("=") else None))
    reader.expect(")")
    return tuple(found)


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


def parse_update(reader: TokenReader) -> Update | Merge:
    """Parse what follows UPDATE."""
    table = object_name(reader)
    alias = reader.alias("SET")
    reader.expect("SET")
    assignments = _assignments(reader, "FROM", "WHERE", "RETURNING")
    if reader.accept("FROM"):
        return _joined(reader, table, alias, assignments)
    return Update(table=table, alias=alias, assignments=assignments, where=_where(reader))


def parse_delete(reader: TokenReader) -> Delete | Merge:
    """Parse what follows DELETE."""
    reader.expect("FROM")
    table = object_name(reader)
    alias = reader.alias("USING", "WHERE", "RETURNING")
    if reader.accept("USING"):
        return _joined(reader, table, alias, None)
    return Delete(table=table, alias=alias, where=_where(reader))


def _joined(
    reader: TokenReader, table: ObjectName, alias: str | None, values: tuple[Assignment, ...] | None
) -> Merge:
    """Read the other table and the condition of UPDATE … FROM or DELETE … USING."""
    source, source_name = _merge_source(reader, "WHERE", "RETURNING", *_JOINS)
    for word in _JOINS:
        reader.refuse(word, hint=_JOIN_HINT)
    return Merge(
        table=table,
        alias=alias,
        source=source,
        source_name=source_name,
        on=_where(reader) or "true",
        using=(),
        clauses=(MergeClause(rows="matched", condition=None, values=values),),
    )


def parse_truncate(reader: TokenReader) -> Truncate:
    """Parse what follows TRUNCATE."""
    reader.accept("TABLE")
    table = object_name(reader)
    reader.refuse("PARTITION", hint="write DELETE FROM … WHERE")
    reader.finish()
    return Truncate(table)


def parse_merge(reader: TokenReader) -> Merge:
    """Parse what follows MERGE."""
    merge_schema = reader.accept("WITH", "SCHEMA", "EVOLUTION")
    reader.expect("INTO")
    table = object_name(reader)
    alias = reader.alias("USING")
    reader.expect("USING")
    source, source_name = _merge_source(reader, "ON", "USING")
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
        merge_schema=merge_schema,
    )


def _merge_source(reader: TokenReader, *ends: str) -> tuple[Query, tuple[str, ...]]:
    """Read a table or a query in parentheses; return it and its name in expressions."""
    path: tuple[str, ...] = ()
    if reader.peek("("):
        text = reader.group()
    else:
        path = reader.path()
        text = ".".join(map(spark_identifier, path))
        # A function such as range(3).
        text = f"{text}{reader.group()}" if reader.peek("(") else text + _version(reader)
    alias = reader.alias(*ends)
    if alias is None and not path:
        reader.fail("expected an alias of the query, such as AS source")
    if reader.peek("("):
        text += f" AS source({', '.join(map(spark_identifier, reader.names()))})"
    return Query(f"SELECT * FROM {text}"), (alias,) if alias else path


def _version(reader: TokenReader) -> str:
    if reader.accept("AT", "("):
        word = reader.name().upper()
        reader.expect("=>")
        version = reader.literal()
        reader.expect(")")
        return f" {word} AS OF {version}"
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
    columns = _paths(reader) if reader.peek("(") else None
    if not reader.accept("VALUES"):
        reader.fail("write INSERT * or INSERT (columns) VALUES (expressions)")
    values = reader.list()
    if columns is None:
        return tuple(((), value) for value in values)
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
    return _assignments(reader, "WHEN", "RETURNING")


def _assignments(reader: TokenReader, *ends: str) -> tuple[Assignment, ...]:
    """Read `column = expression, …`, or `(columns) = (expressions)`, up to a keyword."""
    found: list[Assignment] = []
    while not found or reader.accept(","):
        if not reader.peek("("):
            path = reader.path()
            reader.expect("=")
            found.append((path, reader.until(",", *ends)))
            continue
        paths = _paths(reader)
        reader.expect("=")
        reader.accept("ROW")
        for word in _QUERY_WORDS:
            if reader.peek("(", word):
                reader.unsupported("a query for several columns", "write FROM and the query")
        values = reader.list()
        if len(paths) != len(values):
            reader.fail(f"SET has {len(paths)} columns and {len(values)} values")
        found += zip(paths, values, strict=True)
    return tuple(found)


def _where(reader: TokenReader) -> str | None:
    where = reader.until("RETURNING") if reader.accept("WHERE") else None
    _end(reader)
    return where


def _end(reader: TokenReader) -> None:
    """Refuse what DuckDB has at the end of statements, and everything else that is left."""
    reader.refuse("RETURNING", hint="read the rows with a query afterwards")
    reader.refuse("ON", "CONFLICT", hint=_UPSERT_HINT)
    reader.finish()

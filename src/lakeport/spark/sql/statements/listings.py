"""SHOW and DESCRIBE: what a lake contains, as rows, with the columns that Spark gives them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import translate
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakeport.errors import NotFoundError, UnsupportedError
from lakeport.spark.sql.statements.dml import object_name
from lakeport.spark.sql.statements.expressions import partition_key_text
from lakeport.spark.sql.statements.model import ObjectName
from lakeport.spark.sql.statements.tokens import TokenReader
from lakeport.types import fold_name, sql_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeport.ducklake import Lake, LakeTable

__all__ = ["is_listing", "run_listing"]

_SCHEMAS: Final = ("SCHEMAS", "NAMESPACES", "DATABASES")
_DESCRIBED: Final = ("col_name", "data_type", "nullable", "default", "comment")


def is_listing(text: str) -> bool:
    """Return whether a text is SHOW or DESCRIBE."""
    word = re.match(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(\w+)", text, re.DOTALL)
    return word is not None and word[1].upper() in ("SHOW", "DESCRIBE", "DESC")


def run_listing(
    lake: Lake, text: str, spark: Callable[[], SparkSession], *, version: int | None = None
) -> pa.Table:
    """Return the rows of SHOW or DESCRIBE; Spark computes the columns of a view only.

    Raises:
        InvalidInputError: The text cannot be parsed.
        UnsupportedError: It is another SHOW or DESCRIBE than there are.
    """
    reader = TokenReader(text)
    if not reader.accept("SHOW"):
        reader.what = "DESCRIBE"
        reader.accept_any("DESCRIBE", "DESC")
        return _describe(lake, reader, spark, version)
    if reader.accept("TABLES"):
        schema, matches = _scope(reader)
        names = lake.tables(schema, version=version)
        return _objects("tableName", [n for n in names if matches(n[1])])
    if reader.accept("VIEWS"):
        schema, matches = _scope(reader)
        views = lake.views(schema, version=version)
        return _objects("viewName", [(v.schema, v.name) for v in views if matches(v.name)])
    if reader.accept_any(*_SCHEMAS):
        matches = _pattern(reader)
        found = [schema.name for schema in lake.schemas(version=version)]
        return pa.table({"namespace": pa.array(sorted(filter(matches, found)), pa.string())})
    if reader.accept("COLUMNS"):
        if not reader.accept("IN"):
            reader.expect("FROM")
        name = object_name(reader)
        reader.finish()
        columns = lake.table(name.name, name.schema, version=version).columns
        return pa.table({"col_name": pa.array([column.name for column in columns], pa.string())})
    raise reader.unknown_part("TABLES, VIEWS, SCHEMAS or COLUMNS")


def _scope(reader: TokenReader) -> tuple[str | None, Callable[[str], bool]]:
    """Read `IN schema` and `LIKE 'pattern'`; without a schema, all schemas are meant."""
    schema = reader.name() if reader.accept_any("IN", "FROM") else None
    return schema, _pattern(reader)


def _pattern(reader: TokenReader) -> Callable[[str], bool]:
    """Read `LIKE 'a*|b*'`: as in Spark, `*` is any text, and `|` separates patterns."""
    if not reader.accept("LIKE") and (reader.next is None or reader.next.kind != "string"):
        reader.finish()
        return lambda _: True
    patterns = [re.compile(translate(fold_name(part))) for part in reader.string().split("|")]
    reader.finish()
    return lambda name: any(pattern.fullmatch(fold_name(name)) for pattern in patterns)


def _objects(column: str, names: Iterable[tuple[str, str]]) -> pa.Table:
    names = list(names)
    return pa.table(
        {
            "namespace": pa.array([schema for schema, _ in names], pa.string()),
            column: pa.array([name for _, name in names], pa.string()),
            "isTemporary": pa.array([False] * len(names), pa.bool_()),
        }
    )


def _describe(
    lake: Lake, reader: TokenReader, spark: Callable[[], SparkSession], version: int | None
) -> pa.Table:
    reader.refuse("HISTORY", hint="read lake.snapshots() or run lakeport inspect --history")
    for word in ("SCHEMA", "NAMESPACE", "DATABASE", "FUNCTION", "QUERY", "SELECT"):
        reader.refuse(word, hint="write the name of a table or view")
    reader.accept("TABLE")
    extended = reader.accept_any("EXTENDED", "FORMATTED") is not None
    name = object_name(reader)
    reader.finish()
    try:
        table = lake.table(name.name, name.schema, version=version)
    except NotFoundError:
        if not _has_view(lake, name, version):
            raise
        if extended:
            raise UnsupportedError("DESCRIBE EXTENDED is for tables: write DESCRIBE") from None
        return _described(_columns_of_view(lake, name, spark, version))
    rows: list[tuple[str | None, ...]] = [
        (c.name, sql_type(c), "true" if c.nullable else "false", c.default, c.comment)
        for c in table.columns
    ]
    if extended:
        rows += [("", None, None, None, None), ("# Detailed Table Information", *[None] * 4)]
        rows += [(key, value, None, None, None) for key, value in _details(table)]
    return _described(rows)


def _described(rows: Iterable[tuple[str | None, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(_DESCRIBED)
    arrays = [pa.array(values, pa.string()) for values in columns]
    return pa.Table.from_arrays(arrays, names=list(_DESCRIBED))


def _details(table: LakeTable) -> Iterator[tuple[str, str]]:
    yield "Name", f"{table.schema_name}.{table.name}"
    yield "Snapshot", str(table.snapshot.id)
    if table.comment is not None:
        yield "Comment", table.comment
    names = {column.id: column.name for column in table.columns}
    if table.partition_spec is not None:
        fields = table.partition_spec.fields
        keys = [partition_key_text(f.transform, names[f.column_id]) for f in fields]
        yield "Partitioned by", ", ".join(keys)
    if table.sort_order:
        order = [f"{k.expression}{' DESC' if k.descending else ''}" for k in table.sort_order]
        yield "Sorted by", ", ".join(order)
    files = table.files()
    yield "Files", str(len(files))
    yield "Bytes", str(sum(file.file_size_bytes or 0 for file in files))
    yield "Location", table.path
    yield "Provider", "ducklake"


def _has_view(lake: Lake, name: ObjectName, version: int | None) -> bool:
    views = lake.views(name.schema, version=version)
    return any(fold_name(view.name) == fold_name(name.name) for view in views)


def _columns_of_view(
    lake: Lake, name: ObjectName, spark: Callable[[], SparkSession], version: int | None
) -> list[tuple[str | None, ...]]:
    """Return the columns of a view with their types in Spark."""
    from lakeport.spark.sql.lake_queries import lake_query
    from lakeport.types import spark_identifier

    at = lake.snapshot(version=version).id
    path = f"{spark_identifier(name.schema)}.{spark_identifier(name.name)}"
    frame = lake_query(lake, spark(), f"SELECT * FROM {path}", version=at)
    return [(f.name, f.dataType.simpleString(), "true", None, None) for f in frame.schema.fields]

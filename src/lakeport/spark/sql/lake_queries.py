"""Queries of Spark SQL that name the tables of a lake by schema, name and version.

`sales.orders VERSION AS OF 3` is replaced by a temporary view of that table at that snapshot; the
rest of the text stays as it is. Names that the lake does not have are left to Spark.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlglot import TokenType, errors, exp, parse, tokenize
from sqlglot.optimizer.scope import traverse_scope

from lakeport.ducklake.views import DEFAULT_SCHEMA, TableKey, reads_of, table_key
from lakeport.errors import InvalidInputError, NotFoundError, UnsupportedError, first_line
from lakeport.spark.compat import is_connect
from lakeport.spark.sql.queries import check_is_query, query
from lakeport.spark.sql.registration import Registration, register_as
from lakeport.types import fold_name, spark_identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakeport.ducklake import Lake, View
    from lakeport.ducklake.metadata import LakeContents

__all__ = ["lake_query"]

_SHORT: Final = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(TABLE|VALUES)\b", re.I | re.S)
_AT: Final = re.compile(
    r"\bAT\s*\(\s*(?P<kind>VERSION|TIMESTAMP)\s*=>\s*(?:TIMESTAMP\s*)?(?P<value>\d+|'[^']*')\s*\)",
    re.IGNORECASE,
)

# Unique in a process: a session may have the views of several lakes at once.
_numbers: Final = itertools.count()


def lake_query(lake: Lake, spark: SparkSession, text: str, *, version: int) -> DataFrame:
    """Return the DataFrame of a query over a lake; tables without a version are of `version`.

    Raises:
        NotFoundError: The query names a table that neither the lake nor the session has.
        InvalidInputError: Spark cannot run the query.
    """
    check_is_query(text)
    text = _with_versions(_as_select(text))
    tree = _parse(text)
    tables = list(_tables(tree))
    wanted: dict[int, set[TableKey]] = defaultdict(set)
    resolved: list[tuple[exp.Table, int, TableKey]] = []
    contents: dict[int, LakeContents] = {}
    known: dict[int, set[TableKey]] = {}
    for table in tables:
        at = _snapshot(lake, table, version)
        if at not in contents:
            contents[at] = lake.contents(version=at)
            known[at] = {table_key(*name) for name in _names(contents[at])}
        key = _resolve(table, known[at])
        if key is not None:
            resolved.append((table, at, key))
            wanted[at].add(key)
        elif not _is_of_session(spark, table):
            raise _not_found(table, contents[at])
    registrations = {at: _register(lake, spark, keys, contents[at]) for at, keys in wanted.items()}
    try:
        edits = [
            edit
            for table, at, key in resolved
            for edit in _edits(text, tree, table, _name(registrations[at], key))
        ]
        return query(spark, _edited(text, edits))
    finally:
        # A Connect session analyses the query only when it runs.
        if not is_connect(spark):
            for registration in registrations.values():
                registration.unregister()


def _as_select(text: str) -> str:
    """Return `TABLE name` and `VALUES …` as the queries for which they stand."""
    found = _SHORT.match(text)
    if found is None:
        return text
    start = found.end() if found[1].upper() == "TABLE" else found.start(1)
    return f"SELECT * FROM {text[start:]}"  # noqa: S608


def _with_versions(text: str) -> str:
    """Return a query in which `AT (VERSION => 3)`, as in DuckDB, is `VERSION AS OF 3`."""
    for found in reversed(list(_AT.finditer(text))):
        start = found.start()
        # Not in a text or a comment: sqlglot has a token that begins there.
        if any(token.start == start for token in _tokens(text)):
            version = f"{found['kind'].upper()} AS OF {found['value']}"
            text = text[:start] + version + text[found.end() :]
    return text


def _tokens(text: str) -> list[Any]:
    try:
        return list(tokenize(text, read="spark"))
    except errors.SqlglotError as error:
        raise InvalidInputError(f"the query cannot be parsed: {first_line(error)}") from None


def _parse(text: str) -> exp.Query:
    try:
        statements = parse(text, read="spark")
    except errors.SqlglotError as error:
        raise InvalidInputError(f"the query cannot be parsed: {first_line(error)}") from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise InvalidInputError("the text is not one query")
    return statements[0]


def _tables(tree: exp.Query) -> Iterator[exp.Table]:
    """Yield the tables of every FROM that are not queries of a WITH, each once."""
    seen: set[int] = set()
    for scope in traverse_scope(tree):
        for node, source in scope.selected_sources.values():
            if not (isinstance(source, exp.Table) and isinstance(node, exp.Table)):
                continue
            if isinstance(node.this, exp.Identifier) and id(node) not in seen:
                seen.add(id(node))
                yield node


def _snapshot(lake: Lake, table: exp.Table, default: int) -> int:
    """Return the snapshot of `VERSION AS OF` or `TIMESTAMP AS OF`."""
    version = table.args.get("version")
    if version is None:
        return default
    value = version.expression
    if not isinstance(value, exp.Literal):
        raise UnsupportedError(f"the {version.name} of {table.name} must be a constant")
    if version.name == "TIMESTAMP":
        return lake.snapshot(timestamp=value.name).id
    if not value.name.isdecimal():
        raise InvalidInputError(f"the version {value.name!r} is not the number of a snapshot")
    return lake.snapshot(version=int(value.name)).id


def _resolve(table: exp.Table, known: set[TableKey]) -> TableKey | None:
    """Return the table or view of the lake that has the name; None if there is none."""
    key = table_key(table.db or DEFAULT_SCHEMA, table.name)
    return key if not table.catalog and key in known else None


def _names(contents: LakeContents) -> list[tuple[str, str]]:
    """Return schema and name of all tables and views."""
    tables = [(table.schema, table.name) for table in contents.tables]
    return tables + [(view.schema, view.name) for view in contents.views]


def _is_of_session(spark: SparkSession, table: exp.Table) -> bool:
    """Return whether a table or view of the session has the name."""
    parts = (part.name for part in table.parts)
    return bool(spark.catalog.tableExists(".".join(map(spark_identifier, parts))))


def _not_found(table: exp.Table, contents: LakeContents) -> NotFoundError:
    names = [_shown(*name) for name in _names(contents)]
    name = ".".join(part.name for part in table.parts)
    folded = {fold_name(known): known for known in names}
    # `sales_orders` is the name of `sales.orders` in a registration.
    folded |= {key.replace(".", "_"): known for key, known in folded.items()}
    close = difflib.get_close_matches(fold_name(name), folded, 1)
    hint = f"; did you mean {folded[close[0]]!r}?" if close else ""
    return NotFoundError(
        f"there is no table {name!r} at snapshot {contents.snapshot.id} of the lake{hint}"
    )


def _shown(schema: str, name: str) -> str:
    return name if fold_name(schema) == DEFAULT_SCHEMA else f"{schema}.{name}"


def _register(
    lake: Lake, spark: SparkSession, keys: set[TableKey], contents: LakeContents
) -> Registration:
    """Register tables and views under unique names, with what the views read."""
    views: dict[TableKey, View] = {table_key(v.schema, v.name): v for v in contents.views}
    needed = set(keys)
    for key in keys:
        if key in views:
            needed |= reads_of(views[key], contents).keys()
    names = {key: f"lakeport_{next(_numbers)}" for key in sorted(needed)}
    return register_as(lake, spark, names, version=contents.snapshot.id)


def _name(registration: Registration, key: TableKey) -> str:
    for (schema, name), registered in registration.names.items():
        if table_key(schema, name) == key:
            return registered
    for (schema, name), reason in registration.skipped.items():
        if table_key(schema, name) == key:
            raise UnsupportedError(f"{_shown(schema, name)} cannot be read by Spark: {reason}")
    raise NotFoundError(f"there is no table {'.'.join(key)}")


@dataclass(frozen=True, slots=True, order=True)
class _Edit:
    """Characters of the text that are replaced."""

    start: int
    end: int
    text: str


def _edits(text: str, tree: exp.Query, table: exp.Table, name: str) -> Iterator[_Edit]:
    """Yield the edits that make a table its temporary view, under the same alias."""
    parts = table.parts
    alias = "" if table.args.get("alias") else f" AS {spark_identifier(table.name)}"
    start, end = _start(parts[0]), _end(parts[-1])
    if table.args.get("version") is not None:
        end = _end_of_version(text, end)
    yield _Edit(start, end, f"{spark_identifier(name)}{alias}")
    # `sales.orders.id` names the column by the table, which is only called `orders` now.
    for column in tree.find_all(exp.Column):
        qualifiers = column.parts[:-1]
        if len(qualifiers) == 2 and [fold_name(q.name) for q in qualifiers] == [
            fold_name(table.db or DEFAULT_SCHEMA),
            fold_name(table.name),
        ]:
            yield _Edit(_start(qualifiers[0]), _start(qualifiers[1]), "")


def _end_of_version(text: str, position: int) -> int:
    """Return where `FOR VERSION AS OF 3` or `TIMESTAMP AS OF '…'` ends."""
    for token in tokenize(text, read="spark"):
        if token.start >= position and token.token_type in (TokenType.NUMBER, TokenType.STRING):
            return int(token.end) + 1
    raise InvalidInputError("the version of a table is not a constant")


def _start(node: Any) -> int:
    return int(node.meta["start"])


def _end(node: Any) -> int:
    return int(node.meta["end"]) + 1


def _edited(text: str, edits: list[_Edit]) -> str:
    for edit in sorted(set(edits), reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text

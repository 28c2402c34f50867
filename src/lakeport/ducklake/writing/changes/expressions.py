"""SQL expressions of a change, and the DuckDB that evaluates them over Arrow streams.

The expressions are DuckDB SQL. They are evaluated by a DuckDB without files, network, extensions or
settings of its own. What does not fit its memory goes to a private folder, which is removed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from lakeport.arrow import arrow_query, register_rows, relabel, thread_connection
from lakeport.errors import InvalidArgumentError, LakeportError, first_line
from lakeport.filters import SqlSyntaxError, expression_sql, parse_sql
from lakeport.types import duckdb_string, fold_name

__all__ = ["SqlExpression", "Workspace", "open_workspace", "parse_expression"]

_MEMORY: Final = "1GB"
_BATCH_ROWS: Final = 122_880
_SETTINGS: Final = """
    SET arrow_lossless_conversion = true;
    SET TimeZone = 'UTC';
    SET preserve_insertion_order = false;
    SET python_enable_replacements = false;
    SET autoinstall_known_extensions = false;
    SET autoload_known_extensions = false;
    SET allow_community_extensions = false;
"""
_LOCKED: Final = "SET enable_external_access = false; SET lock_configuration = true;"
_CLAUSES: Final = ("modifiers", "where_clause", "group_expressions", "having", "sample", "qualify")


@dataclass(frozen=True, slots=True)
class SqlExpression:
    """One scalar expression."""

    sql: str
    """The text of the parsed expression, in parentheses."""
    names: frozenset[str]
    """All names in it, folded: of columns, of fields, and of the sides of a merge."""

    def mentions(self, name: str) -> bool:
        """Return whether the expression may read a column."""
        return fold_name(name) in self.names


@lru_cache(maxsize=1024)
def parse_expression(text: str, subject: str) -> SqlExpression:
    """Return the expression of a text; `subject` names it in errors."""
    connection = thread_connection()
    try:
        statements = parse_sql(connection, f"SELECT {text}")
    except (SqlSyntaxError, RecursionError) as error:
        raise InvalidArgumentError(f"{subject} {text!r} is not SQL: {first_line(error)}") from None
    node = statements[0]
    if (
        len(statements) != 1
        or node["type"] != "SELECT_NODE"
        or len(node["select_list"]) != 1
        or node["select_list"][0].get("alias")
        or node["from_table"]["type"] != "EMPTY"
        or any(node.get(clause) for clause in _CLAUSES)
    ):
        raise InvalidArgumentError(f"{subject} {text!r} is not one expression")
    (expression,) = node["select_list"]
    names: set[str] = set()
    for part in _parts(expression):
        if part.get("class") in ("SUBQUERY", "STAR", "WINDOW"):
            raise InvalidArgumentError(
                f"{subject} {text!r} has a {part['class'].lower()}, which is not allowed here"
            )
        if part.get("class") == "COLUMN_REF":
            names.update(fold_name(name) for name in part["column_names"])
    return SqlExpression(f"({expression_sql(connection, expression)})", frozenset(names))


def _parts(tree: Any) -> Iterator[dict[str, Any]]:
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            yield node
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)


class Workspace:
    """A DuckDB for the work of one statement."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._failures: list[BaseException] = []

    def register(self, name: str, rows: pa.Table | pa.RecordBatchReader) -> None:
        """Make rows a view. A reader can be read once."""
        if isinstance(rows, pa.RecordBatchReader):
            rows = pa.RecordBatchReader.from_batches(rows.schema, self._recorded(rows))
        register_rows(self._connection, name, rows)

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        import duckdb

        try:
            return list(self._connection.execute(sql).fetchall())
        except duckdb.Error as error:
            raise self._error(error) from None

    def stream(self, sql: str, schema: pa.Schema) -> pa.RecordBatchReader:
        """Return the rows of a query in the layout of a schema, while they are computed.

        The query runs when the first batch is read. Until the last one, run nothing else.
        """
        return pa.RecordBatchReader.from_batches(schema, self._batches(sql, schema))

    def _batches(self, sql: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        import duckdb

        try:
            for batch in arrow_query(self._connection, sql).to_arrow_reader(_BATCH_ROWS):
                arrays = [
                    relabel(array, field.type)
                    for array, field in zip(batch.columns, schema, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        except (duckdb.Error, pa.ArrowException) as error:
            raise self._error(error) from None

    def _recorded(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # DuckDB makes an error of its own of an error of the stream, traceback and all.
        try:
            yield from batches
        except BaseException as error:
            self._failures.append(error)
            raise

    def _error(self, error: Exception) -> BaseException:
        if self._failures:
            return self._failures[0]
        if isinstance(error, LakeportError):
            return error
        return InvalidArgumentError(f"the expression cannot be evaluated: {first_line(error)}")


@contextmanager
def open_workspace(
    *, memory_limit: str = _MEMORY, files: Sequence[str] = ()
) -> Iterator[Workspace]:
    """Open a DuckDB that has access to nothing but registered rows and the given files.

    `lakeport.arrow.sandbox` has no folder for what does not fit its memory, and DuckDB does not let
    it have one later.
    """
    import duckdb

    with tempfile.TemporaryDirectory(prefix="lakeport-change-") as folder:
        config = {"memory_limit": memory_limit, "temp_directory": folder}
        with duckdb.connect(config=config) as connection:
            connection.execute(_SETTINGS)
            if files:
                allowed = ", ".join(duckdb_string(path) for path in files)
                connection.execute(f"SET allowed_paths = [{allowed}]")
            connection.execute(_LOCKED)
            yield Workspace(connection)

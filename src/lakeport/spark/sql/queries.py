"""Queries as text: a command, or an untrusted query that does too much, is refused before it runs.

`SparkSession.sql` runs commands (DROP, INSERT, SET) at once. Text in parentheses after
`SELECT * FROM` cannot be a command in Spark's grammar, and a query there keeps its order.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from lakeport.errors import (
    InvalidInputError,
    LakeportError,
    PermissionDeniedError,
    UnsupportedError,
)
from lakeport.spark.compat import _SUBSTITUTE, is_connect
from lakeport.spark.errors import query_error
from lakeport.spark.sql.query_check import check_analysed, check_parsed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["check_is_query", "first_command", "query", "restricted_session", "untrusted_query"]

# The first words of statements that are no queries, after spaces and comments.
_COMMAND: Final = re.compile(
    r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*"
    r"(?P<word>ADD|ALTER|ANALYZE|BEGIN|CACHE|CALL|CLEAR|COMMENT|COMMIT|CREATE|DECLARE|DELETE|DESC|"
    r"DESCRIBE|DFS|DROP|EXECUTE|EXPLAIN|EXPORT|GRANT|IMPORT|INSERT|LIST|LOAD|LOCK|MERGE|MSCK|"
    r"OPTIMIZE|REFRESH|REPAIR|REPLACE|RESET|REVOKE|ROLLBACK|SET|SHOW|START|TRUNCATE|UNCACHE|UNLOCK|"
    r"UNSET|UPDATE|USE)\b",
    re.IGNORECASE | re.DOTALL,
)
_SAFE_SETTINGS: Final = {
    # ${env:SECRET} would be replaced by a variable of the server's environment.
    _SUBSTITUTE: "false",
    # parquet.`/any/path` would be read with the server's rights.
    "spark.sql.runSQLOnFiles": "false",
}


def check_is_query(text: str) -> None:
    """Refuse a command, such as DROP or INSERT, by its first word."""
    word = first_command(text)
    if word is not None:
        raise InvalidInputError(f"only queries are allowed here, and {word} is not one")


def first_command(text: str) -> str | None:
    """Return the first word of a text that is no query; None for a query."""
    command = _COMMAND.match(text)
    return None if command is None else command["word"].upper()


def query(spark: SparkSession, text: str) -> DataFrame:
    """Return the DataFrame of a query, analysed and not run."""
    check_is_query(text)
    try:
        return spark.sql(_as_query(text))
    except Exception as error:  # noqa: BLE001
        raise _refused(error) from None


def untrusted_query(
    spark: SparkSession, text: str, views: Collection[str] | None = None
) -> DataFrame:
    """Return the DataFrame of an untrusted query, in a copy of the session with safe settings.

    It contains only what `query_check` lists: no files by their paths, no settings, no
    environment, no code. It reads the tables and views of the session; with `views`, only these of
    its temporary views, and the errors for others are those for views that do not exist.
    """
    from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

    check_is_query(text)
    if is_connect(spark):
        raise UnsupportedError(
            "a query cannot be checked on a Spark Connect session: only trusted queries are "
            "possible there"
        )
    copy: Any = _restrict(_copy_of(spark))
    if views is not None:
        # Names of views are case-insensitive.
        views = {view.lower() for view in views}
        _keep_views(copy, views)
    jvm = copy._jvm  # noqa: SLF001
    try:
        # This parser replaces no variables. The plan that is checked is also the one that runs.
        parser = jvm.org.apache.spark.sql.catalyst.parser.CatalystSqlParser()
        parsed = parser.parsePlan(_as_query(text))
        check_parsed(copy, parsed)
        rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(copy._jsparkSession, parsed)  # noqa: SLF001
    except LakeportError:
        raise
    except Exception as error:  # noqa: BLE001
        raise _refused(error) from None
    check_analysed(copy, rows.queryExecution().analyzed(), views)
    # Python would import, or unpickle, the class that such a type names.
    if '"type":"udt"' in rows.schema().json():
        raise PermissionDeniedError("a query must not return values of user-defined types")
    return ClassicFrame(rows, copy)


def _keep_views(spark: Any, views: Collection[str]) -> None:
    """Drop the temporary views of a copied session that a query may not read."""
    catalog = spark._jsparkSession.sessionState().catalog()  # noqa: SLF001
    listed = catalog.listLocalTempViews("*")
    for index in range(listed.size()):
        name = str(listed.apply(index).table())
        if name.lower() not in views:
            catalog.dropTempView(name)


def _as_query(text: str) -> str:
    return f"SELECT * FROM (\n{text.strip().rstrip(';')}\n)"  # noqa: S608


def restricted_session(spark: SparkSession) -> SparkSession:
    """Return a new session for SQL from an untrusted caller: without files and environment."""
    return _restrict(spark.newSession())


def _restrict(spark: SparkSession) -> SparkSession:
    for name, value in _SAFE_SETTINGS.items():
        spark.conf.set(name, value)
    return spark


def _copy_of(spark: SparkSession) -> SparkSession:
    """Return a session with copies of the views, functions and settings."""
    classic: Any = spark
    copy: SparkSession = type(classic)(
        classic.sparkContext,
        classic._jsparkSession.cloneSession(),  # noqa: SLF001
    )
    return copy


def _refused(error: Exception) -> Exception:
    translated = query_error(error)
    if type(error).__name__ == "ParseException":
        return InvalidInputError(f"Spark cannot parse the text as one query: {translated}")
    return translated

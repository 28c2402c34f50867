"""Text that must be a query: one that is refused before Spark runs anything of it.

Spark runs commands (DROP, INSERT, SET) as soon as it gets them. A query in parentheses after
`SELECT * FROM` cannot be a command in Spark's grammar, whatever it says, and keeps its order.
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

__all__ = ["check_is_query", "query", "restricted_session", "untrusted_query"]

# Words that begin a statement of Spark's grammar which is not a query, after spaces and comments.
_COMMAND: Final = re.compile(
    r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*"
    r"(?P<word>ADD|ALTER|ANALYZE|BEGIN|CACHE|CALL|CLEAR|COMMENT|COMMIT|CREATE|DECLARE|DELETE|DESC|"
    r"DESCRIBE|DFS|DROP|EXECUTE|EXPLAIN|EXPORT|GRANT|IMPORT|INSERT|LIST|LOAD|LOCK|MERGE|MSCK|"
    r"OPTIMIZE|REFRESH|REPAIR|REPLACE|RESET|REVOKE|ROLLBACK|SET|SHOW|START|TRUNCATE|UNCACHE|UNLOCK|"
    r"UNSET|UPDATE|USE)\b",
    re.IGNORECASE | re.DOTALL,
)
_SAFE_SETTINGS: Final = {
    # ${env:SECRET} would be replaced by the server's own environment.
    _SUBSTITUTE: "false",
    # parquet.`/any/path` would be read with the server's own rights.
    "spark.sql.runSQLOnFiles": "false",
}


def check_is_query(text: str) -> None:
    """Refuse a command, such as DROP or INSERT, by its first word."""
    command = _COMMAND.match(text)
    if command is not None:
        word = command["word"].upper()
        raise InvalidInputError(f"only queries are allowed here, and {word} is not one")


def query(spark: SparkSession, text: str) -> DataFrame:
    """The DataFrame of a query, analyzed and not run."""
    check_is_query(text)
    try:
        return spark.sql(_as_query(text))
    except Exception as error:  # noqa: BLE001
        raise _refused(error) from None


def untrusted_query(
    spark: SparkSession, text: str, views: Collection[str] | None = None
) -> DataFrame:
    """The DataFrame of an untrusted query, in a copy of the session with safe settings.

    It contains only what `query_check` lists: no files by their paths, no settings, no
    environment, no code. It reads the tables and views of the session; with `views`, only these of
    its temporary views, and others cannot be told from those that do not exist.
    """
    from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

    check_is_query(text)
    if is_connect(spark):
        raise UnsupportedError(
            "on a Spark Connect session it cannot be told what a query would run: only trusted "
            "queries are possible there"
        )
    copy: Any = _restrict(_copy_of(spark))
    if views is not None:
        # Names of views have no case.
        views = {view.lower() for view in views}
        _keep_views(copy, views)
    jvm = copy._jvm  # noqa: SLF001
    try:
        # This parser replaces no variables. The plan that is checked is the one that is analysed.
        parser = jvm.org.apache.spark.sql.catalyst.parser.CatalystSqlParser()
        parsed = parser.parsePlan(_as_query(text))
        check_parsed(copy, parsed)
        found = jvm.org.apache.spark.sql.classic.Dataset.ofRows(copy._jsparkSession, parsed)  # noqa: SLF001
    except LakeportError:
        raise
    except Exception as error:  # noqa: BLE001
        raise _refused(error) from None
    check_analysed(copy, found.queryExecution().analyzed(), views)
    # Python would import, or unpickle, the class that such a type names.
    if '"type":"udt"' in found.schema().json():
        raise PermissionDeniedError("a query must not return values of user-defined types")
    return ClassicFrame(found, copy)


def _keep_views(spark: Any, views: Collection[str]) -> None:
    """Drop the temporary views of a copied session that a query may not read."""
    catalog = spark._jsparkSession.sessionState().catalog()  # noqa: SLF001
    found = catalog.listLocalTempViews("*")
    for index in range(found.size()):
        name = str(found.apply(index).table())
        if name.lower() not in views:
            catalog.dropTempView(name)


def _as_query(text: str) -> str:
    return f"SELECT * FROM (\n{text.strip().rstrip(';')}\n)"  # noqa: S608


def restricted_session(spark: SparkSession) -> SparkSession:
    """A new session for SQL of a stranger: it reaches no files by their paths, no environment."""
    return _restrict(spark.newSession())


def _restrict(spark: SparkSession) -> SparkSession:
    for name, value in _SAFE_SETTINGS.items():
        spark.conf.set(name, value)
    return spark


def _copy_of(spark: SparkSession) -> SparkSession:
    """A session with the same views, functions and settings, which can change on their own."""
    classic: Any = spark
    copy: SparkSession = type(classic)(
        classic.sparkContext,
        classic._jsparkSession.cloneSession(),  # noqa: SLF001
    )
    return copy


def _refused(error: Exception) -> Exception:
    found = query_error(error)
    if type(error).__name__ == "ParseException":
        return InvalidInputError(f"this is not one query that Spark understands: {found}")
    return found

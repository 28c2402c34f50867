"""Text that must be a query: one that is refused before Spark runs anything of it.

Spark runs commands (DROP, INSERT, SET) as soon as it gets them. A query in parentheses after
`SELECT * FROM` cannot be a command in Spark's grammar, whatever it says, and keeps its order.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from lakeport.errors import InvalidInputError, PermissionDeniedError, UnsupportedError
from lakeport.spark.query_errors import query_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "check_is_query",
    "is_connect",
    "query",
    "replaces_variables",
    "safe_session",
    "untrusted_query",
]

# What a query of a stranger must not contain: each runs code that it names.
_CATALYST: Final = "org.apache.spark.sql.catalyst"
_FORBIDDEN: Final = {
    f"{_CATALYST}.expressions.CallMethodViaReflection": "call Java methods",
    f"{_CATALYST}.plans.logical.ScriptTransformation": "run scripts",
}

# Words that begin a statement of Spark's grammar which is not a query, after spaces and comments.
_COMMAND: Final = re.compile(
    r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*"
    r"(?P<word>ADD|ALTER|ANALYZE|BEGIN|CACHE|CALL|CLEAR|COMMENT|COMMIT|CREATE|DECLARE|DELETE|DESC|"
    r"DESCRIBE|DFS|DROP|EXECUTE|EXPLAIN|EXPORT|GRANT|IMPORT|INSERT|LIST|LOAD|LOCK|MERGE|MSCK|"
    r"OPTIMIZE|REFRESH|REPAIR|REPLACE|RESET|REVOKE|ROLLBACK|SET|SHOW|START|TRUNCATE|UNCACHE|UNLOCK|"
    r"UNSET|UPDATE|USE)\b",
    re.IGNORECASE | re.DOTALL,
)

_SUBSTITUTE: Final = "spark.sql.variable.substitute"
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
        return spark.sql(f"SELECT * FROM (\n{text.strip().rstrip(';')}\n)")  # noqa: S608
    except Exception as error:  # noqa: BLE001
        raise _refused(error) from None


def untrusted_query(spark: SparkSession, text: str) -> DataFrame:
    """The DataFrame of a stranger's query, in a copy of the session with safe settings.

    It sees the tables, views and functions of the session, but no files by their paths, no
    settings and no environment, and it runs neither scripts nor Java methods.
    """
    if is_connect(spark):
        raise UnsupportedError(
            "on a Spark Connect session it cannot be told what a query would run: only trusted "
            "queries are possible there"
        )
    frame = query(_made_safe(_copy_of(spark)), text)
    jvm_frame: Any = frame._jdf  # noqa: SLF001
    plan = jvm_frame.queryExecution().analyzed().toJSON()
    for name, deed in _FORBIDDEN.items():
        if f'"class":"{name}"' in plan:
            raise PermissionDeniedError(f"a query must not {deed}")
    return frame


def safe_session(spark: SparkSession) -> SparkSession:
    """A new session for SQL of a stranger: it reaches no files by their paths, no environment."""
    return _made_safe(spark.newSession())


def replaces_variables(spark: SparkSession) -> bool:
    """Whether Spark replaces `${env:NAME}` and the like in the text of a query, names included."""
    return str(spark.conf.get(_SUBSTITUTE, "true")).lower() != "false"


def is_connect(spark: SparkSession) -> bool:
    """Whether Spark is behind a Connect server."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _made_safe(spark: SparkSession) -> SparkSession:
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

"""`spark_sql('…')` of a lake catalog: Spark SQL over all tables and views of the lake."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakeport.catalog import Arguments, ScanOptions
from lakeport.ducklake import Snapshot, SnapshotCache
from lakeport.errors import InvalidInputError, LakeportError
from lakeport.lakehouse.access import LakeAccess
from lakeport.lakehouse.view_shapes import reads_of
from lakeport.spark import spark_sql_function
from lakeport.spark.failures import retried_when_lost
from lakeport.spark.queries import safe_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeport.spark.views import Key

__all__ = ["LakeSqlFunction"]

_WORD: Final = re.compile(r"\w+")
_NOT_FOUND: Final = "[TABLE_OR_VIEW_NOT_FOUND]"


class LakeSqlFunction:
    """Runs a query in a session that knows the lake at its newest snapshot.

    Tables of `main` are called by their names, others `schema_table`, as by `Lake.register`.
    """

    def __init__(self, access: LakeAccess) -> None:
        described = spark_sql_function()
        self.name = described.name
        self.comment = described.comment
        self.signature = described.signature
        self._access = access
        self._lock = threading.Lock()
        # Two, so that queries that have begun need not make way for a commit.
        self._sessions = SnapshotCache(2)

    def schema_for(self, arguments: Arguments) -> pa.Schema:
        """The columns of the result, which Spark tells without running the query."""
        with retried_when_lost(), self._session().prepared(arguments["query"] or "") as session:
            return session.function.schema_for(arguments)

    def execute_table(self, arguments: Arguments, options: ScanOptions) -> pa.RecordBatchReader:
        """Run the query."""
        with retried_when_lost(), self._session().prepared(arguments["query"] or "") as session:
            return session.function.execute_table(arguments, options)

    def _session(self) -> _LakeSession:
        snapshot, spark = self._access.newest(), self._access.session()
        # The lock makes one session for all who ask at once.
        with self._lock:
            return self._sessions.remembered(
                (snapshot.id, spark), lambda: _LakeSession(self._access, snapshot, spark)
            )


class _LakeSession:
    """A session that knows what the queries so far have named of the lake at a snapshot."""

    def __init__(self, access: LakeAccess, snapshot: Snapshot, spark: SparkSession) -> None:
        from lakeport.spark.register import view_names

        self._access = access
        self._snapshot = snapshot
        self._spark = safe_session(spark)
        self.function = spark_sql_function(self._spark)
        contents = access.contents(snapshot)
        tables = [(table.schema, table.name) for table in contents.tables]
        views = [(view.schema, view.name) for view in contents.views]
        self._names, self._refused = view_names([*tables, *views])
        self._registered: set[Key] = set()
        self._lock = threading.Lock()

    @contextmanager
    def prepared(self, query: str) -> Iterator[_LakeSession]:
        """The session with everything that a query names; what is missing says why."""
        # Others wait instead of doing the same.
        with self._lock:
            self._register(self._named_in(query) - self._registered)
        try:
            yield self
        except InvalidInputError as error:
            if _NOT_FOUND not in str(error):
                raise
            raise InvalidInputError(f"{error}{self._reasons(str(error))}") from None

    def _named_in(self, query: str) -> set[Key]:
        """What a query may name; more does no harm."""
        words = _words(query)
        # IDENTIFIER('a' || 'b') makes names of texts.
        if "identifier" in words:
            return set(self._names)
        return {key for key, called in self._names.items() if _words(called) <= words}

    def _register(self, wanted: set[Key]) -> None:
        from lakeport.spark.register import register_as

        if not wanted:
            return
        needed = wanted | self._read_by(wanted)
        registration = register_as(
            self._access.lake,
            self._spark,
            {key: called for key, called in self._names.items() if key in needed},
            version=self._snapshot.id,
            refused=self._refused,
        )
        self._refused.update(registration.refused)
        self._registered |= needed

    def _read_by(self, wanted: set[Key]) -> set[Key]:
        from lakeport.spark.views import key_of

        contents = self._access.contents(self._snapshot)
        read: set[Key] = set()
        for view in contents.views:
            if key_of(view.schema, view.name) in wanted:
                # A view that cannot be followed is refused when it is registered.
                with suppress(LakeportError):
                    read |= reads_of(view, contents).keys()
        return read

    def _reasons(self, error: str) -> str:
        from lakeport.spark.register import view_name

        reasons = {
            reason
            for (schema, name), reason in list(self._refused.items())
            if f"`{view_name(schema, name)}`".lower() in error.lower()
        }
        return "".join(f" It is not there because {reason}." for reason in sorted(reasons))


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))

"""`spark_sql('…')` of a lake catalog: Spark SQL over all tables and views of the lake."""

from __future__ import annotations

import difflib
import re
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakeport._cache import LruCache
from lakeport.catalog import Arguments, ScanOptions
from lakeport.ducklake import Snapshot, View
from lakeport.ducklake.metadata import TableSummary
from lakeport.ducklake.views import TableKey, reads_of, table_key
from lakeport.errors import InvalidInputError, LakeportError, PermissionDeniedError
from lakeport.lakehouse.names import PublishedNames
from lakeport.lakehouse.permissions import Permissions
from lakeport.lakehouse.resources import LakeResources
from lakeport.spark import retried_when_lost, scan_frame, spark_sql_function
from lakeport.spark.frames import arrow_schema, frame_columns
from lakeport.spark.sql import restricted_session, untrusted_query
from lakeport.types import spark_identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["LakeSqlFunction"]

_WORD: Final = re.compile(r"\w+")
_PLAIN: Final = re.compile(r"[A-Za-z_]\w*\Z")
_NOT_FOUND: Final = re.compile(
    r"\[TABLE_OR_VIEW_NOT_FOUND\] The table or view (?P<name>`.+`) cannot"
    r"|\[REQUIRES_SINGLE_PART_NAMESPACE\] .* got identifier (?P<long>`.+`)"
)
_NO_COLUMN: Final = re.compile(r"\[UNRESOLVED_COLUMN\.\w+\] .* with name (?P<name>`.+?`) cannot")
_QUOTED: Final = re.compile(r"`((?:[^`]|``)+)`")


class LakeSqlFunction:
    """Runs a query in a session that has the lake's tables and views at the newest snapshot.

    Tables of `main` have their own names, others `schema_table`, as with `Lake.register`. A query
    can use the tables and views that its caller may read.
    """

    def __init__(self, access: LakeResources, *, main_as: str | None = None) -> None:
        described = spark_sql_function()
        self.name = described.name
        self.comment = described.comment
        self.signature = described.signature
        self._access = access
        self._main_as = main_as
        self._lock = threading.Lock()
        # Two, so that a commit does not end the session of running queries.
        self._sessions = LruCache(2)

    def schema_for(self, arguments: Arguments) -> pa.Schema:
        """Return the columns of the result; Spark does not run the query for this."""
        with retried_when_lost():
            return arrow_schema(frame_columns(self._frame(arguments).schema))

    def execute_table(self, arguments: Arguments, options: ScanOptions) -> pa.RecordBatchReader:
        """Run the query."""
        with retried_when_lost():
            return scan_frame(self._frame(arguments), options)

    def _frame(self, arguments: Arguments) -> DataFrame:
        text = arguments["query"]
        if not text or not text.strip():
            raise InvalidInputError(f"{self.name} needs the text of a query")
        return self._session().frame(text)

    def _session(self) -> _LakeSession:
        snapshot, spark = self._access.newest_snapshot(), self._access.session()
        # The lock makes concurrent queries share one session.
        with self._lock:
            return self._sessions.get_or_load(
                (snapshot.id, spark),
                lambda: _LakeSession(self._access, snapshot, spark, self._main_as),
            )


class _LakeSession:
    """A session with the tables and views that queries have named so far, at one snapshot."""

    def __init__(
        self, access: LakeResources, snapshot: Snapshot, spark: SparkSession, main_as: str | None
    ) -> None:
        from lakeport.spark.sql import view_names

        self._access = access
        self._snapshot = snapshot
        self._spark = restricted_session(spark)
        contents = access.contents(snapshot)
        tables = [(table.schema, table.name) for table in contents.tables]
        views = [(view.schema, view.name) for view in contents.views]
        self._published = PublishedNames.choose(
            [schema.name for schema in contents.schemas], main_as
        )
        objects: list[TableSummary | View] = [*contents.tables, *contents.views]
        self._objects = {table_key(each.schema, each.name): each for each in objects}
        self._names, self._skipped = view_names([*tables, *views])
        self._hidden: dict[tuple[str, str], dict[str, str]] = {}
        self._registered: set[TableKey] = set()
        self._lock = threading.Lock()

    def frame(self, query: str) -> DataFrame:
        """Return the DataFrame of a query; an error about a missing name explains the reason."""
        named = self._named_in(query)
        # Concurrent queries wait instead of registering the same.
        with self._lock:
            self._register(named - self._registered)
        permissions = Permissions.of_request(self._access, self._published)
        # The session also holds what queries of other callers have named.
        readable = {self._names[key] for key in named if self._may_read(key, permissions)}
        try:
            return untrusted_query(self._spark, query, readable)
        except InvalidInputError as error:
            explanation = self._explanation(str(error), permissions)
            raise InvalidInputError(f"{error}{explanation}") from None

    def _may_read(self, key: TableKey, permissions: Permissions) -> bool:
        """Whether the caller may read a table, or a view and everything that it reads."""
        if permissions.are_all_given:
            return True
        found = self._objects[key]
        # Spark would read the whole table.
        if not permissions.reads(found) or permissions.restriction(found) is not None:
            return False
        if not isinstance(found, View):
            return True
        try:
            reads = reads_of(found, self._access.contents(self._snapshot))
        except LakeportError:  # what the view reads is not known
            return False
        return all(
            permissions.reads(read) and permissions.restriction(read) is None
            for read in reads.values()
        )

    def _named_in(self, query: str) -> set[TableKey]:
        """Return the tables and views that a query may name, or more."""
        words = _words(query)
        return {key for key, called in self._names.items() if _words(called) <= words}

    def _register(self, named: set[TableKey]) -> None:
        from lakeport.spark.sql import register_as

        if not named:
            return
        needed = named | self._read_by(named)
        registration = register_as(
            self._access.lake,
            self._spark,
            {key: called for key, called in self._names.items() if key in needed},
            version=self._snapshot.id,
            skipped=self._skipped,
        )
        self._skipped.update(registration.skipped)
        self._hidden.update({name: dict(why) for name, why in registration.hidden.items()})
        self._registered |= needed

    def _read_by(self, named: set[TableKey]) -> set[TableKey]:
        contents = self._access.contents(self._snapshot)
        read: set[TableKey] = set()
        for view in contents.views:
            if table_key(view.schema, view.name) in named:
                # A view that cannot be followed is refused when it is registered.
                with suppress(LakeportError):
                    read |= reads_of(view, contents).keys()
        return read

    def _explanation(self, error: str, permissions: Permissions) -> str:
        missing, column = _NOT_FOUND.search(error), _NO_COLUMN.search(error)
        if missing is not None:
            parts = _unquoted(missing["name"] or missing["long"])
            self._require_reading(parts[-1], permissions)
            return self._reason(parts, permissions) or self._suggestion(parts, permissions)
        if column is not None:
            return self._hidden_column(_unquoted(column["name"])[-1], permissions)
        return ""

    def _require_reading(self, name: str, permissions: Permissions) -> None:
        """Raise an error if Spark's name is of what the caller may read, but not on Spark."""
        for key, called in self._names.items():
            view = self._objects[key]
            if (
                called.lower() == name.lower()
                and permissions.reads(view)
                and not self._may_read(key, permissions)
            ):
                shown = f"{self._published.published(view.schema)}.{view.name}"
                if permissions.restriction(view) is not None:
                    raise PermissionDeniedError(
                        f"you may not use {shown} in spark_sql: policies restrict what you see of "
                        "it; use DuckDB's SQL instead"
                    )
                raise PermissionDeniedError(
                    f"you may not read everything that the view {shown} reads"
                )

    def _reason(self, parts: list[str], permissions: Permissions) -> str:
        """Return why a table or view of that name is not in the session."""
        from lakeport.spark.sql import view_name

        reasons = {
            reason
            for (schema, name), reason in list(self._skipped.items())
            if view_name(schema, name).lower() == parts[-1].lower()
            and self._may_read(table_key(schema, name), permissions)
        }
        return "".join(f" It is not there because {reason}." for reason in sorted(reasons))

    def _suggestion(self, parts: list[str], permissions: Permissions) -> str:
        """Return the name that is probably meant, among those that the caller may read."""
        names = {
            called.lower(): called
            for key, called in self._names.items()
            if self._may_read(key, permissions)
        }
        # `schema.table`, with the name of the catalog before it or not, as DuckDB addresses it.
        schema = self._published.in_lake(parts[-2]) if len(parts) > 1 else ""
        meant = self._names.get(table_key(schema, parts[-1]))
        if meant is None or meant.lower() not in names:
            close = difflib.get_close_matches("_".join(parts).lower(), names, 1)
            close = close or difflib.get_close_matches(parts[-1].lower(), names, 1)
            meant = names[close[0]] if close else None
        if meant is None:
            return ""
        return f" Did you mean {meant if _PLAIN.match(meant) else spark_identifier(meant)}?"

    def _hidden_column(self, name: str, permissions: Permissions) -> str:
        reasons = {
            f"{schema}.{table} has it, but {reason}"
            for (schema, table), columns in list(self._hidden.items())
            for column, reason in columns.items()
            if column.lower() == name.lower()
            and self._may_read(table_key(schema, table), permissions)
        }
        return "".join(f" The table {reason}." for reason in sorted(reasons))


def _unquoted(name: str) -> list[str]:
    return [part.replace("``", "`") for part in _QUOTED.findall(name)]


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))

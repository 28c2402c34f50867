"""`spark_sql('…')` of a lake catalog: Spark SQL over all tables and views of the lake."""

from __future__ import annotations

import pyarrow as pa

from lakeport.catalog import Arguments, ScanOptions, TableFunction
from lakeport.ducklake import SnapshotCache
from lakeport.lakehouse.access import LakeAccess
from lakeport.spark import spark_sql_function
from lakeport.spark.queries import safe_session

__all__ = ["LakeSqlFunction"]


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
        # Two, so that queries that have begun need not make way for a commit.
        self._functions = SnapshotCache(2)

    def schema_for(self, arguments: Arguments) -> pa.Schema:
        """The columns of the result, which Spark tells without running the query."""
        return self._function().schema_for(arguments)

    def execute_table(self, arguments: Arguments, options: ScanOptions) -> pa.RecordBatchReader:
        """Run the query."""
        return self._function().execute_table(arguments, options)

    def _function(self) -> TableFunction:
        snapshot = self._access.newest().id

        def make() -> TableFunction:
            session = safe_session(self._access.session())
            self._access.lake.register(session, version=snapshot)
            return spark_sql_function(session)

        return self._functions.remembered(snapshot, make)

"""Views of a lake as read-only tables: run by DuckDB in this process, or by Spark.

Spark runs a view that reads much and has an exact translation to Spark SQL. DuckDB runs the others,
over the rows that the engine of the lake reads.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

import pyarrow as pa

from lakeport.arrow import CancellingReader, SchemaAdapter
from lakeport.catalog import Endpoint, Partition, ScanOptions, project_schema
from lakeport.ducklake import Scan, Snapshot, View
from lakeport.ducklake.metadata import LakeContents, TableSummary
from lakeport.ducklake.views import ReadTable, TableKey, ViewSchemas, reads_of
from lakeport.errors import LakeportError, UnavailableError, UnsupportedError
from lakeport.filters import Filter
from lakeport.lakehouse.names import PublishedNames
from lakeport.lakehouse.permissions import Permissions
from lakeport.lakehouse.policies.restricted_scan import open_seen_table
from lakeport.lakehouse.policies.visible import SeenTable, failure_of, restricted_reads
from lakeport.lakehouse.resources import LakeResources
from lakeport.lakehouse.tickets import DIGEST_BYTES, ScanPartToken
from lakeport.spark import retried_when_lost

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["LakeCatalogView", "sees_reads", "shown_reason", "view_schema", "view_schemas"]

Reads: TypeAlias = Mapping[TableKey, TableSummary | View]
"""A view and everything that it reads, in order of dependency."""

_log = logging.getLogger("lakeport.lakehouse")


class LakeCatalogView:
    """One view of a lake at the snapshot of the request."""

    def __init__(
        self,
        access: LakeResources,
        names: PublishedNames,
        view: View,
        schema: pa.Schema,
        snapshot: Snapshot,
    ) -> None:
        self.name = view.name
        self.comment = view.comment or ""
        self._access = access
        self._names = names
        self._view = view
        self._schema = schema
        self._snapshot = snapshot

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the columns of the view."""
        return project_schema(self._seen_schema(), columns)

    def endpoints(self, options: ScanOptions) -> Sequence[Endpoint]:  # noqa: ARG002
        """Return one endpoint: the whole view at the snapshot of the request."""
        self._reads(self._snapshot.id)
        return [Partition(self._token(self._snapshot.id).to_bytes())]

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        """Run the view, with the columns and the filter pushed into it."""
        snapshot = self._snapshot.id
        if options.partition is not None:
            token = ScanPartToken.from_bytes(options.partition)
            snapshot = token.snapshot
            known = self._access.contents(self._access.snapshot(snapshot)).views
            if token != self._token(snapshot) or self._view not in known:
                raise UnavailableError(
                    f"the view {self.name!r} was changed while the query was starting; run the "
                    "query again"
                )
        reads = self._reads(snapshot)
        seen = restricted_reads(reads, Permissions.of_request(self._access, self._names))
        if seen is not None:
            return self._scan_as_seen(seen, snapshot, options)
        if self._access.runs_on_spark and self._is_large(reads, snapshot):
            try:
                return self._scan_on_spark(reads, snapshot, options)
            except UnsupportedError as error:
                _log.debug("view %s runs in DuckDB: %s", self.name, error)
        return self._scan_in_duckdb(reads, snapshot, options)

    def _seen_schema(self) -> pa.Schema:
        """Return the columns that the view has over what the caller sees of its tables."""
        permissions = Permissions.of_request(self._access, self._names)
        if not permissions.have_policies:
            return self._schema
        seen = restricted_reads(self._reads(self._snapshot.id), permissions)
        if seen is None:
            return self._schema
        key = ("restricted view", self._snapshot.schema_version, repr(seen))
        found: pa.Schema = self._access.facts.get_or_load(key, lambda: _bound(seen))
        return found

    def _scan_as_seen(
        self, seen: Sequence[SeenTable | View], snapshot: int, options: ScanOptions
    ) -> pa.RecordBatchReader:
        """Run the view in DuckDB over what the caller sees of its tables."""
        schema = self._seen_schema()
        columns = options.columns or (schema.names[:1] if options.columns == () else None)
        failure = failure_of(f"{self._names.published(self._view.schema)}.{self.name}")
        return self._access.view_database.stream(
            seen,
            open_seen_table(self._access, snapshot, failure),
            schema=project_schema(schema, columns),
            filter=options.filter,
        )

    def _scan_on_spark(
        self, reads: Reads, snapshot: int, options: ScanOptions
    ) -> pa.RecordBatchReader:
        from lakeport.spark import scan_frame

        with retried_when_lost():
            rows = scan_frame(self._frame(reads, snapshot), options)
        target = pa.schema([self._schema.field(name) for name in rows.schema.names])
        adapt = SchemaAdapter(rows.schema, target, f"the view {self.name!r}")
        return CancellingReader(target, (adapt(batch) for batch in rows), rows.close)

    def _scan_in_duckdb(
        self, reads: Reads, snapshot: int, options: ScanOptions
    ) -> pa.RecordBatchReader:
        def open_table(summary: TableSummary) -> ReadTable:
            table = self._access.table(summary.schema, summary.name, snapshot)

            def read(columns: Sequence[str], filter: Filter) -> pa.RecordBatchReader:
                plan = table.scan(columns, filter).plan
                with retried_when_lost():
                    return Scan(plan, self._access.engine).to_batches()

            return read

        # A batch without columns has no number of rows.
        columns = options.columns or (self._schema.names[:1] if options.columns == () else None)
        return self._access.view_database.stream(
            list(reads.values()),
            open_table,
            schema=project_schema(self._schema, columns),
            filter=options.filter,
        )

    def _is_large(self, reads: Reads, snapshot: int) -> bool:
        """Return whether the files of all tables of the view are more than DuckDB should read."""
        size = 0
        for read in reads.values():
            if isinstance(read, TableSummary):
                stats = self._access.table(read.schema, read.name, snapshot).stats
                size += stats.file_size_bytes if stats else 0
        return size > self._access.spark_view_bytes

    def _reads(self, snapshot: int) -> Reads:
        """Return the tables and views that the view reads; raise if the caller may not read one."""
        contents = self._access.contents(self._access.snapshot(snapshot))
        reads = reads_of(self._view, contents)
        shown = f"{self._names.published(self._view.schema)}.{self.name}"
        # The caller may list the view, but maybe not its tables: the error does not name them.
        Permissions.of_request(self._access, self._names).require_reading(
            reads.values(), denied=f"you may not read everything that the view {shown} reads"
        )
        return reads

    def _token(self, snapshot: int) -> ScanPartToken:
        digest = hashlib.blake2b(self._view.sql.encode(), digest_size=DIGEST_BYTES).digest()
        return ScanPartToken(snapshot=snapshot, table=self._view.id, digest=digest, part=0, parts=1)

    def _frame(self, reads: Reads, snapshot: int) -> DataFrame:
        """Return a DataFrame of the view, in a session that has only the tables that it reads."""
        from lakeport.spark.sql import register_as, restricted_session
        from lakeport.types import spark_identifier

        session = restricted_session(self._access.session())
        # These names are internal and unique.
        names = {key: f"read_{i}" for i, key in enumerate(reads)}
        known = register_as(self._access.lake, session, names, version=snapshot)
        name = known.names.get((self._view.schema, self._view.name))
        if name is None:
            reason = known.skipped[self._view.schema, self._view.name]
            raise UnsupportedError(f"the view {self.name!r} cannot be run on Spark: {reason}")
        return session.table(spark_identifier(name))


def view_schemas(contents: LakeContents) -> tuple[dict[int, pa.Schema], dict[int, str]]:
    """Return the columns of the views of a lake, by their ids, and why the others have none."""
    if not contents.views:
        return {}, {}
    found: dict[int, pa.Schema] = {}
    refused: dict[int, str] = {}
    with ViewSchemas() as schemas:
        added: set[TableKey] = set()
        for view in contents.views:
            try:
                for key, read in reads_of(view, contents).items():
                    if key not in added:
                        _add(schemas, read)
                        added.add(key)
                found[view.id] = schemas.arrow_schema(view)
            except LakeportError as error:
                _log.warning("view %s.%s is not listed: %s", view.schema, view.name, error)
                refused[view.id] = str(error)
    return found, refused


def view_schema(view: View, contents: LakeContents) -> pa.Schema:
    """Return the columns of one view; raise LakeportError if it cannot be read."""
    return _bound(list(reads_of(view, contents).values()))


def _bound(seen: Sequence[SeenTable | TableSummary | View]) -> pa.Schema:
    """Return the columns of the last of these, a view."""
    with ViewSchemas() as schemas:
        for read in seen:
            _add(schemas, read)
        return schemas.arrow_schema(cast("View", seen[-1]))


def _add(schemas: ViewSchemas, read: SeenTable | TableSummary | View) -> None:
    if isinstance(read, View):
        schemas.add_view(read)
    else:
        schemas.add_table(read.schema, read.name, read.columns)


def shown_reason(view: View, contents: LakeContents, permissions: Permissions, reason: str) -> str:
    """Return why a view is refused, without names that the caller may not list."""
    everything: list[TableSummary | View] = [*contents.tables, *contents.views]
    if sees_reads(view, contents, permissions) or all(map(permissions.sees, everything)):
        return reason
    return "its SQL cannot be run"


def sees_reads(view: View, contents: LakeContents, permissions: Permissions) -> bool:
    """Return whether the caller may list all that a view names, and so read its SQL."""
    if permissions.are_all_given:
        return True
    try:
        reads = reads_of(view, contents).values()
    except LakeportError:  # its tables are unknown
        return False
    # The SQL may name hidden columns.
    return all(permissions.sees(r) and permissions.restriction(r) is None for r in reads)

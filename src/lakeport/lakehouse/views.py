"""Views of a lake as read-only tables: their SQL is translated to Spark SQL and run by Spark."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.catalog import Endpoint, Partition, ScanOptions, project_schema
from lakeport.ducklake import Snapshot, View
from lakeport.ducklake.metadata import LakeContents, TableSummary
from lakeport.errors import LakeportError, UnavailableError, UnsupportedError
from lakeport.lakehouse.names import PublishedNames
from lakeport.lakehouse.permissions import Permissions
from lakeport.lakehouse.resources import LakeResources
from lakeport.lakehouse.tickets import DIGEST_BYTES, ScanPartToken
from lakeport.spark import retried_when_lost
from lakeport.types import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeport.spark.sql.views import TableKey, ViewSchemas

__all__ = ["LakeCatalogView", "reads_of", "sees_reads", "shown_reason", "view_schemas"]


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
        return project_schema(self._schema, columns)

    def endpoints(self, options: ScanOptions) -> Sequence[Endpoint]:  # noqa: ARG002
        """Return one endpoint: the whole view at the snapshot of the request."""
        self._reads(self._snapshot.id)
        return [Partition(self._token(self._snapshot.id).to_bytes())]

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        """Run the view on Spark, with the columns and the filter pushed into it."""
        from lakeport.spark import scan_frame

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
        with retried_when_lost():
            return scan_frame(self._frame(snapshot), options)

    def _reads(self, snapshot: int) -> dict[TableKey, TableSummary | View]:
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

    def _frame(self, snapshot: int) -> DataFrame:
        """Return a DataFrame of the view, in a session that has only the tables that it reads."""
        from lakeport.spark.sql import register_as, restricted_session
        from lakeport.types import spark_identifier

        reads = self._reads(snapshot)
        session = restricted_session(self._access.session())
        # These names are internal and unique.
        names = {key: f"read_{i}" for i, key in enumerate(reads)}
        known = register_as(self._access.lake, session, names, version=snapshot)
        name = known.names.get((self._view.schema, self._view.name))
        if name is None:
            reason = known.skipped[self._view.schema, self._view.name]
            raise UnsupportedError(f"the view {self.name!r} cannot be run on Spark: {reason}")
        return session.table(spark_identifier(name))


_log = logging.getLogger("lakeport.lakehouse")


def view_schemas(contents: LakeContents) -> tuple[dict[int, pa.Schema], dict[int, str]]:
    """Return the columns of the views of a lake, by their ids, and why the others have none."""
    if not contents.views:
        return {}, {}
    try:
        from lakeport.spark.sql.views import ViewSchemas
    except ImportError:
        _log.warning('views are not listed: pip install "lakeport[spark]"')
        return {}, {view.id: "the server has no Spark" for view in contents.views}
    found: dict[int, pa.Schema] = {}
    refused: dict[int, str] = {}
    with ViewSchemas() as shapes:
        known: dict[TableKey, tuple[Column, ...]] = {}
        for view in contents.views:
            try:
                for key, read in reads_of(view, contents).items():
                    if key not in known:
                        known[key] = _columns(read, shapes)
                found[view.id] = _published(known[_key(view)])
            except LakeportError as error:
                _log.warning("view %s.%s is not listed: %s", view.schema, view.name, error)
                refused[view.id] = str(error)
    return found, refused


def _columns(read: TableSummary | View, shapes: ViewSchemas) -> tuple[Column, ...]:
    if isinstance(read, View):
        return shapes.add_view(read)
    shapes.add_table(read.schema, read.name, read.columns)
    return read.columns


def _published(columns: Sequence[Column]) -> pa.Schema:
    from lakeport.spark.frames import arrow_schema, frame_columns, spark_schema

    schema = arrow_schema(frame_columns(spark_schema(columns)))
    fields = [
        field.with_metadata({"comment": column.comment}) if column.comment else field
        for field, column in zip(schema, columns, strict=True)
    ]
    return pa.schema(fields, metadata=schema.metadata)


def reads_of(view: View, contents: LakeContents) -> dict[TableKey, TableSummary | View]:
    """Return the view and all that it reads, also through other views, in order of dependency."""
    from lakeport.spark.sql.views import referenced_tables

    everything: list[TableSummary | View] = [*contents.tables, *contents.views]
    objects = {_key(found): found for found in everything}
    ordered: dict[TableKey, TableSummary | View] = {}
    waiting: list[TableKey] = []

    def add(found: TableSummary | View) -> None:
        key = _key(found)
        if key in ordered:
            return
        if key in waiting:
            raise UnsupportedError("views that read each other have no columns")
        waiting.append(key)
        if isinstance(found, View):
            for read in sorted(referenced_tables(found, objects.keys())):
                add(objects[read])
        ordered[waiting.pop()] = found

    add(view)
    return ordered


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
    except (LakeportError, ImportError):  # its tables are unknown
        return False
    return all(permissions.sees(read) for read in reads)


def _key(found: TableSummary | View) -> TableKey:
    from lakeport.spark.sql.views import table_key

    return table_key(found.schema, found.name)

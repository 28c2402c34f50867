"""Views of a lake as tables that can only be read: DuckDB's SQL, translated and run by Spark."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.catalog import Endpoint, Partition, ScanOptions, project_schema
from lakeport.ducklake import Snapshot, TableSummary, View
from lakeport.errors import UnavailableError, UnsupportedError
from lakeport.lakehouse.access import LakeAccess
from lakeport.lakehouse.naming import Names
from lakeport.lakehouse.parts import DIGEST_BYTES, PartToken
from lakeport.lakehouse.permissions import Permissions
from lakeport.lakehouse.view_shapes import reads_of
from lakeport.spark.failures import retried_when_lost

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeport.spark.views import Key

__all__ = ["PublishedView"]


class PublishedView:
    """One view of a lake at the snapshot of the request."""

    def __init__(
        self,
        access: LakeAccess,
        names: Names,
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
        """The columns that the view gives."""
        return project_schema(self._schema, columns)

    def endpoints(self, options: ScanOptions) -> Sequence[Endpoint]:  # noqa: ARG002
        """The whole view, pinned to a snapshot."""
        self._reads(self._snapshot.id)
        return [Partition(self._token(self._snapshot.id).to_bytes())]

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        """Run the view on Spark, with the columns and the filter pushed into it."""
        from lakeport.spark.table import scan_frame

        snapshot = self._snapshot.id
        if options.partition is not None:
            token = PartToken.from_bytes(options.partition)
            snapshot = token.snapshot
            known = self._access.contents(self._access.snapshot(snapshot)).views
            if token != self._token(snapshot) or self._view not in known:
                raise UnavailableError(
                    f"the view {self.name!r} was changed while the query was starting; run the "
                    "query again"
                )
        with retried_when_lost():
            return scan_frame(self._frame(snapshot), options)

    def _reads(self, snapshot: int) -> dict[Key, TableSummary | View]:
        """What the view reads, if the caller may read all of it."""
        contents = self._access.contents(self._access.snapshot(snapshot))
        reads = reads_of(self._view, contents)
        shown = f"{self._names.published(self._view.schema)}.{self.name}"
        # The view may be for everyone to see; the tables that it reads are not named.
        Permissions.of_request(self._access, self._names).require_reading(
            reads.values(), denied=f"you may not read everything that the view {shown} reads"
        )
        return reads

    def _token(self, snapshot: int) -> PartToken:
        digest = hashlib.blake2b(self._view.sql.encode(), digest_size=DIGEST_BYTES).digest()
        return PartToken(snapshot=snapshot, table=self._view.id, digest=digest, part=0, parts=1)

    def _frame(self, snapshot: int) -> DataFrame:
        """The view over a session of its own, which knows the tables that the view reads."""
        from lakeport.spark.queries import safe_session
        from lakeport.spark.quoting import quoted
        from lakeport.spark.register import register_as

        reads = self._reads(snapshot)
        session = safe_session(self._access.session())
        # Nobody sees these names, and no two tables get the same.
        names = {key: f"read_{i}" for i, key in enumerate(reads)}
        known = register_as(self._access.lake, session, names, version=snapshot)
        name = known.names.get((self._view.schema, self._view.name))
        if name is None:
            reason = known.refused[self._view.schema, self._view.name]
            raise UnsupportedError(f"the view {self.name!r} cannot be run on Spark: {reason}")
        return session.table(quoted(name))

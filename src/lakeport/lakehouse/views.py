"""Views of a lake as tables that can only be read: DuckDB's SQL, translated and run by Spark.

What columns a view has is asked of DuckDB, over the lake's tables without rows, so that a listing
needs no Spark session. They are published in the types that Spark gives them.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.catalog import Endpoint, Partition, ScanOptions, project_schema
from lakeport.ducklake import Column, Contents, Snapshot, View
from lakeport.errors import LakeportError, UnavailableError, UnsupportedError
from lakeport.lakehouse.access import LakeAccess
from lakeport.lakehouse.parts import DIGEST_BYTES, PartToken

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeport.spark.views import Key

__all__ = ["PublishedView", "view_schemas"]

_log = logging.getLogger("lakeport.lakehouse")


class PublishedView:
    """One view of a lake at the snapshot of the request."""

    def __init__(
        self, access: LakeAccess, view: View, schema: pa.Schema, snapshot: Snapshot
    ) -> None:
        self.name = view.name
        self.comment = view.comment or ""
        self._access = access
        self._view = view
        self._schema = schema
        self._snapshot = snapshot

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """The columns that the view gives."""
        return project_schema(self._schema, columns)

    def endpoints(self, options: ScanOptions) -> Sequence[Endpoint]:  # noqa: ARG002
        """The whole view, pinned to a snapshot."""
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
        return scan_frame(self._frame(snapshot), options)

    def _token(self, snapshot: int) -> PartToken:
        digest = hashlib.blake2b(self._view.sql.encode(), digest_size=DIGEST_BYTES).digest()
        return PartToken(snapshot=snapshot, table=self._view.id, digest=digest, part=0, parts=1)

    def _frame(self, snapshot: int) -> DataFrame:
        """The view over a session of its own, which knows the tables that the view reads."""
        from lakeport.spark.register import register

        contents = self._access.contents(self._access.snapshot(snapshot))
        session = self._access.session().newSession()
        needed = set(_read_by(self._view, _objects(contents)))
        known = register(self._access.lake, session, version=snapshot, only=needed)
        name = known.names.get((self._view.schema, self._view.name))
        if name is None:
            reason = known.refused[self._view.schema, self._view.name]
            raise UnsupportedError(f"the view {self.name!r} cannot be run on Spark: {reason}")
        return session.table("`" + name.replace("`", "``") + "`")


def view_schemas(contents: Contents) -> dict[int, pa.Schema]:
    """The columns of the views of a lake, by their ids; the log says which have none, and why."""
    if not contents.views:
        return {}
    try:
        import pyspark  # noqa: F401
        import sqlglot  # noqa: F401
    except ImportError:
        _log.warning("views are not listed: install lakeport[spark]")
        return {}
    from lakeport.spark.view_columns import ViewColumns

    objects = _objects(contents)
    found: dict[int, pa.Schema] = {}
    with ViewColumns() as shapes:
        for view in contents.views:
            try:
                found[view.id] = _published(_columns(view, objects, shapes))
            except LakeportError as error:
                _log.warning("view %s.%s is not listed: %s", view.schema, view.name, error)
    return found

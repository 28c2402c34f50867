"""Explain why a lake catalog has no table of a name: a refused view, or a dropped table."""

from __future__ import annotations

from lakeport.ducklake import Snapshot, View
from lakeport.ducklake.metadata import why_missing
from lakeport.lakehouse.permissions import Permissions
from lakeport.lakehouse.resources import LakeResources
from lakeport.lakehouse.schema import SchemaIndex
from lakeport.lakehouse.views import shown_reason
from lakeport.types import fold_name

__all__ = ["MissingTables"]


class MissingTables:
    """Explains the names that one schema does not have at a snapshot."""

    def __init__(
        self, access: LakeResources, directory: SchemaIndex, schema: str, snapshot: Snapshot
    ) -> None:
        self._access = access
        self._directory = directory
        self._schema = schema
        self._snapshot = snapshot

    def explain(self, name: str) -> str | None:
        """Return why the name is missing; None if no snapshot has a table or view of it."""
        names = self._directory.names
        shown = f"{names.published(self._schema)}.{name}"
        permissions = Permissions.of_request(self._access, names)
        view = self._refused_view(name)
        if view is not None:
            if not permissions.reads(view):
                return None
            contents = self._access.contents(self._snapshot)
            reason = shown_reason(view, contents, permissions, self._directory.refused[view.id])
            return f"the view {shown} cannot be read: {reason}"
        lifetimes = self._access.lake.lifetimes()
        namesakes = [life for life in lifetimes if fold_name(life.name) == fold_name(name)]
        # The server has checked the spelling of the request; check the object's own, too.
        if not all(permissions.reads_name(self._schema, life.name) for life in namesakes):
            return None
        when = why_missing(namesakes, self._schema, name, self._snapshot.id)
        return when and f"there is no table {shown} at snapshot {self._snapshot.id}: {when}"

    def _refused_view(self, name: str) -> View | None:
        for view in self._access.contents(self._snapshot).views:
            key = fold_name(view.schema), fold_name(view.name)
            if view.id in self._directory.refused and key == (
                fold_name(self._schema),
                fold_name(name),
            ):
                return view
        return None

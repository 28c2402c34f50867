"""A schema of a lake, as the server sees it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from lakeport.catalog import ScalarFunction, Table, TableFunction, TableFunctionInOut
from lakeport.ducklake import Schema, Snapshot
from lakeport.ducklake.soundness import Omission
from lakeport.ducklake.text import ascii_lower
from lakeport.errors import CorruptLakeError, LakeportError
from lakeport.lakehouse.directory import Publish

__all__ = ["PublishedSchema"]

_log = logging.getLogger("lakeport.lakehouse")


class PublishedSchema:
    """One schema of a lake at the snapshot of the request, with its tables and views."""

    def __init__(
        self,
        name: str,
        schema: Schema,
        members: Mapping[str, Publish],
        snapshot: Snapshot,
        *,
        explain: Callable[[str], str | None],
        omitted: Mapping[str, Omission],
    ) -> None:
        self.name = name
        self.comment = schema.comment or ""
        self.tags = {
            key: value
            for key, value in schema.tags.items()
            if key != "comment" and value is not None
        }
        self._members = members
        self._omitted = omitted
        self._snapshot = snapshot
        self._explain = explain

    def tables(self) -> Sequence[Table]:
        """All tables but those with a column that Lakeport does not know; the log says which."""
        tables = [publish(self._snapshot) for publish in self._members.values()]
        return [table for table in tables if self._can_be_listed(table)]

    def table(self, name: str) -> Table | None:
        """The table of that name, whatever the case of its letters, or None."""
        publish = self._members.get(ascii_lower(name))
        omission = self._omitted.get(ascii_lower(name))
        if publish is None and omission is not None:
            raise CorruptLakeError(
                f"the {omission.kind} {self.name}.{name} cannot be read: {omission.reason}"
            )
        return None if publish is None else publish(self._snapshot)

    def why_missing(self, name: str) -> str | None:
        """Return why there is no such table now; None if there never was one."""
        return self._explain(name)

    def scalar_functions(self) -> Sequence[ScalarFunction]:
        """None: macros of a lake are not published."""
        return ()

    def table_functions(self) -> Sequence[TableFunction]:
        """None: the functions about the lake are in a schema of their own."""
        return ()

    def table_functions_in_out(self) -> Sequence[TableFunctionInOut]:
        """None."""
        return ()

    def _can_be_listed(self, table: Table) -> bool:
        try:
            table.arrow_schema()
        except LakeportError as error:
            _log.warning("table %s.%s is not listed: %s", self.name, table.name, error)
            return False
        return True

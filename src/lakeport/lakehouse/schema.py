"""A schema of a lake, as the server sees it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from lakeport.catalog import ScalarFunction, Table, TableFunction, TableFunctionInOut
from lakeport.ducklake import Schema, TableSummary
from lakeport.ducklake.text import ascii_lower
from lakeport.errors import LakeportError

__all__ = ["PublishedSchema"]

_log = logging.getLogger("lakeport.lakehouse")


class PublishedSchema:
    """One schema of a lake at the snapshot of the request."""

    def __init__(
        self,
        name: str,
        schema: Schema,
        tables: Sequence[TableSummary],
        publish: Callable[[TableSummary], Table],
    ) -> None:
        self.name = name
        self.comment = schema.comment or ""
        self.tags = {
            key: value
            for key, value in schema.tags.items()
            if key != "comment" and value is not None
        }
        self._tables = {ascii_lower(table.name): table for table in tables}
        self._publish = publish

    def tables(self) -> Sequence[Table]:
        """All tables but those with a column that Lakeport does not know; the log says which."""
        found = []
        for summary in self._tables.values():
            table = self._publish(summary)
            try:
                table.arrow_schema()
            except LakeportError as error:
                _log.warning("table %s.%s is not listed: %s", self.name, summary.name, error)
            else:
                found.append(table)
        return found

    def table(self, name: str) -> Table | None:
        """The table of that name, whatever the case of its letters, or None."""
        summary = self._tables.get(ascii_lower(name))
        return None if summary is None else self._publish(summary)

    def scalar_functions(self) -> Sequence[ScalarFunction]:
        """None: a lake has no functions that DuckDB could call here."""
        return ()

    def table_functions(self) -> Sequence[TableFunction]:
        """None: the functions about the lake are in a schema of their own."""
        return ()

    def table_functions_in_out(self) -> Sequence[TableFunctionInOut]:
        """None."""
        return ()

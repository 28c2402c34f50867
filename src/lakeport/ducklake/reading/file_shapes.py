"""What files with the same schema share: Arrow fields, field ids, and the converters of columns.

Most files of a table have the same schema. Describing it again for each of them takes longer than
reading a small file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from lakeport.ducklake.reading.alignment import ColumnConverter, column_converter
from lakeport.types import Column, field_id

__all__ = ["INTERNAL_ROW_ID", "INTERNAL_SNAPSHOT", "FileShape", "StoredColumn", "shape_of"]

INTERNAL_ROW_ID: Final = "_ducklake_internal_row_id"
INTERNAL_SNAPSHOT: Final = "_ducklake_internal_snapshot_id"

_MAX_SHAPES: Final = 32
_MAX_COLUMNS: Final = 10_000
_MAX_LAYOUTS: Final = 64

T = TypeVar("T")

StoredColumn: TypeAlias = tuple[int, ColumnConverter] | None
"""The position of a column's field and the function that converts it; None if there is none."""


class FileShape:
    """The schema of a file, and what was derived from it. May be used by many threads."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.fields: Final = tuple(schema)
        ids = [field_id(field) for field in self.fields]
        self.has_field_ids: Final = any(id is not None for id in ids)
        self._positions = dict(zip(reversed(ids), range(len(ids) - 1, -1, -1), strict=True))
        self._columns: dict[int, tuple[Column, StoredColumn]] = {}
        self._leaves: dict[tuple[int, ...], list[str]] = {}
        self._layouts: dict[int, tuple[object, Any]] = {}
        self._internal: dict[str, int | None] = {}
        self.unpickable: Final[set[tuple[int, ...]]] = set()
        """Fields that DuckDB reads in other types than pyarrow, or not at all."""

    def internal(self, name: str, number: int) -> int | None:
        """Return the position of a field that DuckLake adds, by its field id or its name."""
        if name not in self._internal:
            by_id = self._positions.get(number)
            found = (i for i, field in enumerate(self.fields) if field.name == name or i == by_id)
            self._internal[name] = next(found, None)
        return self._internal[name]

    def layout(self, columns: Sequence[Column | str], make: Callable[[], T]) -> T:
        """Return what was made for the files of this shape and the columns of a plan."""
        # By identity, like the columns: all tasks of a plan have the same tuple.
        found = self._layouts.get(id(columns))
        if found is not None and found[0] is columns:
            made: T = found[1]
            return made
        made = make()
        if len(self._layouts) >= _MAX_LAYOUTS:
            self._layouts.clear()
        self._layouts[id(columns)] = columns, made
        return made

    def stored(self, column: Column) -> StoredColumn:
        """Return where the column of a table is, by its field id, and its converter."""
        # By identity: the tasks of a plan share their columns, and hashing one is slow.
        found = self._columns.get(id(column))
        if found is not None and found[0] is column:
            return found[1]
        position = self._positions.get(column.id)
        stored = None
        if position is not None:
            stored = position, column_converter(self.fields[position], column, None)
        if len(self._columns) >= _MAX_COLUMNS:
            self._columns.clear()
        self._columns[id(column)] = column, stored
        return stored

    def leaves(self, fields: tuple[int, ...], paths: Callable[[], list[str]]) -> list[str]:
        """Return the leaf columns below some top-level fields, by their dotted paths."""
        found = self._leaves.get(fields)
        if found is None:
            names = {self.fields[index].name for index in fields}
            found = [
                path
                for path in paths()
                if path in names or any(path.startswith(f"{name}.") for name in names)
            ]
            if len(self._leaves) >= _MAX_COLUMNS:
                self._leaves.clear()
            self._leaves[fields] = found
        return found


# The shapes of the files that were read last, newest first. Replaced, never changed.
_recent: list[tuple[str, bytes | None, FileShape]] = []


def shape_of(file: pq.ParquetFile) -> FileShape:
    """Return the shape of an open file: that of an earlier file, if the schemas are the same."""
    global _recent  # noqa: PLW0603
    footer = file.metadata
    # Arrow's own description of a schema changes types, such as those of durations.
    described = (footer.metadata or {}).get(b"ARROW:schema")
    # As text, after a line with an address: pyarrow 26 compares only leaves, and takes two structs
    # with other names or ids for the same.
    schema = str(footer.schema).partition("\n")[2]
    for text, known, shape in _recent:
        if known == described and text == schema:
            return shape
    shape = FileShape(file.schema_arrow)
    _recent = [(schema, described, shape), *_recent[: _MAX_SHAPES - 1]]
    return shape

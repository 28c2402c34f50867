"""Which row groups of a file can hold a matching row, by the statistics of its footer.

Arrow compares the statistics with the filter. It is asked only about columns that the file holds in
the very type of the table: of others, promoted, rebuilt or absent, it would compare other values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.ducklake.align import find_child
from lakeport.ducklake.model import Column, NameMapping
from lakeport.ducklake.types import arrow_type
from lakeport.filters import ArrowEncoder, Filter

__all__ = ["matching_row_groups", "row_group_filter"]


def row_group_filter(
    filter: Filter,
    columns: Sequence[Column | str],
    schema: pa.Schema,
    names: Mapping[int, NameMapping] | None,
) -> pc.Expression | None:
    """What the filter says of the columns of a file, or None if nothing."""
    if not filter:
        return None
    asked, fields, held = filter.columns, list(schema), {}
    for column in columns:
        if isinstance(column, Column) and column.name in asked and not column.children:
            position = find_child(fields, column, names)
            if position is not None and schema.field(position).type == arrow_type(column):
                held[column.name] = schema.field(position).name
    known = [part for part in filter.conjuncts if Filter((part,)).columns <= held.keys()]
    return ArrowEncoder(schema, column_mapping=held).encode(Filter(tuple(known)))


def matching_row_groups(file: pa.NativeFile, schema: pa.Schema, where: pc.Expression) -> set[int]:
    """The row groups of an open Parquet file whose statistics allow a match."""
    import pyarrow.dataset as ds

    fragment = ds.ParquetFileFormat().make_fragment(file).subset(where, schema=schema)
    return {group.id for group in fragment.row_groups}

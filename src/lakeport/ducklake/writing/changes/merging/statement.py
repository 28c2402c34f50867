"""The statement MERGE: choose where it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakeport.arrow import RowSource
from lakeport.ducklake.writing.changes.merging.clauses import Clause, parse_clauses
from lakeport.ducklake.writing.changes.merging.collected import merge_collected
from lakeport.ducklake.writing.changes.merging.spread import merge_spread
from lakeport.ducklake.writing.changes.statements import check_exact
from lakeport.ducklake.writing.distributed import frame_engine, is_frame, merge_reader, stage_frame

if TYPE_CHECKING:
    from lakeport.ducklake.writing.changes.table_rows import TableRows

__all__ = ["merge_rows"]


def merge_rows(
    rows: TableRows,
    source: RowSource,
    on: str,
    clauses: Sequence[Clause],
    *,
    merge_schema: bool = False,
) -> None:
    """Merge rows of a source into a table."""
    columns = rows.writer.columns
    check_exact(columns)
    if not is_frame(source):
        reader = merge_reader(rows.writer, source)
        names = reader.schema.names
        parsed = parse_clauses(on, clauses, columns, names, merge_schema=merge_schema)
        merge_collected(rows, reader, parsed, None)
        return
    engine = frame_engine(rows.writer.transaction.lake.engine, source)
    names = engine.frame_schema(source).names
    parsed = parse_clauses(on, clauses, columns, names, merge_schema=merge_schema)
    with stage_frame(rows, source, parsed.on, engine) as staged:
        if staged is None:
            merge_collected(rows, merge_reader(rows.writer, source), parsed, engine)
        elif not merge_spread(rows, staged, parsed):
            merge_collected(rows, staged.reader(), parsed, engine)

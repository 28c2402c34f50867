from .batches import (
    array_size,
    arrays_of,
    combine,
    concat,
    filter_rows,
    no_columns,
    no_rows,
    null_count,
    split,
    write_batch,
)
from .cancelling_reader import CancellingReader
from .conversion import Alignment, SchemaAdapter, convert
from .duckdb_connection import (
    arrow_query,
    give_back_cursor,
    sandbox,
    take_cursor,
    thread_connection,
    thread_sandbox,
)
from .nested import rebuild_list, rebuild_map, rebuild_struct, relabel, stored_type
from .readers import RowsLike, RowSource, arrow_table, as_reader, reader_of

__all__ = [
    "Alignment",
    "CancellingReader",
    "RowSource",
    "RowsLike",
    "SchemaAdapter",
    "array_size",
    "arrays_of",
    "arrow_query",
    "arrow_table",
    "as_reader",
    "combine",
    "concat",
    "convert",
    "filter_rows",
    "give_back_cursor",
    "no_columns",
    "no_rows",
    "null_count",
    "reader_of",
    "rebuild_list",
    "rebuild_map",
    "rebuild_struct",
    "relabel",
    "sandbox",
    "split",
    "stored_type",
    "take_cursor",
    "thread_connection",
    "thread_sandbox",
    "write_batch",
]

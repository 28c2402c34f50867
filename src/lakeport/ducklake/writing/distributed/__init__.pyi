from lakeport.ducklake.writing.changes.target import file_target

from .frames import (
    add_rows,
    evolve_columns,
    evolved,
    frame_engine,
    is_frame,
    merge_reader,
    schema_of_rows,
)
from .row_changes import MAX_SHARED_BYTES, ChangeEngine, EngineRows, engine_rows

__all__ = [
    "MAX_SHARED_BYTES",
    "ChangeEngine",
    "EngineRows",
    "add_rows",
    "engine_rows",
    "evolve_columns",
    "evolved",
    "file_target",
    "frame_engine",
    "is_frame",
    "merge_reader",
    "schema_of_rows",
]

from .frames import add_rows, evolved, frame_engine, is_frame, merge_reader, schema_of_rows
from .row_changes import MAX_SHARED_BYTES, ChangeEngine, EngineRows, engine_rows

__all__ = [
    "MAX_SHARED_BYTES",
    "ChangeEngine",
    "EngineRows",
    "add_rows",
    "engine_rows",
    "evolved",
    "frame_engine",
    "is_frame",
    "merge_reader",
    "schema_of_rows",
]

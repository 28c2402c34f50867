from .frames import add_rows, evolved, frame_engine, is_frame, merge_reader, schema_of_rows

__all__ = [
    "add_rows",
    "evolved",
    "frame_engine",
    "is_frame",
    "merge_reader",
    "schema_of_rows",
]

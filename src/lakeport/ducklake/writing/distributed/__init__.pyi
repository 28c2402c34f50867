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
from .merges import MergeEngine, Stage, StagedFrame, stage_frame
from .row_changes import (
    MAX_SENT_BYTES,
    MAX_SHARED_BYTES,
    ChangeEngine,
    EngineRows,
    Matches,
    engine_rows,
)

__all__ = [
    "MAX_SENT_BYTES",
    "MAX_SHARED_BYTES",
    "ChangeEngine",
    "EngineRows",
    "Matches",
    "MergeEngine",
    "Stage",
    "StagedFrame",
    "add_rows",
    "engine_rows",
    "evolve_columns",
    "evolved",
    "file_target",
    "frame_engine",
    "is_frame",
    "merge_reader",
    "schema_of_rows",
    "stage_frame",
]

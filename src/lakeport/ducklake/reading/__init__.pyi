from .alignment import stored_value
from .data_files import INTERNAL_ROW_ID_FIELD, INTERNAL_SNAPSHOT_FIELD, VIRTUAL_COLUMNS
from .delete_files import Positions
from .file_shapes import INTERNAL_ROW_ID, INTERNAL_SNAPSHOT
from .tasks import FileTask, InlinedTask, ScanContext, ScanTask

__all__ = [
    "INTERNAL_ROW_ID",
    "INTERNAL_ROW_ID_FIELD",
    "INTERNAL_SNAPSHOT",
    "INTERNAL_SNAPSHOT_FIELD",
    "VIRTUAL_COLUMNS",
    "FileTask",
    "InlinedTask",
    "Positions",
    "ScanContext",
    "ScanTask",
    "stored_value",
]

from .appends import (
    AppendTask,
    FrameWrite,
    Progress,
    WriteProgress,
    WrittenRows,
    few_rows_of,
)
from .messages import TaskReport, pack_report, unpack_report
from .names import Attempt, AttemptNames, leftover_files, new_job

__all__ = [
    "AppendTask",
    "Attempt",
    "AttemptNames",
    "FrameWrite",
    "Progress",
    "TaskReport",
    "WriteProgress",
    "WrittenRows",
    "few_rows_of",
    "leftover_files",
    "new_job",
    "pack_report",
    "unpack_report",
]

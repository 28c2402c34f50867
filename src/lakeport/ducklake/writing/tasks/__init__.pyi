from .appends import (
    AppendTask,
    FrameWrite,
    Progress,
    WriteProgress,
    WrittenRows,
    few_rows_of,
)
from .changes import ChangeGroup, ChangeQuery, RowsOutput, group_reads
from .messages import TaskReport, pack_report, unpack_report
from .names import Attempt, AttemptNames, leftover_files, new_job

__all__ = [
    "AppendTask",
    "Attempt",
    "AttemptNames",
    "ChangeGroup",
    "ChangeQuery",
    "FrameWrite",
    "Progress",
    "RowsOutput",
    "TaskReport",
    "WriteProgress",
    "WrittenRows",
    "few_rows_of",
    "group_reads",
    "leftover_files",
    "new_job",
    "pack_report",
    "unpack_report",
]

from .appends import (
    AppendTask,
    FrameWrite,
    Progress,
    WriteProgress,
    WrittenRows,
    few_rows_of,
)
from .changes import ChangeGroup, ChangeQuery, RowsOutput, group_reads
from .leftovers import delete_leftovers
from .messages import TaskReport, pack_report, rows_of_reports, unpack_report
from .names import Attempt, AttemptNames, new_job

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
    "delete_leftovers",
    "few_rows_of",
    "group_reads",
    "new_job",
    "pack_report",
    "rows_of_reports",
    "unpack_report",
]

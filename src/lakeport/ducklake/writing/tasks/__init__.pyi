from .appends import (
    AppendTask,
    FrameWrite,
    Progress,
    WriteProgress,
    WrittenRows,
    few_rows_of,
)
from .changes import ChangeGroup, ChangeQuery, RowsOutput, group_reads, write_found
from .leftovers import delete_leftovers
from .merge_sources import Side, SourceFitter, SourceTask, StagedRows, staged_rows
from .merges import Divide, FindCandidates, JoinTask, MergeQueries, Routes, WriteTask
from .messages import (
    TaskReport,
    pack_report,
    pack_rows,
    rows_of_reports,
    unpack_report,
    unpack_rows,
)
from .names import Attempt, AttemptNames, new_job

__all__ = [
    "AppendTask",
    "Attempt",
    "AttemptNames",
    "ChangeGroup",
    "ChangeQuery",
    "Divide",
    "FindCandidates",
    "FrameWrite",
    "JoinTask",
    "MergeQueries",
    "Progress",
    "Routes",
    "RowsOutput",
    "Side",
    "SourceFitter",
    "SourceTask",
    "StagedRows",
    "TaskReport",
    "WriteProgress",
    "WriteTask",
    "WrittenRows",
    "delete_leftovers",
    "few_rows_of",
    "group_reads",
    "new_job",
    "pack_report",
    "pack_rows",
    "rows_of_reports",
    "staged_rows",
    "unpack_report",
    "unpack_rows",
    "write_found",
]

from .changes_made import Change, format_changes, parse_changes
from .ids import CommitIds
from .plan import CommitPlan, metadata_statements, plan_commit

__all__ = [
    "Change",
    "CommitIds",
    "CommitPlan",
    "format_changes",
    "metadata_statements",
    "parse_changes",
    "plan_commit",
]

from .changes import ChangePlan
from .inlined_rows import InlinedRows
from .plan import FilterLike, Planner, ScanPlan

__all__ = ["ChangePlan", "FilterLike", "InlinedRows", "Planner", "ScanPlan"]

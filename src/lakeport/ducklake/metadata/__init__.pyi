from .contents import FileTotals, LakeContents, TableSummary
from .lifetimes import why_missing
from .location import parse_location
from .soundness import Omission

__all__ = [
    "FileTotals",
    "LakeContents",
    "Omission",
    "TableSummary",
    "parse_location",
    "why_missing",
]

from .contents import FileTotals, LakeContents, TableSummary, view_aliases
from .lifetimes import why_missing
from .location import parse_location
from .soundness import Omission

__all__ = [
    "FileTotals",
    "LakeContents",
    "Omission",
    "TableSummary",
    "parse_location",
    "view_aliases",
    "why_missing",
]

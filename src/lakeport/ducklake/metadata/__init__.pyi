from .contents import FileTotals, LakeContents, TableSummary, view_aliases
from .lifetimes import Lifetime, why_missing
from .location import parse_location
from .soundness import Omission
from .totals import GROWTH_SCHEMA, null_counts, snapshot_growth

__all__ = [
    "GROWTH_SCHEMA",
    "FileTotals",
    "LakeContents",
    "Lifetime",
    "Omission",
    "TableSummary",
    "null_counts",
    "parse_location",
    "snapshot_growth",
    "view_aliases",
    "why_missing",
]

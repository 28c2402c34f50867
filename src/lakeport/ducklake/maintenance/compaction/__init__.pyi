from .candidates import Group, TableFiles, merge_groups, read_files, rewrite_groups
from .clustering import Curve, RowOrder, curve_keys, hilbert_keys, z_order_keys
from .runner import run_groups
from .tables import DEFAULT_THRESHOLD, MAX_BYTES_IN_FLIGHT, CompactionOptions, compact
from .task import CompactionTask, written_files

__all__ = [
    "DEFAULT_THRESHOLD",
    "MAX_BYTES_IN_FLIGHT",
    "CompactionOptions",
    "CompactionTask",
    "Curve",
    "Group",
    "RowOrder",
    "TableFiles",
    "compact",
    "curve_keys",
    "hilbert_keys",
    "merge_groups",
    "read_files",
    "rewrite_groups",
    "run_groups",
    "written_files",
    "z_order_keys",
]

from .inspection import LakeReport, SizeReport, TableReport, inspect_lake, inspect_table

__all__ = ["LakeReport", "SizeReport", "TableReport", "inspect_lake", "inspect_table"]

from .searching import FoundRows, find_row_ids, read_rows
from .statements import delete_row_ids, update_row_ids

__all__ = ["FoundRows", "delete_row_ids", "find_row_ids", "read_rows", "update_row_ids"]

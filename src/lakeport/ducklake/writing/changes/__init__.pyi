from .merging import Clause, Merge
from .restoring import roll_back
from .row_ids import delete_row_ids, read_rows, update_row_ids
from .row_methods import RowStatements, run_statement
from .table_rows import TableRows

__all__ = [
    "Clause",
    "Merge",
    "RowStatements",
    "TableRows",
    "delete_row_ids",
    "read_rows",
    "roll_back",
    "run_statement",
    "update_row_ids",
]

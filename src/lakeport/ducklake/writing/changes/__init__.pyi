from .expressions import open_workspace
from .merging import Clause, Merge, default_sql
from .restoring import roll_back
from .row_ids import delete_row_ids, read_rows, update_row_ids
from .row_methods import RowStatements, run_statement
from .table_rows import TableRows

__all__ = [
    "Clause",
    "Merge",
    "RowStatements",
    "TableRows",
    "default_sql",
    "delete_row_ids",
    "open_workspace",
    "read_rows",
    "roll_back",
    "run_statement",
    "update_row_ids",
]

from .expressions import open_workspace
from .merging import Clause, Merge, default_sql
from .restoring import roll_back
from .row_methods import RowStatements, run_statement
from .table_rows import TableRows
from .target import file_target

__all__ = [
    "Clause",
    "Merge",
    "RowStatements",
    "TableRows",
    "default_sql",
    "file_target",
    "open_workspace",
    "roll_back",
    "run_statement",
]

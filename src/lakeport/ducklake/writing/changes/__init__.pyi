from .merging import Clause, Merge
from .restoring import roll_back
from .row_methods import RowStatements, run_statement
from .table_rows import TableRows

__all__ = [
    "Clause",
    "Merge",
    "RowStatements",
    "TableRows",
    "roll_back",
    "run_statement",
]

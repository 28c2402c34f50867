from .connections import WriteDatabase
from .dialects import Dialect, dialect_of
from .statements import (
    CreateInlinedDeleteTable,
    CreateInlinedTable,
    Delete,
    DeleteDeadInlinedRows,
    DeleteInlinedDeletes,
    DeleteInlinedRows,
    DropTable,
    EndInlinedRows,
    EndRows,
    Insert,
    InsertInlinedDeletes,
    InsertInlinedRows,
    Statement,
    Update,
)
from .writer import CatalogWriter

__all__ = [
    "CatalogWriter",
    "CreateInlinedDeleteTable",
    "CreateInlinedTable",
    "Delete",
    "DeleteDeadInlinedRows",
    "DeleteInlinedDeletes",
    "DeleteInlinedRows",
    "Dialect",
    "DropTable",
    "EndInlinedRows",
    "EndRows",
    "Insert",
    "InsertInlinedDeletes",
    "InsertInlinedRows",
    "Statement",
    "Update",
    "WriteDatabase",
    "dialect_of",
]

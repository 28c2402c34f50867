from .change_set import ChangeSet, CommitInfo, DataChanges, ReadFile, TableChange, TableEntry
from .changes.merging import Merge
from .commit import RetryPolicy
from .creation import create_catalog
from .database import WriteDatabase
from .ddl import MacroImplementation, MacroParameter, TableDefinition, TypeLike, ViewDefinition
from .results import WriteResult
from .table_writer import TableWriter
from .transaction import Transaction
from .written import (
    InlinedDeletes,
    InlinedRowDeletes,
    InlinedRowInserts,
    MappedColumn,
    WrittenColumn,
    WrittenDeleteFile,
    WrittenFile,
    WrittenVariantPath,
)

__all__ = [
    "ChangeSet",
    "CommitInfo",
    "DataChanges",
    "InlinedDeletes",
    "InlinedRowDeletes",
    "InlinedRowInserts",
    "MacroImplementation",
    "MacroParameter",
    "MappedColumn",
    "Merge",
    "ReadFile",
    "RetryPolicy",
    "TableChange",
    "TableDefinition",
    "TableEntry",
    "TableWriter",
    "Transaction",
    "TypeLike",
    "ViewDefinition",
    "WriteDatabase",
    "WriteResult",
    "WrittenColumn",
    "WrittenDeleteFile",
    "WrittenFile",
    "WrittenVariantPath",
    "create_catalog",
]

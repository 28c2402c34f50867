from .change_set import (
    ChangeSet,
    CommitInfo,
    Compaction,
    DataChanges,
    ReadFile,
    TableChange,
    TableEntry,
)
from .changes.merging import Merge
from .commit import Committed, RetryPolicy
from .conflicts import StaleFilesError
from .creation import create_catalog
from .database import WriteDatabase
from .ddl import MacroImplementation, MacroParameter, TableDefinition, TypeLike, ViewDefinition
from .options import Options, option_text
from .results import WriteResult
from .table_writer import TableWriter
from .tasks.appends import Progress, WriteProgress
from .transaction import Transaction
from .written import (
    CompactedFile,
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
    "Committed",
    "CompactedFile",
    "Compaction",
    "DataChanges",
    "InlinedDeletes",
    "InlinedRowDeletes",
    "InlinedRowInserts",
    "MacroImplementation",
    "MacroParameter",
    "MappedColumn",
    "Merge",
    "Options",
    "Progress",
    "ReadFile",
    "RetryPolicy",
    "StaleFilesError",
    "TableChange",
    "TableDefinition",
    "TableEntry",
    "TableWriter",
    "Transaction",
    "TypeLike",
    "ViewDefinition",
    "WriteDatabase",
    "WriteProgress",
    "WriteResult",
    "WrittenColumn",
    "WrittenDeleteFile",
    "WrittenFile",
    "WrittenVariantPath",
    "create_catalog",
    "option_text",
]

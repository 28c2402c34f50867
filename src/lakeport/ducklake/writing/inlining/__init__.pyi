from .eligibility import accepts_rows, obstacle
from .statistics import inlined_statistics
from .tables import (
    create_delete_table,
    create_inlined_table,
    delete_table_name,
    inlined_table_name,
    system_columns,
)
from .values import EncodedRows, encode_rows

__all__ = [
    "EncodedRows",
    "accepts_rows",
    "create_delete_table",
    "create_inlined_table",
    "delete_table_name",
    "encode_rows",
    "inlined_statistics",
    "inlined_table_name",
    "obstacle",
    "system_columns",
]

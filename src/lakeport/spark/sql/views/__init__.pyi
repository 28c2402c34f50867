from .columns import ViewSchemas
from .translation import TableKey, referenced_tables, table_key

__all__ = ["TableKey", "ViewSchemas", "referenced_tables", "table_key"]

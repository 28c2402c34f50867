"""What an open transaction of a lake has changed: tables, and definitions of relations."""

from __future__ import annotations

from collections.abc import Iterator

from lakeport.ducklake.writing import TableEntry, Transaction
from lakeport.types import fold_name

__all__ = ["defined_relations", "has_changes", "is_changed"]


def has_changes(transaction: Transaction) -> bool:
    """Return whether a transaction leaves a schema, a table, a view or its rows changed."""
    return bool(transaction.schemas or transaction.views) or any(
        is_changed(entry) for entry in transaction.tables.values()
    )


def is_changed(entry: TableEntry) -> bool:
    """Return whether a transaction leaves a table or its rows changed."""
    return entry.before != entry.after or not entry.data.is_empty


def defined_relations(transaction: Transaction) -> Iterator[tuple[str, str | None]]:
    """Yield what a transaction creates or alters: folded schemas and names, None for a schema."""
    for schema in transaction.schemas.values():
        if schema.after is not None:
            yield fold_name(schema.after.name), None
    for entry in transaction.tables.values():
        if entry.after is not None and entry.before != entry.after:
            yield fold_name(entry.after.schema.name), fold_name(entry.after.name)
    for view in transaction.views.values():
        if view.after is not None:
            yield fold_name(view.after.schema.name), fold_name(view.after.name)

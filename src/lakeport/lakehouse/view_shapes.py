"""What columns the views of a lake have, and what they read.

DuckDB is asked, over the lake's tables without rows, so that a listing needs no Spark session. The
columns are published in the types that Spark gives them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeport.ducklake import Column, Contents, TableSummary, View
from lakeport.errors import LakeportError, UnsupportedError
from lakeport.lakehouse.permissions import Permissions

if TYPE_CHECKING:
    from lakeport.spark.view_columns import ViewColumns
    from lakeport.spark.views import Key

__all__ = ["reads_of", "sees_reads", "shown_reason", "view_schemas"]

_log = logging.getLogger("lakeport.lakehouse")


def view_schemas(contents: Contents) -> tuple[dict[int, pa.Schema], dict[int, str]]:
    """Return the columns of the views of a lake, by their ids, and why the others have none."""
    if not contents.views:
        return {}, {}
    try:
        from lakeport.spark.view_columns import ViewColumns
    except ImportError:
        _log.warning('views are not listed: pip install "lakeport[spark]"')
        return {}, {view.id: "the server has no Spark" for view in contents.views}
    found: dict[int, pa.Schema] = {}
    refused: dict[int, str] = {}
    with ViewColumns() as shapes:
        known: dict[Key, tuple[Column, ...]] = {}
        for view in contents.views:
            try:
                for key, read in reads_of(view, contents).items():
                    if key not in known:
                        known[key] = _columns(read, shapes)
                found[view.id] = _published(known[_key(view)])
            except LakeportError as error:
                _log.warning("view %s.%s is not listed: %s", view.schema, view.name, error)
                refused[view.id] = str(error)
    return found, refused


def _columns(read: TableSummary | View, shapes: ViewColumns) -> tuple[Column, ...]:
    if isinstance(read, View):
        return shapes.add_view(read)
    shapes.add_table(read.schema, read.name, read.columns)
    return read.columns


def _published(columns: Sequence[Column]) -> pa.Schema:
    from lakeport.spark.frame_columns import arrow_schema, frame_columns
    from lakeport.spark.values import spark_schema

    schema = arrow_schema(frame_columns(spark_schema(columns)))
    fields = [
        field.with_metadata({"comment": column.comment}) if column.comment else field
        for field, column in zip(schema, columns, strict=True)
    ]
    return pa.schema(fields, metadata=schema.metadata)


def reads_of(view: View, contents: Contents) -> dict[Key, TableSummary | View]:
    """What a view reads, directly or not, and the view: each after what it reads itself."""
    from lakeport.spark.views import references

    everything: list[TableSummary | View] = [*contents.tables, *contents.views]
    objects = {_key(found): found for found in everything}
    ordered: dict[Key, TableSummary | View] = {}
    waiting: list[Key] = []

    def add(found: TableSummary | View) -> None:
        key = _key(found)
        if key in ordered:
            return
        if key in waiting:
            raise UnsupportedError("views that read each other have no columns")
        waiting.append(key)
        if isinstance(found, View):
            for read in sorted(references(found, objects.keys())):
                add(objects[read])
        ordered[waiting.pop()] = found

    add(view)
    return ordered


def shown_reason(view: View, contents: Contents, permissions: Permissions, reason: str) -> str:
    """Return why a view is not listed, as far as the caller may see what the reason may name."""
    everything: list[TableSummary | View] = [*contents.tables, *contents.views]
    if sees_reads(view, contents, permissions) or all(map(permissions.sees, everything)):
        return reason
    return "its SQL cannot be run"


def sees_reads(view: View, contents: Contents, permissions: Permissions) -> bool:
    """Whether the caller may see everything that a view names, and so its SQL."""
    if permissions.are_all_given:
        return True
    try:
        reads = reads_of(view, contents).values()
    except (LakeportError, ImportError):  # what it reads is not known
        return False
    return all(permissions.sees(read) for read in reads)


def _key(found: TableSummary | View) -> Key:
    from lakeport.spark.views import key_of

    return key_of(found.schema, found.name)

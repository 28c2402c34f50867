"""DELETE and UPDATE of rows by their row ids."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from lakeport.ducklake.reading.delete_files import Positions
from lakeport.ducklake.writing.changes.expressions import Workspace, open_workspace
from lakeport.ducklake.writing.changes.row_ids.searching import find_row_ids
from lakeport.ducklake.writing.changes.sources import PLACE, POSITION, group_addresses
from lakeport.ducklake.writing.changes.statements import (
    check_exact,
    same_places,
    typed,
    write_updated,
)
from lakeport.ducklake.writing.changes.table_rows import TableRows
from lakeport.filters import Filter
from lakeport.types import duckdb_identifier, fold_name

__all__ = ["delete_row_ids", "update_row_ids"]

_CHANGED: Final = "_lakeport_changed"
_ORDER: Final = "_lakeport_order"


def delete_row_ids(rows: TableRows, row_ids: Positions) -> int:
    """Delete the rows of these ids, which may repeat; return how many there were."""
    found = find_row_ids(rows, row_ids)
    if found.count:
        rows.delete(group_addresses(found.addresses, found.places), found.places)
    return found.count


def update_row_ids(rows: TableRows, changes: pa.RecordBatchReader, id_column: str) -> int:
    """Set columns of the rows that one column of the changes names; return how many there were.

    The last change of a repeated id is used. The changes may be larger than the memory.
    """
    columns = rows.writer.columns
    check_exact(columns)
    given = {fold_name(name): name for name in changes.schema.names if name != id_column}
    with open_workspace() as workspace:
        found = find_row_ids(rows, _stored_changes(workspace, changes, id_column))
        if not found.count:
            return 0
        names = [column.name for column in columns]
        wide = same_places(rows, found.places, names, Filter.always())
        selected = []
        for column in columns:
            shown, name = duckdb_identifier(column.name), given.get(fold_name(column.name))
            value = f"target.{shown}" if name is None else f"changes.{duckdb_identifier(name)}"
            # DuckDB 1.5 has no cast between GEOMETRY and BLOB; both have the layout of the column.
            if name is not None and not any(node.type == "geometry" for node in column.walk()):
                value = typed(value, column)
            selected.append(f"{value} AS {shown}")
        touched = group_addresses(found.addresses, found.places)
        workspace.register("matches", found.addresses.rename_columns([PLACE, POSITION, _CHANGED]))
        write_updated(
            rows,
            workspace,
            rows.read(wide, touched),
            selected,
            touched,
            found.places,
            source=(
                f"{{found}} AS target JOIN matches USING ({PLACE}, {POSITION}) "
                f"JOIN changes USING ({_CHANGED})"
            ),
        )
    return found.count


def _stored_changes(
    workspace: Workspace, changes: pa.RecordBatchReader, id_column: str
) -> Positions:
    """Create the table `changes`, with the last change of each id; return the ids."""
    workspace.register("changes_stream", changes)
    shown = duckdb_identifier(id_column)
    workspace.execute(
        f"CREATE TABLE changes AS SELECT * EXCLUDE ({shown}), {shown} AS {_CHANGED}, "
        f"row_number() OVER () AS {_ORDER} FROM changes_stream"
    )
    ids = workspace.stream(f"SELECT {_CHANGED} FROM changes", pa.schema([(_CHANGED, pa.int64())]))
    found: Positions = ids.read_all().column(0).to_numpy()
    unique = np.unique(found)
    if len(unique) < len(found):
        workspace.execute(
            "CREATE OR REPLACE TABLE changes AS SELECT * FROM changes QUALIFY row_number() OVER "
            f"(PARTITION BY {_CHANGED} ORDER BY {_ORDER} DESC) = 1"
        )
    return unique

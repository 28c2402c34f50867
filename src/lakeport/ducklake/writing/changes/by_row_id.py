"""Delete, update and read rows by their row ids, as clients of a server name them.

A row id leads to a data file by the range of ids that the catalog records for the file. Rows that
were updated or compacted carry their ids, and are found by reading the column of ids only. Rows
that the transaction itself has added have no ids yet. A scan of them returns negative ids, which
are addresses: the number of the place and the position in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.ducklake.reading.delete_files import Positions
from lakeport.ducklake.writing.changes.expressions import Workspace, open_workspace
from lakeport.ducklake.writing.changes.sources import (
    ADDRESS,
    PLACE,
    POSITION,
    ROW_ID,
    Place,
    contains,
    group_addresses,
)
from lakeport.ducklake.writing.changes.statements import (
    check_exact,
    same_places,
    typed,
    write_updated,
)
from lakeport.ducklake.writing.changes.table_rows import TableRows
from lakeport.filters import Filter
from lakeport.types import arrow_schema, duckdb_identifier, fold_name

__all__ = ["FoundRows", "delete_row_ids", "find_row_ids", "read_rows", "update_row_ids"]

_CHANGED: Final = "_lakeport_changed"
_ORDER: Final = "_lakeport_order"
_OWN: Final = ("written", "added")
# A negative id has the position in its lower bits and the number of the place above them.
_POSITION_BITS: Final = 40


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Where the rows of some ids are; ids without a row are left out."""

    places: Sequence[Place]
    addresses: pa.Table
    """Place, position and row id of each row."""

    @property
    def count(self) -> int:
        """The number of rows."""
        return int(self.addresses.num_rows)


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
            value = (
                f"target.{shown}"
                if name is None
                else typed(f"changes.{duckdb_identifier(name)}", column)
            )
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


def find_row_ids(rows: TableRows, row_ids: Positions) -> FoundRows:
    """Return where the rows of these ids are: by ranges of ids first, then by reading ids."""
    wanted = np.unique(row_ids)
    places = rows.places([], Filter.always())
    stored = wanted[np.searchsorted(wanted, 0) :]
    found = [_own_addresses(places, wanted[: len(wanted) - len(stored)])]
    likely = [number for number, place in enumerate(places) if _may_have(place, stored)]
    rest = sorted(set(range(len(places))) - set(likely))
    missing = stored
    for numbers in (likely, rest):
        if len(missing) and numbers:
            table = _search(rows, places, numbers, missing)
            found.append(table)
            missing = missing[~contains(np.sort(table.column(ROW_ID).to_numpy()), missing)]
    return FoundRows(places, pa.concat_tables(found))


def read_rows(
    rows: TableRows,
    columns: Sequence[str],
    filter: Filter,
    *,
    id_column: str | None = None,
    row_ids: Positions | None = None,
) -> pa.RecordBatchReader:
    """Return rows as the transaction sees them, with their ids last if these have a column.

    The filter may leave rows in. With `row_ids`, only the rows of these ids are read.
    """
    touched = None
    places = rows.places(columns, filter)
    if row_ids is not None:
        found = find_row_ids(rows, row_ids)
        touched = group_addresses(found.addresses, found.places)
    own = arrow_schema(rows.writer.columns)
    fields = [own.field(name) for name in columns]
    if id_column is not None:
        fields.append(pa.field(id_column, pa.int64()))
    schema = pa.schema(fields)
    owners = _own_numbers(places)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in rows.read(places, touched):
            arrays = batch.columns[3:]
            if id_column is not None:
                arrays.append(_public_ids(batch, owners))
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches() if places else iter(()))


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


def _search(
    rows: TableRows, places: Sequence[Place], numbers: Sequence[int], wanted: Positions
) -> pa.Table:
    """Read the ids of places and return the addresses of the wanted ones."""
    chosen = [places[number] for number in numbers]
    owners = np.array(numbers, np.int64)
    parts: list[pa.Table] = []
    left = len(wanted)
    with rows.read(chosen) as reader:
        for batch in reader:
            ids = batch.column(2)
            keep = contains(wanted, pc.fill_null(ids, -1).to_numpy(zero_copy_only=False))
            if not keep.any():
                continue
            kept = batch.select([0, 1, 2]).filter(pa.array(keep))
            place = pa.array(owners[kept.column(0).to_numpy()])
            parts.append(
                pa.Table.from_arrays([place, kept.column(1), kept.column(2)], schema=_FOUND)
            )
            left -= kept.num_rows
            if not left:
                break
    return pa.concat_tables(parts) if parts else _FOUND.empty_table()


_FOUND: Final = pa.schema([*ADDRESS, pa.field(ROW_ID, pa.int64())])


def _may_have(place: Place, ids: Positions) -> bool:
    """Return whether the catalog records that the place has one of these ids."""
    file = place.file
    if file is None:
        return True
    if file.row_id_start is None or file.record_count is None or file.row_id_start < 0:
        return False
    first, last = file.row_id_start, file.row_id_start + file.record_count
    return bool(np.searchsorted(ids, first) < np.searchsorted(ids, last))


def _own_addresses(places: Sequence[Place], negative: Positions) -> pa.Table:
    """Return the addresses in negative ids, of rows that the transaction has added."""
    owned = np.array([n for n, place in enumerate(places) if place.key[0] in _OWN], np.int64)
    addresses = -1 - negative
    owners = addresses >> _POSITION_BITS
    known = owners < len(owned)
    positions = addresses[known] & ((1 << _POSITION_BITS) - 1)
    numbers = owned[owners[known]] if len(owned) else np.empty(0, np.int64)
    return pa.table([numbers, positions, negative[known]], schema=_FOUND)


def _own_numbers(places: Sequence[Place]) -> Positions:
    """Return, for each place, its number among those that the transaction has added."""
    is_own = np.array([place.key[0] in _OWN for place in places], np.int64)
    return np.asarray(np.cumsum(is_own) - 1)


def _public_ids(batch: pa.RecordBatch, owners: Positions) -> pa.Array:
    """Return the row ids of a batch, negative ones for rows without an id."""
    ids = batch.column(2)
    if not ids.null_count:
        return ids
    numbers = owners[batch.column(0).to_numpy()]
    addresses = -1 - ((numbers << _POSITION_BITS) | batch.column(1).to_numpy())
    return pc.coalesce(ids, pa.array(addresses))

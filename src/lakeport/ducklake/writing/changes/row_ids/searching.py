"""Find and read rows by their row ids, as clients of a server name them.

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
from lakeport.ducklake.writing.changes.sources import (
    ADDRESS,
    ROW_ID,
    Place,
    Touched,
    contains,
    group_addresses,
)
from lakeport.ducklake.writing.changes.table_rows import TableRows
from lakeport.filters import Filter
from lakeport.types import arrow_schema

__all__ = ["FoundRows", "find_row_ids", "read_rows"]

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


def find_row_ids(rows: TableRows, row_ids: Positions) -> FoundRows:
    """Return where the rows of these ids are: by ranges of ids first, then by reading ids."""
    wanted = np.unique(row_ids)
    places = rows.places([], Filter.always())
    stored = wanted[np.searchsorted(wanted, 0) :]
    found = [_own_addresses(places, wanted[: len(wanted) - len(stored)])]
    inlined = [number for number, place in enumerate(places) if place.file is None]
    expected = {number: _expected(place, stored) for number, place in enumerate(places)}
    likely = [number for number, positions in expected.items() if len(positions)]
    rest = sorted(set(range(len(places))) - {*inlined, *likely})
    missing = stored
    touched = {places[number].key: expected[number] for number in likely}
    # By their ranges, rows are at known positions of files that do not carry other ids.
    for numbers, only in ((likely, touched), (inlined, None), (likely, None), (rest, None)):
        if len(missing) and numbers:
            table = _search(rows, places, numbers, missing, only)
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


def _search(
    rows: TableRows,
    places: Sequence[Place],
    numbers: Sequence[int],
    wanted: Positions,
    touched: Touched | None,
) -> pa.Table:
    """Read the ids of places, or of touched rows, and return the addresses of the wanted ones."""
    chosen = [places[number] for number in numbers]
    owners = np.array(numbers, np.int64)
    parts: list[pa.Table] = []
    left = len(wanted)
    with rows.read(chosen, touched) as reader:
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


def _expected(place: Place, ids: Positions) -> Positions:
    """Return the positions of those ids that the catalog records for the file of a place."""
    file = place.file
    if (
        file is None
        or file.row_id_start is None
        or file.record_count is None
        or file.row_id_start < 0
    ):
        return ids[:0]
    first, last = file.row_id_start, file.row_id_start + file.record_count
    return ids[slice(*np.searchsorted(ids, [first, last]))] - first


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

"""From rows of the catalog to a table's data files, with their deletes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from lakeport.ducklake.model import DataFile, DeleteFile, TableState
from lakeport.ducklake.paths import resolve
from lakeport.ducklake.queries import Row
from lakeport.errors import CorruptLakeError

__all__ = ["data_files", "inlined_deletes"]


def data_files(state: TableState, rows: Mapping[str, list[Row]]) -> list[DataFile]:
    """The data files among the rows of one lookup, by id."""
    deletes: dict[int, list[DeleteFile]] = defaultdict(list)
    kept = {row["data_file_id"] for row in rows["data_file"]}
    for row in sorted(rows["delete_file"], key=lambda r: r["delete_file_id"]):
        if row["data_file_id"] in kept:
            deletes[row["data_file_id"]].append(_delete_file(state, row))
    ordered = sorted(rows["data_file"], key=lambda r: r["data_file_id"])
    return [_data_file(state, row, tuple(deletes.get(row["data_file_id"], ()))) for row in ordered]


def inlined_deletes(rows: Mapping[str, list[Row]]) -> dict[int, bytes]:
    """Positions deleted by the catalog database, by data file; ascending 64-bit integers."""
    positions: dict[int, list[int]] = defaultdict(list)
    for row in rows.get("inlined_delete", ()):
        positions[row["file_id"]].append(row["row_id"])
    return {
        file: np.unique(np.array(found, np.int64)).tobytes() for file, found in positions.items()
    }


def _data_file(state: TableState, row: Row, deletes: tuple[DeleteFile, ...]) -> DataFile:
    if (row["file_format"] or "parquet") != "parquet":
        raise CorruptLakeError(f"the file {row['path']!r} has the format {row['file_format']!r}")
    spec = state.partition_specs.get(-1 if row["partition_id"] is None else row["partition_id"])
    partial_max, partial_rows = _partial(row)
    return DataFile(
        id=row["data_file_id"],
        path=resolve(state.path, row["path"], relative=bool(row["path_is_relative"])),
        record_count=row["record_count"],
        file_size_bytes=row["file_size_bytes"],
        footer_size=row["footer_size"],
        begin_snapshot=row["begin_snapshot"],
        end_snapshot=row["end_snapshot"],
        row_id_start=row["row_id_start"],
        partition_id=row["partition_id"],
        partition_values=tuple(row[f"p{i}"] for i in range(len(spec.fields))) if spec else (),
        mapping_id=row["mapping_id"],
        encryption_key=row["encryption_key"] or None,
        partial_max=partial_max,
        partial_rows=partial_rows,
        deletes=deletes,
    )


def _delete_file(state: TableState, row: Row) -> DeleteFile:
    return DeleteFile(
        id=row["delete_file_id"],
        path=resolve(state.path, row["path"], relative=bool(row["path_is_relative"])),
        format=row["format"] or "parquet",
        delete_count=row["delete_count"],
        file_size_bytes=row["file_size_bytes"],
        footer_size=row["footer_size"],
        begin_snapshot=row["begin_snapshot"],
        end_snapshot=row["end_snapshot"],
        encryption_key=row["encryption_key"] or None,
        partial_max=row["partial_max"],
    )


def _partial(row: Row) -> tuple[int | None, tuple[tuple[int, int], ...]]:
    """When a file mixes snapshots: the newest of them, or, in format 0.3, which rows are whose."""
    info = row["partial_file_info"]
    if row["partial_max"] is not None or not info:
        return row["partial_max"], ()
    if info.startswith("partial_max:"):
        return int(info.removeprefix("partial_max:")), ()
    pairs = [pair.split(":") for pair in info.split("|")]
    return None, tuple((int(snapshot), int(rows)) for snapshot, rows in pairs)

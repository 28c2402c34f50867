"""What the real implementation records about the files that it writes itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakeport.ducklake import LakeTable
from lakeport.ducklake.writing import WrittenColumn, WrittenFile
from tests.fixtures_lakes import RealLake


@dataclass(frozen=True, kw_only=True)
class RecordedColumn:
    """The catalog's statistics of a leaf in a file, without the size, which encoders decide."""

    column_id: int
    value_count: int | None
    null_count: int | None
    min_value: str | None
    max_value: str | None
    contains_nan: bool | None
    extra_stats: str | None

    @classmethod
    def of(cls, column: WrittenColumn) -> RecordedColumn:
        names = cls.__dataclass_fields__
        return cls(**{name: getattr(column, name) for name in names})


@dataclass(frozen=True, kw_only=True)
class RecordedDataFile:
    path: str
    rows: int
    size: int
    footer_size: int
    partition_values: tuple[str | None, ...]
    columns: tuple[RecordedColumn, ...]


def of(file: WrittenFile) -> tuple[RecordedColumn, ...]:
    return tuple(RecordedColumn.of(column) for column in file.columns)


def data_files(lake: RealLake, table: str) -> list[RecordedDataFile]:
    """Return the files of a table with their statistics, in the order of their ids."""
    found = lake.query(
        "SELECT data_file_id, f.path, record_count, file_size_bytes, footer_size"
        " FROM meta.ducklake_data_file f JOIN meta.ducklake_table USING (table_id)"
        f" WHERE table_name = '{table}' ORDER BY 1"
    )
    return [
        RecordedDataFile(
            path=path,
            rows=rows,
            size=size,
            footer_size=footer,
            partition_values=_partition_values(lake, id),
            columns=_columns(lake, id),
        )
        for id, path, rows, size, footer in found
    ]


def _partition_values(lake: RealLake, id: int) -> tuple[str | None, ...]:
    rows = lake.query(
        "SELECT partition_value FROM meta.ducklake_file_partition_value"
        f" WHERE data_file_id = {id} ORDER BY partition_key_index"
    )
    return tuple(row[0] for row in rows)


def _columns(lake: RealLake, id: int) -> tuple[RecordedColumn, ...]:
    rows = lake.query(
        "SELECT column_id, value_count, null_count, min_value, max_value, contains_nan,"
        f" extra_stats FROM meta.ducklake_file_column_stats WHERE data_file_id = {id} ORDER BY 1"
    )
    names = list(RecordedColumn.__dataclass_fields__)
    return tuple(RecordedColumn(**dict(zip(names, row, strict=True))) for row in rows)


def arrow_rows(lake: RealLake, sql: str) -> pa.Table:
    """Return rows of the real implementation in Arrow, without a loss."""
    lake.attach()
    return lake.connection.sql(sql).to_arrow_table()


def table_of(lake: RealLake, name: str) -> LakeTable:
    """Return our view of a table; the real implementation releases the database."""
    with lake.open() as ours:
        return ours.table(name)


def text_rows(lake: RealLake, source: str) -> list[tuple[Any, ...]]:
    """Return the rows of a source as texts, sorted."""
    lake.attach()
    names = [row[0] for row in lake.connection.execute(f"DESCRIBE FROM {source}").fetchall()]
    texts = ", ".join(f'CAST("{name}" AS VARCHAR)' for name in names)
    return sorted(lake.connection.execute(f"SELECT {texts} FROM {source}").fetchall(), key=repr)

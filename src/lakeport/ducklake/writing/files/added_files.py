"""Add existing Parquet files to a table: by their footers, without reading a row.

Columns are found by name, in any case. Their values come from the file, or from folders such as
`region=eu` in its path. The lake owns an added file: maintenance may delete it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakeport.ducklake.model import PartitionSpec
from lakeport.ducklake.storage.paths import hive_values
from lakeport.ducklake.writing.files.footers import FooterField, footer_fields, leaf_statistics
from lakeport.ducklake.writing.files.names import partition_key_names
from lakeport.ducklake.writing.files.target import FileTarget
from lakeport.ducklake.writing.written import MappedColumn, WrittenColumn, WrittenFile
from lakeport.errors import (
    ConstraintError,
    CorruptLakeError,
    InvalidInputError,
    first_line,
)
from lakeport.types import Column, fold_name, parse_value

__all__ = ["read_added_files"]

_TAIL: Final = 8
_INTEGERS: Final[Mapping[str, tuple[str, ...]]] = {
    "int8": ("int8",),
    "int16": ("int16", "int8", "uint8"),
    "int32": ("int32", "int16", "int8", "uint16", "uint8"),
    "int64": ("int64", "int32", "int16", "int8", "uint32", "uint16", "uint8"),
    "uint8": ("uint8",),
    "uint16": ("uint16", "uint8"),
    "uint32": ("uint32", "uint16", "uint8"),
    "uint64": ("uint64", "uint32", "uint16", "uint8"),
}
_TIMESTAMPS: Final = ("timestamp", "timestamp_ms")
_ACCEPTED: Final[Mapping[str, tuple[str, ...]]] = {
    **_INTEGERS,
    "float64": ("float64", "float32"),
    "timestamp": (*_TIMESTAMPS, "timestamp_ns"),
    "timestamp_ns": (*_TIMESTAMPS, "timestamp_ns"),
    "timestamp_ms": _TIMESTAMPS,
    "timestamp_s": _TIMESTAMPS,
    "timestamptz": ("timestamptz", "timestamptz_ms"),
    "time": ("time", "time_ms", "time_ns"),
    "varchar": ("varchar", "json"),
    # DuckLake stores integers of 128 bits as floats.
    "int128": ("float64",),
    "uint128": ("float64",),
}


def read_added_files(
    target: FileTarget,
    paths: Sequence[str],
    *,
    hive: bool = True,
    allow_missing: bool = False,
    ignore_extra_columns: bool = False,
) -> list[WrittenFile]:
    """Return existing files as files of a table; files without rows are left out.

    Args:
        target: The table.
        paths: Resolved paths of Parquet files.
        hive: Take values from the folders of the paths.
        allow_missing: Accept files that lack a column; its rows have the column's first default.
        ignore_extra_columns: Accept files with columns that the table does not have.
    """
    twice = next((path for path in paths if list(paths).count(path) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"the file {twice!r} is listed twice")
    rules = _Rules(allow_missing=allow_missing, ignore_extra_columns=ignore_extra_columns)
    files = [_AddedFile(target, path, rules, hive=hive).written() for path in paths]
    return [file for file in files if file is not None]


@dataclass(frozen=True, slots=True)
class _Rules:
    allow_missing: bool
    ignore_extra_columns: bool


class _AddedFile:
    """One file: its footer, the values of its folders, and how its fields become columns."""

    def __init__(self, target: FileTarget, path: str, rules: _Rules, *, hive: bool) -> None:
        self._target, self._path, self._rules = target, path, rules
        self._size, self._footer_size, self._footer = _read_footer(target, path)
        self._folders = hive_values(path) if hive else {}
        self._columns: list[WrittenColumn] = []

    def written(self) -> WrittenFile | None:
        fields = footer_fields(self._footer)
        mapping = self._mapping(fields)
        values = self._partition_values()
        if not self._footer.num_rows:
            return None
        self._check_nulls()
        directory = self._target.directory
        is_inside = self._path.startswith(directory)
        spec = self._target.partition_spec
        return WrittenFile(
            path=self._path.removeprefix(directory) if is_inside else self._path,
            path_is_relative=is_inside,
            record_count=self._footer.num_rows,
            file_size_bytes=self._size,
            footer_size=self._footer_size,
            columns=tuple(sorted(self._columns, key=lambda column: column.column_id)),
            partition_id=spec.id if spec is not None and spec.fields else None,
            partition_values=values,
            name_mapping=mapping,
        )

    def _mapping(self, fields: Sequence[FooterField]) -> tuple[MappedColumn, ...]:
        """Return where the table's columns are: in the order of the file, then of the folders."""
        by_name = {fold_name(column.name): column for column in self._target.columns}
        mapped: list[MappedColumn] = []
        found: set[int] = set()
        for field in fields:
            column = by_name.get(fold_name(field.name))
            if column is None:
                self._extra(field.name)
                continue
            if column.id in found:
                raise InvalidInputError(f"the file {self._path!r} has two columns {column.name!r}")
            found.add(column.id)
            if column.name.lower() in self._folders:
                mapped.append(self._from_folder(field.name, column))
            else:
                mapped.append(self._mapped(field, column, column.name))
        for column in self._target.columns:
            if column.id in found:
                continue
            if column.name.lower() in self._folders:
                mapped.append(self._from_folder(column.name, column))
            else:
                self._missing(column.name)
        return tuple(mapped)

    def _from_folder(self, name: str, column: Column) -> MappedColumn:
        """Take a column from the path, also if the file contains it."""
        text = self._folders[column.name.lower()]
        if text == "" and column.type != "varchar":
            text = None
        try:
            parse_value(text, column)
        except CorruptLakeError as error:
            raise InvalidInputError(
                f"the path {self._path!r} has {text!r} for column {column.name!r}: "
                f"{first_line(error)}"
            ) from None
        rows = self._footer.num_rows
        self._columns.append(
            WrittenColumn(
                column_id=column.id,
                size_bytes=0,
                value_count=0 if text is None else rows,
                null_count=rows if text is None else 0,
                min_value=text,
                max_value=text,
            )
        )
        return MappedColumn(source_name=name, target_field_id=column.id, is_partition=True)

    def _mapped(self, field: FooterField, column: Column, path: str) -> MappedColumn:
        children: list[MappedColumn] = []
        if column.type == "struct" and field.type == "struct":
            children = self._fields(field, column, path)
        elif column.type == field.type == "list":
            inner = self._mapped(field.children[0], column.children[0], f"{path}.element")
            # DuckLake's name of the element is that of the group around it.
            children = [_named(inner, "list")]
        elif column.type == field.type == "map":
            names = ("key", "value")
            children = [
                _named(self._mapped(part, child, f"{path}.{name}"), name)
                for part, child, name in zip(field.children, column.children, names, strict=True)
            ]
        elif not _accepts(column, field):
            raise InvalidInputError(
                f"the file {self._path!r} has {field.type} for column {path!r}, which is "
                f"{column.type}"
            )
        elif field.leaf is not None:
            self._columns.append(leaf_statistics(self._footer, field, column))
        return MappedColumn(
            source_name=field.name, target_field_id=column.id, children=tuple(children)
        )

    def _fields(self, field: FooterField, column: Column, path: str) -> list[MappedColumn]:
        by_name = {fold_name(child.name): child for child in column.children}
        found = []
        for part in field.children:
            child = by_name.pop(fold_name(part.name), None)
            if child is None:
                self._extra(f"{path}.{part.name}")
                continue
            found.append(self._mapped(part, child, f"{path}.{child.name}"))
        for child in by_name.values():
            self._missing(f"{path}.{child.name}")
        return found

    def _extra(self, name: str) -> None:
        if not self._rules.ignore_extra_columns:
            raise InvalidInputError(
                f"the file {self._path!r} has a column {name!r}, which the table does not have; "
                "ignore_extra_columns=True adds the file without it"
            )

    def _missing(self, name: str) -> None:
        if not self._rules.allow_missing:
            raise InvalidInputError(
                f"the file {self._path!r} has no column {name!r}; allow_missing=True adds it "
                "nevertheless"
            )

    def _check_nulls(self) -> None:
        """Raise ConstraintError for a NULL that the footer reports. DuckLake 1.5.5 accepts it."""
        found = {column.column_id: column for column in self._columns}
        for column in self._target.columns:
            stats = found.get(column.id)
            has_null = stats is not None and bool(stats.null_count)
            is_absent = stats is None and not column.children and column.initial_default is None
            if not column.nullable and (has_null or (is_absent and column.type != "variant")):
                raise ConstraintError(
                    f"the file {self._path!r} has a NULL in column {column.name!r}, which does not "
                    "allow it"
                )

    def _partition_values(self) -> tuple[str | None, ...]:
        spec: PartitionSpec | None = self._target.partition_spec
        if spec is None:
            return ()
        names = partition_key_names(spec.fields, self._target.columns)
        missing = [name for name in names if name.lower() not in self._folders]
        if missing:
            raise InvalidInputError(
                f"the table is partitioned, and the path {self._path!r} has no folder {missing[0]}="
            )
        return tuple(self._folders[name.lower()] for name in names)


def _named(mapped: MappedColumn, name: str) -> MappedColumn:
    return MappedColumn(
        source_name=name, target_field_id=mapped.target_field_id, children=mapped.children
    )


def _accepts(column: Column, field: FooterField) -> bool:
    """Return whether the values of a file's field are values of the column."""
    if column.type == "variant":
        return field.type in ("struct", "variant")
    if column.type.startswith("decimal(") and field.type.startswith("decimal("):
        width, scale = map(int, column.type[8:-1].split(","))
        own_width, own_scale = map(int, field.type[8:-1].split(","))
        return own_width <= width and own_scale <= scale and own_width - own_scale <= width - scale
    return field.type in _ACCEPTED.get(column.type, (column.type,))


def _read_footer(target: FileTarget, path: str) -> tuple[int, int, pq.FileMetaData]:
    with target.storage.open(path) as file:
        size = file.size()
        if size < _TAIL + 4:
            raise InvalidInputError(f"the file {path!r} is too small to be a Parquet file")
        file.seek(size - _TAIL)
        (length,) = struct.unpack("<I", file.read(4))
        try:
            return size, length, pq.read_metadata(file)
        except (pa.ArrowException, OSError) as error:
            raise InvalidInputError(
                f"the file {path!r} is not a Parquet file: {first_line(error)}"
            ) from None

"""One open data file that DuckDB's Parquet writer encodes, for what pyarrow cannot write.

These are intervals, variants and times with a zone, and encrypted files: DuckDB 1.5 cannot filter
the rows of files that other writers encrypted. DuckDB reads the row groups from a queue, in a
thread of its own, and writes a local file, which is copied to an object store at the end.
"""

from __future__ import annotations

import base64
import contextlib
import json
import queue
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from lakeport.ducklake.reading.data_files import INTERNAL_ROW_ID
from lakeport.ducklake.storage.encryption import can_encrypt, load_encryption
from lakeport.ducklake.storage.paths import is_local, local_path
from lakeport.ducklake.writing.files.encoding.arrow_encoder import new_key, open_output
from lakeport.ducklake.writing.files.encoding.bounds import before_null_byte, box_json
from lakeport.ducklake.writing.files.encoding.layout import INTERNAL_FIELDS, FileLayout, Leaf
from lakeport.ducklake.writing.files.encoding.statistics import FileStatistics
from lakeport.ducklake.writing.files.target import FileTarget
from lakeport.ducklake.writing.written import WrittenColumn, WrittenFile, WrittenVariantPath
from lakeport.errors import InvalidInputError, UnsupportedError, first_line
from lakeport.types import (
    TYPES,
    Column,
    duckdb_identifier,
    duckdb_string,
    field_id,
    variant_from_bytes,
)

__all__ = ["DuckDBEncoder"]

_COMPRESSIONS: Final = {"none": "uncompressed", "lz4": "lz4_raw"}
_SHREDDED: Final = {row.duckdb: row.name for row in TYPES if not row.id_alias}
_Stats = Mapping[str, Mapping[str, str]]


class DuckDBEncoder:
    """A data file that DuckDB writes."""

    def __init__(
        self,
        target: FileTarget,
        layout: FileLayout,
        path: str,
        partition_values: tuple[str | None, ...] = (),
        with_nan: frozenset[int] = frozenset(),
    ) -> None:
        """Open a file; `with_nan` are the leaves of which its row groups may hold NaN."""
        _check(target)
        self.rows = 0
        self._target, self._layout, self._path = target, layout, path
        self._partition_values = partition_values
        self._statistics = FileStatistics(layout, with_nan)
        self._folder = tempfile.mkdtemp(prefix="lakeport-write-")
        self._file = Path(self._folder) / "file.parquet"
        self._queue: queue.Queue[pa.Table | None] = queue.Queue(maxsize=1)
        self._failures: list[BaseException] = []
        self._result: tuple[Any, ...] = ()
        self._key = new_key() if target.encrypted else None
        self._thread = threading.Thread(target=self._run, name="lakeport-duckdb", daemon=True)
        self._thread.start()

    def write(self, table: pa.Table) -> None:
        """Encode one row group."""
        stored = self._layout(table)
        self._statistics.observe(stored)
        self._put(stored)
        self.rows += table.num_rows

    @property
    def bytes_written(self) -> int:
        """The size of the file so far."""
        return self._file.stat().st_size if self._file.exists() else 0

    def close(self) -> WrittenFile:
        """Write the footer; return the file."""
        self._put(None)
        self._thread.join()
        self._raise()
        _, _, size, footer_size, stats, *_ = self._result
        columns = _Columns(self._layout, self._statistics, stats)
        self._publish()
        return WrittenFile(
            path=self._path,
            record_count=self.rows,
            file_size_bytes=size,
            footer_size=footer_size,
            columns=columns.written(),
            partition_id=self._target.partition_spec.id if self._target.partition_spec else None,
            partition_values=self._partition_values,
            encryption_key=None if self._key is None else base64.b64encode(self._key).decode(),
            carries_row_ids=INTERNAL_ROW_ID in self._layout.internal,
        )

    def abort(self) -> None:
        """Stop DuckDB and remove the temporary file."""
        self._failures.append(UnsupportedError("the write was aborted"))
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(None)
        self._thread.join()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _put(self, table: pa.Table | None) -> None:
        while True:
            self._raise()
            with contextlib.suppress(queue.Full):
                self._queue.put(table, timeout=0.2)
                return

    def _raise(self) -> None:
        if self._failures:
            self._thread.join()
            shutil.rmtree(self._folder, ignore_errors=True)
            raise self._failures[0]

    def _run(self) -> None:
        import duckdb

        try:
            with duckdb.connect(config={"threads": 1}) as connection:
                connection.execute("SET TimeZone = 'UTC'")
                if self._key is not None:
                    load_encryption(connection)
                reader = pa.RecordBatchReader.from_batches(self._layout.schema, self._batches())
                connection.register("rows", reader)
                self._result = connection.execute(self._copy_sql()).fetchall()[0]
        except duckdb.Error as error:
            self._failures.append(
                InvalidInputError(f"the rows cannot be written: {first_line(error)}")
            )
        except BaseException as error:  # noqa: BLE001 (raised again by the thread that writes)
            self._failures.append(error)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        while (table := self._queue.get()) is not None and not self._failures:
            yield from table.to_batches()

    def _copy_sql(self) -> str:
        options = self._target.options
        columns = [_selected(column) for column in self._layout.columns]
        columns += [duckdb_identifier(name) for name in self._layout.internal]
        ids = [f"{duckdb_identifier(c.name)}: {_ids(c)}" for c in self._layout.columns]
        ids += [f"{name}: {field_id(INTERNAL_FIELDS[name])}" for name in self._layout.internal]
        settings = [
            "FORMAT parquet",
            "RETURN_STATS",
            # Geometries as Parquet's own type, without the metadata of GeoParquet.
            "GEOPARQUET_VERSION 'NONE'",
            f"FIELD_IDS {{{', '.join(ids)}}}",
            f"COMPRESSION {_COMPRESSIONS.get(options.compression, options.compression)}",
            f"ROW_GROUP_SIZE {options.row_group_rows}",
            f"PARQUET_VERSION V{options.page_version[0]}",
        ]
        if self._key is not None:
            key = "".join(f"\\x{byte:02X}" for byte in self._key)
            settings.append(f"ENCRYPTION_CONFIG {{footer_key_value: '{key}'::BLOB}}")
        if options.compression_level is not None and options.compression == "zstd":
            settings.append(f"COMPRESSION_LEVEL {options.compression_level}")
        return (
            f"COPY (SELECT {', '.join(columns)} FROM rows) TO "
            f"{duckdb_string(str(self._file))} ({', '.join(settings)})"
        )

    def _publish(self) -> None:
        path = self._target.directory + self._path
        if is_local(path):
            self._target.storage.check((path,))
            final = Path(local_path(path))
            final.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(self._file, final)
        else:
            with open_output(self._target.storage, path) as sink, self._file.open("rb") as source:
                shutil.copyfileobj(source, sink, 1 << 20)
        shutil.rmtree(self._folder, ignore_errors=True)


def _check(target: FileTarget) -> None:
    for column in target.columns:
        if any(node.type == "variant" for child in column.children for node in child.walk()):
            raise UnsupportedError(
                f"column {column.name!r}: a variant inside a {column.type} cannot be written to a "
                "file, also not by DuckDB: make it a column of its own"
            )
    if target.encrypted and not can_encrypt():
        raise UnsupportedError(
            "intervals, variants and times with a zone are encrypted by DuckDB's extension httpfs, "
            "which is not installed: run INSTALL httpfs, or install duckdb-extension-httpfs"
        )


def _selected(column: Column) -> str:
    name = duckdb_identifier(column.name)
    if column.type != "variant":
        return name
    variant = variant_from_bytes(name) if column.as_bytes else f"CAST({name} AS VARIANT)"
    return f"{variant} AS {name}"


def _ids(column: Column) -> str:
    if not column.children:
        return str(column.id)
    names = {"list": ["element"], "map": ["key", "value"]}.get(
        column.type, [child.name for child in column.children]
    )
    inside = [
        f"{duckdb_identifier(name)}: {_ids(child)}"
        for name, child in zip(names, column.children, strict=True)
    ]
    return f"{{__duckdb_field_id: {column.id}, {', '.join(inside)}}}"


class _Columns:
    """The statistics of a file that DuckDB wrote, from what COPY returned."""

    def __init__(
        self,
        layout: FileLayout,
        observed: FileStatistics,
        stats: _Stats,
    ) -> None:
        self._layout, self._observed, self._stats = layout, observed, stats

    def written(self) -> tuple[WrittenColumn, ...]:
        return tuple(
            self._variant(leaf) if leaf.column.type == "variant" else self._leaf(index, leaf)
            for index, leaf in enumerate(self._layout.leaves)
        )

    def _leaf(self, index: int, leaf: Leaf) -> WrittenColumn:
        names = _path_names(self._layout, leaf)
        stats = self._stats[".".join(duckdb_identifier(name) for name in names)]
        values, nulls = int(stats["num_values"]), int(stats["null_count"])
        low, high = stats.get("min"), stats.get("max")
        # DuckDB 1.5.5 counts a NULL struct in a list twice: then the counts are unknown.
        is_known = nulls <= values and not (nulls == values and low is not None)
        is_geometry = leaf.column.type == "geometry"
        return WrittenColumn(
            column_id=leaf.column.id,
            size_bytes=int(stats["column_size_bytes"]),
            value_count=values - nulls if is_known else None,
            null_count=nulls if is_known else None,
            min_value=None if low is None else before_null_byte(low),
            max_value=None if high is None else before_null_byte(high, ending="\x01"),
            contains_nan=self._observed.contains_nan(index),
            extra_stats=_box(stats) if is_geometry else None,
        )

    def _variant(self, leaf: Leaf) -> WrittenColumn:
        root = duckdb_identifier(leaf.column.name)
        inside = {key: value for key, value in self._stats.items() if key.startswith(f"{root}.")}
        metadata = inside[f'{root}."metadata"']
        paths = tuple(_variant_paths(root, metadata.get("variant_type", ""), inside))
        values = int(metadata["num_values"])
        return WrittenColumn(
            column_id=leaf.column.id,
            size_bytes=sum(int(stats["column_size_bytes"]) for stats in inside.values()),
            value_count=values,
            null_count=0,
            extra_stats=_variant_json(paths) if paths else None,
            variant_paths=paths,
        )


def _box(stats: Mapping[str, str]) -> str | None:
    """Return the box and the types of geometries; None if there is no geometry."""
    if "geo_types" not in stats:
        return None
    boxes = {
        axis: (float(stats[f"bbox_{axis}min"]), float(stats[f"bbox_{axis}max"]))
        for axis in "xyzm"
        if f"bbox_{axis}min" in stats
    }
    types = stats["geo_types"].strip("[]").split(", ")
    return box_json(boxes, [name for name in types if name])


def _path_names(layout: FileLayout, leaf: Leaf) -> list[str]:
    column = layout.columns[leaf.path[0]]
    names = [column.name]
    for position in leaf.path[1:]:
        kind, column = column.type, column.children[position]
        names.append(
            {"list": "element", "map": ("key", "value")[position % 2]}.get(kind, column.name)
        )
    return names


def _variant_paths(root: str, type_text: str, stats: _Stats) -> Iterator[WrittenVariantPath]:
    """Yield the paths whose values are all of one type and stored in columns of their own."""
    import duckdb

    if not type_text:
        return
    fields = dict(duckdb.sqltype(type_text).children)
    if "typed_value" in fields:
        yield from _typed_paths(root, (), fields["typed_value"], stats)


def _typed_paths(
    prefix: str, path: tuple[str, ...], type: Any, stats: _Stats
) -> Iterator[WrittenVariantPath]:
    """Descend into the typed part of a variant; `prefix` is the group that holds `value`."""
    typed = f'{prefix}."typed_value"'
    if type.id == "struct":
        for name, child in type.children:
            inner = f"{typed}.{duckdb_identifier(name)}"
            yield from _inside(inner, (*path, duckdb_identifier(name)), child, stats)
    elif type.id == "list":
        yield from _inside(f'{typed}."element"', (*path, "element"), type.children[0][1], stats)
    else:
        rest, own = stats.get(f'{prefix}."value"'), stats.get(typed)
        is_whole = rest is None or rest["null_count"] == rest["num_values"] or not path
        if own is None or not is_whole or _has_other_values(rest):
            return
        values, nulls = int(own["num_values"]), int(own["null_count"])
        yield WrittenVariantPath(
            path=".".join(path) or "root",
            shredded_type=_SHREDDED.get(str(type), str(type).lower()),
            size_bytes=int(own["column_size_bytes"]),
            value_count=values - nulls,
            null_count=nulls,
            min_value=own.get("min"),
            max_value=own.get("max"),
            contains_nan=None if "has_nan" not in own else own["has_nan"] == "true",
        )


def _inside(
    prefix: str, path: tuple[str, ...], group: Any, stats: _Stats
) -> Iterator[WrittenVariantPath]:
    fields = dict(group.children)
    if "typed_value" in fields:
        yield from _typed_paths(prefix, path, fields["typed_value"], stats)


def _has_other_values(rest: Mapping[str, str] | None) -> bool:
    """Return whether the untyped part holds anything but nulls, which are one zero byte."""
    return rest is not None and not (rest.get("min", "00") == rest.get("max", "00") == "00")


def _variant_json(paths: tuple[WrittenVariantPath, ...]) -> str:
    entries = []
    for path in paths:
        entry: dict[str, Any] = {
            "field_name": path.path,
            "shredded_type": path.shredded_type,
            "null_count": path.null_count,
        }
        if path.min_value is not None:
            entry["min"] = path.min_value
        if path.max_value is not None:
            entry["max"] = path.max_value
        entry["num_values"] = (path.value_count or 0) + (path.null_count or 0)
        if path.contains_nan is not None:
            entry["contains_nan"] = path.contains_nan
        entry["column_size_bytes"] = path.size_bytes
        entry["any_valid"] = bool(path.value_count)
        entries.append(entry)
    return json.dumps(entries, separators=(",", ":"), ensure_ascii=False)

"""A Parquet file as a stream of batches with their positions, from pyarrow or from DuckDB."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeport._sharing import ONE_CORE
from lakeport.arrow import give_back_cursor, take_cursor
from lakeport.ducklake.model import RecordedFile
from lakeport.ducklake.reading.file_shapes import FileShape, shape_of
from lakeport.ducklake.reading.footers import (
    known_footer,
    matching_row_groups,
    remember_footer,
)
from lakeport.ducklake.reading.opening import open_data_file, translate_errors
from lakeport.ducklake.reading.recorded import check_footer
from lakeport.ducklake.reading.sparse_rows import (
    FindRows,
    are_few,
    has_row,
    parquet_file_sql,
    pick_rows,
)
from lakeport.ducklake.storage.encryption import decrypted_footer
from lakeport.ducklake.storage.filesystems import Storage
from lakeport.ducklake.storage.paths import is_local, local_path
from lakeport.errors import CorruptLakeError
from lakeport.types import Target, _with_ids, select_expression

__all__ = [
    "DuckDBTargets",
    "ParquetReader",
    "UndecodableError",
    "open_parquet",
    "open_with_duckdb",
]

DuckDBTargets = Callable[[pa.Schema], Mapping[int, Target]]
"""Returns the fields of a file that DuckDB must convert because pyarrow cannot, by position."""

_Run = tuple[int, int, list[int]]

_SMALL_BATCH_ROWS: Final = 8192

_SMALL_BYTES: Final = 1024 * 1024


class UndecodableError(CorruptLakeError):
    """Pages that pyarrow cannot decode, in a file whose footer it can read; DuckDB may decode them.

    DuckDB 1.5 writes deltas of 32-bit integers in 33 bits, which Arrow 26 rejects as damaged.
    """

    def __init__(self, message: str, *, resume: int, end: int) -> None:
        super().__init__(message)
        self.resume, self.end = resume, end
        """The range of the requested rows that have not been read."""


class ParquetReader(Protocol):
    """An open Parquet file."""

    shape: FileShape

    def batches(
        self,
        fields: Sequence[int],
        *,
        batch_rows: int,
        start: int = 0,
        end: int | None = None,
        where: pc.Expression | None = None,
        find_rows: FindRows | None = None,
        starts_small: bool = False,
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield top-level fields of the row groups that begin in [start, end), with positions.

        Row groups without a row that matches `where`, and rows that `find_rows` does not return,
        may be skipped. With `starts_small` the batches of the first row group have few rows.
        """

    def close(self) -> None:
        """Close the file."""


def open_parquet(
    storage: Storage, file: RecordedFile, *, duckdb_targets: DuckDBTargets = lambda _: {}
) -> ParquetReader:
    """Open a file with the fastest reader that reads it exactly; check it against the catalog."""
    handle, identity = open_data_file(storage, file)
    try:
        source = _ArrowSource(handle, file, identity)
    except _UnopenedError:
        handle.close()
        if file.encryption_key is None:
            raise
        footer, footer_bytes = decrypted_footer(storage, file.path, file.encryption_key)
        check_footer(file, rows=footer.num_rows, footer_bytes=footer_bytes)
        schema = footer.schema.to_arrow_schema()
        return _DuckDBSource(storage, file, schema, duckdb_targets(schema), _fingerprint(footer))
    except BaseException:
        handle.close()
        raise
    targets = duckdb_targets(source.shape.schema)
    if not targets:
        return source
    source.close()
    return _DuckDBSource(storage, file, source.shape.schema, targets, source.fingerprint)


def open_with_duckdb(
    storage: Storage,
    file: RecordedFile,
    schema: pa.Schema,
    *,
    duckdb_targets: DuckDBTargets = lambda _: {},
) -> ParquetReader:
    """Open a file of the given schema with DuckDB's reader."""
    return _DuckDBSource(storage, file, schema, duckdb_targets(schema))


class _UnopenedError(CorruptLakeError):
    """A file whose footer pyarrow cannot read."""


class _ArrowSource:
    """pyarrow's reader, for all files that pyarrow can read."""

    def __init__(
        self, handle: pa.NativeFile, file: RecordedFile, identity: Hashable | None
    ) -> None:
        options: dict[str, Any] = {}
        self._path = file.path
        self._is_encrypted = file.encryption_key is not None
        if file.encryption_key is not None:
            import pyarrow.parquet.encryption as pe

            options["decryption_properties"] = pe.create_decryption_properties(
                footer_key=base64.b64decode(file.encryption_key)
            )
        self._handle = handle
        known, shape = known_footer(identity)
        try:
            self._file = pq.ParquetFile(
                handle, metadata=known, pre_buffer=not is_local(file.path), **options
            )
        except (pa.ArrowInvalid, OSError) as error:
            raise _UnopenedError(f"{file.path!r} is not a readable Parquet file: {error}") from None
        footer = self._file.metadata
        length = _footer_length(handle) if self._is_encrypted else footer.serialized_size
        check_footer(file, rows=footer.num_rows, footer_bytes=length)
        self.shape = shape_of(self._file) if shape is None else shape
        if known is None:
            remember_footer(identity, footer, self.shape)
        self._identity = identity
        self._footer = footer

    def batches(
        self,
        fields: Sequence[int],
        *,
        batch_rows: int,
        start: int = 0,
        end: int | None = None,
        where: pc.Expression | None = None,
        find_rows: FindRows | None = None,
        starts_small: bool = False,
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        names = [self.shape.fields[i].name for i in fields]
        columns = self.shape.leaves(tuple(fields), self._paths) if fields else []
        runs = self._runs(start, end, where)
        starts_small = starts_small and bool(runs) and self._is_large(runs[0][2][0], len(fields))
        if starts_small:
            runs = [*self._apart(runs[0]), *runs[1:]]
        # pyarrow returns columns in the order of the file, and with "a" also one called "a.b".
        is_ordered = all(before < after for before, after in pairwise(fields))
        for number, ((first, last, groups), rows) in enumerate(self._found(runs, find_rows)):
            position = first
            picked = None if rows is None else self._picked(tuple(fields), rows, first)
            if picked is not None:
                yield from picked
                continue
            is_sparse = rows is not None and are_few(rows, last - first)
            is_small = is_sparse or (starts_small and number == 0)
            batches = self._file.iter_batches(
                batch_size=min(batch_rows, _SMALL_BATCH_ROWS) if is_small else batch_rows,
                row_groups=groups,
                columns=columns,
                use_threads=len(columns) > 1 and self._is_worth_threads(groups),
            )
            try:
                with translate_errors(self._path):
                    for batch in batches:
                        start, position = position, position + batch.num_rows
                        if rows is not None and not has_row(rows, start, position):
                            continue
                        is_exact = is_ordered and batch.num_columns == len(fields)
                        yield start, batch if is_exact else batch.select(names)
                        if rows is not None and rows[-1] < position:
                            break
            except CorruptLakeError as error:
                raise UndecodableError(str(error), resume=position, end=runs[-1][1]) from None

    def _found(
        self, runs: Sequence[_Run], find_rows: FindRows | None
    ) -> Iterator[tuple[_Run, npt.NDArray[np.int64] | None]]:
        """Yield the row groups to read, one by one, with the rows to read; without a search all."""
        if find_rows is None:
            yield from ((run, None) for run in runs)
            return
        for first, _, groups in runs:
            for group in groups:
                end = first + self._footer.row_group(group).num_rows
                try:
                    rows = find_rows(first, end)
                    if rows is None or len(rows):
                        yield (first, end, [group]), rows
                except UndecodableError as error:
                    raise UndecodableError(str(error), resume=first, end=runs[-1][1]) from None
                first = end  # noqa: PLW2901

    def _picked(
        self, fields: tuple[int, ...], rows: npt.NDArray[np.int64], first: int
    ) -> list[tuple[int, pa.RecordBatch]] | None:
        """Return a few rows that DuckDB has read; None if pyarrow should read them."""
        if self._is_encrypted:
            return None
        return pick_rows(self._path, self.shape, fields, rows, first)

    def _is_large(self, group: int, fields: int) -> bool:
        """Return whether some fields of a row group are more than a small batch is worth."""
        share = fields / max(len(self.shape.fields), 1)
        return bool(self._footer.row_group(group).total_byte_size * share > _SMALL_BYTES)

    def _apart(self, run: _Run) -> list[_Run]:
        """Return the first row group of a run and the others as runs."""
        first, last, groups = run
        rest = first + self._footer.row_group(groups[0]).num_rows
        return [(first, rest, groups[:1]), (rest, last, groups[1:])][: len(groups)]

    def _is_worth_threads(self, groups: Sequence[int]) -> bool:
        """Return whether threads help: not on one core, as in Spark, nor for little data."""
        if isinstance(self._handle, pa.BufferReader) or pa.cpu_count() == 1 or ONE_CORE.get():
            return False
        footer = self._footer
        size = sum(footer.row_group(group).total_byte_size for group in groups)
        return bool(size > _SMALL_BYTES)

    def _runs(self, start: int, end: int | None, where: pc.Expression | None) -> list[_Run]:
        """Return runs of adjacent row groups, with the positions where their rows begin and end."""
        metadata = self._footer
        if metadata.num_row_groups == 1:
            return [] if start > 0 else [(0, metadata.num_rows, [0])]
        rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        bounds = list(accumulate(rows, initial=0))
        starts = bounds[:-1]
        inside = [g for g, at in enumerate(starts) if at >= start and (end is None or at < end)]
        # Arrow reads the footer again for this, without a key for an encrypted footer.
        if where is not None and len(inside) > 1 and not self._is_encrypted:
            matching = matching_row_groups(self._handle, self.shape.schema, where, self._identity)
            inside = [group for group in inside if group in matching]
        runs = []
        for _, run in groupby(enumerate(inside), key=lambda item: item[1] - item[0]):
            groups = [group for _, group in run]
            runs.append((bounds[groups[0]], bounds[groups[-1] + 1], groups))
        return runs

    @property
    def fingerprint(self) -> str:
        """The text of the file's schema, which determines the types that DuckDB reads."""
        return _fingerprint(self._footer)

    def _paths(self) -> list[str]:
        schema = self._file.schema
        return [schema.column(i).path for i in range(len(schema.names))]

    def close(self) -> None:
        self._handle.close()


def _fingerprint(footer: pq.FileMetaData) -> str:
    """Return the fields of a file as text, without the first line: the object's address."""
    return str(footer.schema).partition("\n")[2]


def _footer_length(handle: pa.NativeFile) -> int:
    """Return the length of the footer, encrypted or not, from before the last magic bytes."""
    handle.seek(handle.size() - 8)
    return int.from_bytes(handle.read(4), "little")


# Selected expressions and their schema by file schema: most files of a table have the same one.
_DESCRIBED: dict[tuple[str, str], tuple[list[str], FileShape]] = {}
_MAX_DESCRIBED: Final = 256


class _DuckDBSource:
    """DuckDB's reader, for DuckDB's encryption, variants, and pages that pyarrow cannot decode."""

    def __init__(
        self,
        storage: Storage,
        file: RecordedFile,
        schema: pa.Schema,
        targets: Mapping[int, Target],
        fingerprint: str | None = None,
    ) -> None:
        import duckdb

        self._uri, self._key = file.path, file.encryption_key
        self._copy: Path | None = None
        self._path = local_path(file.path)
        self._duck = take_cursor()
        try:
            if is_local(file.path):
                storage.check((file.path,))
            else:
                self._download(storage)
            with translate_errors(file.path, duckdb.Error):
                self._expressions, self.shape = self._cached_expressions(
                    schema, targets, fingerprint
                )
        except BaseException:
            self.close()
            raise

    def _cached_expressions(
        self, schema: pa.Schema, targets: Mapping[int, Target], fingerprint: str | None
    ) -> tuple[list[str], FileShape]:
        """Return the selected expressions of the file and their schema, cached by file schema."""
        key = None if fingerprint is None else (fingerprint, repr(targets))
        described = None if key is None else _DESCRIBED.get(key)
        if described is None:
            described = self._described(schema, targets)
            if key is not None:
                if len(_DESCRIBED) >= _MAX_DESCRIBED:
                    _DESCRIBED.clear()
                _DESCRIBED[key] = described
        return described

    def _described(
        self, schema: pa.Schema, targets: Mapping[int, Target]
    ) -> tuple[list[str], FileShape]:
        types = self._select(["*"]).types
        expressions = [
            select_expression(field.name, type, targets.get(position))
            for position, (field, type) in enumerate(zip(schema, types, strict=True))
        ]
        delivered = self._select(expressions, "LIMIT 0").to_arrow_table().schema
        fields = [_with_ids(f, read.type) for f, read in zip(schema, delivered, strict=True)]
        return expressions, FileShape(pa.schema(fields))

    def _download(self, storage: Storage) -> None:
        with tempfile.NamedTemporaryFile(suffix=".parquet", delete=False) as copy:
            self._copy = Path(copy.name)
            self._path = copy.name
            copy.write(storage.read(self._uri))

    def batches(
        self,
        fields: Sequence[int],
        *,
        batch_rows: int,
        start: int = 0,
        end: int | None = None,
        where: pc.Expression | None = None,  # noqa: ARG002 (DuckDB does not skip row groups)
        find_rows: FindRows | None = None,  # noqa: ARG002
        starts_small: bool = False,  # noqa: ARG002
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        import duckdb

        # The rows of the range, not the row groups that begin in it; all ranges cover all rows.
        row_range = f"OFFSET {start}" if end is None else f"LIMIT {end - start} OFFSET {start}"
        expressions = [self._expressions[i] for i in fields]
        position = start
        with translate_errors(self._uri, duckdb.Error):
            # The constant is for a scan without columns, which still counts rows.
            reader = self._select([*expressions, "true"], row_range).to_arrow_reader(batch_rows)
            for batch in reader:
                yield position, batch.select(list(range(len(fields))))
                position += batch.num_rows

    def _select(self, expressions: Sequence[str], rest: str = "") -> Any:
        options = []
        if self._key is not None:
            # A variable keeps the key out of the SQL text, which error messages may contain.
            self._duck.execute("SET VARIABLE footer_key = ?", [self._key])
            key = "from_base64(getvariable('footer_key'))"
            options.append(f"encryption_config = {{footer_key_value: {key}}}")
        source = f"{parquet_file_sql(self._path, *options)} {rest}"
        # Without parameters: DuckDB 1.5 materializes a relation that has parameters.
        return self._duck.sql(f"SELECT {', '.join(expressions)} FROM {source}")  # noqa: S608

    def close(self) -> None:
        cursor, self._duck = self._duck, None
        if cursor is not None:
            give_back_cursor(cursor)
        if self._copy is not None:
            self._copy.unlink(missing_ok=True)

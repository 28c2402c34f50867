"""A Parquet file as a stream of batches with their positions, from pyarrow or from DuckDB."""

from __future__ import annotations

import base64
import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeport.ducklake import kernel
from lakeport.ducklake.encryption import decrypted_schema
from lakeport.ducklake.filesystems import Storage
from lakeport.ducklake.paths import is_local, local_path
from lakeport.ducklake.row_groups import matching_row_groups
from lakeport.errors import CorruptLakeError, UnavailableError
from lakeport.filters.types import quote_string

__all__ = ["Choice", "Source", "open_source"]

Choice = Callable[[pa.Schema], Mapping[int, kernel.Target]]
"""Says what DuckDB must make of fields of a file, because pyarrow does not know enough of them."""


class Source(Protocol):
    """An open Parquet file."""

    schema: pa.Schema

    def batches(
        self,
        fields: Sequence[int],
        *,
        batch_rows: int,
        start: int = 0,
        end: int | None = None,
        where: pc.Expression | None = None,
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Top-level fields of the row groups that begin in [start, end), with their position.

        Row groups in which nothing fulfils `where` may be left out.
        """

    def close(self) -> None:
        """Give the file back."""


def open_source(
    storage: Storage,
    path: str,
    encryption_key: str | None,
    *,
    for_duckdb: Choice = lambda _: {},
) -> Source:
    """Open a file the fastest way that reads it exactly."""
    try:
        source = _ArrowSource(storage, path, encryption_key)
    except CorruptLakeError:
        if encryption_key is None:
            raise
        schema = decrypted_schema(storage, path, encryption_key)
        return _DuckDBSource(storage, path, encryption_key, schema, for_duckdb(schema))
    targets = for_duckdb(source.schema)
    if not targets:
        return source
    source.close()
    return _DuckDBSource(storage, path, encryption_key, source.schema, targets)


@contextlib.contextmanager
def _readable(path: str, *errors: type[Exception]) -> Iterator[None]:
    """What goes wrong inside a file is told with the name of the file."""
    try:
        yield
    except (pa.ArrowInvalid, OSError, *errors) as error:
        said = f"the lake's file {path!r} cannot be read: {(str(error).splitlines() or ['?'])[0]}"
        # Arrow tells damage by errors without a number; a store's troubles may pass.
        if getattr(error, "errno", None) is not None or "AWS Error" in str(error):
            raise UnavailableError(said) from None
        raise CorruptLakeError(said) from None


class _ArrowSource:
    """pyarrow's reader: the rule."""

    def __init__(self, storage: Storage, path: str, encryption_key: str | None) -> None:
        options: dict[str, Any] = {}
        self._path = path
        self._is_encrypted = encryption_key is not None
        if encryption_key is not None:
            import pyarrow.parquet.encryption as pe

            options["decryption_properties"] = pe.create_decryption_properties(
                footer_key=base64.b64decode(encryption_key)
            )
        self._handle = storage.open(path)
        try:
            self._file = pq.ParquetFile(self._handle, pre_buffer=not is_local(path), **options)
        except (pa.ArrowInvalid, OSError) as error:
            self._handle.close()
            raise CorruptLakeError(f"{path!r} is not a readable Parquet file: {error}") from None
        self.schema: pa.Schema = self._file.schema_arrow

    def batches(
        self,
        fields: Sequence[int],
        *,
        batch_rows: int,
        start: int = 0,
        end: int | None = None,
        where: pc.Expression | None = None,
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        wanted = [self.schema.field(i).name for i in fields]
        columns = self._leaves(set(wanted)) if fields else []
        for first, groups in self._runs(start, end, where):
            position = first
            batches = self._file.iter_batches(
                batch_size=batch_rows,
                row_groups=groups,
                columns=columns,
                # Spark gives each of its workers one core, where a pool of threads only costs.
                use_threads=pa.cpu_count() > 1,
            )
            with _readable(self._path):
                for batch in batches:
                    # pyarrow keeps the order of the file, whatever order is asked for
                    yield position, batch.select(wanted) if fields else batch
                    position += batch.num_rows

    def _runs(
        self, start: int, end: int | None, where: pc.Expression | None
    ) -> Iterator[tuple[int, list[int]]]:
        """Row groups that follow one another, with the position of the first row."""
        metadata = self._file.metadata
        rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        starts = list(accumulate(rows, initial=0))[:-1]
        inside = [g for g, at in enumerate(starts) if at >= start and (end is None or at < end)]
        # Arrow reads the footer once more for it, and has no key for an encrypted one.
        if where is not None and len(inside) > 1 and not self._is_encrypted:
            matching = matching_row_groups(self._handle, self.schema, where)
            inside = [group for group in inside if group in matching]
        for _, run in groupby(enumerate(inside), key=lambda item: item[1] - item[0]):
            groups = [group for _, group in run]
            yield starts[groups[0]], groups

    def _leaves(self, names: set[str]) -> list[str]:
        """The leaf columns below some top-level fields, by their dotted paths."""
        schema = self._file.schema
        paths = [schema.column(i).path for i in range(len(schema.names))]
        return [
            path
            for path in paths
            if path in names or any(path.startswith(f"{name}.") for name in names)
        ]

    def close(self) -> None:
        self._handle.close()


class _DuckDBSource:
    """DuckDB's reader, for what pyarrow cannot open: DuckDB's encryption, and variants."""

    def __init__(
        self,
        storage: Storage,
        path: str,
        encryption_key: str | None,
        schema: pa.Schema,
        targets: Mapping[int, kernel.Target],
    ) -> None:
        import duckdb

        self._given, self._key = path, encryption_key
        self._copy: Path | None = None
        self._path = local_path(path)
        self._duck = kernel.connection().cursor()
        try:
            if not is_local(path):
                self._copy_here(storage)
            self._duck.execute("SET arrow_lossless_conversion = true; SET TimeZone = 'UTC'")
            with _readable(path, duckdb.Error):
                types = self._select(["*"]).types
                self._expressions = [
                    kernel.shown(field.name, type, targets.get(position))
                    for position, (field, type) in enumerate(zip(schema, types, strict=True))
                ]
                delivered = self._select(self._expressions, "LIMIT 0").to_arrow_table()
        except BaseException:
            self.close()
            raise
        self.schema = pa.schema(
            [_with_ids(f, given.type) for f, given in zip(schema, delivered.schema, strict=True)]
        )

    def _copy_here(self, storage: Storage) -> None:
        with tempfile.NamedTemporaryFile(suffix=".parquet", delete=False) as copy:
            self._copy = Path(copy.name)
            self._path = copy.name
            copy.write(storage.read(self._given))

    def batches(
        self,
        fields: Sequence[int],
        *,
        batch_rows: int,
        start: int = 0,
        end: int | None = None,
        where: pc.Expression | None = None,  # noqa: ARG002 (DuckDB is not asked for row groups)
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        import duckdb

        # Rows of the range, not row groups that begin in it: all ranges together are all rows.
        wanted = f"OFFSET {start}" if end is None else f"LIMIT {end - start} OFFSET {start}"
        chosen = [self._expressions[i] for i in fields]
        position = start
        with _readable(self._given, duckdb.Error):
            # The last one is there for a scan of no columns, which still counts rows.
            reader = self._select([*chosen, "true"], wanted).to_arrow_reader(batch_rows)
            for batch in reader:
                yield position, batch.select(list(range(len(fields))))
                position += batch.num_rows

    def _select(self, expressions: Sequence[str], rest: str = "") -> Any:
        # The folders of a path are no columns, and a file name is no pattern.
        options = "hive_partitioning = false"
        path = "".join(f"[{c}]" if c in "*?[" else c for c in self._path)
        if self._key is not None:
            # A variable keeps the key out of the text, which errors may repeat.
            self._duck.execute("SET VARIABLE footer_key = ?", [self._key])
            key = "from_base64(getvariable('footer_key'))"
            options += f", encryption_config = {{footer_key_value: {key}}}"
        source = f"read_parquet({quote_string(path)}, {options}) {rest}"
        # Without parameters: DuckDB 1.5 computes all rows of a relation with parameters at once.
        return self._duck.sql(f"SELECT {', '.join(expressions)} FROM {source}")  # noqa: S608

    def close(self) -> None:
        self._duck.close()
        if self._copy is not None:
            self._copy.unlink(missing_ok=True)


def _with_ids(field: pa.Field, given: pa.DataType) -> pa.Field:
    """The type that DuckDB delivers, with the names and field ids of the file."""
    type = given
    if pa.types.is_struct(given) and pa.types.is_struct(field.type):
        children = range(given.num_fields)
        type = pa.struct([_with_ids(field.type.field(i), given.field(i).type) for i in children])
    elif pa.types.is_map(given) and pa.types.is_map(field.type):
        type = pa.map_(
            _with_ids(field.type.key_field, given.key_type).with_nullable(nullable=False),
            _with_ids(field.type.item_field, given.item_type),
        )
    elif pa.types.is_list(given) and pa.types.is_list(field.type):
        type = pa.list_(_with_ids(field.type.value_field, given.value_type))
    return pa.field(field.name, type, metadata=field.metadata)

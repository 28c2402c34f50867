"""`Lake`: opens a catalog database and finds snapshots, tables and views, each time by a query."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

import sqlalchemy as sa

from lakeport._cache import LruCache
from lakeport.ducklake.engine import (
    SMALL_SCAN_BYTES,
    AutoEngine,
    Engine,
    make_engine,
)
from lakeport.ducklake.maintenance.doctor.lake_methods import LakeHealth
from lakeport.ducklake.maintenance.methods import LakeMaintenance
from lakeport.ducklake.metadata.contents import (
    FileTotals,
    LakeContents,
    contents_of,
    file_totals_of,
    schemas_of,
    views_of,
)
from lakeport.ducklake.metadata.database import Database
from lakeport.ducklake.metadata.freshness import NewestSnapshot
from lakeport.ducklake.metadata.lifetimes import Lifetime, lifetimes_of, why_missing
from lakeport.ducklake.metadata.location import parse_location
from lakeport.ducklake.metadata.queries import (
    CatalogReader,
    QueryResult,
    TableWithColumnsRow,
    check_version,
    open_catalog,
)
from lakeport.ducklake.metadata.rows import (
    ColumnRow,
    MetadataRow,
    SchemaRow,
    SnapshotChangesRow,
    SnapshotRow,
    TableRow,
)
from lakeport.ducklake.metadata.soundness import Omission, sound_names
from lakeport.ducklake.metadata.table_state import table_state, visible
from lakeport.ducklake.model import Schema, Snapshot, TableState, View
from lakeport.ducklake.snapshots import (
    _last_before,
    _no_snapshot,
    _snapshot,
    parse_user_timestamp,
)
from lakeport.ducklake.spark_methods import LakeOnSpark
from lakeport.ducklake.storage.filesystems import S3Secret, Storage
from lakeport.ducklake.storage.paths import as_directory
from lakeport.ducklake.table import LakeTable
from lakeport.ducklake.writing.lake_methods import LakeWriting
from lakeport.errors import (
    CorruptLakeError,
    InvalidArgumentError,
    NotFoundError,
)
from lakeport.types import fold_name

__all__ = ["Lake", "TableLookup"]

_log = logging.getLogger("lakeport.ducklake")

T = TypeVar("T")
StorageLike = Storage | S3Secret | Mapping[str, Any] | Iterable[S3Secret] | None


@dataclass(frozen=True, slots=True)
class TableLookup:
    """A table at a snapshot, and the rows of the catalog about it."""

    table: LakeTable
    rows: QueryResult


class Lake(LakeWriting, LakeMaintenance, LakeHealth, LakeOnSpark):
    """One DuckLake catalog, and the engine that reads its tables.

    ```python
    with Lake.open("ducklake:meta.ducklake") as lake:
        events = lake.table("events").scan(filter="id > 100")
        events.to_spark().groupBy("kind").count().show()
        for batch in events.to_batches():
            ...
    ```
    """

    def __init__(
        self,
        catalog: CatalogReader,
        *,
        data_path: str | None = None,
        storage: Storage | None = None,
        cache: LruCache | None = None,
        engine: Engine | None = None,
    ) -> None:
        self.catalog = catalog
        """The lake's own tables; for other parts of this package."""
        self.storage = storage or Storage()
        """The credentials of object stores; for other parts of this package."""
        self.engine: Engine = engine or AutoEngine()
        """The engine that runs scans, unless a call names another."""
        self._data_path = data_path
        self._cache = cache
        self.pinned_snapshot: int | None = None
        self._newest = NewestSnapshot(catalog)
        self._reported: set[Omission] = set()

    @classmethod
    def open(
        cls,
        uri: str,
        *,
        data_path: str | None = None,
        metadata_schema: str | None = None,
        snapshot: int | datetime | None = None,
        storage: StorageLike = None,
        cache: LruCache | None = None,
        lock_timeout: float = 30.0,
        database_timeout: float = 60.0,
        engine: Engine | str | None = None,
        spark: object = None,
        small_scan_bytes: int = SMALL_SCAN_BYTES,
        confine: bool = False,
    ) -> Self:
        """Open a lake by any spelling of its catalog database.

        Args:
            uri: `ducklake:meta.ducklake`, `ducklake:sqlite:meta.sqlite`,
                `ducklake:postgres:dbname=lake host=db`, `ducklake:mysql:db=lake host=db`, or a
                `postgresql://`, `mysql://`, `sqlite:///` URL.
            data_path: Where the files are, if not at the path in the catalog.
            metadata_schema: The database schema of the catalog's tables.
            snapshot: Read everything at this snapshot, by id or by time.
            storage: Credentials of object stores; the environment's when left out.
            cache: Keeps descriptions of tables by snapshot; none when left out.
            lock_timeout: Seconds to wait for a writer that holds a database file.
            database_timeout: Seconds to wait for an answer of a database server.
            engine: What runs scans: an engine, or the name of one. `auto` runs small scans in this
                process and the others on Spark, `local` and `spark` run all of them there.
            spark: The Spark session to read with, or a callable that returns the one to use now.
                With a session the engine is `spark`, unless `engine="auto"` is given as well.
            small_scan_bytes: What `auto` takes for a small scan: one that reads fewer bytes of the
                columns that it needs, where opening a file counts as 32 KiB.
            confine: Read, write and delete files below the data path only, as it is now.
        """
        chosen = make_engine(engine, spark, small_scan_bytes=small_scan_bytes)
        location = parse_location(uri)
        database = Database(
            location,
            metadata_schema=metadata_schema,
            lock_timeout=lock_timeout,
            timeout=database_timeout,
        )
        try:
            catalog = open_catalog(database)
            check_version(catalog.version)
            lake = cls(
                catalog,
                data_path=data_path,
                storage=Storage.from_options(storage),
                cache=cache,
                engine=chosen,
            )
            if confine:
                lake.storage = lake.storage.confined(lake.data_root(lake.option_rows()))
            if snapshot is not None:
                pinned = snapshot if isinstance(snapshot, int) else None
                moment = snapshot if isinstance(snapshot, datetime) else None
                lake.pinned_snapshot = lake.snapshot(version=pinned, timestamp=moment).id
        except BaseException:
            database.dispose()
            raise
        return lake

    @property
    def version(self) -> str:
        """The lake's format version."""
        return self.catalog.version

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Lake({str(self.catalog.database.location)!r})"

    def close(self) -> None:
        """Close all connections to the catalog database."""
        self._newest.close()
        self.close_writing()
        self.catalog.database.dispose()

    def snapshots(self) -> list[Snapshot]:
        """Return every snapshot that has not been expired, oldest first."""
        rows = self._read(self.catalog.snapshots)
        changes = {row.snapshot_id: row for row in rows[SnapshotChangesRow]}
        found = [_snapshot(row, changes.get(row.snapshot_id)) for row in rows[SnapshotRow]]
        return sorted(found, key=lambda snapshot: snapshot.id)

    def snapshot(
        self, *, version: int | None = None, timestamp: datetime | str | None = None
    ) -> Snapshot:
        """Return the snapshot of a version or of a time; the newest one when neither is given."""
        wanted = self._version(version, timestamp)
        rows = self._read(lambda connection: self.catalog.snapshot(connection, wanted))
        if not rows[SnapshotRow]:
            raise _no_snapshot(wanted)
        return _snapshot(rows[SnapshotRow][0], next(iter(rows[SnapshotChangesRow]), None))

    def newest(self, *, max_age: float = 0.0) -> Snapshot:
        """Return the newest snapshot, or that of a pinned lake, without its commit message.

        An unchanged file is not read again. A server's answer may be `max_age` seconds old.
        """
        if self.pinned_snapshot is not None:
            return self.snapshot()
        row = self._newest.read(max_age=max_age)
        if row is None:
            raise _no_snapshot(None)
        return _snapshot(row)

    def contents(
        self, *, version: int | None = None, timestamp: datetime | str | None = None
    ) -> LakeContents:
        """Return everything that the lake holds at a snapshot, with all columns, by one query."""
        wanted = self._version(version, timestamp)
        rows = self._read(lambda connection: self.catalog.contents(connection, wanted))
        if not rows[SnapshotRow]:
            raise _no_snapshot(wanted)
        contents = contents_of(_snapshot(rows[SnapshotRow][0]), rows)
        self._report(contents.omitted)
        return contents

    def file_totals(
        self, *, version: int | None = None, timestamp: datetime | str | None = None
    ) -> dict[int, FileTotals]:
        """Return number and size of the files of every table at a snapshot, by the table's id."""
        wanted = self._version(version, timestamp)
        rows = self._read(lambda connection: self.catalog.file_totals(connection, wanted))
        if not rows[SnapshotRow]:
            raise _no_snapshot(wanted)
        return file_totals_of(rows)

    def record_counts(self) -> dict[int, int]:
        """Return how many rows every table has now, deleted ones included, by the table's id."""
        return self._read(self.catalog.record_counts)

    def schemas(
        self, *, version: int | None = None, timestamp: datetime | str | None = None
    ) -> list[Schema]:
        """Return the schemas at a snapshot."""
        return schemas_of(self._names(version, timestamp))

    def tables(
        self,
        schema: str | None = None,
        *,
        version: int | None = None,
        timestamp: datetime | str | None = None,
    ) -> list[tuple[str, str]]:
        """Return schema and name of every table at a snapshot, or of the tables of one schema.

        Tables whose columns cannot be understood are among them: `table` raises what is wrong.
        """
        rows = self._names(version, timestamp)
        names = {row.schema_id: row.schema_name for row in rows[SchemaRow]}
        found = [(names[row.schema_id], row.table_name) for row in rows[TableRow]]
        return sorted(pair for pair in found if schema is None or _is_called(pair[0], schema))

    def views(
        self,
        schema: str | None = None,
        *,
        version: int | None = None,
        timestamp: datetime | str | None = None,
    ) -> list[View]:
        """Return the views at a snapshot, or those of one schema."""
        found = views_of(self._names(version, timestamp))
        return [view for view in found if schema is None or _is_called(view.schema, schema)]

    def lifetimes(self) -> list[Lifetime]:
        """Return every name that a schema, table or view has had, and which snapshots have it."""
        return lifetimes_of(self._read(self.catalog.lifetimes))

    def table(
        self,
        name: str,
        schema: str = "main",
        *,
        version: int | None = None,
        timestamp: datetime | str | None = None,
    ) -> LakeTable:
        """Return a table at a snapshot: the newest one unless a version or a time is given."""
        wanted = self._version(version, timestamp)
        if self._cache is None:
            return self.lookup(name, schema, version=wanted).table
        if wanted is None:
            wanted = self.newest().id
        key = (wanted, fold_name(schema), fold_name(name))
        return LakeTable(
            self, *self._cache.get_or_load(key, lambda: self._look_up(name, schema, wanted)[:2])
        )

    def lookup(self, name: str, schema: str, *, version: int | None) -> TableLookup:
        """Return a table with its rows of the catalog; for other parts of this package."""
        snapshot, state, rows = self._look_up(name, schema, version)
        return TableLookup(LakeTable(self, snapshot, state), rows)

    def option_rows(self) -> list[MetadataRow]:
        """Return the rows of the lake's options; for other parts of this package."""
        return self._read(self.catalog.options)

    def _look_up(
        self, name: str, schema: str, wanted: int | None
    ) -> tuple[Snapshot, TableState, QueryResult]:
        rows = self._read(lambda connection: self.catalog.table(connection, schema, name, wanted))
        meant = self._meant(rows, schema, name)
        if meant[SnapshotRow] and not meant[TableRow]:
            self._refuse_missing(schema, name, meant[SnapshotRow][0].snapshot_id)
        return *self._state(meant, wanted, f"{schema}.{name}"), meant

    def table_by_id(self, id: int, version: int) -> LakeTable:
        """Return a table at a snapshot, whatever its name was then."""
        rows = self._by_id(id, version)
        return LakeTable(self, *self._state(rows, version, f"with id {id}"))

    def _refuse_missing(self, schema: str, name: str, snapshot: int) -> None:
        """Raise an error about a table that only other snapshots have."""
        reason = why_missing(self.lifetimes(), schema, name, snapshot)
        if reason is not None:
            raise NotFoundError(
                f"there is no table {schema}.{name} at snapshot {snapshot}: {reason}"
            )

    def _meant(self, rows: QueryResult, schema: str, name: str) -> QueryResult:
        """Return the rows of one table: a database may fold more than the ASCII case of names."""
        schemas = [row for row in rows[SchemaRow] if _is_called(row.schema_name, schema)]
        # Of two schemas with one name, the older one is listed.
        schemas = sorted(schemas, key=lambda row: row.schema_id)[:1]
        ids = {row.schema_id for row in schemas}
        tables = [
            row
            for row in rows[TableRow]
            if row.schema_id in ids and _is_called(row.table_name, name)
        ]
        if not tables or len(tables) == len(rows[TableRow]) == 1:
            return rows.replace({SchemaRow: schemas, TableRow: tables})
        snapshot = rows[SnapshotRow][0].snapshot_id
        found = [self._by_id(row.table_id, snapshot) for row in tables]
        # A rename that raced a drop leaves a table without columns behind; it is not a table.
        living = [rows for rows in found if any(visible(c, snapshot) for c in rows[ColumnRow])]
        if len(living) > 1:
            alike = " and ".join(str(row.table_id) for row in tables)
            raise CorruptLakeError(
                f"the table {schema}.{name} cannot be read: the tables with ids {alike} have the "
                "same name"
            )
        return living[0] if living else found[0]

    def _by_id(self, id: int, version: int) -> QueryResult:
        return self._read(lambda connection: self.catalog.table_by_id(connection, id, version))

    def _state(
        self, rows: QueryResult, wanted: int | None, name: str
    ) -> tuple[Snapshot, TableState]:
        """Return what a table is at a snapshot, from the rows of its lookup."""
        if not rows[SnapshotRow]:
            raise _no_snapshot(wanted)
        snapshot = _snapshot(rows[SnapshotRow][0])
        schemas = {row.schema_id: row for row in rows[SchemaRow]}
        tables = [row for row in rows[TableRow] if row.schema_id in schemas]
        if not tables:
            what = f"there is no table {name}" if schemas else f"there is no schema of {name}"
            raise NotFoundError(f"{what} at snapshot {snapshot.id}")
        state = table_state(
            rows,
            snapshot=snapshot.id,
            version=self.catalog.version,
            data_path=self.data_root(rows[MetadataRow]),
            schema=schemas[tables[0].schema_id],
            table=tables[0],
        )
        if not state.columns:
            raise NotFoundError(f"the table {name} has no columns at snapshot {snapshot.id}")
        return snapshot, state

    def data_root(self, metadata: Sequence[MetadataRow]) -> str:
        """Return the directory of the files by the options; for other parts of this package."""
        if self._data_path is not None:
            return as_directory(self._data_path)
        stored = (r.value for r in metadata if r.key == "data_path" and r.scope is None)
        return as_directory(next(stored, ""))

    def _names(self, version: int | None, timestamp: datetime | str | None) -> QueryResult:
        wanted = self._version(version, timestamp)
        rows = self._read(lambda connection: self.catalog.names(connection, wanted))
        if not rows[SnapshotRow]:
            raise _no_snapshot(wanted)
        sound = sound_names(rows, {row.table_id for row in rows[TableWithColumnsRow]})
        self._report(sound.omitted)
        return sound.rows

    def _report(self, omitted: Iterable[Omission]) -> None:
        """Write a line to the log for each object that is left out, once for each lake."""
        for omission in omitted:
            if omission not in self._reported:
                self._reported.add(omission)
                _log.warning("%s: %s", self.catalog.database.location, omission)

    def _version(self, version: int | None, timestamp: datetime | str | None) -> int | None:
        """Return the id of the requested snapshot; None for the newest."""
        if version is not None and timestamp is not None:
            raise InvalidArgumentError("a version and a timestamp cannot both be given")
        if timestamp is None:
            return self.pinned_snapshot if version is None else version
        moment = parse_user_timestamp(timestamp)
        return _last_before(self._read(self.catalog.snapshot_times), moment)

    def _read(self, work: Callable[[sa.Connection], T]) -> T:
        return self.catalog.database.read(work)


def _is_called(stored: object, name: str) -> bool:
    return isinstance(stored, str) and fold_name(stored) == fold_name(name)

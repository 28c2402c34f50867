"""`LakeCatalog`: a lake that DuckDB can attach."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self

from lakeport._cache import LruCache
from lakeport.auth import Operation
from lakeport.catalog import (
    STATISTICS_ROWS,
    CatalogVersion,
    Schema,
    Table,
    TransactionState,
    current_request,
)
from lakeport.ducklake import SMALL_SCAN_BYTES, Engine, Lake, Snapshot, make_engine
from lakeport.ducklake.storage import S3Secret, Storage
from lakeport.errors import DefinitionError, NotFoundError
from lakeport.lakehouse.functions.spark_sql import LakeSqlFunction
from lakeport.lakehouse.functions.table_functions import functions_schema
from lakeport.lakehouse.missing import MissingTables
from lakeport.lakehouse.names import MAIN, PublishedNames, check_main_as
from lakeport.lakehouse.policies.restricted_table import RestrictedTable
from lakeport.lakehouse.resources import (
    SPARK_VIEW_BYTES,
    LakeResources,
    ScheduledMaintenance,
    transaction_snapshot,
)
from lakeport.lakehouse.schema import LakeCatalogSchema, SchemaIndex
from lakeport.lakehouse.table import LakeCatalogTable
from lakeport.lakehouse.writing.schema_methods import CatalogWrites
from lakeport.spark import SparkSource
from lakeport.types import fold_name

__all__ = ["LakeCatalog"]


class LakeCatalog(CatalogWrites):
    """A lake as a catalog: every schema, table and view, as of the newest snapshot.

    Commits of other writers are visible at once. The statements of a transaction read one snapshot.

        with LakeCatalog("ducklake:meta.ducklake") as catalog:
            serve(catalog)

    Args:
        lake: A lake, or where one is, as `Lake.open` takes it.
        name: The name that clients attach; a catalog that stands alone needs none.
        comment: A description for people.
        engine: What runs scans: an engine, or `auto`, `local` or `spark`. By default that of the
            lake; for a lake that is opened here `auto`, by which small scans need no Spark job.
            `spark_sql` always runs on Spark.
        spark: The Spark session to read with, or a callable that returns the one to use now;
            without it, a session is started by the first scan that needs one.
        small_scan_bytes: What the engine `auto` takes for a small scan, as for `Lake.open`.
        spark_view_bytes: Views over files of more than this run on Spark, if their SQL has an exact
            translation; DuckDB runs the others in this process.
        main_as: The published name of the schema `main`, which DuckDB's client cannot address.
            By default `public`; `main_schema` where the lake has a schema of that name.
        direct_reads: Let clients read the Parquet files by themselves wherever nothing has to be
            merged. They need access to the storage, and see no row ids.
        spark_sql: Add the function `spark_sql(query)`, which runs queries of Spark SQL over the
            tables and views that the caller may read. A query may keep the cluster busy, so it is
            off by default.
        writable: Let clients change the lake, as far as the server's authorizer allows it.
        explicit_transactions: Stage all writes of a client until it commits them with the function
            `commit`; only the client itself sees them before.
        add_files_from: Folders from which clients may add files with the function `add_files`,
            besides the data path of the lake. The lake owns added files and may delete them.
        statistics_rows: Tables with fewer rows for each of their columns offer no statistics.
            DuckDB requests those of every column of a statement twice, which takes longer than
            they save in a scan of fewer rows.
        endpoints: Into how many parts a scan is divided at most; one for each core by default.
        data_path: Where the files are, if not at the path in the lake.
        metadata_schema: The database schema of the lake's own tables.
        storage: Credentials of object stores; the environment's when left out.
        database_timeout: Seconds to wait for an answer of a database server.
        confine: Read and write nothing outside of the data path, whatever the catalog database
            names; a `Lake` has its own `confine`.
    """

    def __init__(
        self,
        lake: Lake | str,
        *,
        name: str = "",
        comment: str = "",
        engine: Engine | str | None = None,
        spark: SparkSource | None = None,
        small_scan_bytes: int = SMALL_SCAN_BYTES,
        spark_view_bytes: int = SPARK_VIEW_BYTES,
        main_as: str | None = None,
        direct_reads: bool = False,
        spark_sql: bool = False,
        writable: bool = False,
        explicit_transactions: bool = False,
        add_files_from: Sequence[str] = (),
        statistics_rows: int = STATISTICS_ROWS,
        endpoints: int | None = None,
        data_path: str | None = None,
        metadata_schema: str | None = None,
        storage: Storage | S3Secret | Mapping[str, Any] | Iterable[S3Secret] | None = None,
        database_timeout: float = 60.0,
        confine: bool = False,
    ) -> None:
        check_main_as(main_as)
        if confine and isinstance(lake, Lake):
            raise DefinitionError("an open lake cannot be confined: use Lake.open(confine=True)")
        if isinstance(lake, Lake) and engine is None and spark is None:
            chosen = lake.engine
        else:
            chosen = make_engine(engine or "auto", spark, small_scan_bytes=small_scan_bytes)
        opened = (
            Lake.open(
                lake,
                data_path=data_path,
                metadata_schema=metadata_schema,
                storage=storage,
                database_timeout=database_timeout,
                engine=chosen,
                confine=confine,
            )
            if isinstance(lake, str)
            else lake
        )
        _check_folders(opened, add_files_from)
        self.name = name
        self.comment = comment
        self._access = LakeResources(
            opened,
            engine=chosen,
            endpoints=endpoints,
            spark_view_bytes=spark_view_bytes,
            writable=writable,
            stages_writes=explicit_transactions,
            add_files_from=add_files_from,
            statistics_rows=statistics_rows,
        )
        self._main_as = main_as
        self._direct_reads = direct_reads
        self._directories = LruCache(8)
        self._schemas = LruCache(256)
        self._extra_functions = (
            [LakeSqlFunction(self._access, main_as=main_as)] if spark_sql else []
        )
        self._check_main_as()

    @property
    def lake(self) -> Lake:
        """The lake."""
        return self._access.lake

    @property
    def main_schema(self) -> str:
        """The name under which the lake's schema `main` is published now."""
        return self._directory(self._access.newest_snapshot()).names.main

    def published_name(self, schema: str) -> str:
        """Return the name under which a schema of the lake is published now."""
        return self._directory(self._access.newest_snapshot()).names.published(schema)

    @property
    def schedule(self) -> ScheduledMaintenance | None:
        """How the server maintains the lake by itself; the table `schedule` shows it."""
        return self._access.schedule

    @schedule.setter
    def schedule(self, schedule: ScheduledMaintenance | None) -> None:
        self._access.schedule = schedule

    def close(self) -> None:
        """Close the lake. The Spark session keeps running, because other code may use it."""
        self._access.writes.close()
        self._access.lake.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def schemas(self) -> Sequence[Schema]:
        """Return all schemas of the lake, `main` first, and the schema of functions last."""
        snapshot = self._access.current_snapshot()
        directory = self._visible(snapshot)
        schemas: list[Schema] = [
            self._published(directory, key, snapshot) for key in directory.schemas
        ]
        return [*schemas, self._functions(directory, snapshot)]

    def schema(self, name: str) -> Schema | None:
        """Return the schema of that name, ignoring case, or None."""
        snapshot = self._access.current_snapshot()
        directory = self._visible(snapshot)
        key = fold_name(name)
        if key in directory.schemas:
            return self._published(directory, key, snapshot)
        if key == fold_name(directory.names.functions):
            return self._functions(directory, snapshot)
        # For a caller who may not list the schema, it does not exist.
        if key == MAIN and current_request().may(Operation.LIST, directory.names.main):
            raise NotFoundError(
                "DuckDB cannot address a schema called 'main': the tables of the lake's schema "
                f"'main' are in {directory.names.main!r}"
            )
        if self._access.writes.continue_at_definition(name, None, snapshot.id):
            return self.schema(name)
        return None

    def describes_itself(self, schema: str) -> bool:
        """Return whether a schema is the one of tables and functions about the lake."""
        names = self._directory(self._access.current_snapshot()).names
        return fold_name(schema) == fold_name(names.functions)

    def catalog_version(self) -> CatalogVersion:
        """Return the schema version of the lake, which changes of rows do not increase."""
        version = self._access.statement_snapshot().schema_version
        return CatalogVersion(version=version, is_fixed=False)

    def listing_state(self) -> Hashable:
        """Return the tables that offer statistics: they grow without a new version."""
        return self._access.large_tables(self._access.newest_snapshot())

    def begin_transaction(self) -> str:
        """Start a transaction that reads the newest snapshot, on every replica."""
        return self._access.begin_transaction()

    @property
    def stages_writes(self) -> bool:
        """Whether every write waits for a commit of its client."""
        return self._access.writes.stages

    def commit_transaction(self, transaction_id: str) -> None:
        """Make the staged writes of a transaction one snapshot, which it reads from then on."""
        self._access.writes.commit(transaction_id)

    def rollback_transaction(self, transaction_id: str) -> None:
        """Discard the staged writes of a transaction."""
        self._access.writes.roll_back(transaction_id)

    def transaction_status(self, transaction_id: str) -> TransactionState | None:
        """Return the state of a transaction; None for an identifier of another form."""
        if transaction_snapshot(transaction_id) is None:
            return None
        return self._access.writes.state(transaction_id)

    def _check_main_as(self) -> None:
        for schema in self._access.contents(self._access.newest_snapshot()).schemas:
            if self._main_as is not None and fold_name(schema.name) == fold_name(self._main_as):
                self.close()
                raise DefinitionError(
                    f"main_as must be another name: the lake has a schema {schema.name!r}"
                )

    def _names(self) -> PublishedNames:
        return self._visible(self._access.current_snapshot()).names

    def _visible(self, snapshot: Snapshot) -> SchemaIndex:
        """Return the index of what the request sees: of a snapshot, or of its staged writes."""
        staged = self._access.writes.current()
        if staged is None:
            return self._directory(snapshot)
        return SchemaIndex.of_staged(
            self._access,
            self._access.contents(snapshot),
            staged,
            main_as=self._main_as,
            direct_reads=self._direct_reads,
        )

    def _table(self, schema: str, name: str) -> Table | None:
        found = self.schema(schema)
        return None if found is None else found.table(name)

    def _directory(self, snapshot: Snapshot) -> SchemaIndex:
        return self._directories.get_or_load(
            snapshot.schema_version,
            lambda: SchemaIndex.of(
                self._access,
                self._access.contents(snapshot),
                main_as=self._main_as,
                direct_reads=self._direct_reads,
            ),
        )

    def _published(self, directory: SchemaIndex, key: str, snapshot: Snapshot) -> Schema:
        """Return a schema; the calls of a statement share it, unless it has staged writes."""
        if self._access.writes.current() is not None:
            return self._new_schema(directory, key, snapshot)
        return self._schemas.get_or_load(
            (key, snapshot.id), lambda: self._new_schema(directory, key, snapshot)
        )

    def _new_schema(self, directory: SchemaIndex, key: str, snapshot: Snapshot) -> Schema:
        schema = directory.schemas[key]
        name = directory.names.published(schema.name)
        members, omitted = directory.members.get(key, {}), directory.omitted.get(key, {})
        missing = MissingTables(self._access, directory, schema.name, snapshot)
        return LakeCatalogSchema(
            name,
            schema,
            members,
            snapshot,
            explain=missing.explain,
            omitted=omitted,
            as_seen=partial(self._as_seen, directory.names),
            writes=self._access.writes,
            find=partial(self._table, name),
        )

    def _as_seen(self, names: PublishedNames, schema: str, table: Table) -> Table:
        """Return a table as the policies of the caller leave it; views apply them themselves."""
        if not isinstance(table, LakeCatalogTable):
            return table
        restriction = current_request().restriction(schema, table.name)
        if restriction is None:
            return table
        return RestrictedTable(self._access, names, table, restriction)

    def _functions(self, directory: SchemaIndex, snapshot: Snapshot) -> Schema:
        return functions_schema(
            self._access,
            directory.names,
            snapshot,
            self._extra_functions,
            refused=directory.refused,
        )


def _check_folders(lake: Lake, folders: Sequence[str]) -> None:
    """Raise DefinitionError for folders of `add_files_from` outside of a confined lake."""
    for folder in folders:
        if not lake.storage.admits(folder):
            raise DefinitionError(
                f"add_files_from names {folder!r}, which is outside of "
                f"{lake.storage.confined_to!r}, to which the lake is confined"
            )

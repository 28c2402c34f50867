"""`LakeCatalog`: a lake that DuckDB can attach."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from lakeport._cache import LruCache
from lakeport.auth import Operation
from lakeport.catalog import (
    STATISTICS_ROWS,
    CatalogVersion,
    Schema,
    TransactionState,
    current_request,
)
from lakeport.ducklake import SMALL_SCAN_BYTES, Engine, Lake, Snapshot, make_engine
from lakeport.ducklake.storage import S3Secret, Storage
from lakeport.errors import DefinitionError, NotFoundError
from lakeport.lakehouse.functions.spark_sql import LakeSqlFunction
from lakeport.lakehouse.functions.table_functions import functions_schema
from lakeport.lakehouse.missing import MissingTables
from lakeport.lakehouse.names import MAIN, check_main_as
from lakeport.lakehouse.resources import (
    SPARK_VIEW_BYTES,
    LakeResources,
    begin_transaction,
    current_snapshot,
    transaction_snapshot,
)
from lakeport.lakehouse.schema import LakeCatalogSchema, SchemaIndex
from lakeport.spark import SparkSource
from lakeport.types import fold_name

__all__ = ["LakeCatalog"]


class LakeCatalog:
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
        statistics_rows: Tables with fewer rows offer no statistics. DuckDB requests those of a
            table twice for each column of every statement, which takes longer than a small scan.
        endpoints: Into how many parts a scan is divided at most; one for each core by default.
        data_path: Where the files are, if not at the path in the lake.
        metadata_schema: The database schema of the lake's own tables.
        storage: Credentials of object stores; the environment's when left out.
        database_timeout: Seconds to wait for an answer of a database server.
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
        statistics_rows: int = STATISTICS_ROWS,
        endpoints: int | None = None,
        data_path: str | None = None,
        metadata_schema: str | None = None,
        storage: Storage | S3Secret | Mapping[str, Any] | Iterable[S3Secret] | None = None,
        database_timeout: float = 60.0,
    ) -> None:
        check_main_as(main_as)
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
            )
            if isinstance(lake, str)
            else lake
        )
        self.name = name
        self.comment = comment
        self._access = LakeResources(
            opened,
            engine=chosen,
            endpoints=endpoints,
            spark_view_bytes=spark_view_bytes,
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

    def close(self) -> None:
        """Close the lake. The Spark session keeps running, because other code may use it."""
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
        snapshot = current_snapshot(self._access)
        directory = self._directory(snapshot)
        schemas: list[Schema] = [
            self._published(directory, key, snapshot) for key in directory.schemas
        ]
        return [*schemas, self._functions(directory, snapshot)]

    def schema(self, name: str) -> Schema | None:
        """Return the schema of that name, ignoring case, or None."""
        snapshot = current_snapshot(self._access)
        directory = self._directory(snapshot)
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
        return None

    def catalog_version(self) -> CatalogVersion:
        """Return the schema version of the lake, which changes of rows do not increase."""
        version = self._access.statement_snapshot().schema_version
        return CatalogVersion(version=version, is_fixed=False)

    def listing_state(self) -> Hashable:
        """Return the tables that offer statistics: they grow without a new version."""
        return self._access.large_tables(self._access.newest_snapshot())

    def begin_transaction(self) -> str:
        """Start a transaction that reads the newest snapshot, on every replica."""
        return begin_transaction(self._access)

    def commit_transaction(self, transaction_id: str) -> None:
        """End a transaction, which has changed nothing."""

    def rollback_transaction(self, transaction_id: str) -> None:
        """End a transaction, which has changed nothing."""

    def transaction_status(self, transaction_id: str) -> TransactionState | None:
        """Return ACTIVE for every identifier that has the form of a lake's transaction."""
        known = transaction_snapshot(transaction_id) is not None
        return TransactionState.ACTIVE if known else None

    def _check_main_as(self) -> None:
        for schema in self._access.contents(self._access.newest_snapshot()).schemas:
            if self._main_as is not None and fold_name(schema.name) == fold_name(self._main_as):
                self.close()
                raise DefinitionError(
                    f"main_as must be another name: the lake has a schema {schema.name!r}"
                )

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
        """Return a schema; the calls of a statement share it."""
        return self._schemas.get_or_load(
            (key, snapshot.id), lambda: self._new_schema(directory, key, snapshot)
        )

    def _new_schema(self, directory: SchemaIndex, key: str, snapshot: Snapshot) -> Schema:
        schema = directory.schemas[key]
        name = directory.names.published(schema.name)
        members, omitted = directory.members.get(key, {}), directory.omitted.get(key, {})
        missing = MissingTables(self._access, directory, schema.name, snapshot)
        return LakeCatalogSchema(
            name, schema, members, snapshot, explain=missing.explain, omitted=omitted
        )

    def _functions(self, directory: SchemaIndex, snapshot: Snapshot) -> Schema:
        return functions_schema(
            self._access,
            directory.names,
            snapshot,
            self._extra_functions,
            refused=directory.refused,
        )

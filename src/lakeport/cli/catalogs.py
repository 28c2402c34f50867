"""The catalogs of a server: opened at the start, and opened again when their settings change."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from types import TracebackType
from typing import Self

from lakeport.airport.server import Server
from lakeport.catalog import Catalog
from lakeport.cli.arguments import MEMORY, is_lake, load_object, redacted, resolve_uri, storage_of
from lakeport.cli.config import LakeSettings, SparkSettings
from lakeport.cli.supervisor import SparkSupervisor
from lakeport.ducklake import Lake
from lakeport.ducklake.storage import Storage
from lakeport.errors import DefinitionError, LakeportError
from lakeport.lakehouse import LakeCatalog, check_main_as
from lakeport.memory import MemoryCatalog

__all__ = ["ServedCatalogs"]

_log = logging.getLogger("lakeport")


class ServedCatalogs:
    """The served catalogs by name. Starts Spark, if there is one, when the first lake is opened."""

    def __init__(self, spark: SparkSettings) -> None:
        self.spark = SparkSupervisor(spark)
        self._has_spark = _has_spark(spark)
        self._lakes: dict[str, LakeSettings] = {}
        self._storages: dict[str, Storage] = {}
        self._opened: dict[str, Catalog] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _close(self._opened)
        self.spark.close()

    @property
    def lakes(self) -> Mapping[str, LakeSettings]:
        """The settings of the served catalogs, by name."""
        return self._lakes

    @property
    def opened(self) -> Mapping[str, Catalog]:
        """The served catalogs, by name."""
        return self._opened

    def open(self, lakes: Mapping[str, LakeSettings]) -> dict[str, Catalog]:
        """Return the catalogs of these settings; those with unchanged settings are reused.

        If one cannot be opened, nothing changes.
        """
        with self._open_all(lakes) as opened:
            return opened

    def reload(
        self,
        server: Server,
        read: Callable[[], tuple[Mapping[str, LakeSettings], Callable[[], None]]],
    ) -> None:
        """Serve the catalogs of the new settings; log an error and change nothing if they fail.

        `read` returns the settings of the catalogs, and a callable to run when all are open.
        """
        before, previous = self._lakes, self._opened
        try:
            lakes, apply = read()
            with self._open_all(lakes) as opened:
                apply()
                server.replace_catalogs(opened)
        except LakeportError as error:
            _log.error("configuration not reloaded: %s", error)
            return
        # Running scans have their plans, or open a connection again.
        _close(
            {n: catalog for n, catalog in previous.items() if self._opened.get(n) is not catalog}
        )
        after = self._lakes
        _log.info(
            "reloaded the catalogs",
            extra={
                "added": sorted(after.keys() - before.keys()),
                "removed": sorted(before.keys() - after.keys()),
                "changed": sorted(
                    name for name in before.keys() & after.keys() if before[name] != after[name]
                ),
            },
        )

    @contextmanager
    def _open_all(self, lakes: Mapping[str, LakeSettings]) -> Iterator[dict[str, Catalog]]:
        """Open the catalogs of these settings; keep them if the block does not raise."""
        # Secrets are read again every time: a file may have a new one.
        storages = {name: storage_of(lake) for name, lake in lakes.items()}
        reused = {
            name: catalog
            for name, catalog in self._opened.items()
            if lakes.get(name) == self._lakes[name] and storages[name] == self._storages[name]
        }
        opened: dict[str, Catalog] = {}
        for name in lakes.keys() - reused.keys():
            _check(lakes[name], has_spark=self._has_spark)
        try:
            for name, lake in lakes.items():
                if name not in reused:
                    opened[name] = self._open(lake, storages[name])
            catalogs = {name: (reused if name in reused else opened)[name] for name in lakes}
            yield catalogs
        except Exception:
            _close(opened)
            raise
        self._lakes, self._storages, self._opened = dict(lakes), storages, catalogs

    def _open(self, lake: LakeSettings, storage: Storage) -> Catalog:
        uri = resolve_uri(lake.uri)
        if uri == MEMORY:
            return MemoryCatalog()
        if not is_lake(uri):
            return load_object(uri)
        if self._has_spark:
            self.spark.start()
        _log.debug("opening %s", redacted(uri))
        return LakeCatalog(
            uri,
            engine="auto" if self._has_spark else "local",
            spark=self.spark.session if self._has_spark else None,
            main_as=lake.main_as,
            data_path=lake.data_path,
            confine=lake.confine,
            metadata_schema=lake.metadata_schema,
            database_timeout=lake.database_timeout,
            direct_reads=lake.direct_reads,
            spark_sql=lake.spark_sql,
            writable=lake.writable,
            explicit_transactions=lake.explicit_transactions,
            add_files_from=lake.add_files_from,
            small_scan_bytes=lake.small_scan_bytes,
            statistics_rows=lake.statistics_rows,
            storage=storage,
        )


def _has_spark(settings: SparkSettings) -> bool:
    if settings.enabled is not None:
        return settings.enabled
    # Importing PySpark to find out would delay the start of the server.
    is_installed = find_spec("pyspark") is not None
    if not is_installed:
        _log.info("Spark is not installed: the server reads and writes tables of every size itself")
    return is_installed


def _check(lake: LakeSettings, *, has_spark: bool) -> None:
    """Raise an error for a lake that cannot be served, before Spark is started."""
    check_main_as(lake.main_as)
    if lake.spark_sql and not has_spark:
        raise DefinitionError('spark_sql needs Spark: pip install "lakeport[spark]", or --spark')
    uri = resolve_uri(lake.uri)
    if is_lake(uri):
        Lake.open(
            uri,
            data_path=lake.data_path,
            metadata_schema=lake.metadata_schema,
            database_timeout=lake.database_timeout,
            confine=lake.confine,
        ).close()


def _close(catalogs: Mapping[str, Catalog]) -> None:
    """Close the lakes; catalogs of users are not closed."""
    for catalog in catalogs.values():
        if isinstance(catalog, LakeCatalog):
            catalog.close()

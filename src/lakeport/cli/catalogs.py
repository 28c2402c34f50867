"""The catalogs that a server is told to serve: opened, and opened anew when the list changes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from lakeport.airport.server import Server
from lakeport.catalog import Catalog
from lakeport.cli.arguments import MEMORY, is_lake, load_object, redacted, resolve_uri, storage_of
from lakeport.cli.config import LakeSettings, SparkSettings
from lakeport.cli.supervisor import SparkSupervisor
from lakeport.ducklake import Lake
from lakeport.ducklake.storage import Storage
from lakeport.errors import LakeportError
from lakeport.lakehouse import LakeCatalog, check_main_as
from lakeport.memory import MemoryCatalog

__all__ = ["ServedCatalogs"]

_log = logging.getLogger("lakeport")


class ServedCatalogs:
    """What is served, by name. Starts Spark when the first lake is opened."""

    def __init__(self, spark: SparkSettings) -> None:
        self.spark = SparkSupervisor(spark)
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
        """The settings of what is served."""
        return self._lakes

    @property
    def opened(self) -> Mapping[str, Catalog]:
        """What is served, by name."""
        return self._opened

    def open(self, lakes: Mapping[str, LakeSettings]) -> dict[str, Catalog]:
        """The catalogs of these settings. Those that are open with the same ones stay as they are.

        If one cannot be opened, nothing changes.
        """
        with self._opening(lakes) as opened:
            return opened

    def reload(
        self,
        server: Server,
        read: Callable[[], tuple[Mapping[str, LakeSettings], Callable[[], None]]],
    ) -> None:
        """Serve what the settings say now; if they are wrong, go on as before and say why.

        `read` returns the settings of the catalogs, and what to do once all of them are open.
        """
        before, were = self._lakes, self._opened
        try:
            lakes, apply = read()
            with self._opening(lakes) as opened:
                apply()
                server.replace_catalogs(opened)
        except LakeportError as error:
            _log.error("the catalogs stay as they are: %s", error)
            return
        # What still runs on them has its plan already, or opens a connection again.
        _close({n: catalog for n, catalog in were.items() if self._opened.get(n) is not catalog})
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
    def _opening(self, lakes: Mapping[str, LakeSettings]) -> Iterator[dict[str, Catalog]]:
        """The catalogs of these settings; they become ours if nothing fails inside."""
        # Read again every time: a secret may be another one in the same file.
        storages = {name: storage_of(lake) for name, lake in lakes.items()}
        kept = {
            name: catalog
            for name, catalog in self._opened.items()
            if lakes.get(name) == self._lakes[name] and storages[name] == self._storages[name]
        }
        fresh: dict[str, Catalog] = {}
        for name in lakes.keys() - kept.keys():
            _check(lakes[name])
        try:
            for name, lake in lakes.items():
                if name not in kept:
                    fresh[name] = self._open(lake, storages[name])
            opened = {name: (kept if name in kept else fresh)[name] for name in lakes}
            yield opened
        except Exception:
            _close(fresh)
            raise
        self._lakes, self._storages, self._opened = dict(lakes), storages, opened

    def _open(self, lake: LakeSettings, storage: Storage) -> Catalog:
        place = resolve_uri(lake.uri)
        if place == MEMORY:
            return MemoryCatalog()
        if not is_lake(place):
            return load_object(place)
        self.spark.start()
        _log.debug("opening %s", redacted(place))
        return LakeCatalog(
            place,
            spark=self.spark.session,
            main_as=lake.main_as,
            data_path=lake.data_path,
            metadata_schema=lake.metadata_schema,
            database_timeout=lake.database_timeout,
            direct_reads=lake.direct_reads,
            spark_sql=lake.spark_sql,
            storage=storage,
        )


def _check(lake: LakeSettings) -> None:
    """Refuse what cannot be served before Spark is started for it."""
    check_main_as(lake.main_as)
    place = resolve_uri(lake.uri)
    if is_lake(place):
        Lake.open(
            place,
            data_path=lake.data_path,
            metadata_schema=lake.metadata_schema,
            database_timeout=lake.database_timeout,
        ).close()


def _close(catalogs: Mapping[str, Catalog]) -> None:
    """Close the lakes among some catalogs; others belong to whoever made them."""
    for catalog in catalogs.values():
        if isinstance(catalog, LakeCatalog):
            catalog.close()

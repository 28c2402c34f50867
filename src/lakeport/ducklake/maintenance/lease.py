"""One maintenance of a lake at a time, across processes: a lease in the catalog.

The lease is a row of `ducklake_metadata` under a key of Lakeport, which other clients ignore. It
ends by itself, so that a process that was killed blocks the others for minutes and not for ever.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Final

from lakeport.ducklake.lake import Lake
from lakeport.ducklake.maintenance.catalog_changes import change_catalog
from lakeport.ducklake.metadata.rows import MetadataRow
from lakeport.ducklake.writing.database import CatalogWriter, Delete
from lakeport.ducklake.writing.options import store_option
from lakeport.errors import LakeportError

__all__ = ["KEY", "maintenance_lease"]

_log = logging.getLogger("lakeport.ducklake.maintenance")

KEY: Final = "lakeport_maintenance_lease"
DURATION: Final = timedelta(minutes=5)
RENEWAL: Final = DURATION / 3


@contextmanager
def maintenance_lease(lake: Lake, *, renewal: timedelta = RENEWAL) -> Iterator[bool]:
    """Hold the lease of a lake while the block runs; yield False if another process holds it.

    Args:
        lake: The lake.
        renewal: After how much time the lease gets a new end.
    """
    owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex}"
    if not _take(lake, owner):
        yield False
        return
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(renewal.total_seconds()):
            try:
                _take(lake, owner)
            except LakeportError as error:
                _log.warning("the lease of the maintenance could not be renewed: %s", error)

    thread = threading.Thread(target=renew, name="lakeport-lease", daemon=True)
    thread.start()
    try:
        yield True
    finally:
        ended.set()
        thread.join()
        try:
            _release(lake, owner)
        except LakeportError as error:
            _log.warning("the lease of the maintenance could not be released: %s", error)


def _take(lake: Lake, owner: str) -> bool:
    def work(writer: CatalogWriter) -> bool:
        now = writer.now
        held = _held(writer)
        if held is not None and held[0] != owner and held[1] > now:
            return False
        until = (now + DURATION).isoformat()
        store_option(writer, KEY, json.dumps({"owner": owner, "until": until}), None, None)
        writer.commit()
        return True

    return change_catalog(lake, work)


def _release(lake: Lake, owner: str) -> None:
    def work(writer: CatalogWriter) -> None:
        held = _held(writer)
        if held is not None and held[0] == owner:
            writer.run(Delete(MetadataRow, ("key",), ((KEY,),)))
            writer.commit()

    change_catalog(lake, work)


def _held(writer: CatalogWriter) -> tuple[str, datetime] | None:
    """Return the owner of the lease and its end; None if there is none that can be understood."""
    for row in writer.select(MetadataRow, ["key"], [(KEY,)]):
        try:
            document = json.loads(row.value)
            return str(document["owner"]), datetime.fromisoformat(document["until"])
        except (ValueError, KeyError, TypeError):
            _log.warning("the lease of the maintenance, %r, is not understood", row.value)
    return None

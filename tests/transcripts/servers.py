"""Servers for the themes: which catalogs each of them needs, and how long they live."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lakeport.airport import Server
from lakeport.catalog import Action, Catalog, current_request
from tests.transcripts.catalog import LiveCatalog, TransactionalCatalog, build_catalog
from tests.transcripts.mixed_catalog import MixedCatalog, TransactionalMixedCatalog

__all__ = ["Backend", "serve"]

# Catalogs whose contents reach the client in other ways on the recording server. Lakeport sends all
# of them inline with a digest.
TRANSPORTS = ("nosha", "bundle", "listflights", "url")


class Backend(enum.Enum):
    """What the catalogs are made of."""

    BUILDER = "CatalogBuilder"
    MEMORY = "MemoryCatalog"


@contextmanager
def serve(theme: str, backend: Backend = Backend.BUILDER) -> Iterator[Server]:
    """A server with the catalogs that a theme attaches."""
    running: list[Server] = []

    def location() -> str:
        return running[0].location

    catalogs: dict[str, Catalog] = {"db1": _catalog("db1", backend, location)}
    if theme == "attach":
        for name in (*TRANSPORTS, "withmain"):
            catalogs[name] = TransactionalCatalog(build_catalog(name))
        catalogs["fixed"] = TransactionalCatalog(build_catalog("fixed"), is_fixed=True)
    if theme in {"attach", "transactions"}:
        catalogs["notx"] = _without_transactions("notx", backend)

    def create_database(body: bytes) -> bytes:
        running[0].add_catalog(body.decode(), _catalog(body.decode(), backend, location))
        return b""

    actions = [*_controls(catalogs["db1"]), Action("create_database", create_database)]
    auth = {"good-token": "tester"} if theme == "auth_secret" else None
    with Server(catalogs, actions=actions, auth=auth) as server:
        running.append(server)
        yield server


def _catalog(name: str, backend: Backend, location: Callable[[], str]) -> Catalog:
    if backend is Backend.MEMORY:
        return TransactionalMixedCatalog(name, location=location)
    return TransactionalCatalog(build_catalog(name, location=location))


def _without_transactions(name: str, backend: Backend) -> Catalog:
    if backend is Backend.MEMORY:
        return MixedCatalog(name)
    return LiveCatalog(build_catalog(name))


def _controls(catalog: Catalog) -> list[Action]:
    """The actions with which the recordings controlled their server."""

    def echo(body: bytes) -> list[bytes]:
        if isinstance(catalog, MixedCatalog):
            catalog.check("echo")
        return [body, b"second", current_request().catalog.encode()]

    def bump_version(body: bytes) -> bytes:
        if isinstance(catalog, LiveCatalog):
            catalog.version += 1
        return b""

    def seed_err(body: bytes) -> bytes:
        assert isinstance(catalog, MixedCatalog)
        action, _, kind = body.decode().partition("=")
        catalog.fail(action, kind)
        return b"ok"

    def seed_empty(body: bytes) -> bytes:
        # The recording server then answered without a result; Lakeport has no way to be told that.
        return b"ok"

    return [
        Action("echo", echo),
        Action("bump_version", bump_version),
        Action("seed_empty", seed_empty),
        Action("seed_err", seed_err),
    ]

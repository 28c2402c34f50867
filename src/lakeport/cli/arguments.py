"""What a LAKE of the command line or of the configuration means."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, TypedDict

import typer

from lakeport.airport.server import check_location
from lakeport.auth import TlsConfig
from lakeport.catalog import Catalog
from lakeport.cli.config import LakeSettings, StorageSettings, check_token
from lakeport.ducklake.metadata import parse_location
from lakeport.ducklake.storage import S3Secret, Storage
from lakeport.errors import DefinitionError, first_line

__all__ = [
    "MEMORY",
    "SnapshotChoice",
    "by_name",
    "default_name",
    "is_lake",
    "is_snapshot_id",
    "listening_location",
    "load_object",
    "parse_argument",
    "parse_at",
    "parse_lake",
    "read_token",
    "read_tokens",
    "redacted",
    "resolve_uri",
    "storage_of",
]

MEMORY: Final = "memory:"

_MAX_FILE = 64 * 1024
_NAME = re.compile(r"[A-Za-z_][\w-]*\Z")
_OBJECT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*\Z")
_SCHEME = re.compile(r"(ducklake|duckdb|sqlite|postgres|postgresql|mysql|mariadb)(\+\w+)?:", re.I)
_LAKE_FILES: Final = frozenset({".ducklake", ".duckdb", ".db", ".sqlite", ".sqlite3"})
_SQLITE_MAGIC: Final = b"SQLite format 3\0"


def parse_argument(argument: str, **options: Any) -> LakeSettings:
    """The settings of `LAKE` or `name=LAKE`."""
    name, separator, uri = argument.partition("=")
    if not separator or not _NAME.match(name):
        name, uri = "", argument
    if is_lake(uri) and parse_location(uri).secrets:
        typer.secho(
            "A password on the command line can be read by everybody on this machine: better put "
            "the location into a file and write @file, or into the file of --config.",
            fg="yellow",
            err=True,
        )
    given = {key: value for key, value in options.items() if value is not None}
    return LakeSettings(uri=uri, **{"name": name, **given})


def resolve_uri(uri: str) -> str:
    """The location itself: `@file` is read, and the kind of a bare database file is found out."""
    if uri.startswith("@"):
        uri = _read_text(Path(uri[1:]), "the lake's location").strip()
    if not is_lake(uri) or _SCHEME.match(uri):
        return uri
    return f"sqlite:{uri}" if _is_sqlite(Path(uri)) else f"ducklake:{uri}"


def is_lake(uri: str) -> bool:
    """Whether a location is that of a lake: a URI, or the file of its catalog database."""
    if uri == MEMORY or uri.startswith("@"):
        return False
    if _SCHEME.match(uri):
        return True
    path = Path(uri)
    return path.suffix.lower() in _LAKE_FILES or path.is_file()


def by_name(lakes: Iterable[LakeSettings]) -> dict[str, LakeSettings]:
    """The lakes by the name that they are served by; a nameless one that stands alone has none."""
    all_lakes = list(lakes)
    found: dict[str, LakeSettings] = {}
    for lake in all_lakes:
        name = lake.name or ("" if len(all_lakes) == 1 else default_name(lake.uri))
        if name in found:
            raise DefinitionError(f"two catalogs are named {name!r}: write name=LAKE")
        found[name] = lake
    return found


def default_name(uri: str) -> str:
    """The name of a catalog whose user gave none: that of its file, database or object."""
    place = resolve_uri(uri)
    if place == MEMORY:
        # Not "memory": DuckDB has a database of that name.
        return "lake"
    if not is_lake(place):
        return place.rpartition(":")[2]
    location = parse_location(place)
    if location.path:
        return Path(location.path).stem
    return location.parameters.get("dbname") or location.parameters.get("database") or "lake"


def redacted(uri: str) -> str:
    """A location without secrets, for people."""
    place = resolve_uri(uri)
    return str(parse_location(place)) if is_lake(place) else place


def storage_of(lake: LakeSettings) -> Storage:
    """Return the object stores of a lake with their secrets, read from files and variables."""
    return Storage(tuple(_store(settings) for settings in lake.storage))


def parse_lake(argument: str) -> str:
    """The location of the one lake that a command is about; anything else is an error."""
    place = resolve_uri(parse_argument(argument).uri)
    if not is_lake(place):
        raise DefinitionError(
            f"{argument!r} is not a lake: write ducklake:…, postgresql://…, or the path of its file"
        )
    return place


def listening_location(listen: str, tls: TlsConfig | None = None) -> str:
    """Return the location of `--listen`, which is written as host:port or as a location."""
    scheme, separator, _ = listen.partition("://")
    if not separator:
        scheme = "grpc" if tls is None else "grpc+tls"
        return check_location(f"{scheme}://{listen}", tls)
    if scheme == "grpc+tls" and tls is None:
        raise DefinitionError(f"{listen} needs --tls-cert and --tls-key")
    if scheme in {"grpc", "grpc+tcp"} and tls is not None:
        raise DefinitionError(
            f"{listen} is not encrypted, but there is a certificate: write grpc+tls://…"
        )
    return check_location(listen, tls)


def load_object(place: str) -> Catalog:
    """The catalog of `package.module:name`: an object, or what a callable returns."""
    if not _OBJECT.match(place):
        raise DefinitionError(
            f"{place!r} is neither a lake, nor 'memory:', nor 'package.module:name' of a catalog"
        )
    module_name, _, attribute = place.partition(":")
    try:
        found: Any = getattr(importlib.import_module(module_name), attribute)
        catalog = found() if callable(found) and not isinstance(found, Catalog) else found
    except Exception as error:
        # The code of a user may fail with anything, and only this catalog is at fault.
        reason = first_line(error)
        kind = "" if isinstance(error, (ImportError, AttributeError)) else type(error).__name__
        told = ": ".join(part for part in (kind, reason) if part)
        raise DefinitionError(f"{place!r} cannot be loaded: {told}") from error
    if not isinstance(catalog, Catalog):
        raise DefinitionError(f"{place!r} is {type(catalog).__name__}, not a catalog")
    return catalog


def read_token(file: Path) -> str:
    """The first token of a file, for a client."""
    for line in _read_text(file, "the token file").splitlines():
        words = line.partition("#")[0].split()
        if words:
            return words[0]
    raise DefinitionError("the token file holds no tokens")


def read_tokens(file: Path) -> dict[str, str]:
    """The tokens of a server's file and their identities: 'token identity' a line."""
    tokens: dict[str, str] = {}
    for number, line in enumerate(_read_text(file, "the token file").splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2:
            raise DefinitionError(f"line {number} of the token file is not 'token identity'")
        try:
            check_token(words[0])
        except ValueError as error:
            raise DefinitionError(f"line {number} of the token file: {error}") from None
        tokens[words[0]] = words[1]
    if not tokens:
        raise DefinitionError("the token file holds no tokens")
    return tokens


def _store(settings: StorageSettings) -> S3Secret:
    return S3Secret(
        key_id=settings.key_id,
        secret=_secret(settings.secret_file, settings.secret_env, "the secret of an object store"),
        session_token=_secret(
            settings.session_token_file, settings.session_token_env, "a session token"
        ),
        region=settings.region,
        endpoint=settings.endpoint,
        url_style=settings.url_style,
        use_ssl=settings.use_ssl,
        scope=settings.scope,
    )


def _secret(file: Path | None, variable: str | None, what: str) -> str | None:
    """Return what a file or a variable contains; None if neither is given."""
    if file is None and variable is None:
        return None
    if file is not None:
        place, text = str(file), _read_text(file, what)
    else:
        place, text = f"the variable {variable}", os.environ.get(variable or "", "")
    if not text.strip():
        raise DefinitionError(f"{what} is missing: {place} is empty or not there")
    return text.strip()


def _read_text(file: Path, what: str) -> str:
    try:
        with file.open(encoding="utf-8") as opened:
            text = opened.read(_MAX_FILE + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise DefinitionError(f"{what} cannot be read from {file}: {reason}") from None
    if len(text) > _MAX_FILE:
        raise DefinitionError(f"{what} cannot be read from {file}: it is too large")
    return text


def _is_sqlite(path: Path) -> bool:
    try:
        with path.open("rb") as opened:
            return opened.read(len(_SQLITE_MAGIC)) == _SQLITE_MAGIC
    except OSError:
        return path.suffix.lower() in {".sqlite", ".sqlite3"}


class SnapshotChoice(TypedDict, total=False):
    """The arguments of a lake's methods that choose a snapshot; empty for the newest."""

    version: int
    timestamp: str


def is_snapshot_id(at: str) -> bool:
    """Whether `--at` is a number; otherwise it is a time."""
    return re.fullmatch(r"[0-9]{1,18}", at) is not None


def parse_at(at: str | None) -> SnapshotChoice:
    """The snapshot that `--at` means."""
    if at is None:
        return {}
    return {"version": int(at)} if is_snapshot_id(at) else {"timestamp": at}

"""Arguments of commands: LAKE, --at, --listen, token files, object stores."""

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
    "read_certificates",
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
    """Return the settings of `LAKE` or `name=LAKE`."""
    name, separator, uri = argument.partition("=")
    if not separator or not _NAME.match(name):
        name, uri = "", argument
    if is_lake(uri) and parse_location(uri).secrets:
        typer.secho(
            "Other users of this machine can read a password on the command line: put the location "
            "into a file and write @file, or into the file of --config.",
            fg="yellow",
            err=True,
        )
    explicit = {key: value for key, value in options.items() if value is not None}
    return LakeSettings(uri=uri, **{"name": name, **explicit})


def resolve_uri(uri: str) -> str:
    """Return the location: read `@file`, and add the scheme of a bare database file."""
    if uri.startswith("@"):
        uri = _read_text(Path(uri[1:]), "the lake's location").strip()
    if not is_lake(uri) or _SCHEME.match(uri):
        return uri
    return f"sqlite:{uri}" if _is_sqlite(Path(uri)) else f"ducklake:{uri}"


def is_lake(uri: str) -> bool:
    """Return whether a location is a lake's: a URI, or the file of its catalog database."""
    if uri == MEMORY or uri.startswith("@"):
        return False
    if _SCHEME.match(uri):
        return True
    path = Path(uri)
    return path.suffix.lower() in _LAKE_FILES or path.is_file()


def by_name(lakes: Iterable[LakeSettings]) -> dict[str, LakeSettings]:
    """Return the lakes by their served names; a single lake without a name has the name ''."""
    all_lakes = list(lakes)
    named: dict[str, LakeSettings] = {}
    for lake in all_lakes:
        name = lake.name or ("" if len(all_lakes) == 1 else default_name(lake.uri))
        if name in named:
            raise DefinitionError(f"two catalogs are named {name!r}: write name=LAKE")
        named[name] = lake
    return named


def default_name(uri: str) -> str:
    """Return the name of a catalog without one: that of its file, database or object."""
    uri = resolve_uri(uri)
    if uri == MEMORY:
        # Not "memory": DuckDB has a database of that name.
        return "lake"
    if not is_lake(uri):
        return uri.rpartition(":")[2]
    location = parse_location(uri)
    if location.path:
        return Path(location.path).stem
    return location.parameters.get("dbname") or location.parameters.get("database") or "lake"


def redacted(uri: str) -> str:
    """Return a location without its secrets."""
    uri = resolve_uri(uri)
    return str(parse_location(uri)) if is_lake(uri) else uri


def storage_of(lake: LakeSettings) -> Storage:
    """Return the object stores of a lake with their secrets, read from files and variables."""
    return Storage(tuple(_store(settings) for settings in lake.storage))


def parse_lake(argument: str) -> str:
    """Return the location of the lake that a command reads; raise if it is not a lake."""
    uri = resolve_uri(parse_argument(argument).uri)
    if not is_lake(uri):
        raise DefinitionError(
            f"{argument!r} is not a lake: write ducklake:…, postgresql://…, or the path of its file"
        )
    return uri


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


def load_object(uri: str) -> Catalog:
    """Return the catalog of `package.module:name`: an object, or the result of a callable."""
    if not _OBJECT.match(uri):
        raise DefinitionError(
            f"cannot serve {uri!r}: expected a lake (ducklake:…, postgresql://…, a file), memory:, "
            "or package.module:name"
        )
    module_name, _, attribute = uri.partition(":")
    try:
        value: Any = getattr(importlib.import_module(module_name), attribute)
        catalog = value() if callable(value) and not isinstance(value, Catalog) else value
    except Exception as error:
        # A user's code may raise any error.
        reason = first_line(error)
        kind = "" if isinstance(error, (ImportError, AttributeError)) else type(error).__name__
        # An error without a message is its own reason.
        message = reason if kind in ("", reason) else f"{kind}: {reason}"
        raise DefinitionError(f"{uri!r} cannot be loaded: {message}") from error
    if not isinstance(catalog, Catalog):
        raise DefinitionError(f"{uri!r} is {type(catalog).__name__}, not a catalog")
    return catalog


def read_token(file: Path) -> str:
    """Return the first token of a file, for a client."""
    for line in _read_text(file, "the token file").splitlines():
        words = line.partition("#")[0].split()
        if words:
            return words[0]
    raise DefinitionError("the token file holds no tokens")


def read_certificates(file: Path) -> bytes:
    """Return the certificates of a file, for a client."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise DefinitionError(f"{file} cannot be read: {error.strerror}") from None


def read_tokens(file: Path) -> dict[str, str]:
    """Return the tokens of a server's file with their identities; a line has both."""
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


def _secret(file: Path | None, variable: str | None, subject: str) -> str | None:
    """Return the content of a file or a variable; None if neither is given."""
    if file is None and variable is None:
        return None
    if file is not None:
        source, text = str(file), _read_text(file, subject)
    else:
        source, text = f"the variable {variable}", os.environ.get(variable or "", "")
    if not text.strip():
        raise DefinitionError(f"{subject} is missing: {source} is empty or not there")
    return text.strip()


def _read_text(file: Path, subject: str) -> str:
    try:
        with file.open(encoding="utf-8") as opened:
            text = opened.read(_MAX_FILE + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise DefinitionError(f"{subject} cannot be read from {file}: {reason}") from None
    if len(text) > _MAX_FILE:
        raise DefinitionError(f"{subject} cannot be read from {file}: it is too large")
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
    """Return whether `--at` is a snapshot id; otherwise it is a time."""
    return re.fullmatch(r"[0-9]{1,18}", at) is not None


def parse_at(at: str | None) -> SnapshotChoice:
    """Return the arguments that choose the snapshot of `--at`."""
    if at is None:
        return {}
    return {"version": int(at)} if is_snapshot_id(at) else {"timestamp": at}

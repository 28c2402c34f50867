"""Parse the location of a lake's catalog database; its text never contains a secret.

Accepted, with or without the leading `ducklake:`

    meta.ducklake            duckdb:meta.ducklake     duckdb:///meta.ducklake
    meta.sqlite              sqlite:meta.sqlite       sqlite:///meta.sqlite
    postgres:dbname=lake host=db                      postgresql://user:secret@db/lake
    mysql:db=lake host=db                             mysql://user:secret@db:3306/lake
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from lakeport.errors import InvalidArgumentError

__all__ = ["DatabaseKind", "Location", "parse_location"]

DatabaseKind = Literal["duckdb", "sqlite", "postgresql", "mysql"]

_SCHEMES: dict[str, DatabaseKind] = {
    "duckdb": "duckdb",
    "sqlite": "sqlite",
    "postgres": "postgresql",
    "postgresql": "postgresql",
    "mysql": "mysql",
    "mariadb": "mysql",
}
_SQLITE_MAGIC = b"SQLite format 3\0"
_SECRET_KEYS = frozenset({"password", "passwd", "sslpassword", "ssl_key"})
# The spellings of DuckDB's mysql extension, and what PyMySQL calls them.
_MYSQL_KEYS = {
    "host": "host",
    "user": "user",
    "password": "password",
    "passwd": "password",
    "db": "database",
    "database": "database",
    "port": "port",
    "socket": "unix_socket",
    "unix_socket": "unix_socket",
    "connect_timeout": "connect_timeout",
    "read_timeout": "read_timeout",
    "write_timeout": "write_timeout",
    "ssl_ca": "ssl_ca",
    "ssl_cert": "ssl_cert",
    "ssl_key": "ssl_key",
}


@dataclass(frozen=True, slots=True)
class Location:
    """A catalog database: its kind, and how to reach it."""

    kind: DatabaseKind
    path: str = ""
    """The file of a DuckDB or SQLite database."""
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Connection parameters of a server, with the names of its driver."""

    def __str__(self) -> str:
        if self.path:
            return f"{self.kind}:{self.path}"
        shown = " ".join(f"{k}={v}" for k, v in self.parameters.items() if k not in _SECRET_KEYS)
        return f"{self.kind}:{shown}"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The texts that must not appear in any message."""
        return tuple(v for k, v in self.parameters.items() if k in _SECRET_KEYS and v)


def parse_location(uri: str) -> Location:
    """Parse any spelling of a lake's catalog database."""
    text = uri.strip()
    if text.lower().startswith("ducklake:"):
        text = text[len("ducklake:") :]
    if not text:
        raise InvalidArgumentError("the lake's location is empty")
    scheme, rest = _scheme(text)
    kind = _SCHEMES.get(scheme)
    if kind is None:
        if scheme and "://" in text:
            raise InvalidArgumentError(f"{scheme!r} is not a catalog database Lakeport can open")
        return Location("sqlite" if _is_sqlite(text) else "duckdb", text)
    if kind in ("duckdb", "sqlite"):
        return Location(kind, _file_path(rest))
    if rest.startswith("//"):
        return Location(kind, parameters=_server_url(kind, text))
    if _SCHEMES.get(_scheme(rest)[0]) == kind:  # ducklake:postgres:postgresql://...
        return Location(kind, parameters=_server_url(kind, rest))
    return Location(kind, parameters=_server_pairs(kind, rest))


def _is_sqlite(path: str) -> bool:
    """Return whether a file is a SQLite database, by its first bytes."""
    try:
        # Opening a named pipe would wait for a writer.
        if not Path(path).is_file():
            return False
        with Path(path).open("rb") as file:
            return file.read(len(_SQLITE_MAGIC)) == _SQLITE_MAGIC
    except (OSError, ValueError):
        return False


def _scheme(text: str) -> tuple[str, str]:
    match = re.match(r"([A-Za-z][A-Za-z0-9]+)(?:\+[A-Za-z0-9]+)?:", text)
    return (match.group(1).lower(), text[match.end() :]) if match else ("", text)


def _file_path(rest: str) -> str:
    if rest.startswith("///"):
        path = unquote(rest[3:].split("?", 1)[0])
    elif rest.startswith("//"):
        raise InvalidArgumentError(
            "a database file has no host: write sqlite:///path or sqlite:path"
        )
    else:
        path = rest
    if not path:
        raise InvalidArgumentError("the path of the database file is missing")
    return path


def _server_url(kind: DatabaseKind, url: str) -> dict[str, str]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidArgumentError(f"the {kind} URL cannot be understood") from None
    found = {
        "host": unquote(parts.hostname or ""),
        "port": str(port or ""),
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        ("dbname" if kind == "postgresql" else "database"): unquote(parts.path.lstrip("/")),
    }
    pairs = {**{k: v for k, v in found.items() if v}, **dict(parse_qsl(parts.query))}
    return _checked(kind, pairs)


def _server_pairs(kind: DatabaseKind, text: str) -> dict[str, str]:
    """Parse libpq's `key=value key='quoted value'` list, which DuckDB's mysql extension shares."""
    pairs: dict[str, str] = {}
    position = 0
    pattern = re.compile(
        r"\s*([A-Za-z_]+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|((?:[^\s'\\]|\\.)*))(?=\s|$)", re.DOTALL
    )
    while text[position:].strip():
        match = pattern.match(text, position)
        if match is None:
            raise InvalidArgumentError(
                f"the {kind} connection text is not a list of key=value pairs"
            )
        quoted, bare = match.group(2), match.group(3)
        value = re.sub(r"\\(.)", r"\1", quoted if quoted is not None else bare, flags=re.DOTALL)
        pairs[match.group(1).lower()] = value
        position = match.end()
    return _checked(kind, pairs)


def _checked(kind: DatabaseKind, pairs: dict[str, str]) -> dict[str, str]:
    if kind == "postgresql":
        return pairs
    unknown = sorted(set(pairs) - set(_MYSQL_KEYS))
    if unknown:
        raise InvalidArgumentError(
            f"{unknown[0]!r} is not a MySQL connection option Lakeport knows"
        )
    found = {_MYSQL_KEYS[key]: value for key, value in pairs.items()}
    for name in ("port", "connect_timeout", "read_timeout", "write_timeout"):
        if name in found and not found[name].isdigit():
            raise InvalidArgumentError(f"the MySQL {name} is not a number")
    return found

"""Where the files of a lake are: the local disk, or an object store through `pyarrow.fs`.

`Storage` is part of every scan task, so that any process can open the files of its task.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyarrow import fs

from lakeport._files import check_regular
from lakeport.ducklake.storage.paths import (
    as_directory,
    glob_pattern,
    is_inside,
    is_local,
    local_path,
)
from lakeport.errors import (
    InvalidArgumentError,
    MissingFileError,
    PermissionDeniedError,
    UnavailableError,
    UnsupportedError,
)

__all__ = ["S3Secret", "Storage"]

_S3_SCHEMES = frozenset({"s3", "s3a", "s3n", "r2"})
_OTHER_SCHEMES = frozenset({"gs", "gcs", "abfs", "abfss"})


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Secret:
    """Credentials and settings of an S3-compatible store, named as in DuckDB's secrets.

    Options that are not set are read from the environment, as the AWS tools do.
    """

    key_id: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    region: str | None = None
    endpoint: str | None = None
    url_style: str | None = None
    """`path` or `vhost`."""
    use_ssl: bool = True
    scope: str = ""
    """The secret applies to paths that begin with this text."""

    @classmethod
    def from_mapping(cls, options: Mapping[str, Any]) -> S3Secret:
        """Make a secret from DuckDB's options in any case: `KEY_ID`, `SECRET`, `REGION`, ..."""
        names = {f.name for f in fields(cls)}
        values = {key.lower(): value for key, value in options.items()}
        for ignored in ("type", "provider"):
            values.pop(ignored, None)
        unknown = sorted(set(values) - names)
        if unknown:
            raise InvalidArgumentError(f"{unknown[0]!r} is not an option of an S3 secret")
        if isinstance(values.get("use_ssl"), str):
            values["use_ssl"] = values["use_ssl"].lower() in ("true", "1", "yes")
        return cls(**values)

    @classmethod
    def from_sql(cls, statement: str) -> S3Secret:
        """Make a secret from DuckDB's `CREATE SECRET (TYPE s3, KEY_ID '...', SECRET '...')`."""
        body = re.search(r"\((.*)\)", statement, re.DOTALL)
        if body is None or "secret" not in statement.lower():
            raise InvalidArgumentError("this is not a CREATE SECRET statement")
        pairs = re.findall(r"([A-Za-z_]+)\s+(?:'((?:[^']|'')*)'|([A-Za-z0-9_.]+))", body.group(1))
        return cls.from_mapping(
            {key: quoted.replace("''", "'") or bare for key, quoted, bare in pairs}
        )


@dataclass(frozen=True, slots=True)
class Storage:
    """How to open the files of a lake."""

    secrets: tuple[S3Secret, ...] = ()
    confined_to: str | None = None
    """The only folder with files that may be opened, listed, written and deleted."""

    @classmethod
    def from_options(
        cls, options: Storage | S3Secret | Mapping[str, Any] | Iterable[S3Secret] | None
    ) -> Storage:
        """Make a storage from nothing, one secret, several secrets, or a mapping of options."""
        if options is None:
            return cls()
        if isinstance(options, Storage):
            return options
        if isinstance(options, S3Secret):
            return cls((options,))
        if isinstance(options, Mapping):
            return cls((S3Secret.from_mapping(options),))
        return cls(tuple(options))

    def confined(self, root: str) -> Storage:
        """Return the same storage for files below a folder only."""
        if not root:
            raise InvalidArgumentError("a lake without a data path cannot be confined to it")
        absolute = os.path.abspath(local_path(root)) if is_local(root) else root  # noqa: PTH100
        return replace(self, confined_to=as_directory(absolute))

    def admits(self, path: str) -> bool:
        """Return whether a path may be opened: all may, unless the storage is confined."""
        return self.confined_to is None or is_inside(self.confined_to, path)

    def check(self, paths: Iterable[str]) -> None:
        """Raise PermissionDeniedError for the first path that leads out of a confined storage."""
        if self.confined_to is None:
            return
        for path in paths:
            if not self.admits(path):
                raise PermissionDeniedError(
                    f"the file {path[:200]!r} is outside of {self.confined_to!r}, to which the "
                    "lake is confined"
                )

    def open(self, path: str) -> pa.NativeFile:
        """Open a file for random access."""
        filesystem, name = self.filesystem(path)
        if is_local(path):
            check_regular(local_path(path))
        try:
            return filesystem.open_input_file(name)
        except FileNotFoundError:
            raise MissingFileError(f"the lake's file {path!r} is missing") from None
        except PermissionError as error:
            raise PermissionDeniedError(
                f"the lake's file {path!r} may not be read: {error}"
            ) from None
        except OSError as error:
            raise _store_error(path, error) from None

    def read(self, path: str) -> bytes:
        """Return the whole content of a small file."""
        with self.open(path) as file:
            return bytes(file.read())

    def delete(self, path: str) -> None:
        """Delete a file; one that does not exist is no error."""
        filesystem, name = self.filesystem(path)
        if filesystem.get_file_info(name).type != fs.FileType.NotFound:
            filesystem.delete_file(name)

    def glob(self, path: str) -> list[str]:
        """Return the files that a path with wildcards stands for, sorted; else the path itself."""
        found = glob_pattern(path)
        if found is None:
            return [path]
        directory, pattern = found
        filesystem, name = self.filesystem(directory)
        selector = fs.FileSelector(name, recursive=True, allow_not_found=True)
        # Names of the file system have no scheme.
        scheme = directory[: len(directory) - len(name)] if directory.endswith(name) else ""
        paths = [
            scheme + info.path
            for info in filesystem.get_file_info(selector)
            if info.type == fs.FileType.File
        ]
        return sorted(each for each in paths if pattern.fullmatch(each))

    def filesystem(self, path: str) -> tuple[fs.FileSystem, str]:
        """Return the file system of a resolved path, and the path's name there."""
        self.check((path,))
        if is_local(path):
            return _local(), local_path(path)
        scheme, _, rest = path.partition("://")
        if scheme in _S3_SCHEMES:
            return _s3(self._secret(path)), rest
        if scheme in _OTHER_SCHEMES:
            filesystem, name = fs.FileSystem.from_uri(
                path.replace("gcs://", "gs://", 1).replace("%", "%25")
            )
            return filesystem, name
        raise UnsupportedError(f"files at {scheme}:// cannot be read")

    def _secret(self, path: str) -> S3Secret:
        matching = [secret for secret in self.secrets if path.startswith(secret.scope)]
        return max(matching, key=lambda secret: len(secret.scope), default=S3Secret())


def _store_error(path: str, error: OSError) -> Exception:
    text = str(error)
    if "ACCESS_DENIED" in text or "403" in text:
        return PermissionDeniedError(f"the lake's file {path!r} may not be read")
    if "NO_SUCH" in text or "404" in text:
        return MissingFileError(f"the lake's file {path!r} is missing")
    return UnavailableError(f"the lake's file {path!r} cannot be opened: {text.splitlines()[0]}")


@lru_cache(maxsize=1)
def _local() -> fs.FileSystem:
    return fs.LocalFileSystem()


@lru_cache(maxsize=32)
def _s3(secret: S3Secret) -> fs.FileSystem:
    options: dict[str, Any] = {
        "access_key": secret.key_id,
        "secret_key": secret.secret,
        "session_token": secret.session_token,
        "region": secret.region,
    }
    environment = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    endpoint = secret.endpoint or environment or ""
    if endpoint:
        options["endpoint_override"] = re.sub(r"^https?://", "", endpoint)
        options["force_virtual_addressing"] = secret.url_style == "vhost"
    plain = endpoint.startswith("http://") or not secret.use_ssl
    options["scheme"] = "http" if plain else "https"
    return fs.S3FileSystem(**{key: value for key, value in options.items() if value is not None})

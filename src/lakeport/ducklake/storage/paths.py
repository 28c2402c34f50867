"""Paths of a lake: joined level by level as plain text, and rejected if they leave their root.

Percent signs are part of a name: the folders of hive partitions are stored percent-encoded, and
exist under the encoded name.
"""

from __future__ import annotations

import os
import re
from urllib.parse import unquote

from lakeport.errors import CorruptLakeError

__all__ = [
    "as_directory",
    "hive_value",
    "hive_values",
    "is_inside",
    "is_local",
    "local_path",
    "resolve",
]

_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


def as_directory(path: str) -> str:
    """Return a directory with its separator; the empty path stays empty."""
    if not path or path.endswith(("/", "\\")):
        return path
    return path + "/"


def resolve(root: str, path: str, *, relative: bool) -> str:
    """Return a path of the catalog below `root`, or the path itself if it is absolute."""
    if not relative:
        return path
    parts = re.split(r"[/\\]", path)
    if ".." in parts or path.startswith(("/", "\\")) or "\x00" in path:
        raise CorruptLakeError(f"the relative path {path!r} leads out of {root!r}")
    return as_directory(root) + path


def is_local(path: str) -> bool:
    """Return whether a resolved path is on the local file system."""
    return "://" not in path or path.startswith("file:")


def local_path(path: str) -> str:
    """Return the plain path of a local file, without its `file:` prefix."""
    if path.startswith("file://"):
        return (
            path[len("file://") :]
            if not path.startswith("file://localhost/")
            else path[len("file://localhost") :]
        )
    return path[len("file:") :] if path.startswith("file:/") else path


def is_inside(root: str, path: str) -> bool:
    """Return whether a path is a folder or below it; links of the local disk are followed."""
    if is_local(root):
        if not is_local(path):
            return False
        try:
            folder, real = (os.path.realpath(local_path(each)) for each in (root, path))
        except (OSError, ValueError):
            return False
        return real == folder or real.startswith(folder.rstrip("/") + "/")
    if as_directory(path) == root:
        return True
    steps = re.split(r"[/\\]", path.removeprefix(root))
    # Other stores than S3 take options, such as another endpoint, from the path itself.
    has_options = not path.startswith("s3") and not {"?", "#"}.isdisjoint(path)
    return path.startswith(root) and {".", ".."}.isdisjoint(steps) and not has_options


def hive_value(path: str, name: str, *, is_text: bool) -> str | None:
    """Return a column's value from the folders of a path; an empty value is NULL unless text."""
    values = hive_values(path)
    if name.lower() not in values:
        raise CorruptLakeError(f"the path {path!r} has no folder {name}=")
    value = values[name.lower()]
    return None if value == "" and not is_text else value


def hive_values(path: str) -> dict[str, str | None]:
    """Return the `key=value` folders of a path: keys in lower case, values decoded, first wins."""
    values: dict[str, str | None] = {}
    for part in re.split(r"[/\\]", path)[:-1]:
        key, equals, value = part.partition("=")
        if equals and key:
            is_null = value == _HIVE_NULL or value.lower() == "null"
            values.setdefault(unquote(key).lower(), None if is_null else unquote(value))
    return values


def glob_pattern(path: str) -> tuple[str, re.Pattern[str]] | None:
    """Return the directory and the pattern of a path with wildcards; None without any.

    `*` and `?` stand for characters of one name, `**` for any folders.
    """
    wildcard = re.search(r"[*?\[]", path)
    if wildcard is None:
        return None
    directory = path[: path.rfind("/", 0, wildcard.start()) + 1]
    parts = re.split(r"(\*\*/?|\*|\?|\[[^]/]+\])", path)
    translated = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    pattern = "".join(
        translated.get(part) or (part if part.startswith("[") else re.escape(part))
        for part in parts
    )
    return directory, re.compile(pattern)

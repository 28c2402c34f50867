"""Options of a lake, its schemas and its tables: how they are resolved, checked and stored."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from lakeport.ducklake.metadata.rows import MetadataRow
from lakeport.ducklake.writing.database import CatalogWriter
from lakeport.errors import InvalidArgumentError, first_line

__all__ = ["DEFAULT_INLINING_LIMIT", "Options", "option_text", "store_option"]

DEFAULT_INLINING_LIMIT: Final = 10

_CODECS: Final = ("uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4", "lz4_raw")
_UNITS: Final = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip


class Options:
    """The options in `ducklake_metadata`: of a table, else of its schema, else of the lake."""

    def __init__(self, rows: Iterable[MetadataRow]) -> None:
        self._values = {(row.key, row.scope, row.scope_id): row.value for row in rows}

    def get(
        self, key: str, *, schema_id: int | None = None, table_id: int | None = None
    ) -> str | None:
        """Return the text of an option; None if it is not set."""
        for scope, id in (("table", table_id), ("schema", schema_id)):
            found = self._values.get((key, scope, id)) if id is not None else None
            if found is not None:
                return found
        return self._values.get((key, None, None))

    def resolved(self, *, schema_id: int, table_id: int) -> dict[str, str]:
        """Return every option that is set for a table, with its text."""
        keys = {key for key, _, _ in self._values}
        found = {key: self.get(key, schema_id=schema_id, table_id=table_id) for key in keys}
        return {key: value for key, value in found.items() if value is not None}

    def inlining_limit(self, schema_id: int, table_id: int) -> int:
        """Return the number of rows up to which an insert is inlined."""
        text = self.get("data_inlining_row_limit", schema_id=schema_id, table_id=table_id)
        return DEFAULT_INLINING_LIMIT if text is None else int(text)

    @property
    def requires_message(self) -> bool:
        """Whether each commit needs a message."""
        return (self.get("require_commit_message") or "").lower() in ("true", "1")

    @property
    def is_encrypted(self) -> bool:
        """Whether the files of the lake are encrypted."""
        return (self.get("encrypted") or "").lower() in ("true", "1")


def option_text(key: str, value: Any) -> str:
    """Return the text that the catalog stores for an option; raise for a wrong name or value."""
    check = _CHECKS.get(key.lower())
    if check is None:
        known = ", ".join(sorted(_CHECKS))
        raise InvalidArgumentError(f"{key!r} is not an option that can be set; there are {known}")
    try:
        return check(value)
    except ValueError as error:
        raise InvalidArgumentError(
            f"{value!r} is not a value of the option {key}: {first_line(error)}"
        ) from None


def store_option(
    writer: CatalogWriter, key: str, text: str, scope: str | None, scope_id: int | None
) -> None:
    """Insert an option, or change it. Options have no snapshots."""
    dialect = writer.dialect
    table = dialect.table(writer.database.schema, "ducklake_metadata")
    name, mark = dialect.identifier, dialect.placeholder
    where = f"{name('key')} = {mark} AND {name('scope')} "
    values: list[Any] = [key]
    if scope is None:
        where += "IS NULL"
    else:
        where += f"= {mark} AND {name('scope_id')} = {mark}"
        values += [scope, scope_id]
    found = writer.execute(f"SELECT count(*) FROM {table} WHERE {where}", values).scalar()
    if found:
        writer.execute(
            f"UPDATE {table} SET {name('value')} = {mark} WHERE {where}", [text, *values]
        )
    else:
        writer.insert([MetadataRow(key, text, scope, scope_id)])


def _flag(value: Any) -> str:
    text = str(value).lower()
    if text in ("true", "1", "yes", "t"):
        return "true"
    if text in ("false", "0", "no", "f"):
        return "false"
    raise ValueError("write true or false")


def _count(value: Any) -> str:
    number = int(value)
    if number < 0:
        raise ValueError("it must not be negative")
    return str(number)


def _size(value: Any) -> str:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(value))
    if match is None or match.group(2).lower() not in _UNITS:
        raise ValueError("write a number of bytes, or a size such as 10MB or 1GiB")
    return str(int(float(match.group(1)) * _UNITS[match.group(2).lower()]))


def _codec(value: Any) -> str:
    text = str(value).lower()
    if text not in _CODECS:
        raise ValueError(f"write one of {', '.join(_CODECS)}")
    return text


def _page_version(value: Any) -> str:
    text = str(value).upper().removeprefix("V")
    if text not in ("1", "2"):
        raise ValueError("write 1 or 2")
    return f"V{text}"


def _fraction(value: Any) -> str:
    number = float(value)
    if not 0 <= number <= 1:
        raise ValueError("it must be between 0 and 1")
    return f"{number:.6f}"


def _interval(value: Any) -> str:
    from lakeport.types import Column, parse_value

    parse_value(str(value), Column(id=0, name="interval", type="interval"))
    return str(value)


_CHECKS: Final[Mapping[str, Callable[[Any], str]]] = {
    "auto_compact": _flag,
    "data_inlining_row_limit": _count,
    "delete_older_than": _interval,
    "expire_older_than": _interval,
    "hive_file_pattern": _flag,
    "parquet_compression": _codec,
    "parquet_compression_level": _count,
    "parquet_row_group_size": _count,
    "parquet_row_group_size_bytes": _size,
    "parquet_version": _page_version,
    "per_thread_output": _flag,
    "require_commit_message": _flag,
    "rewrite_delete_threshold": _fraction,
    "sort_on_insert": _flag,
    "target_file_size": _size,
    "write_deletion_vectors": _flag,
}

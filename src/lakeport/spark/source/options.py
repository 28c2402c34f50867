"""The options of the `ducklake` data source, read and checked once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from lakeport.ducklake import Lake, LakeTable
from lakeport.ducklake.reading import ScanContext
from lakeport.ducklake.storage import S3Secret, Storage
from lakeport.errors import InvalidArgumentError
from lakeport.filters import Filter, parse_sql_filter

__all__ = ["SourceOptions"]

_NAMES: Final = frozenset(
    {
        "catalog",
        "table",
        "schema",
        "columns",
        "filter",
        "version",
        "timestamp",
        "data_path",
        "metadata_schema",
        "lock_timeout",
    }
)
# The names that other data sources of Spark have for them.
_ALIASES: Final = {"lake": "catalog", "versionasof": "version", "timestampasof": "timestamp"}
_SECRET: Final = "s3."  # noqa: S105
_PART: Final = r'\s*(?:"((?:[^"]|"")+)"|`((?:[^`]|``)+)`|([^"`{0}]*[^"`{0}\s]))\s*'


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Which table of which lake, at which snapshot, and which of its columns and rows."""

    catalog: str = field(repr=False)
    schema: str
    name: str
    columns: tuple[str, ...] | None = None
    filter: str | None = None
    version: int | None = None
    timestamp: str | None = None
    data_path: str | None = None
    metadata_schema: str | None = None
    lock_timeout: float = 30.0
    storage: Storage = field(default_factory=Storage)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Parse the options of a reader, or of `OPTIONS (…)` in SQL; names are case-insensitive."""
        values = {key.lower(): value for key, value in options.items()}
        for alias, name in _ALIASES.items():
            if alias in values:
                if name in values:
                    raise InvalidArgumentError(f"give {name!r} or {alias!r}, not both")
                values[name] = values.pop(alias)
        secret = {key[len(_SECRET) :]: v for key, v in values.items() if key.startswith(_SECRET)}
        for name in values:
            if name not in _NAMES and not name.startswith(_SECRET):
                raise InvalidArgumentError(f"the ducklake source has no option {name!r}")
        for name in ("catalog", "table"):
            if not values.get(name, "").strip():
                raise InvalidArgumentError(f"the ducklake source needs the option {name!r}")
        schema, table = _table_name(values["table"], values.get("schema"))
        return cls(
            catalog=values["catalog"],
            schema=schema,
            name=table,
            columns=_columns(values.get("columns")),
            filter=values.get("filter"),
            version=_version(values.get("version")),
            timestamp=values.get("timestamp"),
            data_path=values.get("data_path"),
            metadata_schema=values.get("metadata_schema"),
            lock_timeout=_seconds(values.get("lock_timeout", "30")),
            storage=Storage.from_options(S3Secret.from_mapping(secret) if secret else None),
        )

    def open(self) -> Lake:
        """Open the lake."""
        return Lake.open(
            self.catalog,
            data_path=self.data_path,
            metadata_schema=self.metadata_schema,
            lock_timeout=self.lock_timeout,
            storage=self.storage,
        )

    def table(self, lake: Lake) -> LakeTable:
        """Return the table at its snapshot."""
        return lake.table(self.name, self.schema, version=self.version, timestamp=self.timestamp)

    def context(self, table: LakeTable) -> ScanContext:
        """Return the columns and the filter of the scan; raise an error for unknown columns."""
        filter = Filter.always()
        if self.filter is not None:
            filter = parse_sql_filter(self.filter, table.columns)
        return table.planner.context(self.columns, filter)


def _table_name(text: str, schema: str | None) -> tuple[str, str]:
    parts = _split(text, ".", "table")
    if len(parts) > 2:
        raise InvalidArgumentError(
            f"the table {text!r} has more than a schema and a name: quote names that have dots"
        )
    if len(parts) == 1:
        return schema or "main", parts[0]
    if schema is not None and schema != parts[0]:
        raise InvalidArgumentError(f"the table {text!r} is not in the schema {schema!r}")
    return parts[0], parts[1]


def _columns(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(_split(text, ",", "columns"))


def _version(text: str | None) -> int | None:
    if text is None:
        return None
    if not re.fullmatch(r"\s*\d{1,18}\s*", text):
        raise InvalidArgumentError(f"the version {text!r} is not the number of a snapshot")
    return int(text)


def _seconds(text: str) -> float:
    if not re.fullmatch(r"\s*\d{1,9}(\.\d+)?\s*", text):
        raise InvalidArgumentError(f"the option 'lock_timeout' is in seconds, not {text!r}")
    return float(text)


def _split(text: str, separator: str, option: str) -> list[str]:
    """Split names at separators, except inside double quotes and backticks."""
    part = re.compile(_PART.format(re.escape(separator)))
    names, position = [], 0
    while True:
        match = part.match(text, position)
        end = match.end() if match else position
        if match is None or (end < len(text) and text[end] != separator):
            raise InvalidArgumentError(f"the option {option!r} cannot be parsed: {text!r}")
        quoted, ticked, plain = match.groups()
        name = plain or (quoted.replace('""', '"') if quoted else ticked.replace("``", "`"))
        names.append(name)
        if end >= len(text):
            return names
        position = end + 1

"""The options of streams of the `ducklake` data source: where one starts and how much it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Self

from lakeport.errors import InvalidArgumentError, UnsupportedError
from lakeport.spark.source.options import SourceOptions

__all__ = ["STREAM_READ_NAMES", "StreamReadOptions", "StreamWriteOptions"]

STREAM_READ_NAMES: Final = {
    "readchangefeed": "readChangeFeed",
    "startingversion": "startingVersion",
    "startingtimestamp": "startingTimestamp",
    "maxfilespertrigger": "maxFilesPerTrigger",
    "maxrowspertrigger": "maxRowsPerTrigger",
    "maxbytespertrigger": "maxBytesPerTrigger",
    "skipchangecommits": "skipChangeCommits",
}
"""The options of a stream that is read, folded, and as they are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReadOptions:
    """Which table is read as a stream, from where on, and how much of it in one batch."""

    source: SourceOptions
    change_feed: bool = False
    """Read deletes and updates, too, in the columns of the change feed."""
    skip_changes: bool = False
    """Skip snapshots that delete or update rows, instead of ending with an error."""
    starting_version: int | Literal["latest"] | None = None
    starting_timestamp: str | None = None
    max_files: int | None = None
    max_rows: int | None = None
    max_bytes: int | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Parse the options of a reader."""
        values = {key.lower(): value for key, value in options.items()}
        own = {key: values.pop(key) for key in STREAM_READ_NAMES if key in values}
        if "startingversion" in own and "startingtimestamp" in own:
            raise InvalidArgumentError("give 'startingVersion' or 'startingTimestamp', not both")
        parsed = cls(
            source=SourceOptions.parse(values),
            change_feed=_flag(own, "readchangefeed"),
            skip_changes=_flag(own, "skipchangecommits"),
            starting_version=_starting_version(own.get("startingversion")),
            starting_timestamp=own.get("startingtimestamp"),
            max_files=_limit(own, "maxfilespertrigger"),
            max_rows=_limit(own, "maxrowspertrigger"),
            max_bytes=_limit(own, "maxbytespertrigger"),
        )
        if parsed.change_feed and parsed.skip_changes:
            raise InvalidArgumentError(
                "'skipChangeCommits' is for streams of appended rows: a change feed has all changes"
            )
        return parsed

    def check(self) -> None:
        """Raise an error for options that only a batch has."""
        source = self.source
        given = {
            "filter": source.filter,
            "columns": source.columns,
            "version": source.version,
            "timestamp": source.timestamp,
        }
        for name, value in given.items():
            if value is not None:
                hint = (
                    "use 'startingVersion' or 'startingTimestamp'"
                    if name in ("version", "timestamp")
                    else "use .where(…) and .select(…)"
                )
                raise UnsupportedError(f"the option {name!r} is not for streams: {hint}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamWriteOptions:
    """Which table a stream is written to, and the name under which its batches are recorded."""

    source: SourceOptions
    application: str | None = None
    """None for the id of the query, which Spark keeps in the checkpoint."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Parse the options of a writer."""
        values = {key.lower(): value for key, value in options.items()}
        values.pop("checkpointlocation", None)
        application = values.pop("application", None)
        for name in ("filter", "columns", "version", "timestamp", "versionasof", "timestampasof"):
            if name in values:
                raise InvalidArgumentError(f"the option {name!r} is for reading")
        if application is not None and not application.strip():
            raise InvalidArgumentError("the option 'application' is empty")
        return cls(source=SourceOptions.parse(values), application=application)


def _flag(values: Mapping[str, str], name: str) -> bool:
    text = values.get(name, "false").strip().lower()
    if text not in ("true", "false"):
        raise InvalidArgumentError(
            f"the option {STREAM_READ_NAMES[name]!r} is {text!r}: write true or false"
        )
    return text == "true"


def _limit(values: Mapping[str, str], name: str) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) < 1:
        raise InvalidArgumentError(
            f"the option {STREAM_READ_NAMES[name]!r} is {text!r}: write a number from 1 on"
        )
    return int(text)


def _starting_version(text: str | None) -> int | Literal["latest"] | None:
    if text is None:
        return None
    if text.strip().lower() == "latest":
        return "latest"
    if not text.strip().isdecimal():
        raise InvalidArgumentError(
            f"the option 'startingVersion' is {text!r}: write the number of a snapshot, or latest"
        )
    return int(text)

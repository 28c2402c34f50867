"""Partition specs and sort orders from their SQL text: `bucket(16, station)`, `day DESC`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from lakeport.ducklake.writing.ddl.definitions import PartitionKey, SortKey
from lakeport.ducklake.writing.ddl.expressions import print_expression
from lakeport.errors import InvalidArgumentError, NotFoundError
from lakeport.types import NESTED, Column, find_type, fold_name

__all__ = ["partition_keys", "sort_keys"]

_NAME: Final = r'(?:"((?:[^"]|"")+)"|([^\s"(),]+))'
_KEY: Final = re.compile(rf"\s*(?:(\w+)\s*\(\s*(?:(\d+)\s*,\s*)?{_NAME}\s*\)|{_NAME})\s*")
_TIME_TRANSFORMS: Final = ("year", "month", "day", "hour")
_EPOCH_TRANSFORMS: Final = tuple(f"epoch_{name}" for name in _TIME_TRANSFORMS)
_SORT_SUFFIX: Final = re.compile(
    r"^(.*?)(?:\s+(ASC|DESC))?(?:\s+NULLS\s+(FIRST|LAST))?\s*$", re.IGNORECASE | re.DOTALL
)


def partition_keys(
    texts: Iterable[str], columns: tuple[Column, ...], *, version: str
) -> tuple[PartitionKey, ...]:
    """Return the keys of a partition spec from texts such as `month(day)` or `station`."""
    return tuple(_partition_key(text, columns, version) for text in texts)


def _partition_key(text: str, columns: tuple[Column, ...], version: str) -> PartitionKey:
    match = _KEY.fullmatch(text)
    if match is None:
        raise InvalidArgumentError(
            f"{text!r} is not a partition key: write a column, year(c), month(c), day(c), hour(c) "
            "or bucket(N, c), with a name in double quotes where SQL needs them"
        )
    transform, count, quoted, bare, plain_quoted, plain = match.groups()
    name = (quoted or plain_quoted or "").replace('""', '"') or bare or plain
    column = next((c for c in columns if fold_name(c.name) == fold_name(name)), None)
    if column is None:
        raise NotFoundError(f"the partition key {text!r} names no column of the table")
    transform = "identity" if transform is None else transform.lower()
    _check_transform(text, transform, count, column, version)
    return PartitionKey(
        column_id=column.id, transform=f"bucket({int(count)})" if count else transform
    )


def _check_transform(
    text: str, transform: str, count: str | None, column: Column, version: str
) -> None:
    if column.type in NESTED or column.type in ("variant", "geometry"):
        raise InvalidArgumentError(
            f"the column {column.name!r} has type {column.type} and cannot be a partition key"
        )
    if transform == "bucket":
        if count is None or int(count) < 1:
            raise InvalidArgumentError(f"{text!r} needs a number of buckets: bucket(16, column)")
        type = find_type(column.type)
        if type is None or type.bucket_input is None:
            raise InvalidArgumentError(f"values of type {column.type} cannot be put into buckets")
        return
    if count is not None or transform not in ("identity", *_TIME_TRANSFORMS, *_EPOCH_TRANSFORMS):
        raise InvalidArgumentError(f"{transform!r} in {text!r} is not a partition transform")
    if transform in _EPOCH_TRANSFORMS and version.startswith("1.0"):
        raise InvalidArgumentError(f"{transform} needs a lake of format 1.1, and this one has 1.0")
    if transform != "identity":
        type = find_type(column.type)
        is_time = column.type == "date" or (type is not None and type.per_second is not None)
        if not is_time or (transform.endswith("hour") and column.type == "date"):
            raise InvalidArgumentError(
                f"{transform} in {text!r} does not apply to the type {column.type}"
            )


def sort_keys(texts: Iterable[str], columns: tuple[Column, ...]) -> tuple[SortKey, ...]:
    """Return the keys of a sort order from texts such as `day DESC NULLS FIRST`."""
    found = []
    for text in texts:
        match = _SORT_SUFFIX.match(text.strip())
        if match is None or not match.group(1):
            raise InvalidArgumentError(f"{text!r} is not a sort key")
        expression, direction, nulls = match.groups()
        names = {fold_name(column.name) for column in columns}
        if re.fullmatch(r"\w+", expression) and fold_name(expression) not in names:
            raise NotFoundError(f"the sort key {text!r} names no column of the table")
        found.append(
            SortKey(
                expression=print_expression(expression),
                direction=(direction or "ASC").upper(),
                null_order=f"NULLS_{(nulls or 'LAST').upper()}",
            )
        )
    return tuple(found)

"""Column statistics, as a server with `can_produce_statistics` tells them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakeport.airport.client.attached import AttachedCatalog
from lakeport.airport.client.entries import TableEntry
from lakeport.airport.client.replies import REPLY_LIMITS, understanding
from lakeport.airport.codec import read_one_row
from lakeport.catalog import ColumnStats
from lakeport.errors import InvalidArgumentError, UnsupportedError
from lakeport.filters import from_arrow_type

__all__ = ["CAN_PRODUCE_STATISTICS", "column_statistics"]

CAN_PRODUCE_STATISTICS = b"can_produce_statistics"


def column_statistics(catalog: AttachedCatalog, entry: TableEntry, column: pa.Field) -> ColumnStats:
    """What the server knows of a column."""
    if not (entry.schema.metadata or {}).get(CAN_PRODUCE_STATISTICS):
        raise UnsupportedError(f"table {entry} has no statistics")
    statement = catalog.begin()
    request = {
        "flight_descriptor": entry.descriptor.serialize(),
        "column_name": column.name,
        "type": from_arrow_type(column.type).sql(),
    }
    # DuckDB sends the name of this action twice.
    headers = [*statement.statistics_headers(), ("airport-action-name", "column_statistics")]
    body = catalog.connection.request("column_statistics", request, headers)
    return _decode(body)


@understanding("statistics of a column")
def _decode(body: bytes) -> ColumnStats:
    row = read_one_row(body, "statistics", limits=REPLY_LIMITS)
    values = {name: _value(row.column(i)[0]) for i, name in enumerate(row.schema.names)}
    missing = {"min", "max", "has_not_null", "has_null", "distinct_count"} - values.keys()
    if missing:
        raise InvalidArgumentError(f"there is no {sorted(missing)[0]}")
    return ColumnStats(
        has_not_null=values["has_not_null"],
        has_null=values["has_null"],
        distinct_count=values["distinct_count"] or None,
        min=values["min"],
        max=values["max"],
        max_string_length=values.get("max_string_length"),
        contains_unicode=values.get("contains_unicode"),
    )


def _value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except ValueError:
        # Beyond what Python's own dates can say.
        return scalar

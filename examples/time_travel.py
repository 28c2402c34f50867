"""A table that keeps its history: `AT (VERSION => …)` and `AT (TIMESTAMP => …)`.

Run it with `--serve` and type, in DuckDB:

    ATTACH 'shop' AS shop (TYPE airport, LOCATION 'grpc://127.0.0.1:8815');
    SELECT * FROM shop.s.prices;
    SELECT * FROM shop.s.prices AT (VERSION => 1);
    SELECT * FROM shop.s.prices AT (TIMESTAMP => TIMESTAMP '2024-06-01');
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa

import lakeport
from lakeport.errors import InvalidArgumentError, NotFoundError

HISTORY = [
    (datetime(2024, 1, 1, tzinfo=UTC), pa.table({"item": ["tea"], "price": [2.0]})),
    (datetime(2025, 1, 1, tzinfo=UTC), pa.table({"item": ["tea", "cake"], "price": [2.5, 4.0]})),
    (datetime(2026, 1, 1, tzinfo=UTC), pa.table({"item": ["tea"], "price": [3], "unit": ["EUR"]})),
]


class Prices:
    """Every state with the time from which it was valid; the columns changed once."""

    name = "prices"
    comment = "What things cost, and used to cost"

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the present columns of the table."""
        return lakeport.project_schema(self._state(None).schema, columns)

    def schema_at(self, time_point: lakeport.TimePoint) -> pa.Schema:
        """Return the columns of the table at the time point."""
        return self._state(time_point).schema

    def scan(self, options: lakeport.ScanOptions) -> pa.RecordBatchReader:
        """Return the present rows, or those of the time point."""
        return self._state(options.time_point).to_reader()

    def _state(self, time_point: lakeport.TimePoint | None) -> pa.Table:
        if time_point is None:
            return HISTORY[-1][1]
        version = version_of(time_point)
        if not 1 <= version <= len(HISTORY):
            raise NotFoundError(f"table {self.name} has no state {time_point}")
        return HISTORY[version - 1][1]


def version_of(time_point: lakeport.TimePoint) -> int:
    """Return the number of the state that was valid then; 0 before the first one."""
    try:
        if time_point.unit is not lakeport.TimeUnit.TIMESTAMP:
            return int(time_point.value)
        moment = datetime.fromisoformat(time_point.value)
    except ValueError:
        raise InvalidArgumentError(f"{time_point} is not a time or a version") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return sum(since <= moment for since, _ in HISTORY)


def main() -> None:
    catalog = lakeport.CatalogBuilder("shop").schema("s").table(Prices()).build()
    if "--serve" in sys.argv:
        lakeport.serve(catalog)
        return
    with lakeport.Server(catalog) as server, lakeport.connect(server.location) as client:
        prices = client.table("s.prices")
        print("now:      ", prices.scan().to_arrow().to_pylist())
        print("version 1:", prices.scan(version=1).to_arrow().to_pylist())
        mid_2025 = datetime(2025, 6, 1, tzinfo=UTC)
        print("mid 2025: ", prices.scan(timestamp=mid_2025).to_arrow().to_pylist())
        try:
            prices.scan(timestamp=datetime(1999, 1, 1, tzinfo=UTC)).to_arrow()
        except NotFoundError as error:
            print("1999:     ", error)


if __name__ == "__main__":
    main()

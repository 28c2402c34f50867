"""A table whose rows never pass through the server: the client reads the files itself.

The server answers a scan with calls of DuckDB functions. Choosing the files by the filter needs no
more than a callable.

Run it with `--serve` and type, in DuckDB:

    ATTACH 'trips' AS trips (TYPE airport, LOCATION 'grpc://127.0.0.1:8815');
    SELECT year, count(*) FROM trips.files.trips GROUP BY year;
    SELECT * FROM trips.files.trips WHERE year = 2025;
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import lakeport
from lakeport.catalog import Endpoint
from lakeport.filters import ColumnRef, Comparison, ComparisonOp, Constant

SCHEMA = pa.schema([("year", pa.int64()), ("minutes", pa.float64())])


def write_files(folder: Path) -> dict[int, Endpoint]:
    """Return a Parquet file and a CSV file, and how DuckDB reads each."""
    parquet, csv = folder / "2024.parquet", folder / "2025.csv"
    pq.write_table(
        pa.table({"year": [2024, 2024], "minutes": [12.5, 30.0]}, schema=SCHEMA), parquet
    )
    pa.csv.write_csv(pa.table({"year": [2025], "minutes": [7.25]}, schema=SCHEMA), csv)
    return {
        2024: lakeport.FunctionReference("read_parquet", ([str(parquet)],)),
        2025: lakeport.FunctionReference("read_csv", (str(csv),), {"header": True}),
    }


def build_catalog(files: dict[int, Endpoint]) -> lakeport.Catalog:
    def choose(options: lakeport.ScanOptions) -> Sequence[Endpoint]:
        years = set(files)
        for conjunct in options.filter.conjuncts:
            match conjunct:
                case Comparison(ComparisonOp.EQUAL, ColumnRef("year"), Constant(year)):
                    years &= {year}
        print(f"  the client reads {len(years)} of {len(files)} files")
        return [files[year] for year in sorted(years)]

    builder = lakeport.CatalogBuilder("trips")
    return builder.schema("files").reference_table("trips", choose, schema=SCHEMA).build()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        catalog = build_catalog(write_files(Path(folder)))
        if "--serve" in sys.argv:
            lakeport.serve(catalog)
            return
        with lakeport.Server(catalog) as server, lakeport.connect(server.location) as client:
            trips = client.table("files.trips")
            print(sorted(trips.scan().to_arrow().column("minutes").to_pylist()))
            print(trips.scan(filter=lakeport.col("year") == 2025).to_arrow().to_pylist())


if __name__ == "__main__":
    main()

"""pandas and polars frames as tables, and scans as frames.

Run it with `--serve` and type, in DuckDB:

    ATTACH 'frames' AS frames (TYPE airport, LOCATION 'grpc://127.0.0.1:8815');
    SELECT p.name, c.country FROM frames.data.people p JOIN frames.data.cities c USING (city);
"""

from __future__ import annotations

import sys

import pandas as pd
import polars as pl

import lakeport

PEOPLE = pd.DataFrame({"name": ["Ada", "Grace", "Edsger"], "city": ["London", "York", "Leiden"]})
CITIES = pl.DataFrame({"city": ["London", "Leiden"], "country": ["UK", "NL"]})


def build_catalog() -> lakeport.Catalog:
    builder = lakeport.CatalogBuilder("frames")
    data = builder.schema("data")
    data.table("people", PEOPLE, comment="A pandas frame")
    data.table("cities", CITIES, comment="A polars frame")
    data.table("large", CITIES.lazy().filter(pl.col("country") == "NL"), comment="A lazy frame")
    return builder.build()


def main() -> None:
    catalog = build_catalog()
    if "--serve" in sys.argv:
        lakeport.serve(catalog)
        return
    with lakeport.Server(catalog) as server, lakeport.connect(server.location) as client:
        people = client.table("data.people").scan(filter="name <> 'Grace'").to_pandas()
        print(type(people).__module__.partition(".")[0], people["name"].tolist())
        cities = client.table("data.cities").scan().to_polars()
        print(type(cities).__module__.partition(".")[0], cities["city"].to_list())
        print(client.table("data.large").scan().count(), "row of the lazy frame")


if __name__ == "__main__":
    main()

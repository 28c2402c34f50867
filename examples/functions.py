"""Functions of three kinds from plain Python callables.

Run it with `--serve` and type, in DuckDB:

    ATTACH 'tools' AS tools (TYPE airport, LOCATION 'grpc://127.0.0.1:8815');
    SELECT tools.text.shout('hello'), tools.text.shout('hello', '?');
    SELECT * FROM tools.text.words(3, prefix := 'word ');
    SELECT * FROM tools.text.only('name', (SELECT 'Ada' AS name UNION ALL SELECT NULL));
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

import lakeport


def build_catalog() -> lakeport.Catalog:
    builder = lakeport.CatalogBuilder("tools")
    text = builder.schema("text", comment="Functions of text")

    @text.scalar_function(
        parameters={"value": pa.string(), "mark": pa.string()},
        returns=pa.string(),
        stability=lakeport.Stability.CONSISTENT,
        comment="Say it loudly",
    )
    def shout(value: pa.Array, mark: pa.Array | str = "!") -> pa.Array:
        return pc.binary_join_element_wise(pc.utf8_upper(value), mark, "")

    @text.scalar_function(parameters={"value": lakeport.ANY}, returns=pa.string())
    def type_name(value: pa.Array) -> str:
        return str(value.type)

    @text.table_function(
        parameters={"count": pa.int64(), "prefix": pa.string()},
        schema=pa.schema([("n", pa.int64()), ("word", pa.string())]),
        comment="Numbered words",
    )
    def words(count: int, prefix: str = "w") -> pa.Table:
        return pa.table({"n": range(count), "word": [f"{prefix}{n}" for n in range(count)]})

    @text.table_function_in_out(
        parameters={"column": pa.string()},
        schema=lambda rows, column: pa.schema([rows.field(column)]),
        comment="One column of the input, without its nulls",
    )
    def only(rows: pa.RecordBatchReader, column: str) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            chosen = batch.select([column])
            yield chosen.filter(pc.is_valid(chosen.column(0)))

    return builder.build()


def main() -> None:
    catalog = build_catalog()
    if "--serve" in sys.argv:
        lakeport.serve(catalog)
        return
    with lakeport.Server(catalog) as server, lakeport.connect(server.location) as client:
        print(client.call_scalar("text.shout", ["hello", "world"]).to_pylist())
        print(client.call_scalar("text.shout", ["really"], "?").to_pylist())
        print(client.call_scalar("text.type_name", [1.5]).to_pylist())
        print(client.call_table("text.words", 2, prefix="word ").to_arrow().to_pylist())
        people = pa.table({"id": [1, 2, 3], "name": ["Ada", None, "Grace"]})
        print(client.call_in_out("text.only", people, "name").read_all().to_pylist())


if __name__ == "__main__":
    main()

"""Names that differ beyond ASCII letters are different objects for the client, as for DuckDB."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from lakeport.errors import NotFoundError
from lakeport.memory import MemoryCatalog
from tests.client.conftest import Attach


def test_a_table_is_found_by_ascii_letters_of_any_case_and_by_no_other_letters(
    attach_client: Attach,
) -> None:
    catalog = MemoryCatalog.from_tables(
        {
            "s": {
                "Straße": pa.table({"Größe": [1], "GRÖSSE": [2]}),
                "STRASSE": pa.table({"a": [3]}),
            }
        }
    )

    client = attach_client(catalog)

    table = client.table("s.sTRAßE")
    assert table.scan().to_arrow().column_names[:2] == ["Größe", "GRÖSSE"]
    assert table.scan(columns=["gRöße"]).to_arrow().to_pylist() == [{"Größe": 1}]
    assert client.table("S.strasse").scan().to_arrow().column("a").to_pylist() == [3]
    with pytest.raises(NotFoundError):
        client.table("s.STRAẞE")
    with pytest.raises(NotFoundError):
        table.scan(columns=["größe", "GröSSe", "GRÖẞE"]).to_arrow()


def test_rows_get_the_types_of_their_own_columns(attach_client: Attach) -> None:
    columns = pa.schema([("Größe", pa.decimal128(9, 2)), ("GRÖSSE", pa.string())])
    client = attach_client(MemoryCatalog.from_tables({"s": {"t": columns.empty_table()}}))
    table = client.table("s.t")

    table.insert([{"Größe": Decimal("1.5"), "GRÖSSE": "large"}])

    assert table.scan().to_arrow().select(["Größe", "GRÖSSE"]).to_pylist() == [
        {"Größe": Decimal("1.50"), "GRÖSSE": "large"}
    ]

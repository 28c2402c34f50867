"""Names, comments, defaults and values with characters that drivers and SQL give a meaning."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakeport import Lake
from tests.fixtures_lakes import LakeMaker

# A statement with parameters of PostgreSQL's and MySQL's drivers has % before each of them.
TEXTS = ("%", "%s", "%%", "%(a)s", "{}", "{a}", ":a", "?", "$1", "'", '"', "`", "\\", "\\'", ";--")


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgresql", "mysql"])
def test_odd_names_and_texts_are_as_good_as_others(make_lake: LakeMaker, kind: str) -> None:
    made = make_lake(kind)
    names = [f"a{text}b" for text in TEXTS]
    odd = f"t {' '.join(TEXTS)}"
    texts = dict(zip(names, TEXTS, strict=True))
    rows = [{"id": 1, **texts}, {"id": 2, **dict.fromkeys(names)}]
    schema = pa.schema([("id", pa.int64()), *((name, pa.string()) for name in names)])

    with Lake.create(made.uri, data_path=made.data_path) as lake:
        lake.set_option("data_inlining_row_limit", "100")
        lake.create_schema(odd)
        table = lake.create_table(odd, schema, odd, comment=odd)
        table.append(pa.Table.from_pylist(rows, schema))
        table.set_tag(odd, odd)
        for name, text in texts.items():
            table.set_comment(text, column=name)
            table.set_default(name, text)
        quoted = {name: '"' + name.replace('"', '""') + '"' for name in names}
        table.update({names[0]: "'%s' || id"}, where="id = 2")
        table.add_column("new %s", pa.string(), default="{} %s")
        table.rename_column(names[1], f"{names[1]} %d")
        table.drop_column(names[2])
        lake.create_view(
            f"v {odd}", f"SELECT {quoted[names[0]]} FROM {_quoted(odd)}.{_quoted(odd)}", odd
        )
        table.delete(f"{quoted[names[3]]} IS NULL AND id = 3")
        lake.set_option("parquet_compression", "zstd", table=odd, schema=odd)
        first, second = _rows(lake, odd)

        expected = {f"{names[1]} %d" if n == names[1] else n: text for n, text in texts.items()}
        del expected[names[2]]
        assert first == {"id": 1, **expected, "new %s": "{} %s"}
        assert second == {
            "id": 2, **dict.fromkeys(expected), names[0]: "%s2", "new %s": "{} %s"
        }  # fmt: skip
        found = lake.table(odd, odd)
        assert (found.comment, found.tags[odd]) == (odd, odd)
        assert {name: lake_column.comment for name, lake_column in _columns(found).items()} == {
            "id": None, "new %s": None, **expected
        }  # fmt: skip

        table.flush()
        assert _rows(lake, odd) == [first, second]
        table.rename("again %s %")
        again = lake.table("again %s %", odd)
        again.append(pa.Table.from_pylist([{"id": 3}], pa.schema([("id", pa.int64())])))
        again = lake.table("again %s %", odd)
        assert again.scan(["id"]).to_arrow()["id"].to_pylist() == [1, 2, 3]
    path = f"{_quoted(odd)}.{_quoted('again %s %')}"
    assert made.query(f"SELECT count(*), max(id) FROM {path}") == [(3, 3)]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _rows(lake: Lake, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = lake.table(name, name).scan().to_arrow().to_pylist()
    return sorted(rows, key=lambda row: row["id"])


def _columns(table: Any) -> dict[str, Any]:
    return {column.name: column for column in table.planner.state.columns}

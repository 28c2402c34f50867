"""Rows on a terminal or in a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lakeport._wording import counted
from lakeport.arrow import combine
from lakeport.errors import DefinitionError, UnsupportedError, first_line
from lakeport.types import Column, duckdb_cast

__all__ = [
    "ROWS_SHOWN",
    "cell",
    "check_output",
    "make_console",
    "plain_table",
    "printable",
    "save_rows",
    "show_rows",
    "size_text",
]

ROWS_SHOWN: Final = 20
_LONGEST_VALUE: Final = 200
_WIDE: Final = 240


class _Writer(Protocol):
    def write_batch(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


def make_console() -> Console:
    """Standard output; where nobody watches, lines are long enough to lose nothing."""
    console = Console()
    return console if console.is_terminal else Console(width=_WIDE)


def plain_table(*headers: str) -> Table:
    """A table without lines."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for header in headers:
        table.add_column(header, overflow="fold")
    return table


def show_rows(
    console: Console,
    rows: pa.RecordBatchReader,
    *,
    most: int = ROWS_SHOWN,
    note: str = "--limit shows more, --output saves all",
) -> None:
    """Print the first rows, and whether there are more."""
    found = _first(rows, most + 1)
    table = Table()
    for name in rows.schema.names:
        table.add_column(cell(name))
    for row in zip(*(_values(column) for column in found.slice(0, most).columns), strict=True):
        table.add_row(*(cell(value) for value in row))
    console.print(table)
    more = found.num_rows > most
    count = counted(min(found.num_rows, most), "row")
    console.print(f"the first {count}; {note}" if more else count, style="dim", highlight=False)


def check_output(path: Path | None) -> None:
    """Refuse a file that could not be written, before anything is computed."""
    if path is None:
        return
    if path.suffix.lower() not in _WRITERS:
        raise DefinitionError(f"{path.name!r} must end with .parquet, .csv or .arrow")
    if not path.parent.is_dir():
        raise DefinitionError(f"there is no folder {str(path.parent)!r}")


def cell(value: Any) -> Text:
    """A value in a table: what others wrote steers neither the terminal nor the markup."""
    text = "NULL" if value is None else str(value)
    shortened = text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
    return Text(printable(shortened))


def printable(text: str) -> str:
    """The text without what would steer a terminal."""
    return "".join(c if c.isprintable() else " " for c in text)


def save_rows(rows: pa.RecordBatchReader, path: Path) -> int:
    """Write all rows to a file; it appears when it is complete. Gives their number."""
    check_output(path)
    count = 0
    with _complete(path) as part:
        try:
            writer = _WRITERS[path.suffix.lower()](part, rows.schema)
            try:
                for batch in rows:
                    writer.write_batch(batch)
                    count += batch.num_rows
            finally:
                writer.close()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            reason = first_line(error)
            raise UnsupportedError(f"{path.name} cannot hold these rows: {reason}") from None
    return count


def size_text(size: int) -> str:
    """Bytes for people."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def _first(rows: pa.RecordBatchReader, count: int) -> pa.Table:
    batches: list[pa.RecordBatch] = []
    left = count
    for batch in rows:
        batches.append(batch.slice(0, left))
        left -= batches[-1].num_rows
        if left <= 0:
            break
    return pa.Table.from_batches(batches, rows.schema)


def _values(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; as DuckDB's text where one is a time that Python has not."""
    try:
        return column.to_pylist(maps_as_pydicts="lossy")  # type: ignore[no-any-return]
    except OverflowError:
        text = duckdb_cast(combine(column), Column(id=0, name="value", type="varchar"))
        return text.to_pylist()  # type: ignore[no-any-return]


@contextmanager
def _complete(path: Path) -> Iterator[Path]:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(path)
    except OSError as error:
        raise DefinitionError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)


def _parquet(path: Path, schema: pa.Schema) -> _Writer:
    import pyarrow.parquet as pq

    return pq.ParquetWriter(path, schema)  # type: ignore[no-any-return]


def _csv(path: Path, schema: pa.Schema) -> _Writer:
    from pyarrow import csv

    return csv.CSVWriter(path, schema)  # type: ignore[no-any-return]


def _arrow(path: Path, schema: pa.Schema) -> _Writer:
    return pa.ipc.new_file(path, schema)  # type: ignore[no-any-return]


_WRITERS: Final[dict[str, Callable[[Path, pa.Schema], _Writer]]] = {
    ".parquet": _parquet,
    ".csv": _csv,
    ".arrow": _arrow,
}

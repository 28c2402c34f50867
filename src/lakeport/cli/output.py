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
from lakeport.errors import DefinitionError, UnsupportedError, first_line
from lakeport.types import duckdb_texts, fits_csv

__all__ = [
    "ROWS_SHOWN",
    "cell",
    "check_output",
    "make_console",
    "plain_table",
    "printable",
    "save_rows",
    "show_rows",
]

ROWS_SHOWN: Final = 20
_MAX_VALUE_LENGTH: Final = 200
_WIDTH_WITHOUT_TERMINAL: Final = 240


class _Writer(Protocol):
    def write_batch(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


def make_console() -> Console:
    """Return a console for standard output; without a terminal, lines are not truncated."""
    console = Console()
    return console if console.is_terminal else Console(width=_WIDTH_WITHOUT_TERMINAL)


def plain_table(*headers: str) -> Table:
    """Return a table without lines."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for header in headers:
        table.add_column(header, overflow="fold")
    return table


def show_rows(
    console: Console,
    rows: pa.RecordBatchReader,
    *,
    max_rows: int = ROWS_SHOWN,
    note: str = "--limit shows more, --output saves all",
) -> None:
    """Print the first rows, and whether there are more."""
    first = _first(rows, max_rows + 1)
    table = Table()
    for name in rows.schema.names:
        table.add_column(cell(name))
    shown = zip(first.slice(0, max_rows).columns, first.schema, strict=True)
    texts = [duckdb_texts(values, field).to_pylist() for values, field in shown]
    for row in zip(*texts, strict=True):
        table.add_row(*(cell(value) for value in row))
    console.print(table)
    more = first.num_rows > max_rows
    count = counted(min(first.num_rows, max_rows), "row")
    console.print(f"the first {count}; {note}" if more else count, style="dim", highlight=False)


def check_output(path: Path | None) -> None:
    """Raise an error for a file that cannot be written, before anything is computed."""
    if path is None:
        return
    if path.suffix.lower() not in _WRITERS:
        raise DefinitionError(f"{path.name!r} must end with .parquet, .csv or .arrow")
    if not path.parent.is_dir():
        raise DefinitionError(f"there is no folder {str(path.parent)!r}")


def cell(value: Any) -> Text:
    """Return a value as text of a table, without control characters and markup."""
    text = "NULL" if value is None else str(value)
    shortened = text if len(text) <= _MAX_VALUE_LENGTH else f"{text[:_MAX_VALUE_LENGTH]}…"
    return Text(printable(shortened))


def printable(text: str) -> str:
    """Return the text without control characters."""
    return "".join(c if c.isprintable() else " " for c in text)


def save_rows(rows: pa.RecordBatchReader, path: Path) -> int:
    """Write all rows to a file, which appears when it is complete; return their number."""
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


def _first(rows: pa.RecordBatchReader, count: int) -> pa.Table:
    batches: list[pa.RecordBatch] = []
    left = count
    for batch in rows:
        batches.append(batch.slice(0, left))
        left -= batches[-1].num_rows
        if left <= 0:
            break
    return pa.Table.from_batches(batches, rows.schema)


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


class _CsvWriter:
    """Writes CSV; values of nested and of DuckDB's own types are DuckDB's text."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        from pyarrow import csv

        self._own_schema = schema
        self._schema = pa.schema(
            [f if fits_csv(f.type) else pa.field(f.name, pa.string()) for f in schema]
        )
        self._writer = csv.CSVWriter(path, self._schema)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        arrays = [
            values if fits_csv(field.type) else duckdb_texts(values, field)
            for values, field in zip(batch.columns, self._own_schema, strict=True)
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


def _arrow(path: Path, schema: pa.Schema) -> _Writer:
    return pa.ipc.new_file(path, schema)  # type: ignore[no-any-return]


_WRITERS: Final[dict[str, Callable[[Path, pa.Schema], _Writer]]] = {
    ".parquet": _parquet,
    ".csv": _CsvWriter,
    ".arrow": _arrow,
}

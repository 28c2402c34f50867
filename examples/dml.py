"""A table of your own that takes INSERT, UPDATE and DELETE, with RETURNING.

The table sees readers of batches and never the protocol. It collects a statement and applies it at
once, so that a statement is kept as a whole or not at all.

Run it with `--serve` and type, in DuckDB:

    ATTACH 'notes' AS notes (TYPE airport, LOCATION 'grpc://127.0.0.1:8815');
    INSERT INTO notes.s.notes VALUES ('milk', false), ('bread', false) RETURNING *;
    UPDATE notes.s.notes SET done = true WHERE text = 'milk';
    DELETE FROM notes.s.notes WHERE done RETURNING text;
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

import lakeport
from lakeport.errors import ConstraintError

COLUMNS = pa.schema([("text", pa.string()), ("done", pa.bool_())])
SCHEMA = COLUMNS.append(lakeport.rowid_field())  # the rowid comes last


class Notes:
    """Rows in a dictionary by rowid. No lock is held while rows are read from the client."""

    name = "notes"
    comment = "Things to do"

    def __init__(self) -> None:
        self._rows: dict[int, dict[str, Any]] = {}
        self._rowids = itertools.count(1)
        self._lock = threading.Lock()

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the columns and the rowid."""
        return lakeport.project_schema(SCHEMA, columns)

    def scan(self, options: lakeport.ScanOptions) -> pa.RecordBatchReader:  # noqa: ARG002
        """Return a copy of the rows: DuckDB scans and changes a table at the same time."""
        with self._lock:
            rows = [{**row, "rowid": rowid} for rowid, row in self._rows.items()]
        return pa.Table.from_pylist(rows, schema=SCHEMA).to_reader()

    def insert(
        self, rows: pa.RecordBatchReader, options: lakeport.DMLOptions
    ) -> lakeport.DMLResult:
        """Add the rows of a statement, unless one of them is empty."""
        added: list[dict[str, Any]] = []
        for batch in rows:
            added += batch.to_pylist()
            options.emit(batch)
        if not all(row["text"] for row in added):
            raise ConstraintError("a note must have a text")
        with self._lock:
            self._rows.update((next(self._rowids), row) for row in added)
        return lakeport.DMLResult(len(added))

    def update_rows(
        self, rows: pa.RecordBatchReader, options: lakeport.DMLOptions
    ) -> lakeport.DMLResult:
        """Change the rows of a statement."""
        changes: dict[int, dict[str, Any]] = {}
        for batch in rows:
            for row in batch.to_pylist():
                changes[row.pop("rowid")] = row
            options.emit(batch)
        with self._lock:
            found = [rowid for rowid in changes if rowid in self._rows]
            for rowid in found:
                self._rows[rowid].update(changes[rowid])
        return lakeport.DMLResult(len(found))

    def delete_rows(
        self, rows: pa.RecordBatchReader, options: lakeport.DMLOptions
    ) -> lakeport.DMLResult:
        """Delete the rows of a statement; an id may repeat."""
        doomed: dict[int, None] = {}
        for batch in rows:
            new = [rowid for rowid in batch.column("rowid").to_pylist() if rowid not in doomed]
            doomed.update(dict.fromkeys(new))
            with self._lock:
                deleted = [self._rows[rowid] for rowid in dict.fromkeys(new) if rowid in self._rows]
            options.emit(pa.RecordBatch.from_pylist(deleted, schema=COLUMNS))
        with self._lock:
            gone = [rowid for rowid in doomed if self._rows.pop(rowid, None) is not None]
        return lakeport.DMLResult(len(gone))


def main() -> None:
    catalog = lakeport.CatalogBuilder("notes").schema("s").table(Notes()).build()
    if "--serve" in sys.argv:
        lakeport.serve(catalog)
        return
    with lakeport.Server(catalog) as server, lakeport.connect(server.location) as client:
        notes = client.table("s.notes")
        new = [{"text": "milk", "done": False}, {"text": "bread", "done": False}]
        print("inserted", notes.insert(new).affected_rows)
        try:
            notes.insert([{"text": "", "done": False}])
        except ConstraintError as error:
            print("refused:", error)
        milk = notes.scan(columns=["rowid", "done"], filter=lakeport.col("text") == "milk")
        done = milk.to_arrow().set_column(1, "done", pa.array([True]))
        print("updated", notes.update(done).affected_rows)
        rowids = notes.scan(columns=["rowid"], filter=lakeport.col("done")).to_arrow()
        deleted = notes.delete(rowids, returning=True).returning
        print("deleted", deleted.to_pylist() if deleted is not None else [])
        print("left", notes.scan().to_arrow().to_pylist())


if __name__ == "__main__":
    main()

"""Recordings of the real client: themes of statements, each with the RPCs it caused.

Knows the format of `recordings/`, not what the requests mean.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import flight

__all__ = ["FOLDER", "Message", "Outcome", "Rpc", "Statement", "Theme", "load", "names"]

FOLDER = Path(__file__).parent / "recordings"


@dataclass(frozen=True, slots=True)
class Message:
    """One event of a stream. A batch may carry metadata; metadata alone is a message too."""

    from_client: bool
    schema: pa.Schema | None = field(default=None, repr=False)
    batch: pa.RecordBatch | None = field(default=None, repr=False)
    rows: int | None = None
    """The number of rows of a batch; the batch itself is missing when it was too large to keep."""
    metadata: bytes | None = field(default=None, repr=False)
    is_end: bool = False
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The record itself, for what was decoded while recording."""


@dataclass(frozen=True, slots=True)
class Rpc:
    """One call that the server saw."""

    method: str
    headers: Mapping[str, Sequence[str]] = field(repr=False)
    action: str = ""
    body: bytes = field(default=b"", repr=False)
    results: tuple[bytes, ...] = field(default=(), repr=False)
    descriptor: bytes = b""
    criteria: bytes = b""
    ticket: bytes = field(default=b"", repr=False)
    reply: tuple[bytes, ...] = field(default=(), repr=False)
    """FlightInfos of the reply."""
    messages: tuple[Message, ...] = field(default=(), repr=False)
    error: str = ""
    """The exception that the recording server raised, if it did."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The record itself, for what was decoded while recording."""

    def header(self, name: str) -> str:
        """The first value of a header, or an empty string."""
        return next(iter(self.headers.get(name, ())), "")

    @property
    def path(self) -> tuple[str, ...]:
        """The path of the descriptor of an exchange or GetFlightInfo."""
        return tuple(
            part.decode() for part in flight.FlightDescriptor.deserialize(self.descriptor).path
        )

    def __str__(self) -> str:
        return self.action or self.method


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the user saw."""

    columns: tuple[tuple[str, str], ...] = ()
    rows: tuple[tuple[Any, ...], ...] = field(default=(), repr=False)
    """The first fifty rows, as JSON."""
    row_count: int | None = None
    error: str = ""
    """The message of an error, a crash or a hang."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL statement."""

    number: int
    sql: str
    rpcs: tuple[Rpc, ...] = field(repr=False)
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Theme:
    """Statements of one client process, in order."""

    name: str
    note: str
    statements: tuple[Statement, ...] = field(repr=False)

    @property
    def rpcs(self) -> Iterator[tuple[Statement, Rpc]]:
        """Every RPC with the statement that caused it."""
        for statement in self.statements:
            for rpc in statement.rpcs:
                yield statement, rpc


def names() -> list[str]:
    """The names of all recordings."""
    return sorted(path.name.removesuffix(".jsonl.gz") for path in FOLDER.glob("*.jsonl.gz"))


@cache
def load(name: str) -> tuple[Theme, ...]:
    """The themes of a recording: one, except in `hazards`, which has one per case."""
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    starts = [i for i, record in enumerate(records) if record["kind"] == "theme"]
    return tuple(
        _theme(name, records[start:stop])
        for start, stop in zip(starts, [*starts[1:], len(records)], strict=True)
    )


def _theme(name: str, records: Sequence[Mapping[str, Any]]) -> Theme:
    by_number: dict[int, list[Mapping[str, Any]]] = {}
    for record in records[1:]:
        by_number.setdefault(record["n"], []).append(record)
    statements = tuple(_statement(number, group) for number, group in by_number.items())
    return Theme(name, records[0].get("note", ""), statements)


def _statement(number: int, records: Sequence[Mapping[str, Any]]) -> Statement:
    sql = next(record["sql"] for record in records if record["kind"] == "sql")
    rpcs = tuple(_rpc(record) for record in records if record["kind"] == "rpc")
    results = [record for record in records if record["kind"] == "result"]
    return Statement(number, sql, rpcs, _outcome(results[-1]) if results else Outcome())


def _rpc(record: Mapping[str, Any]) -> Rpc:
    reply = record.get("reply") or ()
    return Rpc(
        method=record["method"],
        headers=record.get("headers", {}),
        action=record.get("action", ""),
        body=_bytes(record.get("body")),
        results=tuple(_bytes(result) for result in record.get("results") or ()),
        descriptor=_bytes(record.get("descriptor")),
        criteria=_bytes(record.get("criteria")),
        ticket=_bytes(record.get("ticket")),
        reply=tuple(_bytes(part) for part in ([reply] if isinstance(reply, str) else reply)),
        messages=tuple(_message(message) for message in record.get("messages") or ()),
        error=record.get("error") or "",
        raw=record,
    )


def _message(record: Mapping[str, Any]) -> Message:
    schema = batch = None
    if "schema_ipc" in record:
        schema = pa.ipc.read_schema(pa.py_buffer(_bytes(record["schema_ipc"])))
    if "batch_ipc" in record:
        batch = pa.ipc.open_stream(_aligned(_bytes(record["batch_ipc"]))).read_next_batch()
    return Message(
        from_client=record["dir"] == "C",
        schema=schema,
        batch=batch,
        rows=record.get("rows"),
        metadata=_bytes(record["app_metadata"]) if "app_metadata" in record else None,
        is_end=bool(record.get("end")),
        raw=record,
    )


def _outcome(record: Mapping[str, Any]) -> Outcome:
    return Outcome(
        columns=tuple((column[0], column[1]) for column in record.get("columns") or ()),
        rows=tuple(tuple(row) for row in record.get("rows") or ()),
        row_count=record.get("row_count"),
        error=record.get("error") or record.get("crash") or record.get("hang") or "",
    )


def _bytes(text: str | None) -> bytes:
    return base64.b64decode(text) if text else b""


def _aligned(raw: bytes) -> pa.Buffer:
    # Arrow's kernels warn about buffers that begin anywhere.
    copy = pa.BufferOutputStream()
    copy.write(raw)
    return copy.getvalue()

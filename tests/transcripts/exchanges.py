"""Whether an exchange was answered as the client needs it, and as it was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tests.transcripts import reply_checks
from tests.transcripts.comparison import rows_of, same_columns, without_dictionaries
from tests.transcripts.recording import Rpc
from tests.transcripts.replay_client import Answers, Chunk
from tests.transcripts.reply_checks import CHUNK_ROWS, Entry, require

__all__ = ["same_changes", "same_in_out_answers", "same_scalar_answers"]


def same_scalar_answers(
    answers: Answers, rpc: Rpc, declared: Entry | None, *, values: bool
) -> None:
    """As many results as rows, batch by batch, in exactly the declared column."""
    if declared is not None:
        require(answers.schema.equals(declared.schema), f"{answers.schema} was not announced")
    _no_chunks(answers.at_end, "a scalar function ends without a message")
    sent = [m for m in rpc.messages if m.from_client and m.batch is not None]
    recorded = [m.batch for m in rpc.messages if not m.from_client and m.batch is not None]
    for position, (message, replies) in enumerate(zip(sent, answers.per_batch, strict=True)):
        (reply,) = replies
        require(reply.batch is not None, "an answer without rows")
        require(reply.metadata is None, "an answer with metadata")
        assert reply.batch is not None
        require(reply.batch.num_rows == message.rows, f"{reply.batch.num_rows} results")
        if values and position < len(recorded):
            ours = reply.batch.to_pylist()
            require(ours == recorded[position].to_pylist(), f"results {ours[:3]}")


def same_in_out_answers(answers: Answers, rpc: Rpc, *, values: bool) -> None:
    """Well-formed chunks, and the same rows in the same order for each batch."""
    for replies in answers.per_batch:
        _check_chunks(replies, must_finish=True)
    _check_chunks(answers.at_end, must_finish=False)
    ours = [_rows(replies) for replies in [*answers.per_batch, answers.at_end]]
    if values:
        schema = next(m.schema for m in rpc.messages if not m.from_client and m.schema is not None)
        same_columns(answers.schema, without_dictionaries(schema))
        recorded = _recorded_rows(rpc)
        require(ours == recorded, f"rows {str(ours)[:200]}, not {str(recorded)[:200]}")


def same_changes(answers: Answers, rpc: Rpc, operation: str, *, returning: bool) -> int:
    """The same count, and with RETURNING the same rows, batch by batch."""
    sent = [m for m in rpc.messages if m.from_client and m.batch is not None]
    recorded = [m.batch for m in rpc.messages if not m.from_client and m.batch is not None]
    if returning:
        _check_returned_schema(answers, rpc, operation)
        for replies, message in zip(answers.per_batch, sent, strict=True):
            (reply,) = replies
            require(reply.batch is not None, "an answer without rows crashes the client")
            assert reply.batch is not None
            require(reply.batch.num_rows <= CHUNK_ROWS, f"{reply.batch.num_rows} rows in a chunk")
            require(reply.batch.num_rows <= (message.rows or 0), "more rows than were sent")
        for replies, their in zip(answers.per_batch, recorded, strict=False):
            ours = replies[0].batch
            assert ours is not None
            names = [name for name in their.schema.names if name in ours.schema.names]
            left = rows_of(pa.Table.from_batches([ours]), names)
            right = rows_of(pa.Table.from_batches([their]), names)
            require(left == right, f"returned {left}, not {right}")
    (last,) = answers.at_end
    require(last.batch is None, "the last message has rows")
    changed = reply_checks.check_total_changed(last.metadata)
    final = [m.metadata for m in rpc.messages if not m.from_client and m.metadata is not None]
    if final:
        expected = reply_checks.check_total_changed(final[-1])
        require(changed == expected, f"{changed} rows changed, not {expected}")
    return changed


def _check_returned_schema(answers: Answers, rpc: Rpc, operation: str) -> None:
    sent = next(m.schema for m in rpc.messages if m.from_client and m.schema is not None)
    if operation == "update":
        require(answers.schema.names == sent.names, f"UPDATE answers {answers.schema.names}")
        for ours, theirs in zip(answers.schema, sent, strict=True):
            require(ours.type == theirs.type, f"UPDATE answers {ours.type} for {theirs.type}")
        return
    recorded = [m.schema for m in rpc.messages if not m.from_client and m.schema is not None]
    expected = sent if operation == "insert" else recorded[0] if recorded else pa.schema([])
    for field in expected:
        wanted = not (field.metadata or {}).get(b"is_rowid") and field.name != "rowid"
        found = field.name in answers.schema.names
        require(found or not wanted, f"RETURNING lacks column {field.name}")


def _check_chunks(chunks: Sequence[Chunk], *, must_finish: bool) -> None:
    for position, chunk in enumerate(chunks):
        require(chunk.batch is not None, "an in-out answer without rows crashes the client")
        assert chunk.batch is not None
        last = position == len(chunks) - 1
        known = {b"chunk_finished"} if last else {b"chunk_continues"}
        require(chunk.metadata in known, f"chunk {position} is marked {chunk.metadata!r}")
        if last:
            rows = chunk.batch.num_rows
            require(rows == 0 or rows % CHUNK_ROWS, f"{rows} rows in a last chunk hang the client")
    require(chunks or not must_finish, "no answer to a batch")


def _no_chunks(chunks: Sequence[Chunk], message: str) -> None:
    require(not chunks, message)


def _rows(chunks: Sequence[Chunk]) -> list[dict[str, Any]]:
    return [row for chunk in chunks if chunk.batch is not None for row in chunk.batch.to_pylist()]


def _recorded_rows(rpc: Rpc) -> list[list[dict[str, Any]]]:
    """The rows that came after each batch of the client, and after its last one."""
    groups: list[list[dict[str, Any]]] = []
    for message in rpc.messages:
        if message.from_client and (message.batch is not None or message.is_end):
            groups.append([])
        elif message.batch is not None:
            groups[-1].extend(message.batch.to_pylist())
    return groups

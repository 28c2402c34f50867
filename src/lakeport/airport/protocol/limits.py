"""Limits on the sizes of incoming messages."""

from __future__ import annotations

from dataclasses import dataclass

from lakeport.errors import MessageTooLargeError

__all__ = ["DEFAULT_LIMITS", "MIB", "Limits"]

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on incoming messages. A message that exceeds one is rejected with an error."""

    action_bytes: int = 16 * MIB
    """The body of an action."""
    ticket_bytes: int = 4 * MIB
    """A ticket or a command descriptor."""
    json_bytes: int = 4 * MIB
    """A JSON text: a filter, a discovery request."""
    json_depth: int = 200
    """The depth of nested JSON."""
    elements: int = 100_000
    """The values in a msgpack or JSON request, including nested ones."""
    columns: int = 10_000
    """The columns of a schema, or of a projection."""
    batch_rows: int = 4 * 1024 * 1024
    """The rows of a received batch: rows of nulls have no bytes on the wire."""
    decompressed_bytes: int = 1024 * MIB
    """The decompressed listing of a catalog, for clients. A server accepts no compressed data."""

    def check(self, size: int, limit: int, subject: str) -> None:
        """Raise `MessageTooLargeError` if a size exceeds its limit; `subject` names what it is."""
        if size > limit:
            raise MessageTooLargeError(f"{subject} is too large: {size} of at most {limit} allowed")


DEFAULT_LIMITS = Limits()

"""How large anything that comes from outside may be."""

from __future__ import annotations

from dataclasses import dataclass

from lakeport.errors import MessageTooLargeError

__all__ = ["DEFAULT_LIMITS", "MIB", "Limits"]

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on incoming messages. What exceeds one is refused with a clear status."""

    action_bytes: int = 16 * MIB
    """The body of an action."""
    ticket_bytes: int = 4 * MIB
    """A ticket or a command descriptor."""
    json_bytes: int = 4 * MIB
    """A JSON text: a filter, a discovery request."""
    json_depth: int = 200
    """How deep JSON may nest."""
    elements: int = 100_000
    """The values in a msgpack or JSON request, those inside others included."""
    columns: int = 10_000
    """The columns of a schema, or of a projection."""
    batch_rows: int = 4 * 1024 * 1024
    """The rows of a received batch: rows of nulls take no bytes on the wire."""
    decompressed_bytes: int = 1024 * MIB
    """What the compressed listing of a catalog may unfold to. A server accepts nothing
    compressed."""

    def check(self, size: int, limit: int, what: str) -> None:
        """Refuse something larger than its limit."""
        if size > limit:
            raise MessageTooLargeError(f"{what} is too large: {size} of at most {limit} allowed")


DEFAULT_LIMITS = Limits()

"""Numbers in messages. Imports no other module, so that every package may use it."""

from __future__ import annotations

__all__ = ["counted", "size_text"]


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: `1 row`, `2,000 rows`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def size_text(size: int) -> str:
    """Return a number of bytes with a unit: `12 B`, `1.5 MiB`."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"

"""Count the values in a msgpack message before any of them becomes an object.

msgpack creates a list of the length in its header before it reads the items, and it limits only
each container by itself. So a message of a few bytes, or of many empty lists, can need gigabytes.
"""

from __future__ import annotations

from typing import Final

from lakeport.errors import MessageTooLargeError

__all__ = ["check_elements"]

_FIXED: Final = {
    0xC0: 0, 0xC2: 0, 0xC3: 0,
    0xCA: 4, 0xCB: 8,
    0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8,
    0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8,
    0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17,
}  # fmt: skip
"""The bytes after a header that implies the length: nil, numbers, fixed-length extensions."""
_SIZED: Final = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
"""The number of bytes of the length of a text or of raw bytes."""
_EXTENSIONS: Final = {0xC7: 1, 0xC8: 2, 0xC9: 4}
_ARRAYS: Final = {0xDC: 2, 0xDD: 4}
_MAPS: Final = {0xDE: 2, 0xDF: 4}


def check_elements(body: bytes, limit: int, subject: str) -> None:
    """Raise if the first value of a message contains more values than `limit`, or is incomplete.

    Raises:
        MessageTooLargeError: There are more values.
        ValueError: The message is incomplete, or has a header that msgpack does not use.

    """
    position, pending, seen, end = 0, 1, 0, len(body)
    while pending:
        if seen + pending > limit:
            raise MessageTooLargeError(
                f"{subject} has too many values: {seen + pending} of at most {limit} allowed"
            )
        if position >= end:
            raise ValueError("the message ends early")
        header = body[position]
        position, inside = _after(body, position + 1, header)
        pending += inside - 1
        seen += 1


def _after(body: bytes, position: int, header: int) -> tuple[int, int]:
    """Return the position of the next value, and the number of values inside this one."""
    if header <= 0x7F or header >= 0xE0:
        return position, 0
    if header <= 0x8F:
        return position, 2 * (header & 0x0F)
    if header <= 0x9F:
        return position, header & 0x0F
    if header <= 0xBF:
        return position + (header & 0x1F), 0
    if header in _FIXED:
        return position + _FIXED[header], 0
    for kinds, extra in ((_SIZED, 0), (_EXTENSIONS, 1)):
        if header in kinds:
            size, position = _number(body, position, kinds[header])
            return position + size + extra, 0
    if header in _ARRAYS:
        count, position = _number(body, position, _ARRAYS[header])
        return position, count
    if header in _MAPS:
        count, position = _number(body, position, _MAPS[header])
        return position, 2 * count
    raise ValueError(f"0x{header:02x} begins no value")


def _number(body: bytes, position: int, width: int) -> tuple[int, int]:
    after = position + width
    if after > len(body):
        raise ValueError("the message ends early")
    return int.from_bytes(body[position:after], "big"), after

"""What may be the name of a schema, table, column or function."""

from __future__ import annotations

import unicodedata

from lakeport.errors import InvalidArgumentError

__all__ = ["MAX_NAME_BYTES", "check_name"]

MAX_NAME_BYTES = 1024


def check_name(name: str, kind: str) -> str:
    """The name itself, unless it is empty, too long, or has control characters."""
    if not name:
        raise InvalidArgumentError(f"the name of a {kind} must not be empty")
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"the name of the {kind} is not valid Unicode") from None
    if length > MAX_NAME_BYTES:
        raise InvalidArgumentError(
            f"the name of the {kind} is {length} bytes long; at most {MAX_NAME_BYTES} are allowed"
        )
    if any(unicodedata.category(character) == "Cc" for character in name):
        raise InvalidArgumentError(f"the name of the {kind} {name!r} has control characters")
    return name

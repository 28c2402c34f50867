"""Regular expressions of DuckDB (RE2) as patterns of Java, for Spark."""

from __future__ import annotations

import re
from typing import Final

from lakeport.errors import UnsupportedError

__all__ = ["java_pattern"]

_PART: Final = re.compile(r"\\.|\[\^?\]?|\(\?:?|&&|.", re.DOTALL)
_SAME_ESCAPES: Final = frozenset("dDwWtnrfAz")
_SPACES: Final = r"\t\n\f\r "
# Only \n ends a line for RE2.
_UNIX_LINES: Final = "(?d)"


def java_pattern(pattern: str) -> str:
    """Return the same pattern for Java; raise `UnsupportedError` if it may differ."""
    parts: list[str] = []
    in_class = False
    for part in _PART.findall(pattern):
        parts.append(_translated(part, in_class=in_class))
        if part.startswith("["):
            in_class = True
        elif part == "]":
            in_class = False
    lines = _UNIX_LINES if "." in parts else ""
    return lines + "".join(parts)


def _translated(part: str, *, in_class: bool) -> str:
    if part == r"\s":
        return _SPACES if in_class else f"[{_SPACES}]"
    if part == r"\S" and not in_class:
        return f"[^{_SPACES}]"
    is_escape = part.startswith("\\")
    if is_escape and (part[1:] in _SAME_ESCAPES or not part[1:].isalnum()):
        return part
    # A bracket in a class is a nested class for Java, and so is one that is empty for RE2.
    if is_escape or (in_class and part.startswith(("[", "&&"))) or part in ("[]", "[^]"):
        raise _refused(part)
    if not in_class and part in ("$", "(?"):
        raise _refused(part)
    return part


def _refused(part: str) -> UnsupportedError:
    return UnsupportedError(f"the regular expression has {part}, which has no translation")

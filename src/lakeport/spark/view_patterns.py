r"""Regular expressions of DuckDB, which are RE2's, as those of Spark, which are Java's.

Most of what both accept means the same, and some of it does not: `$` before a last line break,
`[[:digit:]]`, `[a&&b]`, the letters of `\b` and `(?i)`. Only what is known to be the same, or can
be written so, is let through.
"""

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
    """The same pattern for Java; `UnsupportedError` if it is not known to match the same."""
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
    # A bracket in a class is a class of its own for Java, and so is one that is empty for RE2.
    if is_escape or (in_class and part.startswith(("[", "&&"))) or part in ("[]", "[^]"):
        raise _refused(part)
    if not in_class and part in ("$", "(?"):
        raise _refused(part)
    return part


def _refused(part: str) -> UnsupportedError:
    return UnsupportedError(f"the regular expression has {part}, which has no translation")

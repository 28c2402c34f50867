"""What a failed Spark job means for the person who reads the error."""

from __future__ import annotations

import re

from lakeport.errors import InternalError, LakeportError

__all__ = ["scan_error"]

_MAX_REASON = 2000

# The first line after a Python traceback that is not indented names the error.
_PYTHON_ERROR = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*(?P<error>\S.*)", re.MULTILINE
)


def scan_error(failure: Exception, reason: str | None = None) -> LakeportError:
    """The error of a scan whose job failed: in the words of its task, if there are any."""
    said = (reason or _reason(str(failure)))[:_MAX_REASON]
    name, _, message = said.partition(": ")
    known = _kinds(LakeportError).get(name.rpartition(".")[2])
    if known is not None and message:
        return known(message)
    return InternalError(f"the scan failed on Spark: {said}")


def _reason(text: str) -> str:
    # Of errors that led to each other, the last one was raised to be read.
    raised = [match["error"].strip() for match in _PYTHON_ERROR.finditer(text)]
    if raised:
        return raised[-1]
    return text.strip().partition("\n")[0] or "no reason was given"


def _kinds(error: type[LakeportError]) -> dict[str, type[LakeportError]]:
    """Every kind of an error by its name."""
    kinds = {error.__name__: error}
    for kind in error.__subclasses__():
        kinds |= _kinds(kind)
    return kinds

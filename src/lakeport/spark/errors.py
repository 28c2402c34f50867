"""Errors of Spark jobs and queries as errors of Lakeport."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from lakeport.errors import InternalError, InvalidInputError, LakeportError, UnavailableError

__all__ = ["LOST", "is_lost", "query_error", "retried_when_lost", "task_error", "text_of"]

_MAX_REASON = 2000

# The first line after a Python traceback that is not indented names the error.
_PYTHON_ERROR = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*(?P<error>\S.*)", re.MULTILINE
)

LOST: Final = "Spark ended while it was reading; try again"

# Messages of Java about calls to a stopped session.
_STOPPED: Final = (
    "SparkContext was shut down",
    "Cannot call methods on a stopped SparkContext",
    "SparkContext has been shutdown",
)

# py4j hides a broken connection behind an error that has neither a cause nor a Java exception.
_NO_ANSWER: Final = re.compile(r"An error occurred while calling [\w.:$]+\.?")


def task_error(
    failure: Exception, reason: str | None = None, *, subject: str = "scan"
) -> LakeportError:
    """Return the error of a failed scan or write: the error of its task, if it is known."""
    if is_lost(failure):
        return UnavailableError(LOST)
    text = (reason or _reason(text_of(failure)))[:_MAX_REASON]
    name, _, message = text.partition(": ")
    error_class = _error_classes(LakeportError).get(name.rpartition(".")[2])
    if error_class is not None and message:
        return error_class(message)
    return InternalError(f"the {subject} failed on Spark: {text}")


@contextmanager
def retried_when_lost() -> Iterator[None]:
    """Raise UnavailableError where the Spark session ends inside the block."""
    try:
        yield
    except LakeportError:
        raise
    except Exception as error:
        if is_lost(error):
            raise UnavailableError(LOST) from None
        raise


def is_lost(failure: Exception) -> bool:
    """Return whether a call to Spark failed because its session or its Java process has ended."""
    module, name = type(failure).__module__, type(failure).__name__
    if isinstance(failure, ConnectionError | EOFError) or name == "Py4JNetworkError":
        return True
    text = text_of(failure)
    if module == "py4j.protocol" and (not text or name == "Py4JError"):
        return not text or _NO_ANSWER.fullmatch(text.strip()) is not None
    return any(sign in text for sign in _STOPPED)


def text_of(failure: Exception) -> str:
    """Return the text of an error; empty for a Java exception whose process has ended."""
    try:
        # py4j reads it from the JVM.
        return str(failure)
    except Exception:  # noqa: BLE001
        return ""


def _reason(text: str) -> str:
    # Of chained errors, the last one is the one that was raised.
    raised = [match["error"].strip() for match in _PYTHON_ERROR.finditer(text)]
    if raised:
        return raised[-1]
    return text.strip().partition("\n")[0] or "no reason was given"


def _error_classes(error: type[LakeportError]) -> dict[str, type[LakeportError]]:
    """Return a class of errors and its subclasses by their names."""
    kinds = {error.__name__: error}
    for kind in error.__subclasses__():
        kinds |= _error_classes(kind)
    return kinds


# "[CONDITION] sentence. SQLSTATE: 22012", anywhere among the causes.
_CONDITION: Final = re.compile(r"\[(?P<name>[A-Z][A-Z0-9_.]+)\] (?P<text>[^\n]+)")
_STATE: Final = re.compile(r"\s*SQLSTATE: (?P<state>\w{5})[^\n]*")

# Conditions that only wrap another one.
_WRAPPERS: Final = frozenset({"PYTHON_EXCEPTION", "FAILED_EXECUTE_UDF", "JOB_CANCELLED"})

# SQLSTATE classes of errors in the query: wrong data, wrong syntax, unknown names.
_QUERY_ERRORS: Final = ("21", "22", "23", "42", "54", "0A", "KD")


def query_error(
    failure: Exception, reason: str | None = None, *, subject: str = "scan"
) -> LakeportError:
    """Return the error of a query: Spark's message, or that of the task that failed."""
    text = text_of(failure)
    for condition in _CONDITION.finditer(text):
        if condition["name"] in _WRAPPERS:
            continue
        message = condition["text"]
        state = _STATE.search(message) or _STATE.search(text, condition.end())
        sentence = f"[{condition['name']}] {_STATE.sub('', message).strip()}"
        if state is not None and state["state"].startswith(_QUERY_ERRORS):
            return InvalidInputError(sentence)
        return InternalError(f"the query failed on Spark: {sentence}")
    return task_error(failure, reason, subject=subject)

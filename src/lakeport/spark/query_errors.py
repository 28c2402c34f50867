"""What Spark says of a query that failed, as one sentence."""

from __future__ import annotations

import re
from typing import Final

from lakeport.errors import InternalError, InvalidInputError, LakeportError
from lakeport.spark.failures import scan_error, text_of

__all__ = ["query_error"]

# "[CONDITION] sentence. SQLSTATE: 22012", anywhere among the causes.
_CONDITION: Final = re.compile(r"\[(?P<name>[A-Z][A-Z0-9_.]+)\] (?P<text>[^\n]+)")
_STATE: Final = re.compile(r"\s*SQLSTATE: (?P<state>\w{5})[^\n]*")

# Conditions that only wrap another one.
_WRAPPERS: Final = frozenset({"PYTHON_EXCEPTION", "FAILED_EXECUTE_UDF", "JOB_CANCELLED"})

# Wrong data, wrong syntax, unknown or forbidden names: nothing is wrong with the server.
_FAULTS_OF_QUERY: Final = ("21", "22", "23", "42", "54", "0A", "KD")


def query_error(failure: Exception, reason: str | None = None) -> LakeportError:
    """The error of a query: in Spark's own words, or in those of the task that failed."""
    text = text_of(failure)
    for condition in _CONDITION.finditer(text):
        if condition["name"] in _WRAPPERS:
            continue
        said = condition["text"]
        state = _STATE.search(said) or _STATE.search(text, condition.end())
        sentence = f"[{condition['name']}] {_STATE.sub('', said).strip()}"
        if state is not None and state["state"].startswith(_FAULTS_OF_QUERY):
            return InvalidInputError(sentence)
        return InternalError(f"the query failed on Spark: {sentence}")
    return scan_error(failure, reason)

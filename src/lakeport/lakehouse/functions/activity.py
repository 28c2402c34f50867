"""The table `queries` and the function `kill`: what a server runs and ran, and how to end it.

A caller sees its own calls. A caller who may administer the catalog sees and ends those of all
identities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, fields
from typing import Final

import pyarrow as pa

from lakeport.auth import Operation
from lakeport.catalog import CallRecord, RequestContext, current_request
from lakeport.errors import InvalidInputError, NotFoundError

__all__ = ["KILL_SCHEMA", "QUERIES_SCHEMA", "kill", "queries"]

_TYPES: Final = {
    "str": pa.string(),
    "int": pa.int64(),
    "float": pa.float64(),
    "datetime": pa.timestamp("us", "UTC"),
}

QUERIES_SCHEMA: Final = pa.schema(
    [(field.name, _TYPES[str(field.type)]) for field in fields(CallRecord)]
)

KILL_SCHEMA: Final = pa.schema([("id", pa.string()), ("table", pa.string())])


def queries() -> pa.Table:
    """Return the running calls, then the recent ones, that the caller may see."""
    rows = [astuple(call) for call in _visible_calls()]
    arrays = [
        pa.array([row[index] for row in rows], field.type)
        for index, field in enumerate(QUERIES_SCHEMA)
    ]
    return pa.Table.from_arrays(arrays, schema=QUERIES_SCHEMA)


def kill(id: str | None) -> pa.Table:
    """End a running call; return its id and its table, or no row if it has just ended."""
    if id is None:
        raise InvalidInputError("the id of the query is NULL")
    request = current_request()
    by = f" by {request.identity}" if request.identity else ""
    for call in _visible_calls():
        if call.id == id:
            is_cancelled = request.activity.cancel(id, f"the query was cancelled{by}")
            ended = {"id": [call.id], "table": [call.table]}
            return (
                pa.table(ended, schema=KILL_SCHEMA) if is_cancelled else KILL_SCHEMA.empty_table()
            )
    raise NotFoundError(f"there is no running query {id[:40]!r}: look in the table queries")


def _visible_calls() -> Sequence[CallRecord]:
    """Return the calls of the caller; for an administrator, those of all callers."""
    request = current_request()
    calls = request.activity.calls()
    return calls if _sees_all(request) else [c for c in calls if c.identity == request.identity]


def _sees_all(request: RequestContext) -> bool:
    return not request.identity or request.may(Operation.ADMIN)

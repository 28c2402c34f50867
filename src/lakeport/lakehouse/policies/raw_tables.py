"""How the rows of unrestricted tables are read below a policy, and which filters may reach them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import pyarrow as pa

from lakeport.ducklake import Scan
from lakeport.ducklake.views import ReadTable
from lakeport.filters import (
    Between,
    ColumnRef,
    Comparison,
    Conjunction,
    Constant,
    Expression,
    Filter,
    In,
    IsNull,
    Not,
)
from lakeport.lakehouse.policies.visible import RawTable, SeenTable, VisibleTable
from lakeport.lakehouse.resources import LakeResources
from lakeport.spark import retried_when_lost
from lakeport.types import UNKNOWN, LogicalType, from_arrow_type

__all__ = ["filter_below", "open_raw_table", "safe_filter"]

_BOOLEAN: Final = LogicalType("BOOLEAN")


def open_raw_table(
    access: LakeResources, snapshot: int
) -> Callable[[RawTable | SeenTable], ReadTable]:
    """Return a function that returns how the rows of a table at a snapshot are read."""

    def open_table(found: RawTable | SeenTable) -> ReadTable:
        table = access.table(found.source.schema, found.source.name, snapshot)

        def read(columns: Sequence[str], filter: Filter) -> pa.RecordBatchReader:
            plan = table.scan(columns, filter).plan
            with retried_when_lost():
                return Scan(plan, access.engine).to_batches()

        return read

    return open_table


def filter_below(filter: Filter, visible: VisibleTable) -> Filter:
    """Return the part of a filter that DuckDB may evaluate together with a row filter and masks."""
    safe = safe_filter(filter, visible.schema())
    if visible.row_filter is None:
        return safe
    # A mask would be computed for rows that are left out, for which it may fail.
    masked = visible.masked
    return Filter(
        tuple(part for part in safe.conjuncts if masked.isdisjoint(Filter((part,)).columns))
    )


def safe_filter(filter: Filter, schema: pa.Schema) -> Filter:
    """Return the part of a client's filter that cannot fail for any row.

    DuckDB may evaluate it for rows that the policy leaves out, where an error would show that there
    are such rows. The client applies its filter again, so the rest of it need not be pushed.
    """
    types = {field.name: from_arrow_type(field.type) for field in schema}
    return Filter(tuple(part for part in filter.conjuncts if _cannot_fail(part, types)))


def _cannot_fail(part: Expression, types: Mapping[str, LogicalType]) -> bool:
    match part:
        case Conjunction():
            return all(_cannot_fail(child, types) for child in part.children)
        case Not():
            return _cannot_fail(part.child, types)
        case Constant():
            return part.type == _BOOLEAN
        case IsNull():
            return isinstance(part.child, ColumnRef) and part.child.name in types
        case Comparison():
            return _have_one_type((part.left, part.right), types)
        case Between():
            return _have_one_type((part.input, part.lower, part.upper), types)
        case In():
            return _have_one_type((part.probe, *part.items), types)
    return False


def _have_one_type(operands: Sequence[Expression], types: Mapping[str, LogicalType]) -> bool:
    """Return whether columns and constants are of one type, so that nothing is cast."""
    found: set[LogicalType] = set()
    for operand in operands:
        match operand:
            case ColumnRef():
                found.add(types.get(operand.name, UNKNOWN))
            case Constant():
                found.add(operand.type)
            case _:
                return False
    return len(found) == 1 and UNKNOWN not in found

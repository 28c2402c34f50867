"""A predicate that DuckDB pushed down: JSON to a tree, and the tree to SQL, Spark and Arrow.

``parse_filter`` reads what the client sends, ``to_json`` writes the same. ``to_duckdb_sql``,
``to_spark_sql`` and ``to_arrow`` encode a filter so that at least its rows are kept. ``col`` and
``lit`` build filters in Python.
"""

from lakeport.filters.arrow import ArrowEncoder, to_arrow
from lakeport.filters.arrow_types import from_arrow_type, to_arrow_scalar, to_arrow_type
from lakeport.filters.build import Term, bind, col
from lakeport.filters.duckdb_sql import DuckDBEncoder, to_duckdb_sql
from lakeport.filters.expressions import (
    Between,
    Case,
    CaseBranch,
    Cast,
    Coalesce,
    ColumnRef,
    Comparison,
    ComparisonOp,
    Conjunction,
    ConjunctionOp,
    Constant,
    Expression,
    Filter,
    FunctionCall,
    In,
    IsNull,
    Not,
    Unsupported,
    subexpressions,
    type_of,
    walk,
)
from lakeport.filters.literals import lit
from lakeport.filters.parse import parse_filter
from lakeport.filters.serialize import to_json
from lakeport.filters.spark_sql import SparkEncoder, to_spark_sql
from lakeport.filters.types import Field, LogicalType
from lakeport.filters.values import Interval
from lakeport.filters.visitor import Visitor

__all__ = [
    "ArrowEncoder",
    "Between",
    "Case",
    "CaseBranch",
    "Cast",
    "Coalesce",
    "ColumnRef",
    "Comparison",
    "ComparisonOp",
    "Conjunction",
    "ConjunctionOp",
    "Constant",
    "DuckDBEncoder",
    "Expression",
    "Field",
    "Filter",
    "FunctionCall",
    "In",
    "Interval",
    "IsNull",
    "LogicalType",
    "Not",
    "SparkEncoder",
    "Term",
    "Unsupported",
    "Visitor",
    "bind",
    "col",
    "from_arrow_type",
    "lit",
    "parse_filter",
    "subexpressions",
    "to_arrow",
    "to_arrow_scalar",
    "to_arrow_type",
    "to_duckdb_sql",
    "to_json",
    "to_spark_sql",
    "type_of",
    "walk",
]

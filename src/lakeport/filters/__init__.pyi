from lakeport.types.arrow import from_arrow_type, to_arrow_scalar, to_arrow_type
from lakeport.types.logical import Field, LogicalType
from lakeport.types.values import Interval

from .builder import Term, bind, col
from .duckdb_syntax import (
    SqlSyntaxError,
    constant_value,
    expression_sql,
    function_arguments,
    parse_sql,
)
from .encoders.arrow import ArrowEncoder, to_arrow
from .encoders.duckdb import DuckDBEncoder, to_duckdb_sql
from .encoders.spark import SparkEncoder, to_spark_sql
from .expressions import (
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
from .json.parse import parse_filter
from .json.write import to_json
from .literals import lit
from .pushed import pushed_filter
from .sql import parse_sql_filter
from .visitor import Visitor

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
    "SqlSyntaxError",
    "Term",
    "Unsupported",
    "Visitor",
    "bind",
    "col",
    "constant_value",
    "expression_sql",
    "from_arrow_type",
    "function_arguments",
    "lit",
    "parse_filter",
    "parse_sql",
    "parse_sql_filter",
    "pushed_filter",
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

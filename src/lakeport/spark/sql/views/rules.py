r"""The parts of DuckDB's SQL that mean the same in Spark, and those that must be rewritten.

Both databases accept much with different results: `list[1]`, `LIKE 'a\_'`, `a / b` of decimals.
So this is an allow-list: everything else is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlglot import exp

from lakeport.errors import UnsupportedError
from lakeport.spark.sql.views.rewrites import CALLS, REWRITES, is_text

__all__ = ["check_supported", "rewrite_for_spark"]

_SET_OPERATION: Final = frozenset(
    {"this", "expression", "distinct", "with_", "order", "limit", "offset"}
)

# Clauses and the parts of them that are the same in both.
_CLAUSES: Final[Mapping[type[exp.Expr], frozenset[str]]] = {
    exp.Select: frozenset(
        {
            "with_", "expressions", "distinct", "from_", "joins", "where", "group", "having",
            "order", "limit", "offset", "qualify", "kind", "hint",
        }
    ),
    exp.Table: frozenset({"this", "db", "catalog", "alias", "joins"}),
    exp.Join: frozenset({"this", "on", "using", "side", "kind"}),
    exp.Distinct: frozenset({"expressions"}),
    exp.Group: frozenset({"expressions", "all"}),
    exp.Star: frozenset({"except_"}),
    exp.Subquery: frozenset({"this", "alias"}),
    exp.Union: _SET_OPERATION,
    exp.Intersect: _SET_OPERATION,
    exp.Except: _SET_OPERATION,
    exp.With: frozenset({"expressions"}),
    exp.CTE: frozenset({"this", "alias"}),
    exp.In: frozenset({"this", "expressions", "query"}),
    exp.Window: frozenset({"this", "partition_by", "order", "spec", "over"}),
    exp.WindowSpec: frozenset({"kind", "start", "start_side", "end", "end_side"}),
    exp.RegexpLike: frozenset({"this", "expression"}),
    exp.Limit: frozenset({"expression"}),
    exp.Lambda: frozenset({"this", "expressions"}),
}  # fmt: skip

_SAME: Final[frozenset[type[exp.Expr]]] = frozenset(
    {
        exp.From, exp.Where, exp.Having, exp.Order, exp.Ordered, exp.Offset, exp.Qualify,
        exp.TableAlias, exp.Identifier, exp.Column, exp.Dot, exp.Alias, exp.Aliases, exp.Literal,
        exp.Null, exp.Boolean, exp.Paren, exp.Var, exp.Values, exp.DataTypeParam, exp.ColumnDef,
        exp.Case, exp.If, exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT,
        exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is, exp.Between, exp.Exists, exp.ILike,
        exp.Escape, exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Interval,
        exp.BitwiseAnd, exp.BitwiseOr, exp.Abs, exp.Round, exp.Sqrt,
        exp.Exp, exp.Ln, exp.Pow, exp.Lower, exp.Upper, exp.Trim, exp.Length,
        exp.Replace, exp.StartsWith, exp.EndsWith, exp.Contains,
        exp.StrPosition, exp.Pad, exp.Reverse, exp.Split, exp.Coalesce, exp.Nullif, exp.Greatest,
        exp.Least, exp.Count, exp.Sum, exp.Min, exp.Max, exp.Stddev, exp.StddevPop,
        exp.StddevSamp, exp.Variance, exp.VariancePop, exp.LogicalAnd, exp.LogicalOr,
        exp.CountIf, exp.AnyValue, exp.IgnoreNulls, exp.GroupConcat, exp.Filter, exp.RowNumber,
        exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Ntile, exp.Lag, exp.Lead,
        exp.FirstValue, exp.LastValue, exp.Year, exp.Month, exp.Day, exp.Quarter, exp.Hour,
        exp.Minute, exp.LastDay, exp.DateFromParts, exp.Transform, exp.ArrayFilter,
        exp.ArraySort, exp.ArrayMax, exp.ArrayMin, exp.Array, exp.StructExtract, exp.Explode,
        exp.MD5, exp.Tuple,
    }
)  # fmt: skip


def check_supported(tree: exp.Expr) -> None:
    """Refuse a tree that contains anything outside the allow-list."""
    for node in tree.walk():
        kind = type(node)
        if kind in _CLAUSES:
            allowed = _CLAUSES[kind]
            extra = [key for key, value in node.args.items() if value and key not in allowed]
            if extra:
                clause = f"{node.key.upper()} … {extra[0].strip('_').upper()}"
                raise UnsupportedError(f"{clause} has no translation")
        elif kind is exp.Anonymous:
            if node.name.lower() not in CALLS:
                raise UnsupportedError(f"the function {node.name.lower()} has no translation")
        elif kind not in _SAME and kind not in REWRITES:
            raise UnsupportedError(f"{_subject(node)} has no translation")
        _check_details(node)


def rewrite_for_spark(tree: exp.Expr) -> exp.Expr:
    """Rewrite the parts of a tree that have another result in Spark; return the tree."""
    for node in reversed(list(tree.walk())):
        rule = REWRITES.get(type(node))
        if isinstance(node, exp.Anonymous):
            rule = CALLS.get(node.name.lower())
        if rule is None:
            continue
        replacement = rule(node)
        if replacement is not node:
            if node is tree:
                tree = replacement
            else:
                node.replace(replacement)
    return tree


def _subject(node: exp.Expr) -> str:
    if isinstance(node, exp.Func):
        return f"the function {node.sql_name().lower()}"
    return node.key.upper()


def _check_details(node: exp.Expr) -> None:
    """Refuse special cases of allowed nodes."""
    match node:
        case exp.Table() if not isinstance(node.this, exp.Identifier):
            raise UnsupportedError("a function in FROM has no translation")
        case exp.Lambda() if len(node.expressions) != 1:
            raise UnsupportedError("a lambda with an index has no translation")
        case exp.Tuple() if not isinstance(node.parent, exp.Values | exp.In):
            raise UnsupportedError("a row value has no translation")
        case exp.ILike() if not node.expression.is_string or "\\" in node.expression.name:
            raise UnsupportedError("ILIKE is translated with constant patterns alone")
        case exp.Explode() if not isinstance(_unaliased_parent(node), exp.Select):
            raise UnsupportedError("unnest is translated as a column alone")
        case exp.Split() if not is_text(node.expression):
            raise UnsupportedError("a text is split at constant texts alone")


def _unaliased_parent(node: exp.Expr) -> exp.Expr | None:
    return node.parent.parent if isinstance(node.parent, exp.Alias) else node.parent

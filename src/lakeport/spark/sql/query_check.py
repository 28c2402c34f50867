"""The allow-list for the plan of an untrusted query, before and after analysis.

Spark evaluates some constants while it analyses a query (the schema of `from_json`, for one), so
the parsed plan is checked first: functions by their names, options by their keys, nodes by their
classes. The analysed plan is checked again, because only there names are resolved. Everything that
is not listed is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from typing import Any, Final

from lakeport.errors import InvalidInputError, PermissionDeniedError
from lakeport.spark.sql.allowed_functions import (
    FUNCTIONS,
    OPTIONS,
    OPTIONS_ARGUMENT,
    TABLE_FUNCTIONS,
    TYPE_ARGUMENT,
)

__all__ = ["check_analysed", "check_parsed"]

# Each node costs some calls to Java.
_MAX_NODES: Final = 20_000

_CATALYST: Final = "org.apache.spark.sql.catalyst."
_VIEW: Final = "plans.logical.View"
_BUILTIN: Final = (("builtin",), ("system", "builtin"))


def _classes(package: str, names: str) -> frozenset[str]:
    return frozenset(package + name for name in names.split())


# Plan nodes of both plans; none of them names a file, a program or a class.
_PLANS: Final = _classes("expressions.", "PipeOperator") | _classes(
    "plans.logical.",
    """
    Aggregate Distinct Except Expand Filter Generate GlobalLimit Intersect Join LateralJoin
    LocalLimit LocalRelation Offset OneRowRelation Pivot Project Range RepartitionByExpression
    ResolvedHint Sample Sort SubqueryAlias Union Unpivot WithWindowDefinition Window
    """,
)
_PARSED_PLANS: Final = (
    _PLANS
    | _classes("plans.logical.", "LimitAll UnresolvedHint UnresolvedWith")
    | _classes(
        "analysis.",
        """
        UnresolvedHaving UnresolvedInlineTable UnresolvedQualify UnresolvedRelation
        UnresolvedSubqueryColumnAliases
        UnresolvedTVFAliases UnresolvedTableValuedFunction
        """,
    )
)
_ANALYSED_PLANS: Final = _PLANS | _classes(
    "plans.logical.", "CTERelationDef CTERelationRef UnionLoop UnionLoopRef WithCTE"
)

_SUBQUERIES: Final = _classes("expressions.", "Exists LateralSubquery ListQuery ScalarSubquery")

# Classes that the parser and the analyser create without a function of that name.
_SYNTAX: Final = (
    _SUBQUERIES
    | _classes("analysis.", "MultiAlias ResolvedStar TempResolvedColumn")
    | _classes(
        "expressions.",
        """
        Add Alias And AttributeReference Between BinaryPad BinaryPredicate BitwiseAnd BitwiseNot
        BitwiseOr BitwiseXor CaseWhen Cast Ceil CheckOverflow CheckOverflowInSum Collate
        CommonExpressionDef CommonExpressionRef Contains CreateArray CreateMap CreateNamedStruct
        Cube CurrentDate CurrentRow$ CurrentTime CurrentTimestamp DateAdd DateAddInterval
        DateAddYMInterval DateDiff DatetimeSub Divide DivideDTInterval DivideInterval
        DivideYMInterval EndsWith EqualNullSafe EqualTo Explode ExtractANSIIntervalDays
        ExtractANSIIntervalHours ExtractANSIIntervalMinutes ExtractANSIIntervalMonths
        ExtractANSIIntervalSeconds ExtractANSIIntervalYears Floor GeneratorOuter GetArrayItem
        GetArrayStructFields GetMapValue GetStructField GetTimestamp GreaterThan GreaterThanOrEqual
        Greatest GroupingSets Hour HoursOfTime ILike In InSet InSubquery Inline IntegralDivide
        IsNotNull IsNotUnknown IsNull IsUnknown KnownNullable LambdaFunction
        LateralColumnAliasReference LessThan LessThanOrEqual Like LikeAll LikeAny Literal
        LocalTimestamp MakeTimestamp MakeTimestampFromDateTime MakeTimestampNTZ Mask Minute
        MinutesOfTime Multiply MultiplyDTInterval MultiplyInterval MultiplyYMInterval
        NamedLambdaVariable Not NotLikeAll NotLikeAny NullIfResult Now Or OuterReference PosExplode
        PreciseTimestampConversion RLike RaiseError Remainder ResolvedCollation Rollup RoundCeil
        RoundFloor Second SecondWithFraction SecondsOfTime SortOrder SpecifiedWindowFrame StartsWith
        StringDecode StringInstr StringInstrWithOccurrence StringLPad StringRPad Subtract
        SubtractDates SubtractTimes SubtractTimestamps TimeAddInterval TimestampAdd
        TimestampAddInterval TimestampAddYMInterval TimestampDiff ToCharacter TryEval
        TryMakeTimestamp TryMakeTimestampFromDateTime UnaryMinus UnboundedFollowing$
        UnboundedPreceding$ UnscaledValue UnspecifiedFrame$ UpCast WindowExpression
        WindowSpecDefinition WindowSpecReference With aggregate.AggregateExpression
        aggregate.CountMinSketchAgg aggregate.MaxBy aggregate.MaxMinByK aggregate.MinBy
        aggregate.Mode aggregate.PercentileCont aggregate.PercentileDisc aggregate.PivotFirst
        variant.ParseJson variant.VariantExplode variant.VariantGet
        """,
    )
)
_PARSED_EXPRESSIONS: Final = (
    _SYNTAX
    | _classes(
        "expressions.",
        """
        NamedArgumentExpression PipeExpression UnresolvedCollation
        UnresolvedNamedLambdaVariable UnresolvedWindowExpression
        """,
    )
    | _classes(
        "analysis.",
        """
        UnresolvedAlias UnresolvedAttribute UnresolvedExtractValue UnresolvedFunction
        UnresolvedGenerator UnresolvedOrdinal UnresolvedPipeAggregateOrdinal UnresolvedStar
        UnresolvedStarExceptOrReplace
        """,
    )
)
_CALLS: Final = _classes("expressions.objects.", "Invoke StaticInvoke")
_WITH_OPTIONS: Final = _classes(
    "expressions.",
    """
    CsvToStructs JsonToStructs SchemaOfCsv SchemaOfJson SchemaOfXml StructsToCsv StructsToJson
    StructsToXml XmlToStructs
    """,
)

# Tables of Spark's catalogs, for servers that offer a session and not a lake.
_CATALOG_TABLES: Final = frozenset(
    {
        _CATALYST + "catalog.HiveTableRelation",
        "org.apache.spark.sql.execution.datasources.LogicalRelation",
        "org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation",
    }
)

# How a refused node is written in SQL.
_IN_SQL: Final = {
    "CurrentUser": "CURRENT_USER",
    "ExpressionWithUnresolvedIdentifier": "IDENTIFIER(…)",
    "NamedStreamingRelation": "STREAM",
    "PlanWithUnresolvedIdentifier": "IDENTIFIER(…)",
    "RelationTimeTravel": "VERSION AS OF or TIMESTAMP AS OF",
    "ScriptTransformation": "scripts",
}

_lock = threading.Lock()
_function_classes: frozenset[str] | None = None


def check_parsed(spark: Any, plan: Any) -> None:
    """Refuse a query that contains more than the allow-list, before Spark evaluates any of it."""
    expressions = _PARSED_EXPRESSIONS | _classes_of_functions(spark)
    for node, name, is_plan in _nodes(plan):
        if name not in (_PARSED_PLANS if is_plan else expressions):
            raise _refused(name)
        if name == "analysis.UnresolvedFunction":
            _check_function(node, _texts(node.nameParts()))
        elif name == "analysis.UnresolvedGenerator":
            _check_name(tuple(node.name().unquotedString().split(".")), TABLE_FUNCTIONS)
        elif name == "analysis.UnresolvedTableValuedFunction":
            _check_name(_texts(node.name()), TABLE_FUNCTIONS)
        elif name == "analysis.UnresolvedRelation" and (
            node.isStreaming() or not node.options().isEmpty()
        ):
            raise PermissionDeniedError("a query must not give options to a table, or stream it")
        elif name == "analysis.UnresolvedStarExceptOrReplace" and node.replacements().isDefined():
            # Its expressions are not among its children, so they would not be checked.
            raise PermissionDeniedError("a query must not use * REPLACE")


def check_analysed(spark: Any, plan: Any, views: Collection[str] | None) -> None:
    """Refuse a plan with more than the allow-list; it may read `views`, in lower case, only.

    Without `views` it may read every view of the session and every table of its catalogs. The
    inside of a view is not checked: the owner of the session has created it.
    """
    allowed = _SYNTAX | _CALLS | _classes_of_functions(spark)
    for node, name, is_plan in _nodes(plan):
        if name == _VIEW:
            _check_view(node, views)
        elif is_plan and name in _CATALOG_TABLES and views is None:
            _check_catalog_table(node, name)
        elif name not in (_ANALYSED_PLANS if is_plan else allowed):
            raise _refused(name)
        elif name in _WITH_OPTIONS:
            _check_options(_texts(node.options().keys().toSeq()))
        elif name in _CALLS:
            _check_call(node, name)


def _nodes(plan: Any) -> Iterator[tuple[Any, str, bool]]:
    """Yield each node of a plan, of its expressions and of its subqueries, with its class."""
    waiting: list[tuple[Any, bool]] = [(plan, True)]
    count = 0
    while waiting:
        node, is_plan = waiting.pop()
        count += 1
        if count > _MAX_NODES:
            raise InvalidInputError(f"the query has more than {_MAX_NODES} parts: it is too long")
        name = _name_of(node)
        yield node, name, is_plan
        if name == _VIEW:
            continue
        waiting += [(child, is_plan) for child in _items(node.children())]
        if is_plan:
            waiting += [(expression, False) for expression in _items(node.expressions())]
            waiting += _hidden_parts(node, name)
        elif name in _SUBQUERIES:
            waiting.append((node.plan(), True))


def _hidden_parts(node: Any, name: str) -> Iterator[tuple[Any, bool]]:
    """Yield parts that are missing in `children` and `expressions`, because they are in pairs."""
    if name == "plans.logical.UnresolvedWith":
        for relation in _items(node.cteRelations()):
            yield relation.productElement(1), True
    elif name == "plans.logical.WithWindowDefinition":
        for definition in _items(node.windowDefinitions().values().toSeq()):
            yield definition, False


def _check_function(node: Any, parts: tuple[str, ...]) -> None:
    name = _check_name(parts, FUNCTIONS)
    if name not in OPTIONS_ARGUMENT and name not in TYPE_ARGUMENT:
        return
    arguments = _items(node.arguments())
    if any(_name_of(argument).endswith(".NamedArgumentExpression") for argument in arguments):
        raise PermissionDeniedError(f"a query must not name the arguments of {name}")
    if name in TYPE_ARGUMENT and len(arguments) > TYPE_ARGUMENT[name]:
        _check_type(arguments[TYPE_ARGUMENT[name]], name)
    for argument in arguments[OPTIONS_ARGUMENT.get(name, len(arguments)) :]:
        _check_options(_literal_keys(argument, name))


def _check_type(argument: Any, function: str) -> None:
    """Refuse a type that is not written as SQL: in JSON it can name a class of Java or Python."""
    kind = _name_of(argument)
    # Without these two, a text is no JSON object.
    if kind == "expressions.Literal" and not {"{", '"'} & set(str(argument.value())):
        return
    if kind == "analysis.UnresolvedFunction":
        parts = _texts(argument.nameParts())
        # It returns SQL; the call itself is checked as a part of the query.
        if len(parts) == 1 and parts[0].lower().startswith("schema_of_"):
            return
    raise PermissionDeniedError(
        f"the type in {function} must be written as SQL, as 'a INT, b STRING'"
    )


def _literal_keys(argument: Any, function: str) -> tuple[str, ...]:
    """Return the keys of a map of constants; refuse any other, which Spark would compute."""
    if _name_of(argument) == "analysis.UnresolvedFunction":
        arguments = _items(argument.arguments())
        is_map = _texts(argument.nameParts()) in {("map",), ("MAP",)}
        if is_map and all(_name_of(part) == "expressions.Literal" for part in arguments):
            return tuple(str(part.value()) for part in arguments[::2])
    raise PermissionDeniedError(
        f"the options of {function} must be written as map('name', 'value')"
    )


def _check_options(keys: Collection[str]) -> None:
    for key in keys:
        if key.lower() not in OPTIONS:
            raise PermissionDeniedError(f"a query must not use the option {key!r} of a function")


def _check_name(parts: tuple[str, ...], allowed: frozenset[str]) -> str:
    name = parts[-1].lower()
    schema = tuple(part.lower() for part in parts[:-1])
    if name not in allowed or (schema and schema not in _BUILTIN):
        raise PermissionDeniedError(f"a query must not call the function {'.'.join(parts)!r}")
    return name


def _check_view(node: Any, views: Collection[str] | None) -> None:
    if views is None:
        return
    identifier = node.desc().identifier()
    name = str(identifier.table())
    if not node.isTempView() or identifier.database().isDefined() or name.lower() not in views:
        raise PermissionDeniedError(f"a query must not read {identifier.unquotedString()}")


def _check_catalog_table(node: Any, name: str) -> None:
    table = node.identifier() if name.endswith("V2Relation") else None
    if name.endswith(".LogicalRelation"):
        table = node.catalogTable()
    if table is not None and not table.isDefined():
        raise PermissionDeniedError("a query must not read files by their paths")


def _check_call(node: Any, name: str) -> None:
    """Allow calls of Spark's own code only."""
    if name.endswith("StaticInvoke"):
        called = str(node.staticObject().getName())
    else:
        called = str(node.targetObject().dataType().toString())
    if "org.apache.spark.sql.catalyst." not in called:
        raise _refused(name)


def _classes_of_functions(spark: Any) -> frozenset[str]:
    """Return the classes of the allowed functions: those of Spark, not of the session."""
    global _function_classes  # noqa: PLW0603
    with _lock:
        if _function_classes is None:
            registry = spark._jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry  # noqa: SLF001
            expressions = registry.expressions()
            entries = (expressions.get(name) for name in FUNCTIONS)
            _function_classes = frozenset(
                str(entry.get().productElement(0).getClassName()).removeprefix(_CATALYST)
                for entry in entries
                if entry.isDefined()
            )
        return _function_classes


def _name_of(node: Any) -> str:
    return str(node.getClass().getName()).removeprefix(_CATALYST)


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]


def _texts(sequence: Any) -> tuple[str, ...]:
    return tuple(str(item) for item in _items(sequence))


def _refused(name: str) -> PermissionDeniedError:
    simple = name.rpartition(".")[2].rstrip("$")
    return PermissionDeniedError(f"a query must not use {_IN_SQL.get(simple, simple)}")

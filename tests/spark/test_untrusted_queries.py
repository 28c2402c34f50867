"""Queries of strangers: an allow-list of functions, options, relations and plan nodes."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lakeport.errors import InvalidInputError, LakeportError, PermissionDeniedError
from lakeport.spark.sql.allowed_functions import FUNCTIONS, OPTIONS_ARGUMENT
from lakeport.spark.sql.queries import untrusted_query

ENV = "'java.lang.System', 'getenv', 'HOME'"
CLASS = '{"type":"udt","pyClass":"os.nothing","serializedClass":"gASV","sqlType":"string"}'
STRUCT = f'{{"type":"struct","fields":[{{"name":"a","type":{CLASS},"nullable":true}}]}}'
XSD = "map('rowValidationXSDPath', '/etc/hostname')"


@pytest.fixture(scope="module")
def own_spark(spark: Any) -> Any:
    """A session with a view, a function of Python and a table function of Python."""
    from pyspark.sql.functions import udtf

    class Rows:
        def eval(self, x: int) -> Any:
            yield (x,)

    own = spark.newSession()
    own.sql("SELECT id, CAST(id AS STRING) AS v FROM range(10)").createOrReplaceTempView("numbers")
    own.range(1).createOrReplaceTempView("Secret")
    own.range(1).createOrReplaceGlobalTempView("everyones")
    own.udf.register("python_function", lambda x: x)
    own.udtf.register("python_rows", udtf(Rows, returnType="x int"))
    return own


FORBIDDEN = [
    # Options of functions that read files and URLs, however they are written.
    f"SELECT from_xml('<a/>', 'b INT', {XSD})",
    "SELECT from_xml('<a/>', 'b INT', map('ROWVALIDATIONxsdpath', 'http://127.0.0.1:9/x'))",
    "SELECT from_xml('<a/>', 'b INT', map('rowValidation' || 'XSDPath', '/x'))",
    "SELECT from_xml('<a/>', 'b INT', map('mode', 'x', 'rowValidationXSDPath', '/x'))",
    "SELECT from_xml('<a/>', 'b INT', map_from_arrays(array('rowValidationXSDPath'), array('/x')))",
    "SELECT from_xml('<a/>', 'b INT', str_to_map('rowValidationXSDPath:/etc/hostname'))",
    f"SELECT from_xml(xmlStr => '<a/>', schema => 'b INT', options => {XSD})",
    f"SELECT system.builtin.from_xml('<a/>', 'b INT', {XSD})",
    f"SELECT schema_of_xml('<a/>', {XSD})",
    # Spark evaluates the schema while it analyses the query.
    f"SELECT from_json('{{}}', schema_of_xml('<a/>', {XSD}))",
    "SELECT to_xml(named_struct('a', 1), map('path', '/x'))",
    "SELECT from_json('{}', 'a INT', map('path', '/x'))",
    "SELECT from_csv('1', 'a INT', map('path', '/x'))",
    "SELECT schema_of_json('{}', map('path', '/x')), schema_of_csv('1', map('path', '/x'))",
    # Types that name classes, which Java or Python would load.
    f"SELECT from_json('{{}}', '{STRUCT}')",
    f"SELECT from_json('{{}}', concat('', '{STRUCT}'))",
    f"SELECT from_csv('1', ' {STRUCT}'), from_xml('<a/>', '{STRUCT}')",
    f"SELECT * FROM numbers LATERAL VIEW from_json('{{}}', '{STRUCT}') e",
    f"SELECT * FROM from_json('{{}}', '{STRUCT}')",
    f"SELECT variant_get(parse_json('1'), '$', '{CLASS}')",
    f"SELECT try_variant_get(parse_json('1'), '$', '{CLASS}')",
    # Java methods, wherever a query can hold an expression.
    f"SELECT java_method({ENV})",
    f"SELECT reflect({ENV})",
    f"SELECT try_reflect({ENV})",
    f"SELECT system.builtin.java_method({ENV}), builtin.reflect({ENV})",
    f"SELECT IDENTIFIER('java' || '_method')({ENV})",
    f"SELECT (SELECT IDENTIFIER('reflect')({ENV}))",
    f"WITH x AS (SELECT reflect({ENV})) SELECT * FROM x",
    f"WITH RECURSIVE r(n) AS (SELECT '1' UNION ALL SELECT reflect({ENV}) FROM r) SELECT * FROM r",
    f"SELECT sum(id) OVER w FROM numbers WINDOW w AS (PARTITION BY reflect({ENV}))",
    f"SELECT sum(id) OVER (ORDER BY reflect({ENV})) FROM numbers",
    f"SELECT * FROM numbers WHERE id IN (SELECT reflect({ENV}) FROM numbers)",
    f"SELECT * FROM numbers WHERE EXISTS (SELECT 1 WHERE reflect({ENV}) = 'x')",
    f"SELECT filter(array('1'), x -> reflect({ENV}) = x)",
    f"SELECT * FROM numbers LATERAL VIEW explode(array(reflect({ENV}))) e",
    f"SELECT * FROM numbers, LATERAL (SELECT reflect({ENV}))",
    f"SELECT * FROM explode(array(reflect({ENV})))",
    f"SELECT * FROM VALUES (reflect({ENV}))",
    f"SELECT count(*) FILTER (WHERE reflect({ENV}) = 'x') FROM numbers",
    f"SELECT 1 ORDER BY reflect({ENV})",
    f"SELECT count(*) FROM numbers GROUP BY GROUPING SETS ((reflect({ENV})), ())",
    f"SELECT count(*) FROM numbers HAVING reflect({ENV}) = 'x'",
    f"SELECT * FROM numbers JOIN numbers n ON reflect({ENV}) = 'x'",
    f"FROM numbers |> SELECT reflect({ENV})",
    # Functions and relations of the session's owner, and of Spark.
    "SELECT python_function(1)",
    "SELECT system.session.python_function(1)",
    "SELECT spark_catalog.default.python_function(1)",
    "SELECT * FROM python_rows(1)",
    "SELECT * FROM read_files('/etc')",
    "SELECT * FROM python_worker_logs()",
    "SELECT * FROM system.builtin.python_worker_logs()",
    "SELECT * FROM IDENTIFIER('num' || 'bers')",
    "SELECT * FROM numbers WITH ('path' = '/etc')",
    "SELECT * FROM STREAM numbers",
    "SELECT * FROM numbers VERSION AS OF 1",
    "SELECT from_avro(CAST('a' AS BINARY), '\"string\"')",
    "SELECT to_avro(1)",
    "SELECT from_protobuf(CAST('a' AS BINARY), 'M', '/etc/hostname', map())",
    "SELECT to_protobuf(named_struct('a', 1), 'M', '/etc/hostname', map())",
    "SELECT xpath_string('<a/>', 'a')",
    # Scripts, paths, and what the server is.
    "SELECT TRANSFORM(id) USING 'cat' AS (x) FROM numbers",
    "FROM numbers MAP id USING 'cat' AS x",
    "FROM numbers REDUCE id USING 'cat' AS x",
    "SELECT input_file_name() FROM numbers",
    "SELECT input_file_block_start() FROM numbers",
    "SELECT input_file_block_length() FROM numbers",
    "SELECT current_user()",
    "SELECT session_user(), user()",
    "SELECT current_catalog(), current_database(), current_schema()",
    "SELECT :parameter",
    "SELECT a_function_of_tomorrow(1)",
]

# Only the analysis finds out what these names are.
FORBIDDEN_NAMES = [
    "SELECT CURRENT_USER",
    "SELECT user",
    "SELECT * FROM global_temp.everyones",
]

UNKNOWN = [
    "SELECT * FROM parquet.`/etc`",
    "SELECT * FROM text.`/etc/hostname`",
    "SELECT * FROM binaryFile.`file:///etc/hostname`",
    "SELECT * FROM ducklake.`/x`",
    "SELECT * FROM `/etc/hostname`",
    "SELECT * FROM secret",
    "SELECT nothing FROM Secret",
    "SELECT * FROM information_schema.tables",
    "SELECT _metadata.file_path FROM numbers",
    "SELECT ${env:HOME}",
    "SELECT 1; SELECT 2",
    "BEGIN SELECT 1; END",
    "EXECUTE IMMEDIATE 'SELECT 1'",
    "SET spark.sql.runSQLOnFiles = true",
    "ADD JAR '/x'",
    "CACHE TABLE numbers",
    "SELECT 1) UNION ALL (TABLE secret",
]


@pytest.mark.parametrize("text", FORBIDDEN)
def test_what_is_not_listed_is_forbidden_before_spark_analyses_it(
    own_spark: Any, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    analysed: list[Any] = []
    monkeypatch.setattr(
        "lakeport.spark.sql.queries.check_analysed", lambda *given: analysed.append(given)
    )

    with pytest.raises(PermissionDeniedError) as refused:
        untrusted_query(own_spark, text, {"numbers"})

    assert not analysed
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", FORBIDDEN_NAMES)
def test_what_is_not_listed_is_forbidden_in_the_analysed_query(own_spark: Any, text: str) -> None:
    with pytest.raises(PermissionDeniedError):
        untrusted_query(own_spark, text, {"numbers"})


@pytest.mark.parametrize("text", UNKNOWN)
def test_what_is_not_there_is_not_found_or_not_understood(own_spark: Any, text: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        untrusted_query(own_spark, text, {"numbers"})

    assert "`id`" not in str(refused.value).replace("`numbers`.`id`", "")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT v || 'a', CAST(id AS INT) + 1, CASE id WHEN 1 THEN 'a' END FROM numbers LIMIT 3",
        "WITH a AS (TABLE numbers), b AS (TABLE a) SELECT (SELECT max(id) FROM b), b.* FROM b",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) TABLE r",
        "SELECT sum(id) OVER w, rank() OVER (ORDER BY id) FROM numbers WINDOW w AS (ORDER BY v)",
        "SELECT * FROM VALUES (1, upper('b')) AS x(a, b)",
        "SELECT v, count(DISTINCT id) FROM numbers GROUP BY CUBE (v) HAVING count(*) > 0",
        "SELECT * FROM (SELECT id % 2 AS k, v FROM numbers) PIVOT (count(v) FOR k IN (0, 1))",
        "SELECT * FROM (SELECT 1 AS a, 2 AS b) UNPIVOT (x FOR y IN (a, b))",
        "SELECT * FROM numbers LATERAL VIEW explode(array(1, 2)) e AS x",
        "SELECT * FROM numbers n, LATERAL (SELECT n.id + 1), explode(array(1)) AS z(q), range(3)",
        "SELECT /*+ BROADCAST(n) */ exists(array(1), x -> x > 0) FROM numbers n",
        "SELECT v FROM numbers EXCEPT SELECT v FROM numbers WHERE id IN (SELECT id FROM Numbers)",
        "SELECT * EXCEPT (v) FROM numbers",
        "FROM numbers |> WHERE id > 1 |> AGGREGATE sum(id) AS s",
        "SELECT from_json('{}', 'a INT', map('mode', 'FAILFAST')), to_json(struct(1))",
        "SELECT from_json('{}', schema_of_json('{\"a\": 1}')), from_xml('<r/>', 'a INT')",
        "SELECT v COLLATE UTF8_LCASE, try_cast(v AS INT), v LIKE ANY ('a', 'b') FROM numbers",
        "SELECT current_date, now(), DATE '2020-01-01' + INTERVAL 1 DAY, EXTRACT(YEAR FROM now())",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY id), builtin.max(id) FROM numbers",
        "SELECT id FROM numbers TABLESAMPLE (50 PERCENT)",
        "SELECT * FROM numbers NATURAL JOIN numbers n ORDER BY ALL LIMIT ALL OFFSET 1",
        "SELECT id, row_number() OVER (ORDER BY id) AS n FROM numbers QUALIFY n < 3",
    ],
)
def test_ordinary_queries_run(own_spark: Any, text: str) -> None:
    frame = untrusted_query(own_spark, text, {"NUMBERS"})

    assert frame.collect() is not None


def test_the_examples_of_spark_for_listed_functions_are_allowed_and_others_are_not(
    own_spark: Any,
) -> None:
    registry = own_spark._jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry
    names = registry.expressions().keys().toSeq()
    wrong, allowed = [], 0
    for name in (str(names.apply(index)) for index in range(names.size())):
        info = registry.expressions().get(name).get().productElement(0)
        for text in re.findall(r">\s+(SELECT.*?);\n", str(info.getExamples()), re.DOTALL):
            if name in FUNCTIONS:
                try:
                    untrusted_query(own_spark, text, ())
                    allowed += 1
                except PermissionDeniedError as error:
                    wrong.append(f"{name}: {error}")
                except LakeportError:
                    # A feature that is switched off, or another function of the same text.
                    continue
            elif re.search(rf"\b{re.escape(name)}\(", text):
                with pytest.raises(PermissionDeniedError):
                    untrusted_query(own_spark, text, ())

    assert not wrong
    assert allowed > 800


def test_only_the_listed_functions_take_options(own_spark: Any) -> None:
    """A class with a map among its fields may take options that read files: it is looked at."""
    registry = own_spark._jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry
    loader = own_spark._jvm.java.lang.Class
    taking = set()
    for name in FUNCTIONS:
        entry = registry.expressions().get(name)
        if entry.isDefined():
            found = loader.forName(entry.get().productElement(0).getClassName())
            fields = [str(field.getType().getName()) for field in found.getDeclaredFields()]
            if "scala.collection.immutable.Map" in fields:
                taking.add(name)

    assert taking == OPTIONS_ARGUMENT.keys()


def test_a_query_that_is_too_long_is_refused(
    own_spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeport.spark.sql.query_check._MAX_NODES", 100)

    with pytest.raises(InvalidInputError, match="too long"):
        untrusted_query(own_spark, "SELECT " + ", ".join(["1"] * 200), ())

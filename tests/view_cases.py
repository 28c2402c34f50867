"""Views in DuckDB's SQL, for the tests that compare their rows with those of DuckDB."""

from __future__ import annotations

from pathlib import Path

TABLES = (
    """
    CREATE TABLE t(
        id INTEGER, name VARCHAR, x DOUBLE, f FLOAT, price DECIMAL(10,2), big BIGINT, d DATE,
        e DATE, ts TIMESTAMP, tz TIMESTAMPTZ, flag BOOLEAN, l INTEGER[],
        st STRUCT(a INTEGER, b VARCHAR), m MAP(VARCHAR, INTEGER), u UUID, tm TIME,
        "odd name" INTEGER
    )
    """,
    r"""
    INSERT INTO t VALUES
        (1, 'anna', 1.5, 0.1, 12.34, 1000000000000, '2024-01-31', '2023-12-31',
         '2024-02-29 13:14:15.123456', '2024-05-01 23:30:00+00', true, [3, NULL, 1],
         {'a': 1, 'b': 'p'}, MAP {'k': 1}, '6ba7b810-9dad-11d1-80b4-00c04fd430c8', '10:00:00', 7),
        (2, 'Bob_%', -2.5, 2.5, -0.05, -7, '2020-02-29', '2020-03-01', '1999-12-31 23:59:59',
         '1970-01-01 00:00:00+00', false, [], {'a': NULL, 'b': NULL}, MAP {}, NULL, NULL, 8),
        (3, 'a\_b', 0.0, -1.0, 0.00, 0, '1969-12-31', '1970-01-01', '2024-03-01 00:00:00',
         NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, [5],
         {'a': 4, 'b': 'it''s'}, MAP {'k': NULL}, NULL, NULL, 9),
        (5, '', 1e15, 1e9, 99999999.99, 9223372036854775807, '2024-12-30', '2025-01-02',
         '2024-12-30 08:00:00.5', NULL, true, [1, 2, 3], {'a': -5, 'b': 'q'},
         MAP {'k': 5, 'j': 6}, NULL, NULL, 10),
        (6, 'nan', 'nan', 'nan', 1.00, 1, NULL, NULL, NULL, NULL, false, [NULL], NULL, NULL,
         'ffffffff-ffff-ffff-ffff-ffffffffffff', '23:59:59.999999', 0),
        (7, 'inf', 'inf', '-inf', 2.00, 2, '1600-03-01', '2900-12-31', '1900-01-01', NULL, NULL,
         [7, 7], {'a': 7, 'b': ''}, MAP {'': 7}, '00000000-0000-0000-0000-000000000000',
         '00:00:00', -1)
    """,
    "CREATE SCHEMA s",
    "CREATE TABLE s.u(id INTEGER, v INTEGER)",
    "INSERT INTO s.u VALUES (1, 10), (1, 20), (2, 30), (NULL, 40), (9, NULL)",
)


def lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.strip().splitlines())


# Each line becomes a column of a view over `t`; the real DuckDB says what its values are.
SAME = {
    "numbers": lines(r"""
        id + 1
        id - 1
        id * 2
        -id
        id // 2
        big // -2
        id % 3
        big % 0
        -id % 3
        (id + 1) % 2
        price % 0.3
        price % 0
        id // 0
        id / 2
        price / 3
        price * 1.5
        f / 3
        abs(x)
        ceil(price)
        floor(price)
        round(price, 1)
        round(x)
        sqrt(id)
        id ** 2
        pow(id, 3)
        sign(price)
        greatest(id, 2)
        least(id, NULL)
        id & 3
        id | 8
        coalesce(price, 1)
        ifnull(big, 0)
        nullif(id, 3)
        x BETWEEN 0 AND 10
        id IN (1, 3)
        id NOT IN (1, 3)
        x IS NOT DISTINCT FROM NULL
        NOT flag
        flag AND x > 0
        flag IS TRUE
        CASE WHEN id > 2 THEN 'high' WHEN id = 1 THEN 'one' ELSE NULL END
        CASE id WHEN 1 THEN 'a' END
        1e3
        12345678901
    """),
    "casts": lines(r"""
        id::VARCHAR
        price::VARCHAR
        d::VARCHAR
        ts::VARCHAR
        flag::VARCHAR
        id::DOUBLE
        big::HUGEINT
        id::SMALLINT
        price::DOUBLE
        x::FLOAT
        id::DECIMAL(10, 3)
        '12'::INTEGER
        d::TIMESTAMP
        ts::DATE
        '2024-01-05'::DATE
        DATE '2024-01-05'
        '2024-01-05 10:00:00'::TIMESTAMP
        id::BOOLEAN
        l::BIGINT[]
        NULL::INTEGER
        true::INTEGER
        flag::INTEGER
        (id > 2)::INTEGER
        CASE WHEN abs(f) < 5 THEN f END::INTEGER
        price::INTEGER
        id::BIGINT
    """),
    "texts": lines(r"""
        upper(name)
        lower(name)
        length(name)
        name || '!'
        name || id
        concat(name, '-', name)
        concat_ws('/', name, 'x')
        substring(name, 2, 2)
        left(name, 2)
        right(name, 2)
        trim('  ' || name || ' ')
        ltrim('  x ')
        rtrim(' x  ')
        replace(name, 'a', 'ä')
        name LIKE 'a%'
        name LIKE 'a\_b'
        name NOT LIKE '%a'
        name ILIKE 'B%'
        name LIKE 'Bob!_!%' ESCAPE '!'
        starts_with(name, 'a')
        ends_with(name, 'b')
        contains(name, '_')
        strpos(name, 'n')
        name ~ 'a.*a'
        regexp_matches(name, 'n+')
        regexp_full_match(name, '[a-z]+')
        regexp_extract(name, '(a)(n*)', 2)
        regexp_extract(name, 'n+')
        regexp_replace(name, '[n_]', '-', 'g')
        regexp_full_match(name, '[^\s_]*(?:\W.*)?')
        regexp_full_match(E'x\r', 'x.')
        regexp_matches(E'\x0b', '\s')
        regexp_matches('a$', '[$]')
        lpad(name, 6, '*')
        rpad(name, 3, '*')
        reverse(name)
        split(name, '_')
        md5(name)
        'it''s a \ "quote"'
        name = 'anna'
        name > 'a'
        'ünï🦆'
        length('🦆')
    """),
    "moments": lines(r"""
        d + 1
        d - 1
        d - e
        d + INTERVAL 1 MONTH
        d - INTERVAL '2 days'
        ts + INTERVAL 36 HOUR
        ts - INTERVAL 1 YEAR
        INTERVAL 1 DAY + d
        tz + INTERVAL 1 DAY
        year(d)
        month(ts)
        day(d)
        quarter(d)
        hour(ts)
        minute(ts)
        extract(year FROM ts)
        date_part('month', d)
        date_trunc('month', ts)
        date_trunc('week', d)
        date_trunc('quarter', d)
        date_trunc('year', ts)
        date_trunc('day', ts)
        date_trunc('hour', ts)
        date_diff('day', e, d)
        date_diff('month', e, d)
        date_diff('year', e, d)
        datediff('day', ts, d)
        strftime(ts, '%Y-%m-%d %H:%M:%S')
        strftime(d, '%d.%m.%y')
        strftime(ts, '%b %B %a %A %j %I %p %f %%')
        strftime(ts, 'day''s end: %d')
        last_day(d)
        make_date(2024, 2, 29)
        ts > '2024-01-01'
        d BETWEEN '2020-01-01' AND '2024-06-01'
        ts > d
    """),
    "nested": lines(r"""
        l[1]
        l[-1]
        l[9]
        l[id]
        m['k']
        m['none']
        st.a
        t.st.b
        (st).b
        struct_extract(st, 'a')
        list_transform(l, x -> x + 1)
        list_transform(l, lambda x: x * 2)
        [y * 2 FOR y IN l]
        list_filter(l, x -> x > 1)
        list_contains(l, 3)
        list_contains(l, nullif(id, 1))
        array_length(l)
        list_sort(l)
        list_max(l)
        list_min(l)
        [1, NULL, id]
        {'a': id, 'b': name}
        MAP {'x': id}
        l || [9]
    """),
}  # fmt: skip

QUERIES = {
    "starless": "SELECT id, name FROM t",
    "star": "SELECT * FROM t",
    "from_first": "FROM t SELECT id",
    "exclude": "SELECT * EXCLUDE (name, x) FROM t",
    "spaces": 'SELECT "odd name" AS "even odder", id FROM t',
    "unnamed": "SELECT sum(id), count(*), max(name), id // 2 FROM t GROUP BY id",
    'aliased(a, "b c")': "SELECT id, name FROM t",
    "renamed(a, b)": "SELECT id AS x, name AS y FROM t ORDER BY x",
    "united_some": "SELECT id FROM t UNION ALL SELECT id FROM s.u ORDER BY id LIMIT 4",
    "filtered": "SELECT id FROM lake.main.t WHERE x > 0 OR name IS NULL",
    "grouped": """
        SELECT flag, count(*) AS n, sum(price) AS s, avg(price) AS a, avg(id) AS b, min(d)
        AS lo FROM t GROUP BY ALL
    """,
    "aggregates": """
        SELECT count(DISTINCT flag) AS a, sum(id) FILTER (WHERE id > 2) AS b, stddev(id) AS
        c, median(id) AS e, bool_or(flag) AS f, string_agg(name, ',' ORDER BY id) AS g,
        quantile_cont(id, 0.25) AS h, max(x) AS i FROM t
    """,
    "grouped_some": "SELECT flag, count(*) AS n FROM t GROUP BY flag HAVING count(*) > 1",
    "windows": """
        SELECT id, row_number() OVER (ORDER BY x DESC NULLS LAST, id) AS r, lag(id) OVER
        (ORDER BY id) AS p, sum(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT
        ROW) AS w, rank() OVER (PARTITION BY flag ORDER BY id) AS k FROM t
    """,
    "qualified": """
        SELECT id, flag FROM t QUALIFY row_number() OVER (PARTITION BY flag ORDER BY id
        DESC) = 1
    """,
    "ordered": "SELECT id, x FROM t ORDER BY x, id LIMIT 3",
    "ordered_by_all": "SELECT flag, id FROM t ORDER BY ALL",
    "distinct_rows": "SELECT DISTINCT flag FROM t",
    "joined": "SELECT t.id, s.u.v FROM t JOIN s.u ON t.id = s.u.id",
    "joined_using": """
        SELECT * EXCLUDE (st, m, l) FROM s.u LEFT JOIN (SELECT name, id, st, m, l FROM t)
        USING (id)
    """,
    "using_later_column": "SELECT * FROM (SELECT name, id FROM t) JOIN s.u USING (id)",
    "outer_rows": "SELECT t.id AS a, u.id AS b FROM t FULL JOIN s.u ON t.id = u.id",
    "semi_joined": "SELECT id FROM t WHERE id IN (SELECT id FROM s.u)",
    "exists_rows": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM s.u WHERE u.id = t.id)",
    "scalar": "SELECT id, (SELECT max(v) FROM s.u) AS top FROM t",
    "both_tables": "SELECT id FROM t UNION ALL SELECT id FROM s.u",
    "either_table": "SELECT id FROM t UNION SELECT id FROM s.u",
    "common_rows": "SELECT id FROM t INTERSECT SELECT id FROM s.u",
    "without_rows": "SELECT id FROM t EXCEPT SELECT id FROM s.u",
    "with_query": "WITH q AS (SELECT id FROM t WHERE id > 2) SELECT * FROM q",
    "hiding": "WITH t AS (SELECT id + 100 AS id FROM t) SELECT * FROM t",
    "hiding_qualified": """
        WITH t AS (SELECT 1 AS id) SELECT t.id AS a, x.id AS b FROM t, main.t AS x
    """,
    "unnested": "SELECT id, unnest(l) AS element FROM t",
    "constants": "SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(n, w)",
    "on_view": "SELECT id * 2 AS twice FROM filtered",
    "on_unnamed": 'SELECT "sum(id)" AS total FROM unnamed',
    "s.near": "SELECT * FROM u",
    "s.far": "SELECT id FROM t",
    "passes_types_on": "SELECT id, u, tm FROM t",
}

# SQL, and a part of the reason why it has no translation.
REFUSED = (
    ("SELECT ceil(x) AS n FROM t", "ceil of a floating-point number has no translation"),
    ("SELECT sign(x) AS n FROM t", "sign of a floating-point number has no translation"),
    ("SELECT 'infinity'::DATE AS n FROM t", "may have another value in Spark"),
    ("SELECT nullif(name, name)::DATE AS n FROM t", "has no translation"),
    ("SELECT x::VARCHAR AS n FROM t", "the text of this value may differ"),
    ("SELECT name || x AS n FROM t", "the text of this value may differ"),
    ("SELECT concat(name, f) AS n FROM t", "the text of this value may differ"),
    ("SELECT concat_ws('-', name, x) AS n FROM t", "the text of this value may differ"),
    ("SELECT l::VARCHAR AS n FROM t", "the text of this value may differ"),
    ("SELECT 1 / id AS n FROM t", "may be zero has no translation"),
    ("SELECT x / 0 AS n FROM t", "may be zero has no translation"),
    ("SELECT list_sum(l) FROM t", "the function list_sum has no translation"),
    ("SELECT TRY_CAST(name AS INTEGER) FROM t", "try_cast has no translation"),
    ("SELECT l[1:2] FROM t", "SLICE has no translation"),
    ("SELECT * REPLACE (1 AS id) FROM t", "STAR … REPLACE has no translation"),
    ("SELECT COLUMNS('i.*') FROM t", "columns has no translation"),
    ("SELECT * FROM range(3)", "a function in FROM has no translation"),
    ("SELECT * FROM t USING SAMPLE 10%", "SAMPLE has no translation"),
    ("SELECT * FROM t ASOF JOIN s.u ON t.id >= u.id", "JOIN … METHOD has no translation"),
    ("SELECT DISTINCT ON (flag) id FROM t", "DISTINCT … ON has no translation"),
    ("SELECT id FROM t UNION BY NAME SELECT id FROM s.u", "BY_NAME has no translation"),
    ("SELECT dayofweek(d) FROM t", "has no translation"),
    ("SELECT date_part('dow', d) FROM t", "date_part of 'dow' has no translation"),
    ("SELECT strftime(d, '%U') FROM t", "the format %U of strftime has no translation"),
    ("SELECT id FROM t WHERE name LIKE name", "constant patterns alone"),
    ("SELECT substring(name, id) FROM t", "constant positive positions alone"),
    ("SELECT regexp_replace(name, 'a', 'b') FROM t", "option 'g' alone"),
    ("SELECT regexp_matches(name, '[[:digit:]]') FROM t", "the regular expression has ["),
    ("SELECT regexp_matches(name, 'a$') FROM t", "the regular expression has $"),
    ("SELECT regexp_extract(name, '[a&&b]') FROM t", "the regular expression has &&"),
    ("SELECT regexp_full_match(name, '(?P<n>a)') FROM t", "the regular expression has (?"),
    ("SELECT regexp_replace(name, '\\b', '|', 'g') FROM t", "the regular expression has \\b"),
    ("SELECT regexp_matches(name, name) FROM t", "constant patterns alone"),
    ("SELECT concat_ws('/', name, l) FROM t", "DATATYPE_MISMATCH"),
    ("SELECT x % 2 AS n FROM t", "DATATYPE_MISMATCH"),
    ("SELECT (f + 1) % id AS n FROM t", "DATATYPE_MISMATCH"),
    ("SELECT id::UTINYINT FROM t", "a cast to UTINYINT has no translation"),
    ("SELECT list(id) FROM t", "has no translation"),
    ("SELECT median(price) AS n FROM t", "quantiles of decimals have no translation"),
    (
        "SELECT list_transform(l, lambda x, i: x + i) FROM t",
        "a lambda with an index has no translation",
    ),
    (
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n + 1 FROM r WHERE n < 3) FROM r",
        "RECURSIVE has no translation",
    ),
    ("SELECT (x + 1)::INTEGER AS n FROM t WHERE id < 5", "DATATYPE_MISMATCH"),
    ("SELECT price // 2 AS n FROM t", "DATATYPE_MISMATCH"),
    ("SELECT max(tm) AS n FROM t", "no type for the column 'tm'"),
    (
        "SELECT id FROM t WHERE u = '6BA7B810-9dad-11d1-80b4-00c04fd430c8'",
        "no type for the column 'u'",
    ),
    ("SELECT ts - tz AS n FROM t", "DATATYPE_MISMATCH"),
)


def _families() -> dict[str, list[str]]:
    families: dict[str, list[str]] = {}
    for line in Path(__file__).with_suffix(".sql").read_text().splitlines():
        if line.startswith("-- family: "):
            views = families.setdefault(line.removeprefix("-- family: "), [])
        elif line and not line.startswith("--"):
            views.append(line)
    return families


FAMILIES = _families()
"""The functions and the syntax of DuckDB, by family. Spark has exact translations of some."""

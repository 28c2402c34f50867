-- Views over the tables of view_cases.py, one in a line, by family.

-- family: casts
SELECT id, TRY_CAST(name AS INTEGER) AS n, TRY_CAST(name AS DOUBLE) AS x FROM t
SELECT id, x::VARCHAR AS a, f::VARCHAR AS b, l::VARCHAR AS c, st::VARCHAR AS d FROM t
SELECT id, id::UTINYINT AS a, big::HUGEINT AS b, price::DECIMAL(12, 3) AS c FROM t
SELECT id, u::VARCHAR AS a, tm::VARCHAR AS b, m::VARCHAR AS c FROM t
SELECT id, CAST(ts AS TIMESTAMP_NS) AS a, CAST(ts AS TIMESTAMP_S) AS b FROM t
SELECT id, 'a'::BLOB AS a, '101'::BIT AS b, '1'::ENUM('1', '2') AS c FROM t

-- family: division
SELECT id, 1 / 0 AS a, id / 0 AS b, 0 / 0 AS c FROM t
SELECT id, x / 0.0 AS a, -x / 0 AS b, x / x AS c FROM t
SELECT id, id // 0 AS a, id % 0 AS b, x % 0 AS c, x // 2 AS d FROM t
SELECT id, price / 0 AS a, fmod(x, 2) AS b, divide(big, 7) AS c FROM t WHERE id <> 7

-- family: numbers
SELECT id, ln(id) AS a, log2(id) AS b, cbrt(id) AS c, exp(id) AS d FROM t
SELECT id, isnan(x) AS a, isinf(x) AS b, isfinite(f) AS c FROM t
SELECT id, x > 1 AS a, x = x AS b, x < 'inf'::DOUBLE AS c FROM t
SELECT id, bit_count(big) AS a, id << 2 AS b, xor(id, 5) AS c, ~id AS d FROM t
SELECT id, factorial(id) AS a, gcd(id, 6) AS b, lcm(id, 4) AS c, even(x) AS d FROM t
SELECT id, round(x, 1) AS a, round(price, -1) AS b, trunc(x) AS c FROM t
SELECT max(x) AS a, min(x) AS b, max(f) AS c, min(f) AS d FROM t
SELECT id FROM t WHERE x > 1
SELECT id FROM t WHERE f <= 0 OR x IN (1.5, 0)
SELECT id, greatest(x, 1) AS a, least(f, 0) AS b FROM t
SELECT id, format('{:.2f}', price) AS a, printf('%05d', id) AS b, hex(big) AS c FROM t
SELECT id, id::DOUBLE ** 0.5 AS a, sin(x) AS b, atan2(id, 2) AS c FROM t WHERE id <> 7

-- family: texts
SELECT id, split_part(name, '_', 1) AS a, string_split(name, 'n') AS b FROM t
SELECT id, name[1] AS a, name[2:3] AS b, name[-1] AS c FROM t
SELECT id, regexp_extract_all(name, '[a-z]') AS a, regexp_split_to_array(name, 'n') AS b FROM t
SELECT id, regexp_replace(name, 'n', 'm') AS a, regexp_matches(name, '^a.*$') AS b FROM t
SELECT id, strip_accents('é' || name) AS a, nfc_normalize(name) AS b FROM t
SELECT id, levenshtein(name, 'anna') AS a, jaccard('ab' || name, 'ab') AS b FROM t
SELECT id, jaro_similarity(name, 'anna') AS a, damerau_levenshtein(name, 'nana') AS b FROM t
SELECT id, ascii(name) AS a, chr(id + 64) AS b, unicode(name) AS c, ord(name) AS d FROM t
SELECT id, repeat(name, 2) AS a, translate(name, 'an', 'xy') AS b, instr(name, 'n') AS c FROM t
SELECT id, name SIMILAR TO 'a.*' AS a, name GLOB 'a*' AS b, name NOT ILIKE 'A%' AS c FROM t
SELECT id, sha256(name) AS a, base64('ab'::BLOB) AS b, url_encode(name) AS c FROM t
SELECT id, array_to_string(l, ',') AS a, concat_ws('-', name, id, x) AS b FROM t
SELECT id, name COLLATE NOCASE = 'ANNA' AS a, upper(name[1]) || name[2:] AS b FROM t
SELECT id, bar(id, 0, 10, 5) AS a, string_split_regex(name, '[_n]') AS b FROM t
SELECT id, starts_with(name, 'a') AS a, name ^@ 'a' AS b, suffix(name, 'a') AS c FROM t

-- family: moments
SELECT id, dayofweek(d) AS a, isodow(d) AS b, week(d) AS c, yearweek(d) AS e FROM t
SELECT id, strptime('05.01.2024', '%d.%m.%Y') AS a, try_strptime(name, '%Y') AS b FROM t
SELECT id, time_bucket(INTERVAL 1 WEEK, ts) AS a, time_bucket(INTERVAL '3 months', d) AS b FROM t
SELECT id, tz AT TIME ZONE 'Europe/Berlin' AS a, ts AT TIME ZONE 'UTC' AS b FROM t
SELECT id, id * INTERVAL 1 DAY AS a, INTERVAL 1 MONTH * id AS b FROM t
SELECT id, d + id * INTERVAL 1 DAY AS a, ts - ts AS b, age(ts, TIMESTAMP '2000-01-01') AS c FROM t
SELECT id, date_diff('hour', ts, TIMESTAMP '2024-01-01') AS a, date_sub('day', d, e) AS b FROM t
SELECT id, epoch(ts) AS a, epoch_ms(ts) AS b, to_timestamp(id) AS c FROM t
SELECT id, dayname(d) AS a, monthname(d) AS b, century(d) AS c, era(d) AS e FROM t
SELECT id, date_part(['year', 'month'], d) AS a, extract('epoch' FROM ts) AS b FROM t
SELECT id, tm + INTERVAL 1 HOUR AS a, make_timestamp(2024, 1, 2, 3, 4, 5.5) AS b FROM t
SELECT id, date_trunc('decade', d) AS a, date_trunc('minute', tz) AS b FROM t
SELECT id, d::TIMESTAMPTZ AS a, tz::DATE AS b, tz::TIMESTAMP AS c FROM t
SELECT * FROM generate_series(DATE '2024-01-01', DATE '2024-01-03', INTERVAL 1 DAY) g(d)
SELECT id, d < '2900-01-01'::DATE AS a, isfinite(d) AS b, greatest(d, e) AS c FROM t

-- family: lists
SELECT id, len(l) AS a, l[1:2] AS b, l[:-2] AS c, array_slice(l, 1, 3) AS e FROM t
SELECT id, list_sum(l) AS a, list_avg(l) AS b, list_count(l) AS c FROM t
SELECT id, list_distinct(l) AS a, list_unique(l) AS b, list_position(l, 1) AS c FROM t
SELECT id, list_reduce([1] || l, lambda a, b: coalesce(a, 0) + coalesce(b, 0)) AS a FROM t
SELECT id, list_zip(l, [1, 2]) AS a, flatten([l, [9]]) AS b, list_concat(l, l) AS c FROM t
SELECT id, list_sort(l, 'DESC') AS a, list_reverse(l) AS b, list_resize(l, 2, 0) AS c FROM t
SELECT id, list_has_any(l, [1, 7]) AS a, l @> [3] AS b, list_intersect(l, [1, 3]) AS c FROM t
SELECT list(id ORDER BY id DESC) AS a, array_agg(name ORDER BY id) AS b FROM t
SELECT flag, list(DISTINCT id % 2) IS NOT NULL AS a, list(id) FILTER (id > 3) AS b FROM t GROUP BY ALL
SELECT id, unnest(l) AS a, generate_subscripts(l, 1) AS b FROM t
SELECT id, [x + i FOR x, i IN l] AS a, [x FOR x IN l IF x > 1] AS b FROM t
SELECT id, array_value(1, id) AS a, range(id) AS b, list_cosine_similarity([1.0, 2.0], [2.0, id]) AS c FROM t
SELECT id, unnest(range(2)) AS r FROM t

-- family: structs_and_maps
SELECT id, st.*, struct_insert(st, c := 1) AS a FROM t
SELECT id, row(id, name) AS a, {'x': {'y': id}}.x.y AS b, unnest(st) FROM t
SELECT id, map_keys(m) AS a, map_values(m) AS b, cardinality(m) AS c, m['k'] AS d FROM t
SELECT id, map_entries(m) AS a, map_contains(m, 'k') AS b, element_at(m, 'j') AS c FROM t
SELECT id, MAP_FROM_ENTRIES([(id, name)]) AS a, map_concat(m, MAP {'z': 1}) AS b FROM t
SELECT id, struct_pack(a := id, b := l) AS a, st = {'a': 1, 'b': 'p'} AS b FROM t
SELECT histogram(flag) AS a, histogram(id % 3) AS b FROM t
SELECT id, union_value(num := id) AS a FROM t

-- family: json
SELECT id, to_json(st) AS a, json_object('k', name) AS b FROM t
SELECT id, to_json(st) ->> 'b' AS a, to_json(st) -> 'a' AS b FROM t
SELECT id, json_extract_string('{"a": [1, 2]}', '$.a[1]') AS a, '[1, 2]'::JSON ->> 0 AS b FROM t
SELECT id, from_json('{"x": 1}', '{"x": "INTEGER"}') AS a, json_type('[1]') AS b FROM t
SELECT json_group_array(1) AS a, json_group_object(id::VARCHAR, flag) IS NOT NULL AS b FROM t
SELECT t.id, j.key, j.value FROM t, json_each('{"a": 1, "b": 2}') j WHERE t.id < 3

-- family: aggregates
SELECT flag, grouping(flag) AS g, count(*) AS n FROM t GROUP BY GROUPING SETS ((flag), ())
SELECT flag, id % 2 AS p, sum(id) AS s FROM t GROUP BY ROLLUP (flag, id % 2)
SELECT flag, id % 2 AS p, sum(price) AS s FROM t GROUP BY CUBE (flag, id % 2)
SELECT mode(flag) AS a, quantile_disc(id, [0.25, 0.75]) AS b, mad(id) AS c FROM t
SELECT approx_count_distinct(flag) > 0 AS a, entropy(id) AS b, kurtosis(id) AS c FROM t
SELECT arg_max(name, id) AS a, arg_min(name, id) AS b, max_by(id, big) AS c, max(id, 2) AS d FROM t
SELECT product(id) AS a, geomean(id) AS b, bit_and(id) AS c, bit_or(id) AS d, bit_xor(id) AS e FROM t
SELECT sum(x) AS a, avg(x) AS b, count(x) AS c, favg(id) AS d, sum(big::HUGEINT) AS e FROM t
SELECT first(name ORDER BY id) AS a, last(name ORDER BY id) AS b, any_value(flag ORDER BY id) AS c FROM t
SELECT corr(id, id * 2) AS a, covar_pop(id, id) AS b, regr_slope(id, id) AS c, var_samp(id) AS d FROM t
SELECT string_agg(DISTINCT flag::VARCHAR, '|' ORDER BY flag::VARCHAR) AS a, count_if(flag) AS b FROM t
SELECT median(price) AS a, quantile_cont(price, 0.5) AS b, median(d) AS c, skewness(id) AS e FROM t
SELECT flag, count(*) AS n FROM t GROUP BY flag HAVING n > 1 ORDER BY n

-- family: windows
SELECT id, sum(id) OVER (ORDER BY id RANGE BETWEEN 2 PRECEDING AND CURRENT ROW) AS a FROM t
SELECT id, sum(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) AS a FROM t
SELECT id, first_value(name IGNORE NULLS) OVER (ORDER BY id) AS a, nth_value(id, 2) OVER (ORDER BY id) AS b FROM t
SELECT id, ntile(3) OVER (ORDER BY id) AS a, cume_dist() OVER w AS b, percent_rank() OVER w AS c FROM t WINDOW w AS (ORDER BY flag)
SELECT id, count(DISTINCT flag) OVER (ORDER BY id) AS a, median(id) OVER (ORDER BY id) AS b FROM t
SELECT id, lead(x, 2, 0) OVER (ORDER BY id) AS a, dense_rank() OVER (ORDER BY x) AS b FROM t

-- family: queries
SELECT DISTINCT ON (flag) flag, id FROM t ORDER BY flag, id
SELECT id FROM t UNION ALL BY NAME SELECT id, v FROM s.u
SELECT * FROM (PIVOT t ON flag IN (true, false) USING sum(id) GROUP BY id)
UNPIVOT (SELECT id, big, id + 1 AS more FROM t) ON big, more INTO NAME n VALUE v
SELECT t.id, u.v FROM t ASOF JOIN s.u ON t.id >= u.id ORDER BY ALL
SELECT COLUMNS('i.*') FROM t
SELECT id, min(COLUMNS(* EXCLUDE (id, l, st, m))) FROM t GROUP BY id
SELECT * REPLACE (id + 1 AS id) FROM s.u
SELECT * RENAME (v AS w) FROM s.u
SELECT * EXCLUDE (u, l, st, m) FROM t
SELECT id AS a, a + 1 AS b, b * 2 AS c FROM t
SELECT id AS a FROM t WHERE a > 2
SELECT t.id, q.j FROM t, LATERAL (SELECT t.id + 1 AS j) q
SELECT t.id, q.v FROM t LEFT JOIN LATERAL (SELECT v FROM s.u WHERE u.id = t.id LIMIT 1) q ON true ORDER BY ALL
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 9) FROM r
WITH q AS MATERIALIZED (SELECT id FROM t) SELECT a.id FROM q a JOIN q b USING (id)
SELECT id FROM t WHERE id > ALL (SELECT id FROM s.u WHERE id < 3)
SELECT id FROM t WHERE (id, id * 10) IN (SELECT id, v FROM s.u)
SELECT id FROM t ANTI JOIN s.u USING (id)
SELECT id FROM t SEMI JOIN s.u USING (id)
SELECT * FROM (SELECT id FROM t ORDER BY id) POSITIONAL JOIN (SELECT v FROM s.u ORDER BY v)
SELECT id FROM t WHERE u = '6BA7B810-9dad-11d1-80b4-00c04fd430c8'
SELECT id FROM t WHERE u < 'a0000000-0000-0000-0000-000000000000' OR tm > '09:00'
SELECT id, (SELECT count(*) FROM s.u WHERE u.id = t.id) AS n FROM t
SELECT id FROM t EXCEPT ALL SELECT id FROM s.u
SELECT id FROM t ORDER BY x DESC NULLS FIRST, id LIMIT 3 OFFSET 1
SELECT id, CASE WHEN x > 0 THEN 1 ELSE 2.5 END AS c FROM t
SELECT (SELECT list(v ORDER BY v) FROM s.u) AS all_of_them
VALUES (1, 'a'), (2, NULL)
SELECT 42 AS answer, NULL AS nothing, [] AS empty
FROM range(3) r(i) SELECT i, i * i AS square
SELECT id FROM t QUALIFY row_number() OVER (PARTITION BY flag ORDER BY id) = 1

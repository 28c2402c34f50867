"""Functions, and options of functions, that an untrusted query may use in Spark SQL.

A function that is not here is refused. Those of the list compute a value from their arguments: they
read no files, URLs, settings or environment, run no code that is named in the query, and do not
reveal where the server keeps its files or who runs it.
"""

from __future__ import annotations

from typing import Final

__all__ = ["FUNCTIONS", "OPTIONS", "OPTIONS_ARGUMENT", "TABLE_FUNCTIONS", "TYPE_ARGUMENT"]

# Left out on purpose: java_method, reflect and try_reflect run Java; from_avro, to_avro,
# schema_of_avro, from_protobuf and to_protobuf read schemas from files; xpath and its kin parse XML
# with a parser of their own; input_file_* and current_path show paths; current_user, user,
# session_user, current_catalog, current_database and current_schema describe the server;
# python_worker_logs, collations and sql_keywords read more than a query needs.
FUNCTIONS: Final = frozenset(
    """
    any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
    approx_top_k_combine approx_top_k_estimate array_agg avg bit_and bit_or bit_xor bitmap_and_agg
    bitmap_construct_agg bitmap_or_agg bool_and bool_or collect_list collect_set corr count
    count_if count_min_sketch covar_pop covar_samp every first first_value grouping grouping_id
    histogram_numeric hll_sketch_agg hll_union_agg hll_sketch_estimate hll_union kurtosis last
    last_value listagg max max_by mean median min min_by mode percentile percentile_approx
    percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2
    regr_slope regr_sxx regr_sxy regr_syy skewness some std stddev stddev_pop stddev_samp
    string_agg sum try_avg try_sum var_pop var_samp variance

    array array_append array_compact array_contains array_distinct array_except array_insert
    array_intersect array_join array_max array_min array_position array_prepend array_remove
    array_repeat array_size array_union arrays_overlap arrays_zip flatten get sequence shuffle
    slice sort_array cardinality concat element_at reverse size try_element_at named_struct struct
    map map_concat map_contains_key map_entries map_from_arrays map_from_entries map_keys
    map_values str_to_map aggregate array_sort exists filter forall map_filter map_zip_with reduce
    transform transform_keys transform_values zip_with

    & << >> >>> ^ bit_count bit_get getbit shiftleft shiftright shiftrightunsigned | ~ between
    coalesce if ifnull nanvl nullif nullifzero nvl nvl2 when zeroifnull bigint binary boolean cast
    date decimal double float int smallint string time timestamp tinyint ! < <= <=> = == > >= and
    equal_null ilike in isnan isnotnull isnull like not or regexp regexp_like rlike

    add_months convert_timezone curdate current_date current_time current_timestamp
    current_timezone date_add date_diff date_format date_from_unix_date date_part date_sub
    date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear extract
    from_unixtime from_utc_timestamp hour last_day localtime localtimestamp make_date
    make_dt_interval make_interval make_time make_timestamp make_timestamp_ltz make_timestamp_ntz
    make_ym_interval minute month monthname months_between next_day now quarter second
    session_window time_diff time_trunc timestamp_micros timestamp_millis timestamp_seconds
    to_date to_time to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp
    to_utc_timestamp trunc try_make_interval try_make_timestamp try_make_timestamp_ltz
    try_make_timestamp_ntz try_to_date try_to_time try_to_timestamp unix_date unix_micros
    unix_millis unix_seconds unix_timestamp weekday weekofyear window window_time year
    timestampadd timestampdiff

    explode explode_outer inline inline_outer posexplode posexplode_outer stack json_tuple crc32
    hash md5 sha sha1 sha2 xxhash64 hmac aes_decrypt aes_encrypt try_aes_decrypt from_csv
    schema_of_csv to_csv from_json get_json_object json_array_length json_object_keys
    schema_of_json to_json from_xml schema_of_xml to_xml is_variant_null parse_json
    schema_of_variant schema_of_variant_agg to_variant_object try_parse_json try_variant_get
    variant_get

    % * + - / abs acos acosh asin asinh atan atan2 atanh bin bround cbrt ceil ceiling conv cos
    cosh cot csc degrees div e exp expm1 factorial floor greatest hex hypot least ln log log10
    log1p log2 mod negative pi pmod positive pow power radians rand randn random rint round sec
    sign signum sin sinh sqrt tan tanh try_add try_divide try_mod try_multiply try_subtract unhex
    uniform width_bucket

    assert_true bitmap_bit_position bitmap_bucket_number bitmap_count monotonically_increasing_id
    raise_error spark_partition_id typeof uuid version

    ascii base64 bit_length btrim char char_length character_length chr collate collation
    concat_ws contains decode elt encode endswith find_in_set format_number format_string initcap
    instr is_valid_utf8 lcase left len length levenshtein locate lower lpad ltrim luhn_check
    make_valid_utf8 mask octet_length overlay position printf quote randstr regexp_count
    regexp_extract regexp_extract_all regexp_instr regexp_replace regexp_substr repeat replace
    right rpad rtrim sentences soundex space split split_part startswith substr substring
    substring_index to_binary to_char to_number to_varchar translate trim try_to_binary
    try_to_number try_validate_utf8 ucase unbase64 upper validate_utf8 parse_url try_parse_url
    try_url_decode url_decode url_encode

    cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number
    """.split()
)

TABLE_FUNCTIONS: Final = frozenset(
    """
    explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer range stack
    variant_explode variant_explode_outer
    """.split()
)

OPTIONS_ARGUMENT: Final = {
    "from_csv": 2,
    "from_json": 2,
    "from_xml": 2,
    "schema_of_csv": 1,
    "schema_of_json": 1,
    "schema_of_xml": 1,
    "to_csv": 1,
    "to_json": 1,
    "to_xml": 1,
}
"""Functions that take a map of options, and which of their arguments it is, from 0."""

TYPE_ARGUMENT: Final = {
    "from_csv": 1,
    "from_json": 1,
    "from_xml": 1,
    "try_variant_get": 2,
    "variant_get": 2,
}
"""Functions that take the text of a type, and which of their arguments it is, from 0."""

# Left out: `rowValidationXSDPath`, which reads a file or a URL, and options for readers of files.
OPTIONS: Final = frozenset(
    """
    allowbackslashescapinganycharacter allowcomments allownonnumericnumbers
    allownumericleadingzeros allowsinglequotes allowunquotedcontrolchars allowunquotedfieldnames
    arrayelementname attributeprefix columnnameofcorruptrecord comment dateformat declaration
    delimiter dropfieldifallnull emptyvalue escape excludeattribute ignoreleadingwhitespace
    ignorenamespace ignorenullfields ignoresurroundingspaces ignoretrailingwhitespace inferschema
    locale mode multiline nanvalue negativeinf nullvalue positiveinf prefersdecimal pretty
    primitivesasstring quote quoteall roottag rowtag sep sortkeys timestampformat timestampntzformat
    timezone valuetag wildcardcolname
    """.split()
)

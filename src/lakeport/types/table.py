"""The table of DuckLake's types: one row for each type, one column for each property.

Other modules read a column of the table instead of a list of their own. To add a type, add a row.

Arrow keeps every value. A type that Arrow lacks is one of the extension types that DuckDB uses
(`arrow.uuid`, `arrow.json`, `geoarrow.wkb`, `arrow.opaque` for huge integers and zoned times).
A variant is its JSON text, the one form that Arrow, DuckDB and Spark share.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa

__all__ = [
    "BY_ID",
    "GEOARROW_WKB",
    "HUGEINT",
    "NESTED",
    "SCALARS",
    "TIME_TZ",
    "TYPES",
    "UHUGEINT",
    "DuckLakeType",
    "find_type",
    "normalize",
]

HUGEINT: Final = pa.opaque(pa.binary(16), "hugeint", "DuckDB")
UHUGEINT: Final = pa.opaque(pa.binary(16), "uhugeint", "DuckDB")
TIME_TZ: Final = pa.opaque(pa.binary(8), "time_tz", "DuckDB")
GEOARROW_WKB: Final = {
    b"ARROW:extension:name": b"geoarrow.wkb",
    b"ARROW:extension:metadata": b"{}",
}

NESTED: Final = frozenset({"struct", "list", "map"})
"""Types with children, which are not in the table."""

Family = Literal["number", "timestamp", "timestamptz", "boolean", "text", "uuid", "time"]
Bounds = Literal["exact", "exact_unless_retyped", "none"]
BucketInput = Literal["int64", "float64", "decimal", "text", "utf8"]
SparkForm = Literal["same", "text", "number", "microseconds", "decimal", "struct"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DuckLakeType:
    """A type of DuckLake that has no children."""

    name: str
    """DuckLake's own spelling."""
    aliases: tuple[str, ...] = ()
    """Spellings of other writers, which use SQL's names."""

    id: str
    """The id of DuckDB's type, as in `LogicalType`."""
    id_alias: str = ""
    """DuckDB's name of a type that is built on the type `id`."""
    duckdb: str
    """The DuckDB SQL type whose Arrow form is `arrow`."""
    arrow: pa.DataType
    """The Arrow type that holds every value."""

    range: tuple[int, int] | None = None
    """The least and the greatest value of an integer type."""
    per_second: int | None = None
    """The number of units in a second of a timestamp type."""

    family: Family | None = None
    """Types of one family compare with each other by value."""
    bounds: Bounds = "none"
    """Whether the text of a data file's bounds has the values' order in the column's type."""
    counted: bool = True
    """Whether writers record the number of values and nulls; some record zero instead."""
    bucket_input: BucketInput | None = None
    """What the partition transform `bucket(N)` hashes."""
    exact_in_parquet: bool = False
    """Whether DuckDB's `read_parquet` returns the type and the values that were written."""

    spark: str
    """The Spark SQL type that holds every value."""
    spark_form: SparkForm = "same"
    """How a value becomes a value of the type `spark`."""
    exact_in_spark: bool = False
    """Whether Spark has every value of the type and compares constants as DuckDB does."""
    computable_in_spark: bool = False
    """Whether Spark's functions and operators have DuckDB's results in a view."""
    spark_reads_parquet: bool = False
    """Whether Spark's Parquet reader returns the values of the lake."""
    spark_suffix: str | None = None
    """The suffix of an integer literal in Spark SQL."""

    @property
    def is_floating(self) -> bool:
        """Whether the type has NaN."""
        return bool(pa.types.is_floating(self.arrow))

    @property
    def digits(self) -> int | None:
        """The number of decimal digits of the greatest value of an integer type."""
        return None if self.range is None else len(str(self.range[1]))


def _integer(
    name: str,
    id: str,
    arrow: pa.DataType,
    spark: str,
    suffix: str | None = None,
    *,
    aliases: tuple[str, ...],
) -> DuckLakeType:
    bits, is_signed = int(name.lstrip("uint")), not name.startswith("u")
    is_huge = bits == 128
    form: SparkForm = "same" if not is_huge else "decimal" if is_signed else "text"
    return DuckLakeType(
        name=name,
        aliases=aliases,
        id=id,
        duckdb=id,
        arrow=arrow,
        range=(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1),
        family="number",
        bounds="none" if is_huge else "exact",
        bucket_input="int64" if is_signed and not is_huge else "text",
        exact_in_parquet=not is_huge,
        spark=spark,
        spark_form=form,
        exact_in_spark=not is_huge,
        computable_in_spark=name != "uint128",
        spark_reads_parquet=name != "uint128",
        spark_suffix=suffix,
    )


def _floating(name: str, id: str, arrow: pa.DataType, *, aliases: tuple[str, ...]) -> DuckLakeType:
    return DuckLakeType(
        name=name,
        aliases=aliases,
        id=id,
        duckdb=id,
        arrow=arrow,
        family="number",
        bounds="exact_unless_retyped",
        bucket_input="float64",
        exact_in_parquet=True,
        spark=id,
        exact_in_spark=True,
        computable_in_spark=True,
        spark_reads_parquet=True,
    )


TYPES: Final[tuple[DuckLakeType, ...]] = (
    DuckLakeType(
        name="boolean",
        aliases=("bool",),
        id="BOOLEAN",
        duckdb="BOOLEAN",
        arrow=pa.bool_(),
        family="boolean",
        bounds="exact",
        bucket_input="int64",
        exact_in_parquet=True,
        spark="BOOLEAN",
        exact_in_spark=True,
        computable_in_spark=True,
        spark_reads_parquet=True,
    ),
    _integer("int8", "TINYINT", pa.int8(), "TINYINT", "Y", aliases=("tinyint",)),
    _integer("int16", "SMALLINT", pa.int16(), "SMALLINT", "S", aliases=("smallint",)),
    _integer("int32", "INTEGER", pa.int32(), "INT", "", aliases=("int", "integer")),
    _integer("int64", "BIGINT", pa.int64(), "BIGINT", "L", aliases=("bigint",)),
    _integer("uint8", "UTINYINT", pa.uint8(), "SMALLINT", "S", aliases=("utinyint",)),
    _integer("uint16", "USMALLINT", pa.uint16(), "INT", "", aliases=("usmallint",)),
    _integer("uint32", "UINTEGER", pa.uint32(), "BIGINT", "L", aliases=("uinteger",)),
    _integer("uint64", "UBIGINT", pa.uint64(), "DECIMAL(20,0)", aliases=("ubigint",)),
    _integer("int128", "HUGEINT", HUGEINT, "DECIMAL(38,0)", aliases=("hugeint",)),
    _integer("uint128", "UHUGEINT", UHUGEINT, "STRING", aliases=("uhugeint",)),
    _floating("float32", "FLOAT", pa.float32(), aliases=("float", "real")),
    _floating("float64", "DOUBLE", pa.float64(), aliases=("double",)),
    DuckLakeType(
        name="date",
        id="DATE",
        duckdb="DATE",
        arrow=pa.date32(),
        family="timestamp",
        bounds="exact",
        bucket_input="int64",
        exact_in_parquet=True,
        spark="DATE",
        exact_in_spark=True,
        computable_in_spark=True,
        spark_reads_parquet=True,
    ),
    DuckLakeType(
        name="time",
        id="TIME",
        duckdb="TIME",
        arrow=pa.time64("us"),
        family="time",
        bounds="exact",
        bucket_input="int64",
        exact_in_parquet=True,
        spark="STRING",
        spark_form="text",
    ),
    DuckLakeType(
        name="time_ns",
        id="TIME_NS",
        duckdb="TIME_NS",
        arrow=pa.time64("ns"),
        spark="BIGINT",
        spark_form="number",
    ),
    DuckLakeType(
        name="timetz",
        aliases=("time with time zone",),
        id="TIME WITH TIME ZONE",
        duckdb="TIMETZ",
        arrow=TIME_TZ,
        counted=False,
        spark="STRING",
        spark_form="text",
    ),
    DuckLakeType(
        name="timestamp",
        aliases=("timestamp_us", "datetime"),
        id="TIMESTAMP",
        duckdb="TIMESTAMP",
        arrow=pa.timestamp("us"),
        per_second=10**6,
        family="timestamp",
        bounds="exact",
        bucket_input="int64",
        exact_in_parquet=True,
        spark="TIMESTAMP_NTZ",
        exact_in_spark=True,
        computable_in_spark=True,
        spark_reads_parquet=True,
    ),
    DuckLakeType(
        name="timestamp_s",
        id="TIMESTAMP_S",
        duckdb="TIMESTAMP_S",
        arrow=pa.timestamp("s"),
        per_second=1,
        family="timestamp",
        bounds="exact",
        bucket_input="int64",
        spark="TIMESTAMP_NTZ",
        spark_form="microseconds",
        exact_in_spark=True,
        computable_in_spark=True,
    ),
    DuckLakeType(
        name="timestamp_ms",
        id="TIMESTAMP_MS",
        duckdb="TIMESTAMP_MS",
        arrow=pa.timestamp("ms"),
        per_second=10**3,
        family="timestamp",
        bounds="exact",
        bucket_input="int64",
        spark="TIMESTAMP_NTZ",
        spark_form="microseconds",
        exact_in_spark=True,
        computable_in_spark=True,
    ),
    DuckLakeType(
        name="timestamp_ns",
        id="TIMESTAMP_NS",
        duckdb="TIMESTAMP_NS",
        arrow=pa.timestamp("ns"),
        per_second=10**9,
        family="timestamp",
        bounds="exact",
        bucket_input="int64",
        exact_in_parquet=True,
        spark="BIGINT",
        spark_form="number",
    ),
    DuckLakeType(
        name="timestamptz",
        aliases=("timestamp with time zone", "timestamp_tz"),
        id="TIMESTAMP WITH TIME ZONE",
        duckdb="TIMESTAMPTZ",
        arrow=pa.timestamp("us", "UTC"),
        per_second=10**6,
        family="timestamptz",
        bounds="exact_unless_retyped",
        bucket_input="int64",
        exact_in_parquet=True,
        spark="TIMESTAMP",
        exact_in_spark=True,
        computable_in_spark=True,
        spark_reads_parquet=True,
    ),
    DuckLakeType(
        name="timestamptz_ns",
        id="TIMESTAMPTZ_NS",
        duckdb="TIMESTAMPTZ_NS",
        arrow=pa.timestamp("ns", "UTC"),
        per_second=10**9,
        family="timestamptz",
        bounds="exact_unless_retyped",
        spark="BIGINT",
        spark_form="number",
    ),
    DuckLakeType(
        name="interval",
        id="INTERVAL",
        duckdb="INTERVAL",
        arrow=pa.month_day_nano_interval(),
        counted=False,
        spark="STRUCT<months: INT, days: INT, micros: BIGINT>",
        spark_form="struct",
    ),
    DuckLakeType(
        name="varchar",
        aliases=("text", "string"),
        id="VARCHAR",
        duckdb="VARCHAR",
        arrow=pa.string(),
        family="text",
        bounds="exact",
        bucket_input="utf8",
        exact_in_parquet=True,
        spark="STRING",
        exact_in_spark=True,
        computable_in_spark=True,
        spark_reads_parquet=True,
    ),
    DuckLakeType(
        name="json",
        id="VARCHAR",
        id_alias="JSON",
        duckdb="JSON",
        arrow=pa.json_(),
        spark="STRING",
        spark_reads_parquet=True,
    ),
    DuckLakeType(
        name="blob",
        aliases=("binary", "bytea", "varbinary"),
        id="BLOB",
        duckdb="BLOB",
        arrow=pa.binary(),
        exact_in_parquet=True,
        spark="BINARY",
        exact_in_spark=True,
        spark_reads_parquet=True,
    ),
    DuckLakeType(
        name="uuid",
        id="UUID",
        duckdb="UUID",
        arrow=pa.uuid(),
        family="uuid",
        bounds="exact",
        bucket_input="text",
        exact_in_parquet=True,
        spark="STRING",
        spark_form="text",
    ),
    DuckLakeType(
        name="geometry",
        id="BLOB",
        id_alias="GEOMETRY",
        duckdb="BLOB",
        arrow=pa.binary(),
        counted=False,
        spark="BINARY",
    ),
    DuckLakeType(
        name="variant",
        id="VARCHAR",
        id_alias="JSON",
        duckdb="JSON",
        arrow=pa.json_(),
        counted=False,
        spark="STRING",
    ),
)

# With the default parameters; a column has its own, as in `decimal(10,2)`.
_DECIMAL: Final = DuckLakeType(
    name="decimal(18,3)",
    aliases=("decimal", "numeric"),
    id="DECIMAL",
    duckdb="DECIMAL(18,3)",
    arrow=pa.decimal128(18, 3),
    family="number",
    bounds="exact",
    bucket_input="decimal",
    exact_in_parquet=True,
    spark="DECIMAL(18,3)",
    exact_in_spark=True,
    computable_in_spark=True,
    spark_reads_parquet=True,
)

SCALARS: Final = {row.name: row for row in TYPES}
"""The rows by DuckLake's names, without decimals."""
BY_ID: Final = {row.id: row for row in (*TYPES, _DECIMAL) if not row.id_alias}
"""The rows by DuckDB's ids; types that DuckDB builds on others are not among them."""

_ALIASES: Final = {alias: row.name for row in (*TYPES, _DECIMAL) for alias in row.aliases}


def find_type(type_text: str) -> DuckLakeType | None:
    """Return the row of a normalized type; None for a nested or an unknown one."""
    return _DECIMAL if type_text.startswith("decimal(") else SCALARS.get(type_text)


def normalize(type_text: str) -> str:
    """Return DuckLake's spelling of a type: lower case, no spaces in decimals, no SQL aliases."""
    text = type_text.strip().lower()
    if text in SCALARS:
        return text
    decimal = re.fullmatch(r"(?:decimal|numeric)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", text)
    if decimal:
        return f"decimal({int(decimal.group(1))},{int(decimal.group(2) or 0)})"
    if text.startswith("geometry"):
        return "geometry"
    return _ALIASES.get(text, text)

"""Names and types as Spark SQL, whatever characters they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

__all__ = ["quoted", "sql_type"]


def quoted(name: str) -> str:
    """A name that Spark does not take apart."""
    return "`" + name.replace("`", "``") + "`"


def sql_type(type: DataType) -> str:
    """A type as SQL; Spark's own text does not quote the names of fields."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(type, StructType):
        fields = [f"{quoted(field.name)}: {sql_type(field.dataType)}" for field in type]
        return f"STRUCT<{', '.join(fields)}>"
    if isinstance(type, ArrayType):
        return f"ARRAY<{sql_type(type.elementType)}>"
    if isinstance(type, MapType):
        return f"MAP<{sql_type(type.keyType)}, {sql_type(type.valueType)}>"
    return str(type.simpleString())

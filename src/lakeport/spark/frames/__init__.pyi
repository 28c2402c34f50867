from .columns import arrow_schema, frame_columns, select
from .values import spark_schema

__all__ = ["arrow_schema", "frame_columns", "select", "spark_schema"]

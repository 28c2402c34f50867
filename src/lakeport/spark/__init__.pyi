from .changes import Changes
from .functions import spark_sql_function
from .lake import Lake, LakeTable
from .registration import Registration
from .scan import Scan
from .session import session
from .source import register_data_source
from .stream import stream
from .table import SparkTable

__all__ = [
    "Changes",
    "Lake",
    "LakeTable",
    "Registration",
    "Scan",
    "SparkTable",
    "register_data_source",
    "session",
    "spark_sql_function",
    "stream",
]

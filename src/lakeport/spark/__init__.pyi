from .changes import ChangeFeed
from .compat import is_connect
from .errors import query_error, retried_when_lost
from .lake import Lake, LakeTable
from .scan import Scan
from .session import is_running, register_data_source, session
from .sql.registration import Registration
from .tables import SparkTable, scan_frame, spark_sql_function
from .transport.stream import stream

__all__ = [
    "ChangeFeed",
    "Lake",
    "LakeTable",
    "Registration",
    "Scan",
    "SparkTable",
    "is_connect",
    "is_running",
    "query_error",
    "register_data_source",
    "retried_when_lost",
    "scan_frame",
    "session",
    "spark_sql_function",
    "stream",
]

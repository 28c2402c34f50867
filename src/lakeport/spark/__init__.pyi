from .compat import is_connect
from .engine import SparkEngine, SparkSource
from .errors import query_error, retried_when_lost
from .session import is_running, register_data_source, session
from .sql.registration import Registration
from .tables import SparkTable, scan_frame, spark_sql_function
from .transport.stream import stream
from .warm_up import warm_up
from .writing.batches import each_batch

__all__ = [
    "Registration",
    "SparkEngine",
    "SparkSource",
    "SparkTable",
    "each_batch",
    "is_connect",
    "is_running",
    "query_error",
    "register_data_source",
    "retried_when_lost",
    "scan_frame",
    "session",
    "spark_sql_function",
    "stream",
    "warm_up",
]

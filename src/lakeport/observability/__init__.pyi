from .audit import AuditTrail
from .audit_table import AuditTable
from .http import serve_http, split_address
from .logs import CallLog, log_to_stderr
from .metrics import CompositeObserver, Metrics
from .traces import export_traces

__all__ = [
    "AuditTable",
    "AuditTrail",
    "CallLog",
    "CompositeObserver",
    "Metrics",
    "export_traces",
    "log_to_stderr",
    "serve_http",
    "split_address",
]

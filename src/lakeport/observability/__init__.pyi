from .audit import AuditTrail
from .audit_table import AuditTable
from .http import serve_http, split_address
from .logs import CallLog, log_to_stderr
from .memory import CHILD_KINDS, child_memory
from .metrics import CompositeObserver, Metrics
from .traces import export_traces

__all__ = [
    "CHILD_KINDS",
    "AuditTable",
    "AuditTrail",
    "CallLog",
    "CompositeObserver",
    "Metrics",
    "child_memory",
    "export_traces",
    "log_to_stderr",
    "serve_http",
    "split_address",
]

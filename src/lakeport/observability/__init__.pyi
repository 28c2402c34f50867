from .audit import AuditTrail
from .http import serve_http, split_address
from .logs import CallLog, log_to_stderr
from .metrics import CompositeObserver, Metrics

__all__ = [
    "AuditTrail",
    "CallLog",
    "CompositeObserver",
    "Metrics",
    "log_to_stderr",
    "serve_http",
    "split_address",
]

from .calls import CallEnded, Observer
from .lifetime import (
    check_listening,
    check_location,
    exit_immediately,
    remembered_hangup,
    serve_until_signalled,
)
from .server import Server, attach_statement, serve

__all__ = [
    "CallEnded",
    "Observer",
    "Server",
    "attach_statement",
    "check_listening",
    "check_location",
    "exit_immediately",
    "remembered_hangup",
    "serve",
    "serve_until_signalled",
]

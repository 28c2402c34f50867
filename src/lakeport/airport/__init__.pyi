from .protocol.limits import Limits
from .server.calls import CallEnded, Observer
from .server.server import Server, serve

__all__ = ["CallEnded", "Limits", "Observer", "Server", "serve"]

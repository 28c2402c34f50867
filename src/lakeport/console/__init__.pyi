from .server import Console, serve_console
from .visitors import ServerAddress

__all__ = ["Console", "ServerAddress", "serve_console"]

"""The console: a lake in the browser, with what its caller may query and nothing else.

It is a client of a Lakeport server. Every value on a page came through a call with the caller's
token, so the server's identities and permissions hold here too.
"""

from lakeport._lazy import attach

# Names are loaded on first use, from the modules that `__init__.pyi` lists.
__getattr__, __dir__, __all__ = attach(__name__)

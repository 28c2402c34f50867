"""Context of the work of a request: the caller it is for, and how many cores it may use."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

__all__ = ["CALLER", "ONE_CORE"]

CALLER: Final[ContextVar[str]] = ContextVar("lakeport_caller", default="")
"""The user of the request; empty outside of a server, and for callers without an identity."""

ONE_CORE: Final[ContextVar[bool]] = ContextVar("lakeport_one_core", default=False)
"""Whether a thread decodes alone, without the thread pool of Arrow."""

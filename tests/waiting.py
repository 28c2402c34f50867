"""Waiting for what another thread or process does."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["wait_until"]


def wait_until(condition: Callable[[], bool], *, seconds: float = 60.0) -> bool:
    """Ask until the condition holds; an event nobody sets serves as the clock."""
    clock = threading.Event()
    for _ in range(int(seconds * 20)):
        if condition():
            return True
        clock.wait(0.05)
    return condition()

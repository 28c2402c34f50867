"""Waiting for what another thread or process does."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["TIMEOUT_SECONDS", "wait_until"]

# Generous: on a machine with other work a step that takes a second may take a minute.
TIMEOUT_SECONDS = 300.0


def wait_until(condition: Callable[[], bool], *, seconds: float = TIMEOUT_SECONDS) -> bool:
    """Poll a condition until it holds; return whether it does."""
    clock = threading.Event()
    for _ in range(int(seconds * 20)):
        if condition():
            return True
        clock.wait(0.05)
    return condition()

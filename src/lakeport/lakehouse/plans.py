"""Scan plans between `endpoints` and DoGet, so that a server does not plan each part anew."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

from lakeport.ducklake.plan import InlinedTask
from lakeport.spark import Scan

__all__ = ["PlanCache"]

# About what a task weighs in memory, besides the inlined rows that it carries.
_TASK_BYTES = 2000


class PlanCache:
    """The plans that were made last, as many as fit into `max_bytes`."""

    def __init__(self, *, max_bytes: int = 64 * 1024 * 1024) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._plans: OrderedDict[Hashable, tuple[Scan, int]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._plans)

    def keep(self, key: Hashable, plan: Scan) -> None:
        """Keep a plan; the ones that were used least lately make room for it."""
        size = _weight(plan)
        with self._lock:
            self._drop(key)
            self._plans[key] = (plan, size)
            self._bytes += size
            while self._bytes > self._max_bytes:
                self._drop(next(iter(self._plans)))

    def find(self, key: Hashable) -> Scan | None:
        """The plan of a key, if it is still there."""
        with self._lock:
            found = self._plans.get(key)
            if found is None:
                return None
            self._plans.move_to_end(key)
            return found[0]

    def _drop(self, key: Hashable) -> None:
        dropped = self._plans.pop(key, None)
        if dropped is not None:
            self._bytes -= dropped[1]


def _weight(plan: Scan) -> int:
    carried = sum(len(task.data) for task in plan.tasks if isinstance(task, InlinedTask))
    return carried + _TASK_BYTES * (len(plan.tasks) + 1)

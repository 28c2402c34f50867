"""A fresh catalog for every test."""

from __future__ import annotations

import pytest

from tests.memory.workbench import Workbench


@pytest.fixture
def bench() -> Workbench:
    return Workbench()

"""A fresh catalog for every test."""

from __future__ import annotations

import pytest

from tests.memory.fixtures_catalog import Workbench


@pytest.fixture
def memory_catalog() -> Workbench:
    return Workbench()

"""What the tests of the command line share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from lakeport.cli.app import app


@pytest.fixture(autouse=True)
def unchanged_logging() -> Iterator[None]:
    """Commands set up the logging of their process, which here is that of the tests."""
    logger = logging.getLogger("lakeport")
    before = logger.handlers[:], logger.propagate, logger.level
    yield
    logger.handlers, logger.propagate = before[0], before[1]
    logger.setLevel(before[2])


@pytest.fixture
def lakeport_command() -> Callable[..., Any]:
    """Runs a command in this process; gives its exit code, output and errors."""
    return lambda *arguments, **options: CliRunner().invoke(app, [*arguments], **options)

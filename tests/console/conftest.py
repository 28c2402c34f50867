"""A console in a process of its own, and a browser that looks at it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.wait import TIMEOUT_SECONDS

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@dataclass
class Tab:
    """A page of the browser, and everything that went wrong in it."""

    page: Any
    url: str
    problems: list[str]

    def open(self, path: str) -> Any:
        """Open a path of the console."""
        self.page.goto(self.url.rstrip("/") + path)
        return self.page


StartConsole = Callable[..., str]


@pytest.fixture(scope="module")
def start_console() -> Iterator[StartConsole]:
    """Run `lakeport` with arguments that serve a console; return its address."""
    with ExitStack() as stack:

        def start(*arguments: str) -> str:
            process = subprocess.Popen(
                [sys.executable, "-m", "lakeport", *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env={**os.environ, "COLUMNS": "200"},
            )
            stack.callback(_end, process)
            assert process.stdout is not None
            lines = []
            for line in process.stdout:
                lines.append(line)
                found = re.search(r"The console is at (\S+)", line)
                if found:
                    return found[1]
            raise AssertionError("".join(lines))

        yield start


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        if os.environ.get("CI"):
            pytest.fail("Chromium is not installed")
        pytest.skip("Chromium is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def tab(browser: Any, console_url: str) -> Iterator[Tab]:
    """A new tab with cookies of its own; the test fails if the browser logs an error."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    page = context.new_page()
    page.set_default_timeout(TIMEOUT_SECONDS * 1000)
    opened = Tab(page, console_url, [])
    page.on("pageerror", lambda error: opened.problems.append(str(error)))
    page.on("console", lambda entry: _note(opened, entry))
    page.on("request", lambda request: _note_request(opened, request))
    yield opened
    context.close()
    assert opened.problems == []


def _note(tab: Tab, entry: Any) -> None:
    if entry.type == "error":
        tab.problems.append(entry.text)


def _note_request(tab: Tab, request: Any) -> None:
    if not re.match(r"(https?|wss?)://127\.0\.0\.1[:/]|data:|blob:", request.url):
        tab.problems.append(f"a request to {request.url}")


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(TIMEOUT_SECONDS)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("console")

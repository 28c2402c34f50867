"""A console in a process of its own, and a browser that looks at it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.wait import TIMEOUT_SECONDS, wait_until

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
def start_console(folder: Path) -> Iterator[StartConsole]:
    """Run `lakeport` with arguments that serve a console; return its address."""
    with ExitStack() as stack:

        def start(*arguments: str) -> str:
            return stack.enter_context(console_process(folder, *arguments))[1]

        yield start


@contextmanager
def console_process(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run `lakeport` with arguments that serve a console; yield the process and the address."""
    # A file: a process whose pipe is not read stops when the pipe is full.
    output = folder / f"{uuid.uuid4().hex}.log"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "lakeport", *arguments],
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "COLUMNS": "200"},
        )
    address = re.compile(r"The console is at (\S+)\n")
    try:
        wait_until(
            lambda: process.poll() is not None or address.search(output.read_text()) is not None
        )
        found = address.search(output.read_text())
        assert found, output.read_text()
        yield process, found[1]
        process.terminate()
        assert process.wait(TIMEOUT_SECONDS) == 0, output.read_text()
    finally:
        process.kill()
        process.wait()


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
    with opened_tab(browser, console_url) as opened:
        yield opened
    assert opened.problems == []


@contextmanager
def opened_tab(browser: Any, url: str) -> Iterator[Tab]:
    """Open a tab with cookies of its own."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    page = context.new_page()
    page.set_default_timeout(TIMEOUT_SECONDS * 1000)
    opened = Tab(page, url, [])
    page.on("pageerror", lambda error: opened.problems.append(str(error)))
    page.on("console", lambda entry: _note(opened, entry))
    page.on("request", lambda request: _note_request(opened, request))
    try:
        yield opened
    finally:
        context.close()


def _note(tab: Tab, entry: Any) -> None:
    if entry.type == "error":
        tab.problems.append(entry.text)


def _note_request(tab: Tab, request: Any) -> None:
    if not re.match(r"(https?|wss?)://127\.0\.0\.1[:/]|data:|blob:", request.url):
        tab.problems.append(f"a request to {request.url}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("console")

"""The console in a browser: the weight of its pages, and the time to the first paint.

Each repetition has a browser profile of its own, so nothing is in a cache.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.measure import Figure, Goal, Sample, Skipped
from lakeport import Lake, Server
from lakeport.console import ServerAddress, serve_console
from lakeport.lakehouse import LakeCatalog

__all__ = ["pages"]

_PAGES: Final = {
    "lakes": ("/", "link", "shop"),
    "a lake": ("/lake/shop", "link", "public.t001"),
    "history": ("/lake/shop/history", "button", "Compare"),
    "activity": ("/lake/shop/activity", "button", "running"),
}
_MAX_MIB: Final = 5.0
_PAINTED: Final = """() => new Promise(resolve => new PerformanceObserver(list => {
    for (const entry of list.getEntries())
        if (entry.name === 'first-contentful-paint') resolve(entry.startTime);
}).observe({type: 'paint', buffered: true}))"""


def pages(*, tables: int, repeats: int) -> Iterator[Figure | Skipped]:
    """Open pages of a lake in Chromium, without a cache."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        yield Skipped("the console", "Chromium is not installed")
        return
    from playwright.sync_api import sync_playwright

    with TemporaryDirectory() as folder:
        uri = _lake(Path(folder), tables)
        with (
            LakeCatalog(uri, engine="local") as catalog,
            Server({"shop": catalog}) as server,
            serve_console(ServerAddress(location=server.location)) as console,
            sync_playwright() as playwright,
        ):
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            try:
                for name, (path, role, text) in _PAGES.items():
                    url = f"{console.url.rstrip('/')}{path}"
                    opened = [_open(browser, url, role, text) for _ in range(repeats)]
                    yield from _figures(name, opened, tables)
            finally:
                browser.close()


def _lake(folder: Path, tables: int) -> str:
    uri = f"ducklake:{folder / 'shop.ducklake'}"
    with (
        Lake.create(uri, data_path=str(folder / "data")) as lake,
        lake.transaction() as transaction,
    ):
        for number in range(tables):
            transaction.create_table(f"t{number:03}", {"id": "BIGINT", "name": "VARCHAR"})
    return uri


def _open(browser: Any, url: str, role: Any, text: str) -> tuple[float, float]:
    """Return the bytes that a page needs, and the seconds until its first paint."""
    context = browser.new_context()
    try:
        page = context.new_page()
        session = context.new_cdp_session(page)
        session.send("Network.enable")
        received = []
        session.on(
            "Network.loadingFinished", lambda event: received.append(event["encodedDataLength"])
        )
        session.on(
            "Network.webSocketFrameReceived",
            lambda event: received.append(len(event["response"]["payloadData"])),
        )
        page.goto(url)
        page.get_by_role(role, name=text).first.wait_for()
        return sum(received), page.evaluate(_PAINTED) / 1000
    finally:
        context.close()


def _figures(name: str, opened: list[tuple[float, float]], tables: int) -> Iterator[Figure]:
    weights = [weight / 2**20 for weight, _ in opened]
    paints = [seconds * 1000 for _, seconds in opened]
    yield Figure(
        name=f"console: weight of the page {name}",
        value=statistics.median(weights),
        low=min(weights),
        high=max(weights),
        unit="MiB",
        baseline=f"nothing cached; a lake of {tables} tables",
        goal=Goal(_MAX_MIB, "less than"),
    )
    yield Figure(
        name=f"console: first paint of the page {name}",
        value=statistics.median(paints),
        low=min(paints),
        high=max(paints),
        unit="ms",
        baseline="nothing cached",
        samples={"measured": Sample(tuple(seconds for _, seconds in opened))},
    )

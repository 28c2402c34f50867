"""The console's web server: NiceGUI's pages on a port of their own, in a thread of this process."""

from __future__ import annotations

import logging
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lakeport.console.visitors import ServerAddress, Visitors
from lakeport.errors import DefinitionError, UnavailableError

__all__ = ["Console", "serve_console"]

_log = logging.getLogger("lakeport.console")

_START_SECONDS: Final = 60.0
# Seconds for open pages to be closed, and for threads of pages to end.
_END_SECONDS: Final = 3.0
_HEADERS: Final = (
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
)

# NiceGUI registers its pages for the whole process.
_running = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """A running console."""

    url: str
    visitors: Visitors = field(repr=False)
    web: Any = field(repr=False)
    thread: threading.Thread = field(repr=False)

    def end(self) -> bool:
        """Cancel the queries of its pages and close it; return whether all of its threads ended.

        Open pages do not delay it: browsers try to connect again. Safe to call again.
        """
        self.visitors.work.cancel()
        self.web.should_exit = True
        self.thread.join(_END_SECONDS)
        if self.thread.is_alive():
            self.web.force_exit = True
            self.thread.join(_END_SECONDS)
        return self.visitors.work.wait(_END_SECONDS) and not self.thread.is_alive()


@contextmanager
def serve_console(
    server: ServerAddress,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    certificate: Path | None = None,
    key: Path | None = None,
) -> Iterator[Console]:
    """Serve the console of a Lakeport server until the block ends; yield its address.

    Args:
        server: The server whose lakes are shown.
        host: The address to listen on.
        port: The port; 0 picks a free one.
        certificate: The certificate chain (PEM) for HTTPS, with `key`.
        key: The private key of the certificate.
    """
    try:
        import nicegui  # noqa: F401
    except ImportError:
        raise DefinitionError(
            "the console needs NiceGUI: install it with pip install 'lakeport[console]'"
        ) from None
    if not _running.acquire(blocking=False):
        raise DefinitionError("this process already serves a console")
    visitors = Visitors(server)
    try:
        listening = _listen(host, port)
        web = _web_server(visitors, certificate, key)
        thread = threading.Thread(
            target=web.run, args=([listening],), name="lakeport-console", daemon=True
        )
        thread.start()
        _wait_until_started(web, thread)
        scheme = "https" if certificate is not None else "http"
        shown = f"[{host}]" if ":" in host else host
        url = f"{scheme}://{shown}:{listening.getsockname()[1]}/"
        console = Console(url=url, visitors=visitors, web=web, thread=thread)
        try:
            yield console
        finally:
            console.end()
    finally:
        visitors.close()
        _running.release()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise UnavailableError(f"cannot listen on {host}:{port}: {error.strerror}") from None
    return listening


def _web_server(visitors: Visitors, certificate: Path | None, key: Path | None) -> Any:
    import uvicorn
    from fastapi import FastAPI
    from nicegui import ui

    from lakeport.console.pages import register_pages

    web = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    register_pages(visitors)
    ui.run_with(
        web,
        title="Lakeport",
        dark=None,
        storage_secret=secrets.token_urlsafe(32),
        session_middleware_kwargs={"same_site": "strict", "https_only": certificate is not None},
        show_welcome_message=False,
        reconnect_timeout=10.0,
    )
    config = uvicorn.Config(
        web,
        log_level="warning",
        ssl_certfile=certificate,
        ssl_keyfile=key,
        headers=list(_HEADERS),
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config)


def _wait_until_started(web: Any, thread: threading.Thread) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not web.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise UnavailableError("the console did not start: its log has the reason")
        time.sleep(0.02)

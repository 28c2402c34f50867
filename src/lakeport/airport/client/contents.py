"""The contents of schemas: inline, in the catalog's bundle, behind a URL, or by ListFlights."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from lakeport.airport.client.connection import USER_AGENT, Connection, Headers
from lakeport.airport.client.replies import (
    REPLY_LIMITS,
    ContentsRef,
    Described,
    described,
    read_bundle,
    read_contents,
)
from lakeport.errors import InternalError, UnavailableError

__all__ = ["bundled_contents", "schema_contents"]

_DOWNLOAD_SECONDS = 60.0


def bundled_contents(contents: ContentsRef) -> dict[str, bytes]:
    """The schema contents of a whole-catalog bundle by digest; empty when there is none."""
    if not contents.sha256 or (contents.serialized is None and contents.url is None):
        return {}
    bundle: dict[str, bytes] = {}
    for digest, content in read_bundle(_verified(contents)):
        if _digest(content) != digest:
            raise InternalError("the server's bundle of schemas does not match its digests")
        bundle[digest] = content
    return bundle


def schema_contents(
    connection: Connection,
    contents: ContentsRef,
    *,
    catalog: str,
    schema: str,
    bundle: Mapping[str, bytes],
    headers: Headers,
) -> list[Described]:
    """Everything in a schema."""
    if contents.serialized is None and not contents.sha256 and contents.url is None:
        filters = [
            ("airport-list-flights-filter-catalog", catalog),
            ("airport-list-flights-filter-schema", schema),
        ]
        return [described(info) for info in connection.list_flights([*headers, *filters])]
    if not contents.sha256:
        if contents.serialized is None:
            raise InternalError(f"schema {schema!r}: contents behind a URL need a digest")
        return read_contents(contents.serialized)
    if contents.sha256 in bundle:
        return read_contents(bundle[contents.sha256])
    return read_contents(_verified(contents))


def _verified(contents: ContentsRef) -> bytes:
    """The content that has the digest: inline, else downloaded."""
    if contents.serialized is not None and _digest(contents.serialized) == contents.sha256:
        return contents.serialized
    if contents.url is None:
        found = "is missing" if contents.serialized is None else "does not match its digest"
        raise InternalError(f"the server's content {contents.sha256[:12]} {found}")
    content = _download(contents.url)
    if _digest(content) != contents.sha256:
        raise InternalError(f"the content at {contents.url[:200]} does not match its digest")
    return content


def _download(url: str) -> bytes:
    if urlsplit(url).scheme not in {"http", "https"}:
        raise InternalError(f"the server sends this client to {url[:200]!r}, which is not HTTP")
    limit = REPLY_LIMITS.action_bytes
    try:
        request = Request(url, headers={"User-Agent": USER_AGENT})  # noqa: S310
        with urlopen(request, timeout=_DOWNLOAD_SECONDS) as response:  # noqa: S310
            content: bytes = response.read(limit + 1)
    except (URLError, OSError, ValueError) as error:
        raise UnavailableError(f"{url[:200]} cannot be downloaded: {error}") from None
    REPLY_LIMITS.check(len(content), limit, f"the content at {url[:200]}")
    return content


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()

"""`lakeport serve`: catalogs behind a port, until interrupted."""

from __future__ import annotations

import importlib
import logging
from pathlib import Path
from typing import Annotated, Any

import typer

from lakeport.airport import serve as serve_catalogs
from lakeport.auth import TlsConfig, TokenTable
from lakeport.catalog import Catalog
from lakeport.errors import DefinitionError
from lakeport.memory import MemoryCatalog

__all__ = ["serve"]

_MEMORY = "memory:"


def serve(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE…",
            help="What to serve: 'memory:' for an empty catalog in memory, or "
            "'package.module:name' for a catalog of your own. Write 'name=SOURCE' to choose the "
            "name it is attached by.",
        ),
    ],
    listen: Annotated[
        str, typer.Option(help="Where to listen, such as 0.0.0.0:8815. Port 0 picks a free one.")
    ] = "127.0.0.1:8815",
    token_file: Annotated[
        Path | None,
        typer.Option(help="A file with one 'token identity' pair a line. Without it all may call."),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(help="The server's certificate chain (PEM).")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The certificate's private key.")] = None,
    tls_client_ca: Annotated[
        Path | None, typer.Option(help="Let in only clients with a certificate of this authority.")
    ] = None,
    advertise: Annotated[
        str | None, typer.Option(help="The location to tell plain Flight clients.")
    ] = None,
    log_level: Annotated[str, typer.Option(help="DEBUG, INFO, WARNING or ERROR.")] = "INFO",
) -> None:
    """Serve catalogs to DuckDB and to every other Flight client.

    Try: lakeport serve memory:

    Or: lakeport serve shop=my_package.catalog:catalog --listen 0.0.0.0:8815 --token-file tokens
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s", level=log_level)
    tls = tls_config(tls_cert, tls_key, tls_client_ca)
    scheme = "grpc" if tls is None else "grpc+tls"
    serve_catalogs(
        _catalogs(sources),
        location=f"{scheme}://{listen}",
        auth=None if token_file is None else read_tokens(token_file),
        tls=tls,
        advertise=advertise,
    )


def tls_config(
    certificate: Path | None, key: Path | None, client_ca: Path | None
) -> TlsConfig | None:
    """The TLS options as a whole; half of them is an error."""
    if certificate is None and key is None and client_ca is None:
        return None
    if certificate is None or key is None:
        raise DefinitionError("TLS needs both --tls-cert and --tls-key")
    return TlsConfig(certificate, key, client_ca)


def read_tokens(path: Path) -> TokenTable:
    """The tokens of a file: 'token identity' a line, '#' starts a comment."""
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise DefinitionError(f"the token file cannot be read: {error.strerror}") from None
    tokens: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2:
            raise DefinitionError(f"line {number} of the token file is not 'token identity'")
        tokens[words[0]] = words[1]
    if not tokens:
        raise DefinitionError("the token file holds no tokens")
    return TokenTable(tokens)


def _catalogs(sources: list[str]) -> dict[str, Catalog]:
    catalogs: dict[str, Catalog] = {}
    for source in sources:
        name, separator, place = source.partition("=")
        if not separator:
            name, place = "", source
        if name in catalogs:
            raise DefinitionError(f"two catalogs are named {name!r}: write name=SOURCE")
        catalogs[name] = MemoryCatalog() if place == _MEMORY else _load(place)
    return catalogs


def _load(place: str) -> Catalog:
    module_name, separator, attribute = place.partition(":")
    if not separator or not attribute:
        raise DefinitionError(
            f"{place!r} is neither 'memory:' nor 'package.module:name' of a catalog"
        )
    try:
        found: Any = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise DefinitionError(f"{place!r} cannot be loaded: {error}") from None
    catalog = found() if callable(found) and not isinstance(found, Catalog) else found
    if not isinstance(catalog, Catalog):
        raise DefinitionError(f"{place!r} is {type(catalog).__name__}, not a catalog")
    return catalog

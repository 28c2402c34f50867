"""`lakeport serve`: catalogs behind a port, until interrupted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from lakeport._files import keep_reserve
from lakeport.airport.server import (
    Observer,
    Server,
    check_listening,
    exit_immediately,
    remembered_hangup,
    serve_until_signalled,
)
from lakeport.auth import TlsConfig
from lakeport.catalog import Catalog
from lakeport.cli.access.audit import audit_trail
from lakeport.cli.access.server_access import AccessRules, ServerAccess
from lakeport.cli.arguments import (
    by_name,
    is_lake,
    listening_location,
    parse_argument,
    resolve_uri,
    storage_of,
)
from lakeport.cli.banner import attach_sql, show_served, show_sql
from lakeport.cli.catalogs import ServedCatalogs
from lakeport.cli.commands.console import DEFAULT_CONSOLE, EndingConsole
from lakeport.cli.config import LakeSettings, ServerSettings, Settings, load_settings
from lakeport.cli.health import Health, StartingHealth
from lakeport.cli.output import make_console
from lakeport.cli.supervisor import add_spark_gauges
from lakeport.console import Console, ServerAddress, serve_console
from lakeport.ducklake import Lake
from lakeport.ducklake.maintenance import (
    MaintenancePolicy,
    MaintenanceResult,
    MaintenanceSchedule,
)
from lakeport.ducklake.metadata import parse_location
from lakeport.errors import DefinitionError
from lakeport.lakehouse import LakeCatalog, ScheduledMaintenance, check_policies
from lakeport.observability import (
    AuditTrail,
    CallLog,
    CompositeObserver,
    Metrics,
    export_traces,
    log_to_stderr,
    serve_http,
    split_address,
)

__all__ = ["serve"]

_log = logging.getLogger("lakeport")


def serve(
    lakes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="LAKE",
            help="What to serve: 'ducklake:…', 'postgresql://…', the path of a .ducklake or "
            ".sqlite file, 'memory:' for an empty catalog in memory, 'package.module:name' for a "
            "catalog of your own, or '@file' with one of these in it. 'name=LAKE' chooses the "
            "name that it is attached by.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The name that the only LAKE is attached by.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A configuration file (TOML); flags win over it.")
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            help="Where to listen: host:port or grpc://host:port, 127.0.0.1:8815 by default. "
            "Port 0 picks a free one."
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="A file with one 'token identity' pair a line. Without it every client may call."
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(help="The server's certificate chain (PEM).")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The certificate's private key.")] = None,
    tls_client_ca: Annotated[
        Path | None, typer.Option(help="Accept only clients with a certificate of this authority.")
    ] = None,
    advertise: Annotated[
        str | None, typer.Option(help="The location that plain Flight clients get.")
    ] = None,
    master: Annotated[
        str | None, typer.Option(help="The Spark master; all cores of this machine by default.")
    ] = None,
    spark: Annotated[
        bool | None,
        typer.Option(
            "--spark/--no-spark",
            help="Read and write large tables with Spark, or with the server alone.",
            show_default="with Spark if it is installed",
        ),
    ] = None,
    main_as: Annotated[
        str | None,
        typer.Option(help="What the schema 'main' of a lake is called; 'public' by default."),
    ] = None,
    direct_reads: Annotated[
        bool | None,
        typer.Option(
            "--direct-reads", help="Let clients read the files of unchanged tables themselves."
        ),
    ] = None,
    spark_sql: Annotated[
        bool | None,
        typer.Option(
            "--spark-sql/--no-spark-sql",
            help="Let clients run queries of Spark SQL over the lakes: spark_sql('SELECT …').",
            show_default="no",
        ),
    ] = None,
    writable: Annotated[
        bool | None,
        typer.Option("--writable", help="Let clients change the lakes; by default they read only."),
    ] = None,
    confine: Annotated[
        bool | None,
        typer.Option(
            "--confine", help="Read and write nothing outside of the data paths of the lakes."
        ),
    ] = None,
    explicit_transactions: Annotated[
        bool | None,
        typer.Option(
            "--explicit-transactions",
            help="Stage the writes of a client until it calls lakeport.commit('message').",
        ),
    ] = None,
    small_scan_bytes: Annotated[
        int | None,
        typer.Option(help="Scans of less are read by the server itself; 512 MiB by default."),
    ] = None,
    metrics_listen: Annotated[
        str | None, typer.Option(help="Where to answer /healthz and /metrics.")
    ] = None,
    console: Annotated[
        bool,
        typer.Option("--console", help=f"Serve the console in the browser at {DEFAULT_CONSOLE}."),
    ] = False,
    console_listen: Annotated[
        str | None, typer.Option(help="Where to serve the console in the browser.")
    ] = None,
    drain: Annotated[
        float | None,
        typer.Option(help="Seconds for running queries to finish after SIGTERM; 30 by default."),
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(help="DEBUG, INFO, WARNING or ERROR.", show_default="INFO")
    ] = None,
    log_format: Annotated[str | None, typer.Option(help="text or json.")] = None,
) -> None:
    """Serve lakes and other catalogs to DuckDB and to every other Flight client.

    After SIGTERM, running queries may finish; a second SIGTERM ends them. SIGHUP reads the lakes
    and tokens of the configuration file again.

    For example:

      lakeport serve meta.ducklake

      lakeport serve sales=ducklake:postgres:dbname=lake scratch=memory: --listen 0.0.0.0:8815

      lakeport serve --config lakeport.toml --metrics-listen 127.0.0.1:9815
    """
    flags: dict[str, dict[str, Any]] = {
        "server": {
            "listen": listen,
            "advertise": advertise,
            "token_file": token_file,
            "tls_cert": tls_cert,
            "tls_key": tls_key,
            "tls_client_ca": tls_client_ca,
            "metrics_listen": metrics_listen,
            "console_listen": console_listen or (DEFAULT_CONSOLE if console else None),
            "drain": drain,
        },
        "spark": {"master": master, "enabled": spark},
        "log": {"level": log_level and log_level.upper(), "format": log_format},
    }
    lake_flags = {
        "main_as": main_as,
        "direct_reads": direct_reads,
        "spark_sql": spark_sql,
        "writable": writable,
        "confine": confine,
        "explicit_transactions": explicit_transactions,
        "small_scan_bytes": small_scan_bytes,
    }
    if name is not None and len(lakes or []) != 1:
        raise DefinitionError("--name names one LAKE: write name=LAKE for several")
    arguments = [parse_argument(lake, name=name) for lake in lakes or []]

    def load() -> Settings:
        settings = load_settings(config, **flags)
        explicit = {key: value for key, value in lake_flags.items() if value is not None}
        every = [lake.model_copy(update=explicit) for lake in [*settings.lake, *arguments]]
        return settings.model_copy(update={"lake": every})

    run_server(load, file=config)


def run_server(load: Callable[[], Settings], *, file: Path | None) -> None:
    """Serve the catalogs of the settings until a signal ends the process."""
    if file is None:
        _run(load, file=None, has_hung_up=lambda: False)
        return
    # Spark may take many seconds to start.
    with remembered_hangup() as has_hung_up:
        _run(load, file=file, has_hung_up=has_hung_up)


def _run(
    load: Callable[[], Settings], *, file: Path | None, has_hung_up: Callable[[], bool]
) -> None:
    settings = load()
    secrets: set[str] = set()

    def read(new: Settings) -> tuple[dict[str, LakeSettings], AccessRules]:
        named = by_name(new.lake)
        rules = AccessRules.of(new, named, file=file)
        # Earlier secrets stay redacted: these settings may yet be refused.
        secrets.update(rules.tokens.identities, _passwords(named.values()))
        log_to_stderr(
            level=settings.log.level, as_json=settings.log.format == "json", secrets=secrets
        )
        return named, rules

    lakes, rules = read(settings)
    trail = audit_trail(settings.audit, lakes)
    access = ServerAccess(rules, required_trail=trail if settings.audit.required else None)
    if not lakes:
        raise DefinitionError("no lake given: pass a LAKE, or a file with --config")
    tls = _tls_config(settings.server)
    location = listening_location(settings.server.listen, tls)
    check_listening(location)
    keep_reserve()
    metrics = Metrics()
    with ExitStack() as stack:
        if trail is not None:
            stack.callback(trail.close)
        stack.enter_context(export_traces(settings.server.traces_endpoint))
        side, health = settings.server.metrics_listen, StartingHealth()
        url = None if side is None else stack.enter_context(serve_http(side, health, metrics))
        if url is not None:
            _log.info("the server is starting: %s/readyz reports what it waits for", url)
        catalogs = stack.enter_context(ServedCatalogs(settings.spark))
        opened = catalogs.open(lakes)
        _check_policies(rules, opened)
        observers: list[Observer | None] = [metrics, CallLog(), trail]
        server = _server(settings.server, opened, location, tls, access, observers)
        add_spark_gauges(metrics, catalogs.spark, lambda: len(catalogs.lakes))
        stack.enter_context(server)
        health.started = Health(server, catalogs)
        needs_token = rules.requires_identity and rules.certificates is None
        page = stack.enter_context(_console(settings.server, server, needs_token=needs_token))
        schedule = _schedule(settings, catalogs, metrics)
        if schedule is not None:
            stack.enter_context(schedule)

        def announce() -> None:
            console = make_console()
            show_served(console, server, opened, lakes)
            if url is not None:
                console.print(f"\n{url}/healthz and {url}/metrics", highlight=False)
            if page is not None:
                console.print(f"\nThe console is at {page.url}", highlight=False)
            show_sql(console, attach_sql(server.location, lakes, needs_token=needs_token))

        def reload() -> None:
            catalogs.reload(server, reread)

        def reread() -> tuple[dict[str, LakeSettings], Callable[[], None]]:
            named, new = read(load())
            access.check(new)
            _check_policies(new, catalogs.opened)
            return named, lambda: _replace_rules(access, new, trail)

        finished = serve_until_signalled(
            EndingConsole(server, page),
            ready=announce,
            drain=settings.server.drain,
            on_hangup=reload if file is not None else None,
            has_hung_up=has_hung_up,
        )
    if not finished:
        exit_immediately()


def _server(
    settings: ServerSettings,
    catalogs: Any,
    location: str,
    tls: TlsConfig | None,
    access: ServerAccess,
    observers: Sequence[Observer | None],
) -> Server:
    rules = access.rules
    return Server(
        catalogs,
        location=location,
        auth=access if rules.authenticator is not None else None,
        certificates=access if rules.certificates is not None else None,
        # An authorizer disables the cache of listings; without it callers see the same.
        authorize=access if rules.are_checked or access.requires_trail else None,
        tls=tls,
        advertise=settings.advertise,
        batch_rows=settings.batch_rows,
        max_message_size=settings.max_message_size,
        compression=settings.compression,
        transaction_timeout=settings.transaction_timeout,
        stream_timeout=settings.stream_timeout,
        max_connections=settings.max_connections,
        caller_limits=rules.limits,
        observer=CompositeObserver(*(each for each in observers if each is not None)),
    )


@contextmanager
def _console(
    settings: ServerSettings, server: Server, *, needs_token: bool
) -> Iterator[Console | None]:
    """Serve the console if the settings name an address for it."""
    if settings.console_listen is None:
        yield None
        return
    if settings.tls_client_ca is not None:
        raise DefinitionError(
            "the console cannot be used with tls_client_ca: it has no certificate of its own"
        )
    host, port = split_address(settings.console_listen)
    address = ServerAddress(
        location=server.location,
        needs_token=needs_token,
        trusts_any_certificate=settings.tls_cert is not None,
    )
    with serve_console(
        address, host=host, port=port, certificate=settings.tls_cert, key=settings.tls_key
    ) as console:
        yield console


def _schedule(
    settings: Settings, catalogs: ServedCatalogs, metrics: Metrics
) -> MaintenanceSchedule | None:
    """Return the maintenance of the lakes that ask for it; None if none does."""

    def lakes() -> dict[str, tuple[Lake, MaintenancePolicy]]:
        found = {}
        for name, catalog in catalogs.opened.items():
            own = catalogs.lakes[name].maintenance or settings.maintenance
            if isinstance(catalog, LakeCatalog) and own.enabled:
                found[name] = (catalog.lake, own.policy)
                catalog.schedule = ScheduledMaintenance(every=every, policy=own.policy)
        return found

    def report(name: str, result: MaintenanceResult) -> None:
        metrics.maintained(
            name,
            result.operation,
            files=result.files_replaced,
            size=result.bytes_replaced,
            failed=bool(result.skipped) and result.is_empty,
        )
        _log.info("maintained", extra={"lake": name, **_described(result)})

    own = [lake.maintenance for lake in catalogs.lakes.values()]
    enabled = [s for s in [settings.maintenance, *own] if s is not None and s.enabled]
    if not enabled:
        return None
    every = min(each.every for each in enabled)
    schedule = MaintenanceSchedule(lakes, every=every, on_result=report)
    metrics.add_gauge(
        "maintenance_running",
        "Whether a lake is being maintained by this server",
        lambda: float(schedule.is_running),
    )
    return schedule


def _described(result: MaintenanceResult) -> dict[str, Any]:
    """Return the fields of a result that have a value, for the log."""
    fields = asdict(result) | {"expired": len(result.expired), "paths": len(result.paths)}
    return {name: value for name, value in fields.items() if value}


def _check_policies(rules: AccessRules, catalogs: Mapping[str, Catalog]) -> None:
    if rules.policies is not None:
        check_policies(rules.policies, catalogs)


def _replace_rules(access: ServerAccess, rules: AccessRules, trail: AuditTrail | None) -> None:
    access.replace(rules)
    if trail is not None:
        count = 0 if rules.policies is None else len(rules.policies.policies)
        trail.record("policy_reload", policies=count)


def _tls_config(settings: ServerSettings) -> TlsConfig | None:
    certificate, key, client_ca = settings.tls_cert, settings.tls_key, settings.tls_client_ca
    if certificate is None and key is None and client_ca is None:
        return None
    if certificate is None or key is None:
        raise DefinitionError("TLS needs both --tls-cert and --tls-key")
    return TlsConfig(certificate, key, client_ca)


def _passwords(lakes: Iterable[LakeSettings]) -> list[str]:
    passwords: list[str] = []
    for lake in lakes:
        uri = resolve_uri(lake.uri)
        if is_lake(uri):
            passwords += parse_location(uri).secrets
        for store in storage_of(lake).secrets:
            passwords += filter(None, (store.secret, store.session_token))
    return passwords

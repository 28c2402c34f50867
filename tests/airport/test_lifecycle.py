"""Servers start, stop, start again, and say what is wrong with where they are to listen."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.airport import Server, serve
from lakeport.airport.server.state import ServerState
from lakeport.airport.server.verbs.do_exchange import Exchange
from lakeport.catalog import CatalogBuilder, StaticCatalog
from lakeport.errors import DefinitionError, UnavailableError
from tests.airport.flight_client import RawFlightClient, path
from tests.wait import TIMEOUT_SECONDS


@pytest.fixture
def catalog() -> StaticCatalog:
    return CatalogBuilder("lake").schema("s").table("t", pa.table({"x": [1]})).build()


def rows(server: Server) -> int:
    with flight.FlightClient(server.location) as client:
        return int(RawFlightClient(server, client, {}).scan(path("s", "t")).num_rows)


def test_a_server_picks_a_free_port_of_this_machine(catalog: StaticCatalog) -> None:
    with Server(catalog) as first, Server(catalog) as second:
        assert first.port != second.port
        assert first.location == f"grpc://127.0.0.1:{first.port}"
        assert rows(first) == rows(second) == 1


def test_start_returns_the_server(catalog: StaticCatalog) -> None:
    server = Server(catalog)

    assert server.start() is server
    server.stop()


def test_a_server_cannot_be_started_twice(catalog: StaticCatalog) -> None:
    with Server(catalog) as server:
        with pytest.raises(DefinitionError, match="the server is running already"):
            server.start()
        assert rows(server) == 1


def test_stopping_is_harmless_when_stopped(catalog: StaticCatalog) -> None:
    server = Server(catalog)
    server.stop()
    server.start()

    server.stop()
    server.stop()

    with pytest.raises(UnavailableError, match=r"not running: call start\(\) first"):
        _ = server.port


def test_a_server_can_be_started_again(catalog: StaticCatalog) -> None:
    server = Server(catalog)
    for _ in range(2):
        with server:
            assert rows(server) == 1


def test_a_stopped_server_does_not_answer(catalog: StaticCatalog) -> None:
    with Server(catalog) as server:
        location = server.location

    with flight.FlightClient(location) as client, pytest.raises(flight.FlightUnavailableError):
        list(client.list_actions(flight.FlightCallOptions(timeout=TIMEOUT_SECONDS)))


@pytest.mark.parametrize("ask", [lambda s: s.port, lambda s: s.location, lambda s: s.wait()])
def test_a_server_that_was_not_started_has_no_port(catalog: StaticCatalog, ask: object) -> None:
    assert callable(ask)
    with pytest.raises(UnavailableError, match="the server is not running"):
        ask(Server(catalog))


def test_a_port_in_use_is_told(catalog: StaticCatalog) -> None:
    with Server(catalog) as server:
        other = Server(catalog, location=server.location)
        with pytest.raises(UnavailableError, match=f"cannot listen on {server.location}"):
            other.start()
        assert rows(server) == 1


def test_a_server_that_could_not_start_can_be_tried_again(catalog: StaticCatalog) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = Server(catalog, location=f"grpc://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(UnavailableError):
            server.start()

    with server:
        assert rows(server) == 1


@pytest.mark.parametrize(
    "location",
    [
        "",
        "127.0.0.1:8815",
        "http://127.0.0.1:8815",
        "grpc://127.0.0.1",
        "grpc://:8815",
        "grpc://127.0.0.1:port",
        "grpc://127.0.0.1:99999",
        "grpc://[::1:8815",
    ],
)
def test_a_wrong_location_is_refused(catalog: StaticCatalog, location: str) -> None:
    with pytest.raises(DefinitionError, match="is not a location"):
        Server(catalog, location=location)


@pytest.mark.parametrize("scheme", ["grpc", "grpc+tcp"])
def test_a_server_listens_where_it_is_told(catalog: StaticCatalog, scheme: str) -> None:
    with Server(catalog, location=f"{scheme}://localhost:0") as server:
        assert server.location == f"{scheme}://localhost:{server.port}"
        assert rows(server) == 1


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_an_ipv6_location_has_brackets(catalog: StaticCatalog) -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")

    with Server(catalog, location="grpc://[::1]:0") as server:
        assert server.location == f"grpc://[::1]:{server.port}"
        assert rows(server) == 1


def test_wait_returns_when_the_server_stops(catalog: StaticCatalog) -> None:
    server = Server(catalog).start()
    waiting = threading.Thread(target=server.wait)
    waiting.start()

    server.stop()

    waiting.join(TIMEOUT_SECONDS)
    assert not waiting.is_alive()


def test_the_log_level_is_an_option(catalog: StaticCatalog) -> None:
    logger = logging.getLogger("lakeport")
    before = logger.level
    try:
        Server(catalog, log_level="DEBUG")
        assert logger.level == logging.DEBUG
        Server(catalog)
        assert logger.level == logging.DEBUG
        Server(catalog, log_level=logging.ERROR)
        assert logger.level == logging.ERROR
    finally:
        logger.setLevel(before)


def to_the_process(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


def to_another_thread(number: signal.Signals) -> None:
    signal.pthread_kill(threading.get_ident(), number)


@pytest.mark.parametrize("send", [to_the_process, to_another_thread])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_runs_until_it_is_interrupted(
    catalog: StaticCatalog,
    capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
    send: Callable[[signal.Signals], None],
) -> None:
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}

    def interrupt() -> None:
        while any(signal.getsignal(n) is handler for n, handler in before.items()):
            ready.wait(0.001)
        send(number)

    ready = threading.Event()
    interrupter = threading.Thread(target=interrupt)
    interrupter.start()

    serve({"lake": catalog, "my-lake": catalog, "": catalog}, location="grpc://127.0.0.1:0")

    interrupter.join()
    told = capsys.readouterr().out
    assert "Lakeport serves grpc://127.0.0.1:" in told
    assert "ATTACH 'lake' AS lake (TYPE airport, LOCATION 'grpc://127.0.0.1:" in told
    assert "ATTACH 'my-lake' AS \"my-lake\" (TYPE airport" in told
    assert {n: signal.getsignal(n) for n in before} == before


def test_signals_that_the_parent_held_back_are_heeded(catalog: StaticCatalog) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        serve(catalog, location="grpc://127.0.0.1:0")
        assert signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_serve_listens_to_signals_before_it_says_that_it_is_ready(
    catalog: StaticCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.getsignal(signal.SIGTERM)

    def announce(*args: object, **_: object) -> None:
        if "ATTACH" in str(args):
            assert signal.getsignal(signal.SIGTERM) is not before
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("builtins.print", announce)

    # What a supervisor sends as soon as it has read the line must stop the server, not kill it.
    previous = signal.signal(signal.SIGTERM, lambda *_: pytest.fail("not listening yet"))
    before = signal.getsignal(signal.SIGTERM)
    try:
        serve(catalog, location="grpc://127.0.0.1:0")
    finally:
        signal.signal(signal.SIGTERM, previous)


def test_a_client_that_holds_a_stream_cannot_hold_up_the_stop(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = threading.Event()

    def batches(exchange: Exchange) -> Iterator[pa.RecordBatch]:
        # Whoever stops before this point ends the call instead of finding it in its read.
        monkeypatch.setattr(ServerState, "check_running", lambda _: waits.set())
        return real(exchange)

    real = Exchange.batches
    monkeypatch.setattr(Exchange, "batches", batches)
    schema = CatalogBuilder().schema("s")
    schema.scalar_function("f", lambda x: x, parameters={"x": pa.int64()}, returns=pa.int64())
    server = Server(schema.build()).start()
    with flight.FlightClient(server.location) as client:
        options = flight.FlightCallOptions(headers=[(b"airport-operation", b"scalar_function")])
        writer, reader = client.do_exchange(path("s", "f"), options)
        writer.begin(pa.schema([("x", pa.int64())]))
        assert reader.schema.names == ["result"]
        assert waits.wait(TIMEOUT_SECONDS)

        with caplog.at_level(logging.WARNING, "lakeport"):
            assert not server.stop(grace=0.1)

        assert "a client still holds a stream" in caplog.text
        with pytest.raises(UnavailableError):
            _ = server.port
        writer.done_writing()
        assert list(reader) == []

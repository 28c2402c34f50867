"""The endpoint of a driver: where it listens, and what it says when it cannot."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from lakeport.errors import InvalidArgumentError, UnavailableError
from lakeport.spark.receiver import receiver_of


def context(port: str) -> Any:
    """A Spark context with a setting for the port."""
    settings = {"spark.lakeport.port": port}
    return SimpleNamespace(
        _jsc=object(),
        _gateway=None,
        defaultParallelism=2,
        master="local[2]",
        getConf=lambda: settings,
        stop=lambda: None,
    )


@pytest.fixture(autouse=True)
def _no_other_receiver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakeport.spark.receiver._current", None)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(UnavailableError, match=rf"port {port}: .* spark\.lakeport\.port taken"):
            receiver_of(context(str(port)))


@pytest.mark.parametrize("port", ["http", "-1", "65536"])
def test_a_port_that_is_no_number_is_refused(port: str) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"the number of a port, not '{port}'"):
        receiver_of(context(port))


def test_the_endpoint_stops_with_its_context() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    spark = context(str(port))
    first = receiver_of(spark)
    assert receiver_of(spark) is first
    assert listens(port)

    spark.stop()

    assert not listens(port)
    assert first.shared.take() is None

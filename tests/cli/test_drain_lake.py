"""`lakeport serve` is told to end while its clients read a lake, each at another stage."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator

import pyarrow as pa

import lakeport
from lakeport.errors import UnavailableError
from tests.cli.processes import serving
from tests.fixtures_lakes import LakeMaker
from tests.wait import TIMEOUT_SECONDS

NUMBERS = pa.schema([("x", pa.int64())])


class Client:
    """A client in a thread: it starts a call, goes on, and keeps the error that ends it."""

    def __init__(self, location: str, catalog: str, run: Callable[[Client], None]) -> None:
        self.started = threading.Event()
        self.server_has_gone = threading.Event()
        self.error: Exception | None = None
        self.lake = lakeport.connect(location, catalog=catalog)
        self._run = run
        self.thread = threading.Thread(target=self._record)
        self.thread.start()

    def _record(self) -> None:
        try:
            with self.lake:
                self._run(self)
        except Exception as error:
            self.error = error
        self.started.set()


def reads_slowly(client: Client) -> None:
    reader = client.lake.table("public.trips").scan().to_reader()
    reader.read_next_batch()
    client.started.set()
    for _ in reader:
        client.server_has_gone.wait(0.2)


def stops_reading(client: Client) -> None:
    reader = client.lake.table("public.trips").scan().to_reader()
    reader.read_next_batch()
    client.started.set()
    client.server_has_gone.wait(TIMEOUT_SECONDS)
    for _ in reader:
        pass


def waits_for_spark(client: Client) -> None:
    client.started.set()
    client.lake.table("public.grouped").scan().to_arrow()


def inserts(client: Client) -> None:
    client.lake.create_schema("s")
    table = client.lake.create_table("s", "t", NUMBERS)

    def batches() -> Iterator[pa.RecordBatch]:
        while not client.server_has_gone.wait(0.1):
            yield pa.record_batch({"x": pa.array([1], pa.int64())})
            client.started.set()

    table.insert(pa.RecordBatchReader.from_batches(NUMBERS, batches()))


def test_every_stream_that_a_drain_cuts_ends_with_unavailable(make_lake: LakeMaker) -> None:
    lake = make_lake()
    lake.execute(
        "CREATE TABLE trips AS SELECT i AS id, repeat('x', 40) || i AS s FROM range(3000000) r(i)",
        "CREATE VIEW grouped AS SELECT s, count(*) AS n FROM trips GROUP BY s",
    )
    lake.detach()
    arguments = [f"lake={lake.uri}", "scratch=memory:", "--master", "local[2]", "--drain", "0.2"]
    with serving(*arguments) as server:
        location = server.location
        kinds = {
            "reads slowly": ("lake", reads_slowly),
            "stops reading": ("lake", stops_reading),
            "waits for Spark": ("lake", waits_for_spark),
            "waits for Spark, too": ("lake", waits_for_spark),
            "inserts": ("scratch", inserts),
        }
        clients = {name: Client(location, *kind) for name, kind in kinds.items()}
        for client in clients.values():
            assert client.started.wait(TIMEOUT_SECONDS)

        server.send(signal.SIGTERM)

        assert server.wait() == 0
        for client in clients.values():
            client.server_has_gone.set()
            client.thread.join(TIMEOUT_SECONDS)
    ended = {name: type(client.error) for name, client in clients.items()}
    assert ended == dict.fromkeys(kinds, UnavailableError), {
        name: str(client.error) for name, client in clients.items()
    }

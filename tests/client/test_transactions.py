"""Transactions: shared by statements, and as a whole committed or rolled back when explicit."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from lakeport.airport.client import Client
from lakeport.catalog import CatalogBuilder
from lakeport.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from lakeport.memory import MemoryCatalog
from tests.client.conftest import Attach
from tests.client.wire import WireServer, packed


def test_statements_of_a_block_share_one_transaction(wire: WireServer, hand_client: Client) -> None:
    table = hand_client.table("w.t")
    with hand_client.transaction() as transaction:
        table.insert([{"id": 9}])
        table.scan().to_arrow()
    assert transaction.id == "tx1"
    assert wire.last("DoExchange").header("airport-transaction-id") == "tx1"
    assert wire.last("DoGet").header("airport-transaction-id") == "tx1"
    assert wire.actions_seen().count("create_transaction") == 1
    assert wire.committed == []
    table.scan().to_arrow()
    assert wire.last("DoGet").header("airport-transaction-id") == "tx2"


def test_an_explicit_transaction_is_committed(wire: WireServer, hand_client: Client) -> None:
    table = hand_client.table("w.t")
    with hand_client.transaction(explicit=True) as transaction:
        table.insert([{"id": 9}])
        table.set_not_null("id")
    assert wire.last("create_transaction").request == {"catalog_name": b"db", "explicit": True}
    assert wire.last("set_not_null").header("airport-transaction-id") == transaction.id
    assert wire.last("commit_transaction").request == {
        "catalog_name": b"db",
        "transaction_id": b"tx1",
    }
    assert wire.committed == ["tx1"]


def test_an_exception_rolls_back(wire: WireServer, hand_client: Client) -> None:
    with pytest.raises(RuntimeError, match="no"), hand_client.transaction(explicit=True):
        raise RuntimeError("no")
    assert "rollback_transaction" in wire.actions_seen()
    assert "commit_transaction" not in wire.actions_seen()


def test_a_failing_rollback_does_not_hide_the_reason(wire: WireServer, hand_client: Client) -> None:
    wire.replies["rollback_transaction"] = KeyError("forgotten")
    with (
        pytest.raises(RuntimeError, match="no") as caught,
        hand_client.transaction(explicit=True),
    ):
        raise RuntimeError("no")
    assert caught.value.__notes__ == ["the rollback failed: forgotten"]


def test_a_failing_commit_is_an_error(wire: WireServer, hand_client: Client) -> None:
    wire.replies["commit_transaction"] = ValueError("conflict")
    with (
        pytest.raises(InvalidArgumentError, match="conflict"),
        hand_client.transaction(explicit=True),
    ):
        pass


def test_each_client_has_its_own_transaction(attach: Attach) -> None:
    clients = [attach(MemoryCatalog.from_tables({"s": {"t": pa.table({"x": [1]})}})) for _ in "ab"]
    first, second = (client.transaction(explicit=True) for client in clients)

    first.__enter__()
    second.__enter__()
    clients[1].table("s.t").insert([{"x": 2}])
    first.__exit__(None, None, None)
    clients[0].table("s.t").insert([{"x": 3}])
    with pytest.raises(InvalidArgumentError, match="open already"), clients[1].transaction():
        pass
    second.__exit__(None, None, None)

    assert [client.table("s.t").scan().count() for client in clients] == [2, 2]


def test_transactions_do_not_nest(hand_client: Client) -> None:
    with (
        hand_client.transaction(),
        pytest.raises(InvalidArgumentError, match="open already"),
        hand_client.transaction(),
    ):
        pass


def test_a_transaction_belongs_to_its_thread(wire: WireServer, hand_client: Client) -> None:
    table = hand_client.table("w.t")
    with hand_client.transaction():
        thread = threading.Thread(target=lambda: table.scan().to_arrow())
        thread.start()
        thread.join()
    assert wire.last("DoGet").header("airport-transaction-id") == "tx2"


def test_a_server_without_transactions(wire: WireServer, hand_client: Client) -> None:
    wire.replies["create_transaction"] = packed({"identifier": None})
    with hand_client.transaction() as transaction:
        hand_client.table("w.t").scan().to_arrow()
    assert transaction.id is None
    assert wire.last("DoGet").header("airport-transaction-id") is None
    with (
        pytest.raises(UnsupportedError, match="no transactions"),
        hand_client.transaction(explicit=True),
    ):
        pass


def test_a_catalog_without_transactions_refuses_explicit_ones(attach: Attach) -> None:
    client = attach(CatalogBuilder().schema("s").build())
    with pytest.raises(UnsupportedError), client.transaction(explicit=True):
        pass


@pytest.fixture
def memory(attach: Attach) -> Client:
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    return attach(MemoryCatalog.from_tables({"s": {"t": rows}}))


def test_a_real_server_keeps_changes_apart_until_the_commit(memory: Client) -> None:
    table = memory.table("s.t")
    counts: list[int] = []
    with memory.transaction(explicit=True):
        table.insert([{"id": 3}])
        assert table.scan().count() == 3
        thread = threading.Thread(target=lambda: counts.append(table.scan().count()))
        thread.start()
        thread.join()
    assert counts == [2]
    assert table.scan().count() == 3


def test_a_real_server_forgets_what_is_rolled_back(memory: Client) -> None:
    def change_and_fail() -> None:
        with memory.transaction(explicit=True):
            memory.table("s.t").insert([{"id": 3}])
            created = memory.create_table("s", "n", pa.schema([("x", pa.int64())]))
            created.insert([{"x": 1}])
            assert created.scan().count() == 1
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        change_and_fail()
    assert memory.table("s.t").scan().count() == 2
    with pytest.raises(NotFoundError):
        memory.table("s.n")


def test_a_transaction_of_duckdb_takes_effect_at_once(memory: Client) -> None:
    def change_and_fail() -> None:
        with memory.transaction():
            memory.table("s.t").insert([{"id": 3}])
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        change_and_fail()
    assert memory.table("s.t").scan().count() == 3

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
from tests.client.handwritten_server import HandwrittenServer, packed


def test_statements_of_a_block_share_one_transaction(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    table = client_of_handwritten_server.table("w.t")
    with client_of_handwritten_server.transaction() as transaction:
        table.insert([{"id": 9}])
        table.scan().to_arrow()
    assert transaction.id == "tx1"
    assert handwritten_server.last("DoExchange").header("airport-transaction-id") == "tx1"
    assert handwritten_server.last("DoGet").header("airport-transaction-id") == "tx1"
    assert handwritten_server.actions_seen().count("create_transaction") == 1
    assert handwritten_server.committed == []
    table.scan().to_arrow()
    assert handwritten_server.last("DoGet").header("airport-transaction-id") == "tx2"


def test_an_explicit_transaction_is_committed(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    table = client_of_handwritten_server.table("w.t")
    with client_of_handwritten_server.transaction(explicit=True) as transaction:
        table.insert([{"id": 9}])
        table.set_not_null("id")
    assert handwritten_server.last("create_transaction").request == {
        "catalog_name": b"db",
        "explicit": True,
    }
    assert (
        handwritten_server.last("set_not_null").header("airport-transaction-id") == transaction.id
    )
    assert handwritten_server.last("commit_transaction").request == {
        "catalog_name": b"db",
        "transaction_id": b"tx1",
    }
    assert handwritten_server.committed == ["tx1"]


def test_an_exception_rolls_back(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    with (
        pytest.raises(RuntimeError, match="no"),
        client_of_handwritten_server.transaction(explicit=True),
    ):
        raise RuntimeError("no")
    assert "rollback_transaction" in handwritten_server.actions_seen()
    assert "commit_transaction" not in handwritten_server.actions_seen()


def test_a_failing_rollback_does_not_hide_the_reason(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    handwritten_server.replies["rollback_transaction"] = KeyError("forgotten")
    with (
        pytest.raises(RuntimeError, match="no") as caught,
        client_of_handwritten_server.transaction(explicit=True),
    ):
        raise RuntimeError("no")
    assert caught.value.__notes__ == ["the rollback failed: forgotten"]


def test_a_failing_commit_is_an_error(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    handwritten_server.replies["commit_transaction"] = ValueError("conflict")
    with (
        pytest.raises(InvalidArgumentError, match="conflict"),
        client_of_handwritten_server.transaction(explicit=True),
    ):
        pass


def test_each_client_has_its_own_transaction(attach_client: Attach) -> None:
    clients = [
        attach_client(MemoryCatalog.from_tables({"s": {"t": pa.table({"x": [1]})}})) for _ in "ab"
    ]
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


def test_transactions_do_not_nest(client_of_handwritten_server: Client) -> None:
    with (
        client_of_handwritten_server.transaction(),
        pytest.raises(InvalidArgumentError, match="open already"),
        client_of_handwritten_server.transaction(),
    ):
        pass


def test_a_transaction_belongs_to_its_thread(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    table = client_of_handwritten_server.table("w.t")
    with client_of_handwritten_server.transaction():
        thread = threading.Thread(target=lambda: table.scan().to_arrow())
        thread.start()
        thread.join()
    assert handwritten_server.last("DoGet").header("airport-transaction-id") == "tx2"


def test_a_server_without_transactions(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    handwritten_server.replies["create_transaction"] = packed({"identifier": None})
    with client_of_handwritten_server.transaction() as transaction:
        client_of_handwritten_server.table("w.t").scan().to_arrow()
    assert transaction.id is None
    assert handwritten_server.last("DoGet").header("airport-transaction-id") is None
    with (
        pytest.raises(UnsupportedError, match="no transactions"),
        client_of_handwritten_server.transaction(explicit=True),
    ):
        pass


def test_a_catalog_without_transactions_refuses_explicit_ones(attach_client: Attach) -> None:
    client = attach_client(CatalogBuilder().schema("s").build())
    with pytest.raises(UnsupportedError), client.transaction(explicit=True):
        pass


@pytest.fixture
def memory(attach_client: Attach) -> Client:
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    return attach_client(MemoryCatalog.from_tables({"s": {"t": rows}}))


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

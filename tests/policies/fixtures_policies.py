"""Policies for tests, and lakes that are served with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias

from pyarrow import flight

from lakeport import Client, Identity, Server, connect
from lakeport.auth import Policies, Policy, PolicyExpression, Who
from lakeport.lakehouse import LakeCatalog
from tests.airport.flight_client import RawFlightClient
from tests.wait import TIMEOUT_SECONDS

__all__ = ["CALLERS", "Callers", "policy", "serving", "token_of"]

CALLERS = {
    "ada": Identity("ada", frozenset({"analysts"}), {"region": "eu"}),
    "bob": Identity("bob", frozenset({"analysts"}), {"region": "us"}),
    "root": Identity("root", frozenset({"admins"})),
    "eve": Identity("eve"),
}

ADMINS = Policy(
    Who(groups=frozenset({"admins"})),
    "*.*.*",
    frozenset({"select", "insert", "update", "delete", "alter", "create", "drop", "spark_sql"}),
    where="the policy of admins",
)


def policy(
    on: str = "*.*.*",
    *,
    rows: str | None = None,
    hide: tuple[str, ...] = (),
    mask: Mapping[str, str] | None = None,
    allow: tuple[str, ...] = ("select",),
    who: Who | None = None,
) -> Policy:
    """A policy of the group `analysts`."""
    return Policy(
        who or Who(groups=frozenset({"analysts"})),
        on,
        frozenset(allow),
        rows=None if rows is None else PolicyExpression(rows),
        hide=frozenset(hide),
        mask={name: PolicyExpression(text) for name, text in (mask or {}).items()},
        where="the policy of the test",
    )


def token_of(user: str) -> str:
    return f"token-of-{user}-0123456789"


class Callers:
    """One server, and a client for each caller."""

    def __init__(self, server: Server, stack: ExitStack) -> None:
        self.server = server
        self._stack = stack
        self._flight = stack.enter_context(flight.connect(server.location))

    def client(self, user: str) -> Client:
        return self._stack.enter_context(
            connect(self.server.location, token=token_of(user), timeout=TIMEOUT_SECONDS)
        )

    def wire(self, user: str) -> RawFlightClient:
        headers = {"authorization": f"Bearer {token_of(user)}"}
        return RawFlightClient(self.server, self._flight, headers)


Serve: TypeAlias = Callable[..., Callers]


@contextmanager
def serving(lake: Any, *policies: Policy, admins: bool = True, **options: Any) -> Iterator[Callers]:
    """Serve a lake of the real implementation with policies; without any, to everyone."""
    lake.detach()
    options.setdefault("engine", "local")
    server_options = {key: options.pop(key) for key in list(options) if key in ("observer",)}
    rules = Policies([*policies, ADMINS] if admins else policies) if policies else None
    with ExitStack() as stack:
        catalog = stack.enter_context(LakeCatalog(lake.uri, **options))
        auth = {token_of(user): identity for user, identity in CALLERS.items()}
        server = stack.enter_context(Server(catalog, auth=auth, authorize=rules, **server_options))
        yield Callers(server, stack)

"""Tables of actions: the name, description and handler of each action.

A table has one decoder for the bodies of its requests: msgpack structs for the Airport protocol,
JSON objects for the discovery contract.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

from lakeport.airport.protocol.limits import Limits
from lakeport.airport.server.headers import Call
from lakeport.airport.server.state import ServerState

__all__ = ["ActionTable", "BoundAction"]

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

Handler: TypeAlias = Callable[[ServerState, Call, R], bytes | None]
"""Takes a decoded request; returns the body of the result, or None for no result."""


class Decoder(Protocol[R_co]):
    """Decodes the body of a request within limits; `subject` names the action in errors."""

    def __call__(self, body: bytes, subject: str, *, limits: Limits) -> R_co:
        """Return the decoded request."""
        ...


@dataclass(frozen=True, slots=True)
class BoundAction:
    """An action that is called with the encoded body of a request."""

    name: str
    description: str
    call: Callable[[ServerState, Call, bytes], bytes | None]


class ActionTable(Generic[R]):
    """Actions by name. Decorators add them at import; later the table does not change."""

    def __init__(self, decode: Decoder[R]) -> None:
        self._decode = decode
        self._actions: dict[str, BoundAction] = {}

    def add(self, name: str, description: str) -> Callable[[Handler[R]], Handler[R]]:
        """Register the decorated handler."""

        def register(handler: Handler[R]) -> Handler[R]:
            def call(host: ServerState, call: Call, body: bytes) -> bytes | None:
                return handler(host, call, self._decode(body, name, limits=host.limits))

            self._actions[name] = BoundAction(name, description, call)
            return handler

        return register

    def __iter__(self) -> Iterator[BoundAction]:
        return iter(self._actions.values())

"""Grants for Spark tasks to send batches: each for its own scan tasks of its own scan.

A scan has a key that never leaves the driver. Each Spark task gets a grant: the numbers of the scan
tasks that it may send, and a key that was derived from the scan's key and from these numbers. The
grant is part of the Spark task, never of a function that Spark broadcasts. An attempt of the task
sends a proof for its own number that it has the grant; the proof is accepted once.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgpack

from lakeport.errors import UnauthenticatedError

__all__ = ["Claim", "Grant", "ScanKey"]

_PROOF_BYTES = 32


@dataclass(frozen=True, slots=True)
class Grant:
    """Lets attempts of one Spark task send the batches of some scan tasks."""

    scan: str
    tasks: tuple[int, ...]
    """The numbers of the scan tasks, or of the partitions of a DataFrame."""
    key: bytes = field(repr=False)

    def claim(self, attempt: int) -> bytes:
        """Return the message with which an attempt of the Spark task opens its stream."""
        proof = _proof(self.key, attempt)
        data: bytes = msgpack.packb([self.scan, list(self.tasks), attempt, proof])
        return data

    def to_text(self) -> str:
        """Return the grant as text, for a property of a Spark job."""
        data: bytes = msgpack.packb([self.scan, list(self.tasks), self.key])
        return data.hex()

    @classmethod
    def from_text(cls, text: str) -> Grant:
        """Return the grant that a property of a Spark job holds."""
        scan, tasks, key = msgpack.unpackb(bytes.fromhex(text))
        return cls(scan, tuple(tasks), key)


@dataclass(frozen=True, slots=True)
class Claim:
    """The first message of a stream: which scan tasks it will send, with a proof."""

    scan: str
    tasks: tuple[int, ...]
    attempt: int
    """The number of the attempt: a later attempt has a higher one."""
    proof: bytes = field(repr=False)
    task_set: frozenset[int] = field(init=False, repr=False, compare=False)
    """The same numbers, searched for every batch that arrives."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "task_set", frozenset(self.tasks))

    @classmethod
    def parse(cls, data: bytes) -> Claim:
        """Decode the first message of a stream.

        Raises:
            UnauthenticatedError: It is not one.
        """
        try:
            fields: Any = msgpack.unpackb(data)
            scan, tasks, attempt, proof = fields
            numbers = (attempt, *tasks)
        except (ValueError, TypeError):
            raise UnauthenticatedError("no such scan") from None
        if (
            not isinstance(scan, str)
            or not isinstance(proof, bytes)
            or not all(type(number) is int and number >= 0 for number in numbers)
        ):
            raise UnauthenticatedError("no such scan")
        return cls(scan, tuple(tasks), attempt, proof)


class ScanKey:
    """The key of one scan, known to the driver alone."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(_PROOF_BYTES)

    def grant(self, scan: str, tasks: Sequence[int]) -> Grant:
        """Return the grant to send the batches of these scan tasks."""
        return Grant(scan, tuple(tasks), self._derived(scan, tasks))

    def check(self, claim: Claim) -> None:
        """Raise an error if the sender of a claim does not have the grant for it.

        Raises:
            UnauthenticatedError: The proof is wrong.
        """
        expected = _proof(self._derived(claim.scan, claim.tasks), claim.attempt)
        if not hmac.compare_digest(expected, claim.proof):
            raise UnauthenticatedError("no such scan")

    def _derived(self, scan: str, tasks: Sequence[int]) -> bytes:
        subject: bytes = msgpack.packb([scan, list(tasks)])
        return hmac.digest(self._key, subject, hashlib.sha256)


def _proof(key: bytes, attempt: int) -> bytes:
    return hmac.digest(key, f"attempt {attempt}".encode(), hashlib.sha256)

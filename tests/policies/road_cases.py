"""A lake, kinds of restrictions of it, and what is left of it for a caller with each of them."""

from __future__ import annotations

from dataclasses import dataclass

from lakeport.auth import Policy
from tests.policies.fixtures_policies import Callers, policy

__all__ = ["CASES", "CHANGES", "FULL", "VIEWS", "Case", "Two"]

FULL = """
    CREATE TABLE orders AS SELECT i AS id, CASE WHEN i % 3 = 0 THEN 'us' ELSE 'eu' END AS region,
    'mail' || i || '@' || CASE WHEN i % 3 = 0 THEN 'SECRETROW' ELSE 'shop' END AS email,
    'SECRETCOL' || i AS card, i * 1.5::DECIMAL(10, 2) AS price, i % 5 = 0 AS deleted
    FROM range(30) r(i)
"""
CHANGES = (
    "UPDATE orders SET region = 'us', email = 'SECRETROW' WHERE id = 1",
    "UPDATE orders SET region = 'eu', email = 'x@shop' WHERE id = 3",
    "UPDATE orders SET price = 7 WHERE id = 4",
    "DELETE FROM orders WHERE id IN (6, 7)",
    "INSERT INTO orders VALUES (100, 'eu', 'new@shop', 'SECRETCOL', 1, false)",
    "INSERT INTO orders VALUES (101, 'us', 'SECRETROW', 'SECRETCOL', 1, false)",
)
VIEWS = (
    "CREATE VIEW everything AS SELECT * FROM orders",
    """CREATE VIEW totals AS SELECT region, count(*) AS n, sum(price) AS total, min(email) AS e
    FROM orders GROUP BY region""",
    "CREATE VIEW over_view AS SELECT region, n FROM totals",
)
HIDE_CARD = ("card",)
MASK = {"email": "regexp_replace(email, '.*@', '***@')"}


@dataclass(frozen=True)
class Case:
    """Policies, and the SELECT of what is left of the table for the caller."""

    policies: tuple[Policy, ...]
    visible: str
    secrets: tuple[bytes, ...] = ()
    caller: str = "ada"
    has_card: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether the caller sees the table as it is."""
        return self.visible == "SELECT * FROM full_orders"


CASES = {
    "rows of the caller's region": Case(
        (policy(rows="region = user_attribute('region')"),),
        "SELECT * FROM full_orders WHERE region = 'eu'",
        (b"SECRETROW",),
        has_card=True,
    ),
    "rows of another region": Case(
        (policy(rows="region = user_attribute('region')"),),
        "SELECT * FROM full_orders WHERE region = 'us'",
        caller="bob",
        has_card=True,
    ),
    "a hidden column": Case(
        (policy(hide=HIDE_CARD),), "SELECT * EXCLUDE (card) FROM full_orders", (b"SECRETCOL",)
    ),
    "a masked column": Case(
        (policy(mask={"card": "'****'"}),),
        "SELECT * REPLACE ('****' AS card) FROM full_orders",
        (b"SECRETCOL",),
        has_card=True,
    ),
    "all three at once": Case(
        (policy(rows="region = 'eu' AND NOT deleted", hide=HIDE_CARD, mask=MASK),),
        "SELECT * EXCLUDE (card) REPLACE (regexp_replace(email, '.*@', '***@') AS email) "
        "FROM full_orders WHERE region = 'eu' AND NOT deleted",
        (b"SECRETROW", b"SECRETCOL"),
    ),
    "the union of two policies": Case(
        (
            policy(rows="id < 5", hide=HIDE_CARD),
            policy(rows="region = 'eu' AND id >= 3", mask={"card": "NULL", "price": "0"}),
        ),
        "SELECT * REPLACE (CAST(NULL AS VARCHAR) AS card, CASE WHEN id < 5 THEN price ELSE 0 END "
        "AS price) FROM full_orders WHERE id < 5 OR (region = 'eu' AND id >= 3)",
        (b"SECRETCOL",),
        has_card=True,
    ),
    "no rows at all": Case(
        (policy(rows="region = user_attribute('no such attribute')", hide=HIDE_CARD),),
        "SELECT * EXCLUDE (card) FROM full_orders WHERE false",
        (b"SECRETROW", b"SECRETCOL"),
    ),
    "a whole table beside a restricted one": Case(
        (policy(rows="id < 3", hide=HIDE_CARD), policy()),
        "SELECT * FROM full_orders",
        has_card=True,
    ),
}


@dataclass
class Two:
    """The lake with policies, and the lake that has only what the caller sees."""

    ours: Callers
    plain: Callers
    case: Case

"""Several statements that take effect together, or not at all.

DuckDB's own BEGIN and ROLLBACK never reach a server: each statement is committed by itself. The
actions below make a real transaction of what this DuckDB process does in between.

Run it with `--serve` and type, in DuckDB:

    ATTACH 'bank' AS bank (TYPE airport, LOCATION 'grpc://127.0.0.1:8815');
    CALL airport_action('grpc://127.0.0.1:8815', 'begin_transaction', 'bank');
    UPDATE bank.s.accounts SET balance = balance - 10 WHERE owner = 'ada';
    UPDATE bank.s.accounts SET balance = balance + 10 WHERE owner = 'bob';
    SELECT * FROM bank.s.accounts;   -- changed here, not yet for others
    CALL airport_action('grpc://127.0.0.1:8815', 'commit_transaction', 'bank');
    -- or: CALL airport_action('grpc://127.0.0.1:8815', 'rollback_transaction', 'bank');
"""

from __future__ import annotations

import sys

import pyarrow as pa

import lakeport
from lakeport.catalog import CreateTableOptions
from lakeport.errors import ConstraintError


def build_catalog() -> lakeport.MemoryCatalog:
    catalog = lakeport.MemoryCatalog("bank")
    accounts = pa.table({"owner": ["ada", "bob"], "balance": [100, 0]})
    never_negative = CreateTableOptions(check_constraints=("balance >= 0",))
    catalog.add_table("s", "accounts", accounts, options=never_negative)
    return catalog


def pay(client: lakeport.Client, owner: str, amount: int) -> None:
    accounts = client.table("s.accounts")
    row = accounts.scan(["rowid", "balance"], lakeport.col("owner") == owner).to_arrow()
    accounts.update({"rowid": row["rowid"], "balance": [row["balance"][0].as_py() + amount]})


def balances(client: lakeport.Client) -> dict[str, int]:
    rows = client.table("s.accounts").scan().to_arrow()
    return dict(zip(rows["owner"].to_pylist(), rows["balance"].to_pylist(), strict=True))


def main() -> None:
    catalog = build_catalog()
    if "--serve" in sys.argv:
        lakeport.serve(catalog)
        return
    with (
        lakeport.Server(catalog) as server,
        lakeport.connect(server.location) as client,
        lakeport.connect(server.location) as somebody_else,
    ):
        with client.transaction(explicit=True):
            pay(client, "bob", 30)
            pay(client, "ada", -30)
            print("inside: ", balances(client))
            print("outside:", balances(somebody_else))
        print("after:  ", balances(client))

        try:
            with client.transaction(explicit=True):
                pay(client, "bob", 500)
                pay(client, "ada", -500)
        except ConstraintError as error:
            print("refused:", error)
        print("after:  ", balances(client))


if __name__ == "__main__":
    main()

"""Who is calling, and what they may see and do.

Run it with `--serve` and type, in DuckDB:

    -- SCOPE is mandatory. AUTH_TOKEN in ATTACH would not reach scans and functions.
    CREATE SECRET shop (TYPE airport, AUTH_TOKEN 'token-of-bob', SCOPE 'grpc://127.0.0.1:8815');
    ATTACH 'shop' AS shop (TYPE airport, LOCATION 'grpc://127.0.0.1:8815');
    SELECT shop.public.whoami();
    SELECT * FROM shop.private.salaries;   -- not there for bob
"""

from __future__ import annotations

import sys

import pyarrow as pa

import lakeport
from lakeport import AccessRequest
from lakeport.errors import NotFoundError, PermissionDeniedError, UnauthenticatedError

TOKENS = {"token-of-ada": "ada", "token-of-bob": "bob"}


def may(access: AccessRequest) -> bool:
    """Ada may do everything, everybody else may use the public schema."""
    return access.identity == "ada" or access.schema in (None, "public")


def build_catalog() -> lakeport.Catalog:
    builder = lakeport.CatalogBuilder("shop")
    public = builder.schema("public")
    public.table("orders", pa.table({"id": [1, 2]}))

    @public.scalar_function(parameters={}, returns=pa.string())
    def whoami(num_rows: int) -> list[str]:
        return [lakeport.current_request().identity] * num_rows

    builder.schema("private").table("salaries", pa.table({"name": ["Ada"], "salary": [1]}))
    return builder.build()


def main() -> None:
    catalog = build_catalog()
    if "--serve" in sys.argv:
        lakeport.serve(catalog, auth=TOKENS, authorize=may)
        return
    with lakeport.Server(catalog, auth=TOKENS, authorize=may) as server:
        for token in TOKENS:
            with lakeport.connect(server.location, token=token) as client:
                print(
                    client.call_scalar("public.whoami").to_pylist()[0],
                    "sees",
                    [schema.name for schema in client.schemas()],
                )
        with lakeport.connect(server.location, token="token-of-bob") as bob:
            try:
                bob.table("private.salaries")
            except NotFoundError as error:
                print(error)
            try:
                bob.take_flight(["private", "salaries"]).to_arrow()
            except PermissionDeniedError as error:
                print(error)
        with lakeport.connect(server.location, token="guessed") as stranger:
            try:
                stranger.schemas()
            except UnauthenticatedError as error:
                print(error)


if __name__ == "__main__":
    main()

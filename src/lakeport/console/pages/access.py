"""The page of what the caller may do and see; for administrators, also of what others may."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nicegui import ui

from lakeport.airport.client import Client
from lakeport.console.facts import FUNCTIONS, is_lake, tables
from lakeport.console.frame import Page, show_error
from lakeport.console.widgets import DataTable, heading, searched_select
from lakeport.errors import LakeportError
from lakeport.types import duckdb_identifier

__all__ = ["show_access"]


async def show_access(page: Page) -> None:
    """Show the caller's permissions for each table and view, then those of others."""
    if not await page.read(is_lake, page.client):
        ui.label("This catalog has no policies.")
        return
    ui.label("What the server lets you do with each table and view, by its policies")
    _show(await page.read(_own, page.client), "you may")
    listed = await page.read(tables, page.client)
    choices = [(table.schema, table.name) for table in listed]
    if not choices:
        return
    _show_identity(page)
    _show_readers(page, choices)


def _show_identity(page: Page) -> None:
    """Ask for an identity, and show what it may do and see."""

    async def show() -> None:
        groups = [group.strip() for group in (in_groups.value or "").split(",") if group.strip()]
        result.clear()
        with result:
            try:
                rows = await page.read(_access_of, page.client, who.value or "", groups)
                if not rows:
                    ui.label("This identity sees no table of the lake.").props("role=status")
                else:
                    _show(rows, "may")
            except LakeportError as error:
                show_error(str(error), can_reload=False)

    heading("What another identity may do")
    with ui.row().classes("items-end"):
        who = ui.input("Identity").on("keydown.enter", show)
        in_groups = ui.input("Other groups, with commas").classes("w-64")
        ui.button("Show its access", on_click=show).props("outline")
    result = ui.column().classes("w-full")


def _show_readers(page: Page, choices: Sequence[tuple[str, str]]) -> None:
    """Ask for a table, and show which identities may read it."""

    async def show() -> None:
        result.clear()
        with result:
            try:
                rows = await page.read(_readers, page.client, *choices[table.value])
                if not rows:
                    ui.label("The server knows no identity that may read it.").props("role=status")
                else:
                    _show(rows, "may", first="identity")
                ui.label("Callers with signed tokens of an issuer are not listed.")
            except LakeportError as error:
                show_error(str(error), can_reload=False)

    heading("Who can read a table")
    with ui.row().classes("items-end"):
        table = searched_select("Table to read", [f"{schema}.{name}" for schema, name in choices])
        ui.button("Show its readers", on_click=show).props("outline")
    result = ui.column().classes("w-full")


def _show(rows: Sequence[dict[str, Any]], may: str, *, first: str = "table") -> None:
    DataTable(
        [first, may, "rows", "columns", "masked"],
        rows,
        lambda row: {
            "table": f"{row.get('schema_name')}.{row.get('table_name')}",
            "identity": row.get("identity"),
            may: ", ".join(row["permissions"] or ()),
            "rows": row.get("row_filter")
            or {True: "all", False: "some", None: ""}[row["all_rows"]],
            "columns": ", ".join(row["columns"] or ()),
            "masked": ", ".join(row["masked_columns"] or ()),
        },
    )


def _own(client: Client) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        client.table(f"{FUNCTIONS}.my_access").scan().to_arrow().to_pylist()
    )
    return rows


def _access_of(client: Client, identity: str, groups: list[str]) -> list[dict[str, Any]]:
    called = client.call_table(f"{FUNCTIONS}.access_of", identity, groups=groups)
    rows: list[dict[str, Any]] = called.to_arrow().to_pylist()
    return rows


def _readers(client: Client, schema: str, name: str) -> list[dict[str, Any]]:
    path = f"{duckdb_identifier(schema)}.{duckdb_identifier(name)}"
    rows: list[dict[str, Any]] = (
        client.call_table(f"{FUNCTIONS}.readers", path).to_arrow().to_pylist()
    )
    return rows

"""The page of what the caller may do and see."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from lakeport.console.facts import FUNCTIONS, is_lake
from lakeport.console.frame import Page, data_table

__all__ = ["show_access"]


async def show_access(page: Page) -> None:
    """Show the caller's permissions for each table and view."""
    if not await page.read(is_lake, page.client):
        ui.label("This catalog has no policies.")
        return
    ui.label("What the server lets you do with each table and view, by its policies")
    data_table(
        ["table", "you may", "rows", "columns", "masked"], await page.read(_rows, page), key="table"
    )


def _rows(page: Page) -> list[dict[str, Any]]:
    rows = page.client.table(f"{FUNCTIONS}.my_access").scan().to_arrow().to_pylist()
    return [
        {
            "table": f"{row['schema_name']}.{row['table_name']}",
            "you may": ", ".join(row["permissions"]),
            "rows": {True: "all", False: "some", None: ""}[row["all_rows"]],
            "columns": ", ".join(row["columns"] or ()),
            "masked": ", ".join(row["masked_columns"] or ()),
        }
        for row in rows
    ]

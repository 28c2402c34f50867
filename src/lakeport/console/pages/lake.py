"""The first page, with all lakes, and the page of one lake, with its tables."""

from __future__ import annotations

from nicegui import ui

from lakeport._wording import size_text
from lakeport.console.facts import LakeFacts, growth, is_lake, lake_facts, snapshot_ids, tables
from lakeport.console.frame import Page, lake_path, link_to, show_error
from lakeport.console.operations import (
    EXAMINED_FILES,
    Verdict,
    findings,
    health_key,
    verdict,
)
from lakeport.console.pages.maintenance import HEALTH_ICONS, HEALTHY_COLOUR, SEVERITY_COLOURS
from lakeport.console.widgets import DataTable, counted_fact, fact, line_chart
from lakeport.errors import LakeportError

__all__ = ["show_lake", "show_lakes"]


async def show_lakes(page: Page) -> None:
    """Show a card for each catalog of the server."""
    databases = await page.read(page.client.databases)
    if not databases:
        ui.label("There is no lake that you may see.")
    for row in databases:
        # A catalog that stands alone without a name answers to every name.
        name, comment = str(row.get("name") or "lake"), str(row.get("comment", ""))
        with ui.card().classes("w-full"):
            try:
                client = page.visitors.client(page.browser, name)
                facts = await page.read(lake_facts, client, name, comment)
                _show_card(facts)
                if facts.is_lake:
                    _show_health(page, facts)
            except LakeportError as error:
                ui.label(name).classes("text-lg font-mono")
                show_error(str(error))


def _show_card(lake: LakeFacts) -> None:
    ui.link(lake.name, lake_path(lake.name)).classes("text-lg font-mono")
    if lake.comment:
        ui.label(lake.comment)
    with ui.row():
        counted_fact(lake.tables, "table")
        if lake.is_lake:
            counted_fact(lake.views, "view")
            counted_fact(lake.files, "file")
            fact("in files", size_text(lake.bytes))
            counted_fact(lake.snapshots, "snapshot")
    if lake.newest is not None:
        by = f" by {lake.newest.author}" if lake.newest.author else ""
        when = lake.newest.time.strftime("%Y-%m-%d %H:%M:%S")
        ui.label(f"last change: snapshot {lake.newest.id} at {when} UTC{by}")
    for problem in lake.problems[:10]:
        ui.label(problem).classes("text-amber-700 dark:text-amber-400 break-words")


def _show_health(page: Page, lake: LakeFacts) -> None:
    """Show the doctor's verdict when it is there, to those who may maintain the lake.

    It is made once for a snapshot. For a lake of many files, a button on the page of
    maintenance makes it; here is the last one.
    """
    with ui.row().classes("items-center gap-2") as line:
        icon = ui.icon("check_circle", size="sm").props("aria-hidden=true")
        link = ui.link("", f"{lake_path(lake.name)}/maintenance")
    line.set_visibility(False)
    client = page.visitors.client(page.browser, lake.name)
    newest = -1 if lake.newest is None else lake.newest.id

    def examine() -> Verdict | None:
        known: Verdict | None = page.visitors.remembered(page.browser, health_key(lake.name))
        is_cheap = lake.files <= EXAMINED_FILES
        if is_cheap and (known is None or known.snapshot != newest):
            known = verdict(findings(client, sample=0), newest)
            page.visitors.remember(page.browser, health_key(lake.name), known)
        return known

    async def fill() -> None:
        try:
            known = await page.read(examine)
        except LakeportError:
            return  # the caller may not maintain the lake
        link.set_text(f"health: {_health(known, newest)}")
        worst = "" if known is None else known.worst
        icon.set_name("help_outline" if known is None else HEALTH_ICONS.get(worst, "check_circle"))
        link.classes(SEVERITY_COLOURS.get(worst, ""))
        icon.classes(SEVERITY_COLOURS.get(worst, "" if known is None else HEALTHY_COLOUR))
        line.set_visibility(True)

    ui.timer(0.1, fill, once=True)


def _health(known: Verdict | None, newest: int) -> str:
    if known is None:
        return "not examined yet"
    if known.snapshot == newest:
        return known.line
    return f"{known.line} at snapshot {known.snapshot}"


async def show_lake(page: Page) -> None:
    """Show the tables and views of a lake, and how it has grown."""
    listed = await page.read(tables, page.client)
    if not listed:
        ui.label("The lake has no table that you may see.")
        return
    is_a_lake = await page.read(is_lake, page.client)
    with ui.row():
        counted_fact(sum(entry.kind != "VIEW" for entry in listed), "table")
        if is_a_lake:
            counted_fact(sum(entry.kind == "VIEW" for entry in listed), "view")
            counted_fact(sum(entry.files or 0 for entry in listed), "file")
            fact("in files", size_text(sum(entry.bytes or 0 for entry in listed)))
            counted_fact(len(await page.read(snapshot_ids, page.client)), "snapshot")
    table = DataTable(
        ["table", "kind", "files", "size", "delete files", "comment"],
        listed,
        lambda entry: {
            "table": f"{entry.schema}.{entry.name}",
            "kind": entry.kind.lower().removeprefix("base "),
            "files": entry.files,
            "size": "" if entry.bytes is None else size_text(entry.bytes),
            "delete files": entry.delete_files,
            "comment": entry.comment,
            "address": link_to(page.lake, entry.schema, entry.name),
        },
        order={"size": lambda entry: entry.bytes},
        numbers=["files", "size", "delete files"],
    ).table
    # Vue escapes text in {{ }} and checks the address, which this module has quoted.
    table.add_slot(
        "body-cell-table",
        """<q-td :props="props">
             <a class="text-primary underline" :href="props.row.address">{{ props.value }}</a>
           </q-td>""",
    )
    if is_a_lake:
        points = await page.read(growth, page.client)
        if points:
            unit, bytes_of_unit = _unit(max(size for _, _, size in points))
            line_chart(
                "Data in files by snapshot",
                [(snapshot, round(size / bytes_of_unit, 2)) for snapshot, _, size in points],
                unit=unit,
            )
            line_chart(
                "Rows by snapshot", [(snapshot, rows) for snapshot, rows, _ in points], unit="rows"
            )


def _unit(size: int) -> tuple[str, int]:
    """Return the unit in which a chart shows sizes up to this, and its bytes."""
    power = min(3, max(1, (max(size, 1).bit_length() - 1) // 10))
    return ("KiB", "MiB", "GiB")[power - 1], 1024**power

"""The commands and options that the documents name are those of the command line."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from lakeport.cli.app import app

ROOT = Path(__file__).parents[2]
COMMAND_LINE_PAGE = ROOT / "docs" / "guides" / "command-line.md"
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
DEPLOYED = [
    ROOT / "deploy" / "Dockerfile",
    ROOT / "deploy" / "kubernetes" / "lakeport.yaml",
    ROOT / "deploy" / "systemd" / "lakeport.service",
]

BLOCK = re.compile(r"^([ ]*)```([^\n]*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
SHELL = {"sh", "console"}
# At the start of a line, or after a prompt, the times of cron, a key of systemd, or an image.
LINE = re.compile(
    r"^ *(?:\$ |[\d *]+|ExecStart=|#? *docker run .* )?(?:/\S+/)?lakeport (\S.*)$", re.MULTILINE
)
# The arguments of an image, in its own file and in a manifest.
IMAGE = re.compile(r"^ *(?:CMD|args:) \[(.+)\]$", re.MULTILINE)
COMMENT = re.compile(r"\s+#\s.*|\s+\|.*")
SPAN = re.compile(r"`([^`\n]+)`")
OPTION = re.compile(r"(?<!\S)--[a-z][a-z0-9-]*")

COMMANDS: Any = typer.main.get_command(app)


def blocks(page: Path, *, shell: bool) -> str:
    found = BLOCK.findall(page.read_text())
    return "\n".join(code for _, language, code in found if (language in SHELL) is shell)


def typed_commands(path: Path) -> list[str]:
    """Return the commands that a reader copies: complete, each on a line."""
    text = blocks(path, shell=True) if path in PAGES else path.read_text()
    arguments = [found.replace(",", " ") for found in IMAGE.findall(text)]
    return [*(COMMENT.sub("", line) for line in LINE.findall(text)), *arguments]


def named_commands(page: Path) -> list[str]:
    """Return the commands in sentences and summaries, which may leave out arguments."""
    prose = BLOCK.sub("", page.read_text())
    spans = [" ".join(span.split()) for span in SPAN.findall(prose.replace("\n", " "))]
    inside = [span.removeprefix("lakeport ") for span in spans if span.startswith("lakeport ")]
    return [*inside, *LINE.findall(blocks(page, shell=False))]


def find(words: list[str]) -> tuple[Any, list[str]]:
    """Return the command that words name, and the words after its name."""
    command = COMMANDS
    while words and hasattr(command, "commands") and words[0] in command.commands:
        command, words = command.commands[words[0]], words[1:]
    return command, words


def options_of(command: Any) -> set[str]:
    """Return the options of a command and of the commands below it."""
    names = {"--help"}
    for parameter in command.params:
        names.update([*parameter.opts, *parameter.secondary_opts])
    return names.union(*map(options_of, getattr(command, "commands", {}).values()))


def why_rejected(line: str) -> str | None:
    """Return the error of the command line for a complete command; None if it accepts it."""
    command, words = find(shlex.split(line))
    try:
        command.make_context("lakeport", words)
    except Exception as error:
        return f"lakeport {line}: {getattr(error, 'message', '') or type(error).__name__}"
    return None


def unknown_words(line: str) -> list[str]:
    """Return the options of a command that it does not have, and a command that is none."""
    command, words = find(line.split())
    unknown = [word for word in OPTION.findall(line) if word not in options_of(command)]
    if hasattr(command, "commands") and words and words[0].isalpha():
        unknown.append(words[0])
    return [f"lakeport {line}: {word}" for word in unknown]


def names(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


TYPED = [path for path in [*PAGES, *DEPLOYED] if typed_commands(path)]
NAMED = [page for page in PAGES if named_commands(page)]


@pytest.mark.parametrize("path", TYPED, ids=names(TYPED))
def test_the_command_line_accepts_the_commands_of_a_document(path: Path) -> None:
    assert [why for line in typed_commands(path) if (why := why_rejected(line))] == []


@pytest.mark.parametrize("page", NAMED, ids=names(NAMED))
def test_the_commands_and_options_that_a_page_mentions_exist(page: Path) -> None:
    assert [word for line in named_commands(page) for word in unknown_words(line)] == []


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_an_option_that_a_page_mentions_is_one_of_some_command(page: Path) -> None:
    spans = [span for span in SPAN.findall(page.read_text()) if span.startswith("--")]

    assert {word for span in spans for word in OPTION.findall(span)} <= options_of(COMMANDS)


def sections() -> dict[str, str]:
    """Return the text of each section of the page about commands, by its title."""
    parts = re.split(r"^## ", COMMAND_LINE_PAGE.read_text(), flags=re.MULTILINE)
    found = {title: text for title, _, text in (part.partition("\n") for part in parts)}
    return {title: text for title, text in found.items() if title.startswith("`lakeport ")}


@pytest.mark.parametrize(("title", "text"), sections().items(), ids=sections())
def test_a_section_about_a_command_lists_only_its_options(title: str, text: str) -> None:
    own = {"--help"}
    for name in re.findall(r"`lakeport ([a-z]+)`", title):
        own |= options_of(COMMANDS.commands[name])
    spans = [span for span in SPAN.findall(text) if span.startswith("--")]

    assert {word for span in spans for word in OPTION.findall(span)} <= own


def test_the_page_of_the_command_line_lists_every_command() -> None:
    overview = blocks(COMMAND_LINE_PAGE, shell=False)

    assert {line.split()[0] for line in LINE.findall(overview)} == set(COMMANDS.commands)


def commands_below(command: Any, path: str = "") -> dict[str, Any]:
    if not hasattr(command, "commands"):
        return {path.strip(): command}
    below = [commands_below(one, f"{path} {name}") for name, one in command.commands.items()]
    return {path: one for part in below for path, one in part.items()}


HELPED = commands_below(COMMANDS)


@pytest.mark.parametrize("path", HELPED)
def test_the_help_of_every_command_has_examples_that_the_command_line_accepts(path: str) -> None:
    examples = [COMMENT.sub("", line) for line in LINE.findall(HELPED[path].help)]
    shown = CliRunner().invoke(app, [*path.split(), "--help"]).stdout

    assert [why for line in examples if (why := why_rejected(line))] == []
    assert examples
    # The line of the usage begins with "Usage:".
    assert any(line.strip().startswith(f"lakeport {path}") for line in shown.splitlines()), shown

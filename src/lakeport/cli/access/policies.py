"""The policies of a configuration, each with the place where it is written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from lakeport.auth import Policies, Policy, PolicyExpression, Who
from lakeport.cli.access.settings import PolicySettings, WhoSettings
from lakeport.cli.arguments import default_name
from lakeport.cli.lake_settings import LakeSettings
from lakeport.errors import DefinitionError

__all__ = ["policies_of", "who_of"]

_HEADING: Final = re.compile(r"\s*\[\[\s*policy\s*\]\]")


def policies_of(
    settings: Sequence[PolicySettings], served: Mapping[str, LakeSettings], file: Path | None
) -> Policies | None:
    """Return the policies of a configuration; None if it has none."""
    if not settings:
        return None
    places = _places(file, len(settings))
    # A single lake without a name is written by its default name.
    names: dict[str, str] = {
        name: default_name(lake.uri) for name, lake in served.items() if not name
    }
    return Policies(
        [_policy(entry, place) for entry, place in zip(settings, places, strict=True)], names
    )


def _policy(entry: PolicySettings, place: str) -> Policy:
    def expression(text: str, key: str) -> PolicyExpression:
        try:
            return PolicyExpression(text)
        except DefinitionError as error:
            raise DefinitionError(f"{place}: {key}: {error}") from None

    return Policy(
        who_of(entry.who, place),
        entry.on,
        frozenset(entry.allow),
        rows=None if entry.rows is None else expression(entry.rows, "rows"),
        hide=frozenset(entry.columns.hide),
        mask={
            name: expression(text, f"the mask of {name!r}")
            for name, text in entry.columns.mask.items()
        },
        where=place,
    )


def who_of(entry: Literal["everyone"] | WhoSettings, place: str) -> Who:
    """Return the callers that a policy or a limit is about."""
    try:
        if entry == "everyone":
            return Who(everyone=True)
        return Who(
            users=frozenset(entry.users),
            groups=frozenset(entry.groups),
            attributes=entry.attributes,
        )
    except DefinitionError as error:
        raise DefinitionError(f"{place}: {error}") from None


def _places(file: Path | None, count: int) -> list[str]:
    """Return where each policy is written: file and line, if the file has them in this form."""
    lines: list[int] = []
    if file is not None:
        text = file.read_text("utf-8", errors="replace")
        lines = [n for n, line in enumerate(text.splitlines(), 1) if _HEADING.match(line)]
    if len(lines) != count:
        return [f"policy {number}" for number in range(1, count + 1)]
    return [f"{file}, line {line}" for line in lines]

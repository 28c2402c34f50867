"""Packages whose names come on first use: the workers of Spark start often and need few of them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import resources
from typing import Any, TypeAlias

import lazy_loader

__all__ = ["attach"]

Attached: TypeAlias = tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]


def attach(package: str) -> Attached:
    """`__getattr__`, `__dir__` and `__all__` of a package, by the imports of its `__init__.pyi`."""
    # `lazy_loader` reads stubs from folders only; Spark also ships packages as archives.
    stub = resources.files(package).joinpath("__init__.pyi").read_text("utf-8")
    submodules: set[str] = set()
    names: dict[str, list[str]] = {}
    for node in ast.parse(stub).body:
        if isinstance(node, ast.ImportFrom):
            imported = [alias.name for alias in node.names]
            if node.module is None:
                submodules.update(imported)
            else:
                names.setdefault(node.module, []).extend(imported)
    attached: Attached = lazy_loader.attach(package, submodules, names)
    return attached

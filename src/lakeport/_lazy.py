"""Packages whose names are loaded on first use: Spark workers start often and need few of them."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from importlib import resources
from typing import Any, TypeAlias

import lazy_loader

__all__ = ["attach"]

Attached: TypeAlias = tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]


def attach(package: str) -> Attached:
    """Return `__getattr__`, `__dir__` and `__all__` of a package, from its `__init__.pyi`."""
    # `lazy_loader` reads stubs from folders only; Spark also ships packages as archives.
    stub = resources.files(package).joinpath("__init__.pyi").read_text("utf-8")
    submodules: set[str] = set()
    names: dict[str, list[str]] = {}
    elsewhere: dict[str, str] = {}
    for node in ast.parse(stub).body:
        if not isinstance(node, ast.ImportFrom):
            continue
        imported = [alias.name for alias in node.names]
        if node.module is None:
            submodules.update(imported)
        elif node.level:
            names.setdefault(node.module, []).extend(imported)
        else:
            elsewhere.update(dict.fromkeys(imported, node.module))
    load, _, own = lazy_loader.attach(package, submodules, names)
    exported = sorted([*own, *elsewhere])

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name not in elsewhere:
            return load(name)
        value = getattr(importlib.import_module(elsewhere[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__, exported.copy, exported
